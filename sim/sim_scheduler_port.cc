#include "sim/sim_scheduler_port.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "core/overloaded.h"
#include "core/version.h"

namespace shoal::sim {
namespace {

constexpr uint32_t kPid = 1;

scheduler::NodeReduceRequest AsRequest(const NodeReduceRequest& offer) {
  return {.choice = static_cast<uint32_t>(offer.choice),
          .possible = offer.possible,
          .node_identity = offer.node_identity,
          .can_rails = offer.can_rails};
}

scheduler::Request AsRequest(const JoinJobCall& call) {
  std::optional<scheduler::OpenJob> open;
  if (call.member.open.has_value()) {
    open = {.min_ranks = call.member.open->min_ranks, .identity = call.member.open->identity};
  }
  return scheduler::JoinJob{.control_version = kControlVersion,
                            .oldest_control_version = kOldestControlVersion,
                            .software_version = kSoftwareVersion,
                            .job_name = call.member.job_name,
                            .world_size = call.member.world_size,
                            .rank = call.member.rank,
                            .incarnation = call.member.incarnation,
                            .node = call.member.node,
                            .pid = kPid,
                            .colocation = static_cast<uint32_t>(call.member.colocation),
                            .colocates_without_servers = call.member.colocates_without_servers,
                            .node_reduce = AsRequest(call.member.node_reduce),
                            .min_servers = call.min_servers,
                            .local_world_size = call.member.local_world_size,
                            .boot_id = call.member.boot_id,
                            .can_encrypt = call.member.can_encrypt,
                            .open = open};
}

scheduler::Request AsRequest(const JoinGroupCall& call) {
  return scheduler::JoinGroup{.job = call.member.job,
                              .rank = call.member.rank,
                              .incarnation = call.member.incarnation,
                              .group_name = call.group.name,
                              .ranks = std::vector<JobRank>(call.group.ranks.begin(), call.group.ranks.end()),
                              .max_chunk_bytes = call.group.max_chunk_bytes,
                              .min_servers = call.group.min_servers,
                              .network_cards = call.group.network_cards,
                              .wait_ms = call.wait_ms,
                              .link = call.group.link,
                              .wire = static_cast<uint32_t>(call.group.wire),
                              .request_number = call.request_number,
                              .options = scheduler::SharedOptions{.checksums = call.group.checksums,
                                                                  .min_ranks = call.group.min_ranks,
                                                                  .scales_sums = call.group.scales_sums},
                              .node_reduce = AsRequest(call.group.node_reduce)};
}

std::vector<scheduler::GroupFailure> AsFailures(const std::vector<GroupFailure>& failures) {
  std::vector<scheduler::GroupFailure> list;
  list.reserve(failures.size());
  for (const GroupFailure& failure : failures) {
    list.push_back({.group = failure.group,
                    .reason = failure.reason,
                    .lacks_memory = failure.lacks_memory,
                    .others_go_on = failure.others_go_on});
  }
  return list;
}

std::vector<scheduler::GivenUpRequest> AsGivenUp(const std::vector<GivenUpRequest>& requests) {
  std::vector<scheduler::GivenUpRequest> list;
  list.reserve(requests.size());
  for (const GivenUpRequest& request : requests) list.push_back({.number = request.number, .reason = request.reason});
  return list;
}

scheduler::Request AsRequest(const CloseGroupsCall& call) {
  return scheduler::CloseGroups{.job = call.member.job,
                                .rank = call.member.rank,
                                .incarnation = call.member.incarnation,
                                .groups = call.groups,
                                .given_up_requests = AsGivenUp(call.given_up_requests),
                                .failures = AsFailures(call.failures),
                                .committed_groups = call.committed_groups};
}

std::vector<scheduler::ServerWaitReport> AsReports(const HeartbeatCall& call) {
  std::vector<scheduler::ServerWaitReport> reports;
  for (const ServerWaitWindow& window : call.load.server_waits) {
    scheduler::ServerWaitReport& report = reports.emplace_back();
    report.group = window.group;
    report.epoch = window.epoch;
    report.window = window.number;
    report.window_ns = window.length_ns;
    report.ago_ms = (call.made_ns - std::min(call.made_ns, window.end_ns)) / kNsPerMs;
    report.bursts = window.bursts;
    report.servers = window.servers;
  }
  return reports;
}

scheduler::WorkerLoad AsLoad(const WorkerCounters& counters) {
  return {.ops_completed = counters.ops_completed,
          .ops_failed = counters.ops_failed,
          .bytes_pushed = counters.bytes_pushed,
          .bytes_pulled = counters.bytes_pulled,
          .op_time_ns_total = counters.op_time_ns_total,
          .away_ns_total = counters.away_ns_total,
          .counted_ns_total = counters.counted_ns_total,
          .op_times = counters.op_times,
          .refusals = counters.refusals,
          .bytes_on_node = counters.bytes_on_node,
          .retained_results = counters.retained_results};
}

scheduler::Request AsRequest(const HeartbeatCall& call) {
  return scheduler::HeartbeatWorker{.job = call.member.job,
                                    .rank = call.member.rank,
                                    .incarnation = call.member.incarnation,
                                    .load = AsLoad(call.load),
                                    .server_waits = AsReports(call),
                                    .partial_ops = call.load.partial_ops};
}

scheduler::Request AsRequest(const ReportServerCall& call) {
  return scheduler::ReportServer{.job = call.member.job,
                                 .rank = call.member.rank,
                                 .incarnation = call.member.incarnation,
                                 .group = call.trouble.group,
                                 .epoch = call.trouble.epoch,
                                 .server = call.trouble.server,
                                 .server_incarnation = call.trouble.incarnation,
                                 .reachable = call.trouble.reachable,
                                 .reason = call.trouble.reason,
                                 .refused = call.trouble.refused,
                                 .left = call.trouble.left};
}

scheduler::Request AsRequest(const LeaveJobCall& call) {
  std::optional<scheduler::WorkerLoad> load;
  std::vector<PartialOp> partial_ops;
  if (call.load.has_value()) {
    load = AsLoad(*call.load);
    partial_ops = call.load->partial_ops;
  }
  return scheduler::LeaveJob{.job = call.member.job,
                             .rank = call.member.rank,
                             .incarnation = call.member.incarnation,
                             .reason = call.reason,
                             .failed = call.failed,
                             .failures = AsFailures(call.failures),
                             .given_up_requests = AsGivenUp(call.given_up_requests),
                             .committed_groups = call.committed_groups,
                             .load = load,
                             .partial_ops = partial_ops};
}

void TakeGroup(const scheduler::GroupMap& group, std::vector<MoveGroupCommand>* moved,
               std::vector<GiveGroupUpCommand>* given_up) {
  if (group.failure.empty()) {
    moved->push_back({.group = group.group,
                      .map = group.map,
                      .all_committed = group.all_committed,
                      .sealed_roster = group.sealed_roster,
                      .closed = group.closed});
  } else {
    const auto code = group.ends_with_aborted ? absl::StatusCode::kAborted : absl::StatusCode::kResourceExhausted;
    given_up->push_back({.group = group.group, .reason = absl::Status(code, group.failure)});
  }
}

absl::StatusOr<SchedulerAnswer> AsAnswer(const absl::StatusOr<scheduler::Response>& response) {
  if (!response.ok()) return response.status();
  if (const auto* joined = std::get_if<scheduler::JobJoined>(&*response)) {
    return JoinedJob{.id = joined->job,
                     .rank = joined->rank,
                     .lease_ttl_ms = joined->lease_ttl_ms,
                     .server_count = joined->server_count,
                     .colocate_server = joined->colocate_server,
                     .needs_no_servers = joined->needs_no_servers};
  }
  if (const auto* group = std::get_if<scheduler::GroupJoined>(&*response)) {
    return JoinedGroup{.id = group->group,
                       .token = {group->token.begin(), group->token.end()},
                       .map = group->map,
                       .nodes = group->nodes,
                       .look_ahead_chunks = group->look_ahead_chunks,
                       .link = group->link,
                       .busiest_port = group->busiest_port,
                       .busiest_link = group->busiest_link,
                       .node_reduce = group->node_reduce,
                       .meeting_name = group->meeting_name,
                       .local_ranks = group->local_ranks,
                       .rail_ranks = group->rail_ranks,
                       .whole_group = group->whole_group,
                       .sealed_roster = group->sealed_roster};
  }
  if (const auto* renewed = std::get_if<scheduler::WorkerRenewed>(&*response)) {
    return HeartbeatAnswer{renewed->lease_ttl_ms, renewed->waits, renewed->news, renewed->trace};
  }
  if (const auto* reported = std::get_if<scheduler::ServerReported>(&*response)) {
    ReportAnswer answer;
    if (reported->newer.has_value()) TakeGroup(*reported->newer, &answer.moved_groups, &answer.given_up_groups);
    return answer;
  }
  return CallDone{};
}

WatchNews AsNews(const scheduler::SendWatch& update) {
  WatchNews news;
  news.map = update.map;
  for (const scheduler::RankLost& lost : update.lost_ranks) {
    news.lost_ranks.push_back({.job_rank = lost.rank, .node = lost.node, .reason = lost.reason});
  }
  for (const scheduler::GroupMap& group : update.groups) {
    TakeGroup(group, &news.moved_groups, &news.given_up_groups);
  }
  if (update.colocation.has_value()) {
    for (const JobRank rank : update.colocation->ranks) news.colocation_wanted.push_back(rank.value());
    news.colocation_wanted_because = update.colocation->reason;
  }
  return news;
}

}  // namespace

SimSchedulerPort::SimSchedulerPort(World* world, SimControl* control, std::string caller,
                                   std::function<uint64_t()> clock, std::function<void()> wake)
    : world_(world),
      control_(control),
      caller_(std::move(caller)),
      clock_(std::move(clock)),
      wake_(std::move(wake)),
      connected_ns_(world->now_ns()) {}

void SimSchedulerPort::StartCall(CallId call, const SchedulerCall& what, uint64_t deadline_ns) {
  const uint64_t now_ns = clock_();
  calls_[call] = control_->Call(AsCaller(), std::visit([](const auto& each) { return AsRequest(each); }, what),
                                deadline_ns - std::min(now_ns, deadline_ns),
                                [this, call](const absl::StatusOr<scheduler::Response>& response) {
                                  calls_.erase(call);
                                  Arrive(CallEnded{call, AsAnswer(response)});
                                });
}

void SimSchedulerPort::CancelCall(CallId call) {
  const auto found = calls_.find(call);
  if (found == calls_.end()) return;
  control_->Cancel(found->second);
  calls_.erase(found);
  Arrive(CallEnded{call, absl::CancelledError("the call was cancelled")});
}

void SimSchedulerPort::OpenWatch(WatchId watch, const MemberId& member) {
  watches_[watch] = control_->OpenWatch(
      AsCaller(), {.watcher = {}, .job = member.job, .rank = member.rank, .incarnation = member.incarnation},
      [this, watch](const scheduler::SendWatch& update) {
        Arrive(WatchNewsCame{watch, AsNews(update)});
      },
      [this, watch](const absl::Status&) {
        watches_.erase(watch);
        Arrive(WatchEnded{watch});
      });
}

void SimSchedulerPort::CloseWatch(WatchId watch) {
  const auto found = watches_.find(watch);
  if (found != watches_.end()) {
    control_->CloseStream(found->second);
    watches_.erase(found);
  }
  // What came of it and was not asked for yet.
  std::erase_if(arrived_, [&](const SchedulerPortEvent& event) {
    return std::visit(Overloaded{[](const CallEnded&) { return false; },
                                 [&](const auto& of_watch) { return of_watch.watch == watch; }},
                      event);
  });
}

std::span<const SchedulerPortEvent> SimSchedulerPort::Poll() {
  polled_.clear();
  std::swap(polled_, arrived_);
  return polled_;
}

}  // namespace shoal::sim
