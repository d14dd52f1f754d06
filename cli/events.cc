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
#include "program/nearest_text.h"
#include "program/wrap_text.h"

namespace shoal::cli {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{100};
constexpr milliseconds kLongestPause{1000};
constexpr std::array<std::pair<char, uint64_t>, 4> kUnits = {
    {{'s', 1'000}, {'m', 60'000}, {'h', 3'600'000}, {'d', 86'400'000}}};

// Of a call or a stream. ResourceExhausted: this reader was too slow, and may ask again from where it was.
bool IsWorthAnotherTry(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsCancelled(status) ||
         absl::IsAborted(status) || absl::IsInternal(status) || absl::IsUnknown(status) ||
         absl::IsResourceExhausted(status);
}

class EventReader {
 public:
  EventReader(const EventsOptions& options, ClusterClient* client, std::ostream& out, std::ostream& err)
      : options_(options), filter_(options.filter), client_(client), out_(out), err_(err) {}

  absl::Status Run() {
    if (absl::Status status = Begin(); !status.ok()) return status;
    if (!options_.follow) {
      absl::Status status = Read(std::nullopt);
      if (options_.json && status.ok()) out_ << "{\"events\":[" << absl::StrJoin(shown_, ",") << "]}\n";
      return status;
    }
    bool begun = true;
    milliseconds pause = kFirstPause;
    for (int failures = 0;; begun = false) {
      const auto since = std::chrono::steady_clock::now();
      const uint64_t before = last_sequence_;
      absl::Status status = begun ? absl::OkStatus() : Begin();
      if (status.ok()) {
        status = Read(options_.stream_ms);
        if (!out_.good()) return absl::OkStatus();
        const bool it_lasted = std::chrono::steady_clock::now() - since >= kLongestPause || last_sequence_ != before;
        if (it_lasted) {
          SayAnswers();
          failures = 0;
          pause = kFirstPause;
        }
        if (absl::IsDeadlineExceeded(status) && it_lasted) continue;  // of the stream, which was quiet
        if (status.ok()) status = absl::UnavailableError("the scheduler ended the stream");
      }
      if (!IsWorthAnotherTry(status)) return status;
      // The end of a leader alone is no reason to say something.
      if (++failures == 2) SayTrouble(status);
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, kLongestPause);
    }
  }

 private:
  absl::Status Begin() {
    const absl::StatusOr<v1::Cluster> cluster = client_->GetCluster();
    if (!cluster.ok()) return cluster.status();
    // A cluster whose state is lost counts its events anew.
    if (cluster->cluster_id() != cluster_id_) last_sequence_ = 0;
    if (options_.since_ms.has_value() && cluster_id_.empty()) {
      filter_.since_unix_ms = cluster->now_unix_ms() - std::min(cluster->now_unix_ms(), *options_.since_ms);
      const std::string not_kept = EventsNotKeptText(*cluster, *filter_.since_unix_ms);
      if (!not_kept.empty() && !options_.json) err_ << "shoalctl: " << not_kept << '\n' << std::flush;
    }
    cluster_id_ = cluster->cluster_id();
    return absl::OkStatus();
  }

  absl::Status Read(std::optional<uint64_t> follow_ms) {
    return client_->ListEvents(follow_ms, last_sequence_, [this](const v1::Event& event) {
      last_sequence_ = event.sequence();
      SayAnswers();
      // What comes after it is younger, whatever the clock of the next scheduler says.
      if (filter_.since_unix_ms.has_value() && event.at_unix_ms() >= *filter_.since_unix_ms) {
        filter_.since_unix_ms.reset();
      }
      if (filter_.Lets(event)) Show(event);
      return out_.good();
    });
  }

  void Show(const v1::Event& event) {
    if (options_.json && !options_.follow) {
      shown_.push_back(ToJson(event));
    } else {
      const std::string text = options_.json ? ToJson(event) : EventText(event);
      out_ << (options_.to_terminal && !options_.json ? WrapText(text, 4) : text + "\n") << std::flush;
    }
  }

  void SayTrouble(const absl::Status& why) {
    in_trouble_ = true;
    err_ << "shoalctl: no events now, trying again: " << std::string(why.message()) << '\n' << std::flush;
  }
  void SayAnswers() {
    if (in_trouble_) err_ << "shoalctl: a scheduler answers again\n" << std::flush;
    in_trouble_ = false;
  }

  const EventsOptions options_;
  EventFilter filter_;
  ClusterClient* const client_;
  std::ostream& out_;
  std::ostream& err_;
  std::string cluster_id_;
  uint64_t last_sequence_ = 0;
  std::vector<std::string> shown_;  // in one document, after the last one
  bool in_trouble_ = false;         // and said so
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

std::vector<std::string> KindsOfSchedulers() {
  std::vector<std::string> kinds;
  for (size_t number = 0; number < kEventKindCount; ++number) {
    const auto kind = static_cast<EventKind>(number);
    if (ComponentOf(kind) == "scheduler") kinds.emplace_back(EventKey(kind));
  }
  return kinds;
}

absl::StatusOr<std::set<std::string>> ParseEventKinds(const std::string& text) {
  const std::vector<std::string> known = KindsOfSchedulers();
  const std::set<std::string> asked = absl::StrSplit(text, ',', absl::SkipEmpty());
  for (const std::string& kind : asked) {
    if (std::ranges::find(known, kind) != known.end()) continue;
    const std::string meant = DidYouMean(kind, known);
    return absl::InvalidArgumentError(meant.empty() ? absl::StrCat("no scheduler records events of kind \"", kind,
                                                                   "\"; it records ", absl::StrJoin(known, ", "))
                                                    : absl::StrCat("no scheduler records events of kind \"", kind, "\"",
                                                                   meant, "; docs/events.md lists the kinds"));
  }
  return asked;
}

std::string EventsNotKeptText(const v1::Cluster& cluster, uint64_t since_unix_ms) {
  const uint64_t forgotten = cluster.newest_forgotten_event_unix_ms();
  if (forgotten != 0 && since_unix_ms <= forgotten) {
    return absl::StrCat("some events up to ", TimeText(forgotten),
                        " are not kept any more, as the scheduler has room for the newest alone; its log has them");
  }
  const uint64_t began = cluster.started_at_unix_ms();
  if (since_unix_ms >= began) return "";
  return absl::StrCat("events before ", TimeText(began),
                      " are not kept by this scheduler, which began to lead then; if one led before, its log has them");
}

absl::Status ShowEvents(const EventsOptions& options, ClusterClient* client, std::ostream& out, std::ostream& err) {
  return EventReader(options, client, out, err).Run();
}

}  // namespace shoal::cli
