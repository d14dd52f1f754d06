#include "cli/trace.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/flight_record.h"
#include "core/trace_request.h"

namespace shoal::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kPoll{200};

bool AllHaveSent(const v1::Trace& trace, bool but_those_that_are_gone) {
  return std::all_of(trace.members().begin(), trace.members().end(), [&](const v1::TraceMember& member) {
    return member.has_sent() || (but_those_that_are_gone && member.is_gone());
  });
}

// As it is when all records have come that will.
absl::StatusOr<v1::Trace> WaitForRecords(uint64_t id, ClusterClient* client) {
  steady_clock::time_point give_up = steady_clock::time_point::max();
  while (true) {
    absl::StatusOr<v1::Trace> trace = client->GetTrace(id, 0);
    if (!trace.ok()) return trace.status();
    const auto now = steady_clock::now();
    const milliseconds left(trace->ends_in_ms());
    if (AllHaveSent(*trace, left.count() == 0) || now >= give_up) return trace;
    if (left.count() == 0 && give_up == steady_clock::time_point::max()) {
      give_up = now + milliseconds(kTraceSendPatienceMs);
    }
    std::this_thread::sleep_for(std::max(left, kPoll));
  }
}

// How far back the record of a member reaches that had more to record than is kept.
std::string ShortRecord(const FlightRecord& record) {
  const double reach_s = record.entries.empty() ? 0 : -static_cast<double>(record.entries.front().at_ns) / 1e9;
  return absl::StrFormat("%s: only the last %.3f s are drawn, the %d events before that had no room.", record.member,
                         reach_s, record.older_events);
}

}  // namespace

absl::StatusOr<TraceRecords> FetchRecords(const std::string& job, TraceKind kind, double seconds,
                                          ClusterClient* client) {
  const absl::StatusOr<v1::TraceJobResponse> started =
      client->TraceJob(job, kind, static_cast<uint64_t>(std::llround(seconds * 1000)));
  if (!started.ok()) return started.status();
  const absl::StatusOr<v1::Trace> trace = WaitForRecords(started->trace_id(), client);
  if (!trace.ok()) return trace.status();
  TraceRecords fetched;
  if (started->left_out() > 0) {
    fetched.remarks.push_back(absl::StrCat("A trace has at most ", started->members(), " members; ",
                                           started->left_out(), " ranks are left out."));
  }
  for (int i = 0; i < trace->members_size(); ++i) {
    const v1::TraceMember& member = trace->members(i);
    if (!member.has_sent()) {
      fetched.remarks.push_back(absl::StrCat(
          "No record came from ", member.name(),
          member.is_gone() ? ", which has left the job or was lost."
                           : ": it can't reach the scheduler, or its version of Shoal has no traces yet."));
      continue;
    }
    const absl::StatusOr<v1::Trace> with_record = client->GetTrace(trace->trace_id(), static_cast<uint32_t>(i + 1));
    if (!with_record.ok()) return with_record.status();
    fetched.records.push_back({.member = member.name(), .text = with_record->record()});
  }
  return fetched;
}

absl::Status NothingCame(const std::string& job, const std::vector<std::string>& remarks) {
  std::string why = absl::StrCat("no member of job \"", job, "\" has sent anything that can be read");
  for (const std::string& remark : remarks) absl::StrAppend(&why, "\n  ", remark);
  return absl::UnavailableError(why);
}

absl::StatusOr<Timeline> TraceJob(const std::string& job, double seconds, ClusterClient* client) {
  absl::StatusOr<TraceRecords> fetched = FetchRecords(job, TraceKind::kConnections, seconds, client);
  if (!fetched.ok()) return fetched.status();
  std::vector<FlightRecord> records;
  for (const TraceRecords::Record& each : fetched->records) {
    absl::StatusOr<FlightRecord> record = ParseFlightRecord(each.text);
    if (!record.ok()) {
      fetched->remarks.push_back(absl::StrCat("What ", each.member, " sent ", record.status().message(), "."));
      continue;
    }
    if (record->older_events > 0) fetched->remarks.push_back(ShortRecord(*record));
    records.push_back(*std::move(record));
  }
  if (records.empty()) return NothingCame(job, fetched->remarks);
  return DrawTimeline(records, fetched->remarks);
}

}  // namespace shoal::cli
