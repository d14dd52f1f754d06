#include "cli/events.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cli/tables.h"
#include "core/log_event.h"

namespace shoal::cli {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{100};
constexpr milliseconds kLongestPause{1000};
// A scheduler whose node has vanished does not end its streams. So none lasts longer, and the next one goes on where it
// was.
constexpr uint64_t kStreamMs = 30'000;
constexpr std::array<std::pair<char, uint64_t>, 4> kUnits = {
    {{'s', 1'000}, {'m', 60'000}, {'h', 3'600'000}, {'d', 86'400'000}}};

std::vector<std::string> KindsOfSchedulers() {
  std::vector<std::string> kinds;
  for (size_t number = 0; number < kEventKindCount; ++number) {
    const auto kind = static_cast<EventKind>(number);
    if (ComponentOf(kind) == "scheduler") kinds.emplace_back(EventKey(kind));
  }
  return kinds;
}

bool IsWorthAnotherTry(const absl::Status& status) {
  return status.ok() || absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsCancelled(status) ||
         absl::IsAborted(status) || absl::IsInternal(status) || absl::IsUnknown(status);
}

class EventReader {
 public:
  EventReader(const EventsOptions& options, ClusterClient* client, std::ostream& out, std::ostream& err)
      : options_(options), filter_(options.filter), client_(client), out_(out), err_(err) {}

  absl::Status Run() {
    if (absl::Status status = Begin(); !status.ok()) return status;
    if (!options_.follow) return Read(std::nullopt);
    while (true) {
      const absl::Status status = Read(kStreamMs);
      if (!out_.good()) return absl::OkStatus();
      if (absl::IsDeadlineExceeded(status)) continue;
      if (!IsWorthAnotherTry(status)) return status;
      if (absl::Status mended = TryAgain(status); !mended.ok()) return mended;
    }
  }

 private:
  absl::Status Begin() {
    const absl::StatusOr<v1::Cluster> cluster = client_->GetCluster();
    if (!cluster.ok()) return cluster.status();
    // A cluster whose state is lost counts its events anew.
    if (cluster->cluster_id() != cluster_id_) last_sequence_ = 0;
    cluster_id_ = cluster->cluster_id();
    if (options_.since_ms.has_value() && !filter_.since_unix_ms.has_value()) {
      filter_.since_unix_ms = cluster->now_unix_ms() - std::min(cluster->now_unix_ms(), *options_.since_ms);
    }
    return absl::OkStatus();
  }

  absl::Status Read(std::optional<uint64_t> follow_ms) {
    return client_->ListEvents(follow_ms, last_sequence_, [this](const v1::Event& event) {
      last_sequence_ = event.sequence();
      if (filter_.Lets(event)) out_ << (options_.json ? ToJson(event) + "\n" : EventText(event)) << std::flush;
      return out_.good();
    });
  }

  // Until a scheduler answers.
  absl::Status TryAgain(absl::Status why) {
    if (why.ok()) why = absl::UnavailableError("the scheduler ended the stream");
    bool told = false;
    for (milliseconds pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
      const absl::Status status = Begin();
      if (status.ok()) {
        if (told) err_ << "shoalctl: a scheduler answers again\n" << std::flush;
        return status;
      }
      if (!IsWorthAnotherTry(status)) return status;
      if (!told)
        err_ << "shoalctl: no events now, trying again: " << std::string(status.message()) << '\n' << std::flush;
      told = true;
      std::this_thread::sleep_for(pause);
    }
  }

  const EventsOptions options_;
  EventFilter filter_;
  ClusterClient* const client_;
  std::ostream& out_;
  std::ostream& err_;
  std::string cluster_id_;
  uint64_t last_sequence_ = 0;
};

}  // namespace

bool EventFilter::Lets(const v1::Event& event) const {
  const std::string name = absl::StrCat("job \"", job, "\"");
  return (!since_unix_ms.has_value() || event.at_unix_ms() >= *since_unix_ms) &&
         (kinds.empty() || kinds.contains(event.kind())) &&
         (job.empty() || absl::StrContains(event.subject(), name) || absl::StrContains(event.reason(), name));
}

absl::StatusOr<uint64_t> ParseAge(const std::string& text) {
  std::string number = text;
  uint64_t unit_ms = kUnits.front().second;
  const auto unit = std::ranges::find(kUnits, text.empty() ? '\0' : text.back(), &std::pair<char, uint64_t>::first);
  if (unit != kUnits.end()) {
    number.pop_back();
    unit_ms = unit->second;
  }
  double count = 0;
  constexpr double kMostMs = 1e15;
  if (absl::SimpleAtod(number, &count) && count >= 0 && count * static_cast<double>(unit_ms) <= kMostMs) {
    return static_cast<uint64_t>(count * static_cast<double>(unit_ms));
  }
  return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is no time; give 90s, 15m, 2h or 1d"));
}

absl::StatusOr<std::set<std::string>> ParseEventKinds(const std::string& text) {
  const std::vector<std::string> known = KindsOfSchedulers();
  const std::set<std::string> asked = absl::StrSplit(text, ',', absl::SkipEmpty());
  for (const std::string& kind : asked) {
    if (std::ranges::find(known, kind) != known.end()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("no scheduler records events of kind \"", kind, "\"; it records ", absl::StrJoin(known, ", ")));
  }
  return asked;
}

absl::Status ShowEvents(const EventsOptions& options, ClusterClient* client, std::ostream& out, std::ostream& err) {
  return EventReader(options, client, out, err).Run();
}

}  // namespace shoal::cli
