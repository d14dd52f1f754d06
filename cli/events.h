// `shoalctl events`: what happened and why, as the scheduler that leads knows it.
#ifndef SHOAL_CLI_EVENTS_H_
#define SHOAL_CLI_EVENTS_H_

#include <cstdint>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/cluster_client.h"

namespace shoal::cli {

// Which events are shown: those for which all of this is so.
struct EventFilter {
  std::optional<uint64_t> since_unix_ms;  // not older
  std::string job;                        // that name it in their subject or reason; empty: all
  std::set<std::string> kinds;            // of docs/events.md; none: all

  bool Lets(const v1::Event& event) const;
};

struct EventsOptions {
  std::optional<uint64_t> since_ms;  // before the scheduler's present time
  EventFilter filter;                // without since_unix_ms
  bool follow = false;
  bool to_terminal = false;  // long lines are wrapped
  bool json = false;  // one document, as ListJobs has one; with `follow` one for each event, on a line of its own
  // A scheduler whose node has vanished does not end its streams. So none lasts longer, and the next one goes on where
  // it was.
  uint64_t stream_ms = 30'000;
};

// "90", "90s", "15m", "2h" or "1d" in milliseconds. InvalidArgument: anything else.
absl::StatusOr<uint64_t> ParseAge(const std::string& text);

// The kinds of events that schedulers record, by name.
std::vector<std::string> KindsOfSchedulers();

// "rank-lost,job-failed". InvalidArgument: one that a scheduler does not record; the text lists those that it does.
absl::StatusOr<std::set<std::string>> ParseEventKinds(const std::string& text);

// What a user who asked for events since then is told of those that the scheduler does not keep; "": it keeps all.
// Pure.
std::string EventsNotKeptText(const v1::Cluster& cluster, uint64_t since_unix_ms);

// Writes the events to `out`, and on `err` as text which of those that were asked for are not kept. With `follow` it
// goes on when the scheduler is started again or another one leads, and says so on `err`; it returns when `out` can't
// be written. Errors of the calls: at the start any, later those that trying again does not mend.
absl::Status ShowEvents(const EventsOptions& options, ClusterClient* client, std::ostream& out, std::ostream& err);

}  // namespace shoal::cli

#endif  // SHOAL_CLI_EVENTS_H_
