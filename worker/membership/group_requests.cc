#include "worker/membership/group_requests.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/frame.h"
#include "core/roster.h"

namespace shoal {
namespace {

// A group that reduces within its nodes has a name to meet under; one that is on one node alone has no servers, any
// other has.
bool HasWhatItNeeds(const GroupInfo& info) {
  const bool meets = info.node_reduce != NodeReduceMode::kFlat;
  const bool can_meet =
      info.size() >= 2 && !info.meeting_name.empty() && info.meeting_name.size() <= kMaxMeetingNameBytes;
  return (!meets || can_meet) && info.map->empty() == (info.node_reduce == NodeReduceMode::kNodeAlone);
}

bool AreRanksOf(uint32_t group_size, const std::vector<Rank>& ranks) {
  return std::all_of(ranks.begin(), ranks.end(), [group_size](Rank rank) { return rank.value() < group_size; });
}

bool RailsFit(const JoinedGroup& joined, const GroupToken& token, uint32_t group_size) {
  const std::vector<Rank>& local = joined.local_ranks;
  const std::vector<Rank>& rail = joined.rail_ranks;
  return local.size() >= 2 && rail.size() >= 2 && local.size() * rail.size() == group_size &&
         local.size() == token.ranks_per_contribution && rail.size() == token.group_size &&
         AreRanksOf(group_size, local) && AreRanksOf(group_size, rail) && token.rank.value() < rail.size() &&
         std::count(local.begin(), local.end(), rail[token.rank.value()]) == 1;
}

// The group's answer, to the ranks of the rail.
std::shared_ptr<const GroupInfo> MakeRail(const GroupInfo& group, const std::vector<Rank>& ranks, Rank place) {
  auto rail = std::make_shared<GroupInfo>(group);
  rail->rank = place;
  rail->job_ranks.clear();
  rail->nodes.clear();
  for (const Rank rank : ranks) {
    rail->job_ranks.push_back(group.job_ranks[rank.value()]);
    rail->nodes.push_back(group.nodes[rank.value()]);
  }
  rail->meeting_name.clear();
  rail->min_ranks = MinNodes(group.min_ranks, static_cast<uint32_t>(group.job_ranks.size() / ranks.size()));
  return rail;
}

// The scheduler answers a wait that is over; its answer needs some time to get here.
constexpr uint64_t kAnswerGraceNs = 2 * kNsPerS;

}  // namespace

absl::StatusOr<GroupInfo> MakeGroupInfo(const JoinedGroup& joined, const GroupRequest& request) {
  const absl::StatusOr<GroupToken> token = DecodeToken(joined.token);
  if (!token.ok()) return absl::InternalError(absl::StrCat("the scheduler's token: ", token.status().message()));
  GroupInfo info;
  info.id = joined.id;
  info.whole_group = joined.whole_group == GroupId() ? joined.id : joined.whole_group;
  info.name = request.name;
  info.rank = token->rank;
  info.job_ranks = std::vector<JobRank>(request.ranks.begin(), request.ranks.end());
  info.nodes = joined.nodes;
  info.max_chunk_bytes = token->max_chunk_bytes;
  info.credit_chunks = token->credit_chunks;
  info.look_ahead_chunks = joined.look_ahead_chunks;
  info.link = joined.link;
  info.busiest_port = std::max(joined.busiest_port, 1.0);
  info.busiest_link = joined.busiest_link > 0 ? joined.busiest_link : info.busiest_port;
  info.wire = request.wire;
  info.min_ranks = request.min_ranks;
  info.scales_sums = request.min_ranks > 0 && request.scales_sums;
  info.whole_op = request.min_ranks > 0 && request.whole_op;
  info.token = joined.token;
  info.map = joined.map;
  info.sealed_roster = joined.sealed_roster;
  info.node_reduce = joined.node_reduce;
  info.meeting_name = joined.meeting_name;
  const bool has_rails = info.node_reduce == NodeReduceMode::kRails;
  const bool members_fit = has_rails ? RailsFit(joined, *token, info.size())
                                     : token->group_size == info.size() && token->ranks_per_contribution == 1 &&
                                           info.rank.value() < info.size();
  const bool fits = members_fit && token->group == info.id && info.nodes.size() == info.size() &&
                    token->epoch <= info.map->epoch() && HasWhatItNeeds(info);
  if (fits && has_rails) {
    info.rail = MakeRail(info, joined.rail_ranks, token->rank);
    info.rank = joined.rail_ranks[token->rank.value()];
    info.local_ranks = joined.local_ranks;
  }
  if (fits) return info;
  return absl::InternalError(
      absl::StrCat("the scheduler's answer for group \"", request.name, "\" contradicts itself (", request.ranks.size(),
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
  const absl::Status& status = event.answer.status();
  if (absl::IsUnavailable(status) || absl::IsNotFound(status)) return Retry(&request, status, now);
  absl::StatusOr<GroupInfo> group = absl::InternalError("the scheduler's answer does not belong to this call");
  if (!event.answer.ok()) {
    group = event.answer.status();
  } else if (const auto* const joined = std::get_if<JoinedGroup>(&*event.answer)) {
    group = MakeGroupInfo(*joined, request.call.group);
  }
  // Whatever went wrong, the scheduler may have opened the group, now or in answer to an earlier attempt: this rank is
  // done with it. The number of a request that opened none does no harm.
  if (group.ok()) {
    in_use_[group->id] = request.call.request_number;
  } else {
    given_up_.push_back({request.call.request_number, std::string(group.status().message())});
  }
  actions->emplace_back(GroupJoinEnded{found->first, std::move(group)});
  requests_.erase(found);
}

void GroupRequests::Retry(Request* request, const absl::Status& why, Now now) {
  request->retry_ns = std::min(now.monotonic_ns + request->pace.Next(jitter_), request->deadline_ns);
  // A scheduler that led, stood still and goes on may refuse a member before it learns that another one leads. The
  // heartbeats find out whether this process is one, and end what waits here if it is none.
  const bool is_refused = absl::IsNotFound(why);
  request->refusal = is_refused ? why : absl::OkStatus();
  if (is_refused) return request->scheduler_wait.reset();
  if (!request->scheduler_wait.has_value()) {
    request->scheduler_wait.emplace(*scheduler_, now.monotonic_ns, request->deadline_ns);
  }
  request->scheduler_wait->OnBroken(why);
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
    actions->emplace_back(GroupJoinEnded{ticket, why});
    given_up_.push_back({request.call.request_number, std::string(why.message())});
  }
  requests_.clear();
}

void GroupRequests::GiveUpUnended() {
  for (const auto& [group, number] : in_use_) {
    given_up_.push_back({number, "the worker was closed before the group was opened here"});
  }
  in_use_.clear();
}

absl::Status GroupRequests::DeadlineError(const Request& request) const {
  if (request.refusal.ok()) return request.scheduler_wait->Error();
  return absl::FailedPreconditionError(absl::StrCat(
      "the scheduler at ", *scheduler_, " refuses this process: ", request.refusal.message(), "; connect again"));
}

void GroupRequests::Tick(Now now, MembershipActions* actions) {
  for (auto entry = requests_.begin(); entry != requests_.end();) {
    Request& request = entry->second;
    if (request.open_call == CallId() && now.monotonic_ns >= request.retry_ns) {
      if (now.monotonic_ns >= request.deadline_ns) {
        const absl::Status error = DeadlineError(request);
        actions->emplace_back(GroupJoinEnded{entry->first, error});
        given_up_.push_back({request.call.request_number, std::string(error.message())});
        entry = requests_.erase(entry);
        continue;
      }
      Ask(&request, now, actions);
    }
    if (request.open_call == CallId() && request.scheduler_wait.has_value()) request.scheduler_wait->Tick(now, actions);
    ++entry;
  }
}

uint64_t GroupRequests::NextDeadlineNs() const {
  uint64_t next_ns = kNoDeadline;
  for (const auto& [ticket, request] : requests_) {
    if (request.open_call != CallId()) continue;
    next_ns = std::min(next_ns, request.retry_ns);
    if (request.scheduler_wait.has_value()) next_ns = std::min(next_ns, request.scheduler_wait->NextDeadlineNs());
  }
  return next_ns;
}

}  // namespace shoal
