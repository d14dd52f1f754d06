#include "scheduler/insight/flight_records.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "scheduler/machine/request_checks.h"

namespace shoal::scheduler {
namespace {

// Who sends it may have left, or have been lost, by then: that its job failed is why there is a record. NotFound: no
// member that is known sends it.
absl::StatusOr<std::string> SenderInWords(const SendFlightRecord& request, const Job& job,
                                          const ServerRegistry& servers) {
  if (request.server == ServerId()) {
    const auto found = job.workers.find(request.rank);
    if (found != job.workers.end() && found->second.state.incarnation == request.incarnation) {
      return absl::StrCat("rank ", request.rank.value(), " on ", found->second.state.node);
    }
  } else {
    const ServerState* const server = servers.Find(request.server);
    if (server != nullptr && server->incarnation == request.incarnation &&
        request.io_thread < server->addresses.size()) {
      return absl::StrCat("I/O thread ", request.io_thread, " of server ", server->name);
    }
  }
  return absl::NotFoundError("the sender of the record is no rank of the job and no server that is known here");
}

}  // namespace

size_t FlightRecords::Record::bytes() const { return std::max(text.size(), kLeastBytesCounted); }

bool FlightRecords::FailedGroup::HasOf(const std::string& member) const {
  return std::any_of(records.begin(), records.end(), [&](const Record& record) { return record.member == member; });
}

absl::Status FlightRecords::Take(const SendFlightRecord& sent, const Job* job, const ServerRegistry& servers) {
  if (job == nullptr) return absl::NotFoundError(absl::StrCat("no job has id ", sent.job.value(), " here"));
  const absl::StatusOr<std::string> member = SenderInWords(sent, *job, servers);
  if (!member.ok()) return member.status();
  if (sent.group == GroupId()) return absl::InvalidArgumentError("the record names no group");
  if (sent.record.size() > kMostBytesOfFlightRecord) {
    return absl::InvalidArgumentError(absl::StrCat("the record has ", sent.record.size(), " bytes; at most ",
                                                   kMostBytesOfFlightRecord, " are taken"));
  }
  auto group = std::find_if(groups_.begin(), groups_.end(),
                            [&](const FailedGroup& each) { return each.job == sent.job && each.group == sent.group; });
  const bool is_new = group == groups_.end();
  if (!is_new && group->HasOf(*member)) return absl::OkStatus();
  Record record{.member = *member, .text = sent.record};
  if ((is_new ? 0 : group->bytes) + record.bytes() > kMostBytesOfFlightRecords) {
    return absl::ResourceExhaustedError(
        absl::StrCat("what other members have sent of group ", sent.group.value(), " takes all the room"));
  }
  if (is_new) group = groups_.insert(groups_.end(), {.job = sent.job, .job_name = job->name, .group = sent.group});
  group->bytes += record.bytes();
  bytes_ += record.bytes();
  group->records.push_back(std::move(record));
  while (groups_.size() > kMostFailedGroups || bytes_ > kMostBytesOfFlightRecords) {
    const auto oldest = group == groups_.begin() ? std::next(group) : groups_.begin();
    bytes_ -= oldest->bytes;
    groups_.erase(oldest);
  }
  return absl::OkStatus();
}

absl::StatusOr<FlightRecordsView> FlightRecords::View(const GetFlightRecords& request) const {
  const auto is_wanted = [&](const FailedGroup& each) {
    return (request.job_name.empty() || each.job_name == request.job_name) &&
           (request.group == GroupId() || each.group == request.group);
  };
  const auto group = std::find_if(groups_.rbegin(), groups_.rend(), is_wanted);
  if (group == groups_.rend()) return NoneOf(request);
  if (request.member > group->records.size()) {
    return absl::OutOfRangeError(absl::StrCat(group->records.size(), " members have sent a record of group ",
                                              group->group.value(), ", and there is no member ", request.member));
  }
  FlightRecordsView view{.group = group->group, .job_name = group->job_name};
  for (const Record& record : group->records) view.members.push_back(record.member);
  for (const FailedGroup& each : groups_) {
    if (each.job == group->job && each.group != group->group) view.other_groups.push_back(each.group);
  }
  if (request.member > 0) view.record = group->records[request.member - 1].text;
  return view;
}

absl::Status FlightRecords::NoneOf(const GetFlightRecords& request) const {
  std::string wanted = "any job";
  if (!request.job_name.empty()) wanted = absl::StrCat("job \"", CleanText(request.job_name), "\"");
  if (request.group != GroupId()) absl::StrAppend(&wanted, ", group ", request.group.value());
  std::set<std::string> jobs;
  for (const FailedGroup& group : groups_) jobs.insert(group.job_name);
  return absl::NotFoundError(absl::StrCat("the scheduler has no flight records of ", wanted, ": it keeps those of the ",
                                          kMostFailedGroups,
                                          " groups that failed last since it was started; there are those of jobs: ",
                                          jobs.empty() ? "none" : NameList({jobs.begin(), jobs.end()})));
}

}  // namespace shoal::scheduler
