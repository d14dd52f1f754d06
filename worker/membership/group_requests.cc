#include "worker/membership/group_requests.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/frame.h"

namespace shoal {
namespace {

// A group that is on one node alone has a name to meet under and no servers, any other has servers.
bool HasWhatItNeeds(const GroupInfo& info) {
  if (info.node_reduce == NodeReduceMode::kNodeAlone) {
    return info.map->empty() && info.size() >= 2 && !info.meeting_name.empty() &&
           info.meeting_name.size() <= kMaxMeetingNameBytes;
  }
  return info.node_reduce == NodeReduceMode::kFlat && !info.map->empty();
}

// The scheduler answers a wait that is over; its answer needs some time to get here.
constexpr uint64_t kAnswerGraceNs = 2 * kNsPerS;

}  // namespace

absl::StatusOr<GroupInfo> MakeGroupInfo(const JoinedGroup& joined, const GroupRequest& request) {
  const absl::StatusOr<GroupToken> token = DecodeToken(joined.token);
  if (!token.ok()) return absl::InternalError(absl::StrCat("the scheduler's token: ", token.status().message()));
  GroupInfo info;
  info.id = joined.id;
  info.name = request.name;
  info.rank = token->rank;
  info.job_ranks = std::vector<JobRank>(request.ranks.begin(), request.ranks.end());
  info.nodes = joined.nodes;
  info.max_chunk_bytes = token->max_chunk_bytes;
  info.credit_chunks = token->credit_chunks;
  info.look_ahead_chunks = joined.look_ahead_chunks;
  info.link = joined.link;
  info.busiest_port = std::max(joined.busiest_port, 1.0);
  info.wire = request.wire;
  info.token = joined.token;
  info.map = joined.map;
  info.node_reduce = joined.node_reduce;
  info.meeting_name = joined.meeting_name;
  const bool fits = token->group == info.id && token->group_size == info.job_ranks.size() &&
                    info.nodes.size() == info.job_ranks.size() && token->epoch <= info.map->epoch() &&
                    info.rank.value() < info.job_ranks.size() && HasWhatItNeeds(info);
  if (fits) return info;
  return absl::InternalError(
      absl::StrCat("the scheduler's answer for group '", request.name, "' contradicts itself (", request.ranks.size(),
                   " ranks, ", info.nodes.size(), " nodes, ", info.map->shards().size(), " shards, ",
                   std::string(NodeReduceModeName(info.node_reduce)), ", token for ", token->group_size, ")"));
}

void GroupRequests::Add(const MemberId& member, const JoinGroupCommand& command, Now now, MembershipActions* actions) {
  Request& request = requests_[command.ticket];
  request.call = {.member = member, .group = command.request, .request_number = ++last_number_};
  request.deadline_ns = command.deadline_ns;
  Ask(&request, now, actions);
}

void GroupRequests::Ask(Request* request, Now now, MembershipActions* actions) {
  const uint64_t left_ns = request->deadline_ns - std::min(now.monotonic_ns, request->deadline_ns);
  request->call.wait_ms = std::max<uint64_t>(left_ns / kNsPerMs, 1);
  request->open_call = calls_->Start(CallOwner::kGroups, request->call, request->deadline_ns + kAnswerGraceNs, actions);
}

void GroupRequests::OnAnswer(const CallEnded& event, Now now, MembershipActions* actions) {
  const auto found = std::find_if(requests_.begin(), requests_.end(),
                                  [&](const auto& entry) { return entry.second.open_call == event.call; });
  if (found == requests_.end()) return;
  Request& request = found->second;
  request.open_call = CallId();
  if (absl::IsUnavailable(event.answer.status())) return Retry(&request, event.answer.status(), now);
  absl::StatusOr<GroupInfo> group = absl::InternalError("the scheduler's answer does not belong to this call");
  if (!event.answer.ok()) {
    group = event.answer.status();
  } else if (const auto* const joined = std::get_if<JoinedGroup>(&*event.answer)) {
    group = MakeGroupInfo(*joined, request.call.group);
  }
  if (event.answer.ok() && !group.ok()) given_up_.push_back(request.call.request_number);
  actions->emplace_back(GroupJoined{found->first, std::move(group)});
  requests_.erase(found);
}

void GroupRequests::Retry(Request* request, const absl::Status& why, Now now) {
  if (!request->scheduler_wait.has_value()) {
    request->scheduler_wait.emplace(*scheduler_, now.monotonic_ns, request->deadline_ns);
  }
  request->scheduler_wait->OnBroken(why);
  request->retry_ns = std::min(now.monotonic_ns + request->pace.Next(jitter_), request->deadline_ns);
}

void GroupRequests::OnNewConnections(Now now, MembershipActions* actions) {
  for (auto& [ticket, request] : requests_) {
    if (request.open_call == CallId()) continue;
    calls_->Cancel(&request.open_call, actions);
    Retry(&request, absl::UnavailableError(kNoAnswer), now);
  }
}

void GroupRequests::EndAll(const absl::Status& why, MembershipActions* actions) {
  for (auto& [ticket, request] : requests_) {
    calls_->Cancel(&request.open_call, actions);
    actions->emplace_back(GroupJoined{ticket, why});
  }
  requests_.clear();
}

void GroupRequests::Tick(Now now, MembershipActions* actions) {
  for (auto entry = requests_.begin(); entry != requests_.end();) {
    Request& request = entry->second;
    if (request.open_call == CallId() && now.monotonic_ns >= request.retry_ns) {
      if (now.monotonic_ns >= request.deadline_ns) {
        actions->emplace_back(GroupJoined{entry->first, request.scheduler_wait->Error()});
        given_up_.push_back(request.call.request_number);
        entry = requests_.erase(entry);
        continue;
      }
      Ask(&request, now, actions);
    }
    if (request.open_call == CallId()) request.scheduler_wait->Tick(now, actions);
    ++entry;
  }
}

uint64_t GroupRequests::NextDeadlineNs() const {
  uint64_t next_ns = kNoDeadline;
  for (const auto& [ticket, request] : requests_) {
    if (request.open_call != CallId()) continue;
    next_ns = std::min({next_ns, request.retry_ns, request.scheduler_wait->NextDeadlineNs()});
  }
  return next_ns;
}

}  // namespace shoal
