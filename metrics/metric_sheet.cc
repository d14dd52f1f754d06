#include "metrics/metric_sheet.h"

#include <unistd.h>

#include <fstream>

#include "core/utf8.h"
#include "core/version.h"
#include "prometheus/text_serializer.h"

namespace shoal {
namespace {

enum class MetricType : uint8_t { kCounter, kGauge, kHistogram };

struct MetricRow {
  const char* name;
  MetricType type;
  const char* label;
  const char* meaning;
};

constexpr std::array<MetricRow, kMetricCount> kRows = {{
#define X(code, name, type, label, meaning) {name, MetricType::type, label, meaning},
    SHOAL_METRICS(X)
#undef X
}};

prometheus::MetricType TypeOf(MetricType type) {
  switch (type) {
    case MetricType::kCounter:
      return prometheus::MetricType::Counter;
    case MetricType::kGauge:
      return prometheus::MetricType::Gauge;
    case MetricType::kHistogram:
      return prometheus::MetricType::Histogram;
  }
  return prometheus::MetricType::Untyped;
}

double ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  uint64_t size_pages = 0;
  uint64_t resident_pages = 0;
  file >> size_pages >> resident_pages;
  return static_cast<double>(resident_pages) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

}  // namespace

prometheus::ClientMetric* MetricSheet::Add(Metric metric, const std::string& label_value) {
  const MetricRow& row = kRows[static_cast<size_t>(metric)];
  prometheus::MetricFamily& family = families_[static_cast<size_t>(metric)];
  family.name = row.name;
  family.help = row.meaning;
  family.type = TypeOf(row.type);
  prometheus::ClientMetric& added = family.metric.emplace_back();
  if (*row.label != '\0') added.label.push_back({row.label, EscapeUnprintable(label_value, "\n")});
  return &added;
}

void MetricSheet::SetNumber(Metric metric, double value, const std::string& label_value) {
  prometheus::ClientMetric* const added = Add(metric, label_value);
  added->counter.value = value;
  added->gauge.value = value;
}

void MetricSheet::Set(Metric metric, const HistogramValue& value, const std::string& label_value) {
  prometheus::ClientMetric* const added = Add(metric, label_value);
  added->histogram.sample_count = value.count;
  added->histogram.sample_sum = value.sum;
  for (const HistogramValue::Bucket& bucket : value.buckets) {
    added->histogram.bucket.push_back({.cumulative_count = bucket.count, .upper_bound = bucket.upper_bound});
  }
}

void MetricSheet::SetProcess(uint64_t log_events_left_out) {
  Set(Metric::kBuildInfo, 1, kSoftwareVersion);
  Set(Metric::kResidentMemory, ResidentBytes());
  Set(Metric::kEventsLeftOut, log_events_left_out);
}

std::string MetricSheet::Text() const {
  std::vector<prometheus::MetricFamily> set;
  for (const prometheus::MetricFamily& family : families_) {
    if (!family.metric.empty()) set.push_back(family);
  }
  return prometheus::TextSerializer().Serialize(set);
}

}  // namespace shoal
