// The metrics of one moment: filled in by whoever has the numbers, then written in Prometheus' text format.
// One thread; a sheet is made for each request.
#ifndef SHOAL_METRICS_METRIC_SHEET_H_
#define SHOAL_METRICS_METRIC_SHEET_H_

#include <array>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "metrics/metric_table.h"
#include "prometheus/metric_family.h"

namespace shoal {

// Cumulative, as Prometheus wants it.
struct HistogramValue {
  struct Bucket {
    double upper_bound = 0;
    uint64_t count = 0;  // of values up to the bound
  };
  std::vector<Bucket> buckets;
  uint64_t count = 0;
  double sum = 0;
};

class MetricSheet {
 public:
  // `label_value` belongs to the metric's label; empty if it has none.
  template <typename Number>
  requires std::is_arithmetic_v<Number>
  void Set(Metric metric, Number value, const std::string& label_value = "") {
    SetNumber(metric, static_cast<double>(value), label_value);
  }
  void Set(Metric metric, const HistogramValue& value, const std::string& label_value = "");
  // What every process has: version, memory, events that its log left out.
  void SetProcess(uint64_t log_events_left_out);

  // A metric that was not set is missing.
  std::string Text() const;

 private:
  void SetNumber(Metric metric, double value, const std::string& label_value);
  prometheus::ClientMetric* Add(Metric metric, const std::string& label_value);

  std::array<prometheus::MetricFamily, kMetricCount> families_;
};

}  // namespace shoal

#endif  // SHOAL_METRICS_METRIC_SHEET_H_
