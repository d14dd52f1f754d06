#include "worker/library/member_thread.h"

#include <utility>
#include <variant>
#include <vector>

#include "process/clock.h"
#include "process/start_thread.h"

namespace shoal {
namespace {

// The machine answers by a call's deadline, and says Left within two seconds.
constexpr uint64_t kAnswerGraceNs = 10 * kNsPerS;

absl::Status Stuck() {
  return absl::InternalError("the thread that talks to the scheduler does not answer; please report this");
}

absl::Status Closed() { return absl::CancelledError("the worker is closed"); }

}  // namespace

MemberThread::MemberThread(const MembershipOptions& options, const Credentials& credentials,
                           const ColocatedServerOptions& colocated, MemberQueue* queue, IoThread* io, RankKeys* keys,
                           NoticeLog* notices, TraceSender* traces)
    : colocated_(colocated),
      queue_(queue),
      io_(io),
      keys_(keys),
      notices_(notices),
      traces_(traces),
      port_(options.scheduler, credentials),
      loop_(options, &port_) {}

absl::StatusOr<std::unique_ptr<MemberThread>> MemberThread::Start(const MembershipOptions& options,
                                                                  const Credentials& credentials,
                                                                  const ColocatedServerOptions& colocated,
                                                                  MemberQueue* queue, IoThread* io, RankKeys* keys,
                                                                  NoticeLog* notices, TraceSender* traces) {
  std::unique_ptr<MemberThread> member(
      new MemberThread(options, credentials, colocated, queue, io, keys, notices, traces));
  queue->SetWake([raw = member.get()] { raw->port_.Wake(); });
  absl::StatusOr<std::thread> thread = StartThread("shoal-member", [raw = member.get()] { raw->Run(); });
  if (!thread.ok()) {
    queue->SetWake({});
    return thread.status();
  }
  member->thread_ = *std::move(thread);
  return member;
}

MemberThread::~MemberThread() { Stop(); }

void MemberThread::Stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) {
    port_.Wake();
    thread_.join();
  }
  if (server_starter_.joinable()) server_starter_.join();
  queue_->SetWake({});
}

void MemberThread::Run() {
  MembershipOutcomes outcomes;
  while (true) {
    {
      const MutexLock lock(mutex_);
      if (stopping_ || ended_) break;
    }
    const std::vector<MembershipCommand> commands = queue_->Take();
    const bool progress = loop_.RunOnce(ReadNow(), commands, &outcomes);
    for (MembershipOutcome& outcome : outcomes) std::visit([this](auto& each) { Deliver(each); }, outcome);
    outcomes.clear();
    // A command that came since it looked has set the port's wake-up.
    if (!progress) port_.SleepUntil(loop_.NextDeadlineNs());
  }
  queue_->Close();
  EndWaits();
}

void MemberThread::EndWaits() {
  const MutexLock lock(mutex_);
  ended_ = true;
  if (!joined_.has_value()) joined_ = Closed();
  for (const auto& [ticket, answer] : group_answers_) answer->group = Closed();
  group_answers_.clear();
  changed_.notify_all();
}

absl::Status MemberThread::Join(uint64_t deadline_ns) {
  if (absl::Status status = queue_->PushAlways(JoinCommand{deadline_ns}); !status.ok()) return status;
  MutexLock lock(mutex_);
  if (!changed_.wait_until(lock, AsTimePoint(deadline_ns + kAnswerGraceNs),
                           [this]() SHOAL_REQUIRES(mutex_) { return joined_.has_value(); }))
    return Stuck();
  return joined_->status();
}

JobId MemberThread::job() const {
  const MutexLock lock(mutex_);
  return (*joined_)->id;
}

JobRank MemberThread::rank() const {
  const MutexLock lock(mutex_);
  return (*joined_)->rank;
}

absl::StatusOr<GroupInfo> MemberThread::JoinGroup(const GroupRequest& request, uint64_t deadline_ns) {
  const auto answer = std::make_shared<GroupAnswer>();
  uint64_t ticket = 0;
  {
    const MutexLock lock(mutex_);
    if (!status_.ok()) return status_;
    if (ended_) return Closed();
    ticket = ++last_ticket_;
    group_answers_[ticket] = answer;
  }
  const absl::Status taken = queue_->Push(JoinGroupCommand{ticket, request, deadline_ns});
  MutexLock lock(mutex_);
  if (!taken.ok()) {
    group_answers_.erase(ticket);
    return taken;
  }
  if (changed_.wait_until(lock, AsTimePoint(deadline_ns + kAnswerGraceNs),
                          [&]() SHOAL_REQUIRES(mutex_) { return answer->group.has_value(); })) {
    return *std::move(answer->group);
  }
  group_answers_.erase(ticket);
  return Stuck();
}

absl::Status MemberThread::status() const {
  const MutexLock lock(mutex_);
  return status_;
}

std::shared_ptr<const ShardMap> MemberThread::map() const {
  const MutexLock lock(mutex_);
  return map_;
}

std::shared_ptr<const ShardMap> MemberThread::WaitForMap(uint64_t deadline_ns) {
  MutexLock lock(mutex_);
  changed_.wait_until(lock, AsTimePoint(deadline_ns),
                      [this]() SHOAL_REQUIRES(mutex_) { return ended_ || map_ != nullptr; });
  return map_;
}

void MemberThread::Close() { queue_->PushAlways(CloseCommand{}).IgnoreError(); }

void MemberThread::Leave(const std::string& reason, bool failed, std::optional<WorkerCounters> counters) {
  // The machine says Left within two seconds; Cancelled: it has.
  if (queue_->PushAlways(LeaveCommand{reason, failed, std::move(counters)}).ok()) {
    MutexLock lock(mutex_);
    changed_.wait_until(lock, AsTimePoint(MonotonicNs() + kAnswerGraceNs),
                        [this]() SHOAL_REQUIRES(mutex_) { return ended_; });
  }
  Stop();
}

std::unique_ptr<ColocatedServer> MemberThread::TakeServer() {
  const MutexLock lock(mutex_);
  return std::move(server_);
}

void MemberThread::Deliver(JoinEnded& outcome) {
  const MutexLock lock(mutex_);
  joined_ = std::move(outcome.joined);
  changed_.notify_all();
}

void MemberThread::Deliver(GroupJoinEnded& outcome) {
  const MutexLock lock(mutex_);
  const auto answer = group_answers_.find(outcome.ticket);
  if (answer == group_answers_.end()) {
    // Its caller has given up: the other ranks are not to wait for this one.
    if (!outcome.group.ok()) return;
    queue_->PushAlways(GroupFailure{.group = outcome.group->id, .reason = std::string(Stuck().message())})
        .IgnoreError();
    queue_->PushAlways(GroupEnded{outcome.group->id}).IgnoreError();
    return;
  }
  answer->second->group = std::move(outcome.group);
  group_answers_.erase(answer);
  changed_.notify_all();
}

void MemberThread::Deliver(MembershipEnded& outcome) {
  {
    const MutexLock lock(mutex_);
    status_ = outcome.status;
  }
  // Refused by a worker that is closing.
  io_->queue().Post(NoMoreMapsCommand{std::move(outcome.status)}).IgnoreError();
}

void MemberThread::Deliver(MapPublished& outcome) {
  const MutexLock lock(mutex_);
  map_ = std::move(outcome.map);
  changed_.notify_all();
}

void MemberThread::Deliver(ReadStatistics&) {
  const auto answer = [queue = queue_](const WorkerCounters& counters) {
    queue->PushAlways(StatisticsRead{counters}).IgnoreError();
  };
  // Refused once the I/O thread has ended: the heartbeat goes out with what was known before.
  io_->queue().Ask(std::make_shared<CountersRequest>(answer)).IgnoreError();
}

void MemberThread::Deliver(RunColocatedServer& outcome) {
  ColocatedServerOptions options = colocated_;
  options.job = outcome.job;
  options.timeout_ms = outcome.timeout_ms;
  if (server_starter_.joinable()) server_starter_.join();  // it has said how it ended
  absl::StatusOr<std::thread> starter = StartThread("shoal-colocate", [this, options] {
    absl::StatusOr<std::unique_ptr<ColocatedServer>> server = ColocatedServer::Start(options, notices_);
    const absl::Status status = server.status();
    if (server.ok()) {
      const MutexLock lock(mutex_);
      server_ = *std::move(server);
    }
    queue_->PushAlways(ColocatedServerStarted{status}).IgnoreError();
  });
  if (!starter.ok()) {
    queue_->PushAlways(ColocatedServerStarted{starter.status()}).IgnoreError();
    return;
  }
  server_starter_ = *std::move(starter);
}

void MemberThread::Deliver(Left&) {
  const MutexLock lock(mutex_);
  ended_ = true;
}

void MemberThread::Deliver(TicketCame& outcome) { keys_->SetTicket(std::move(outcome.ticket)); }

void MemberThread::Deliver(TraceAsked& outcome) {
  traces_->Begin(outcome.trace,
                 {.job = outcome.member.job, .rank = outcome.member.rank, .incarnation = outcome.member.incarnation});
}

void MemberThread::Deliver(MembershipNotice& outcome) { notices_->Say(std::move(outcome.line)); }

// A worker that is closing takes no more of these.
void MemberThread::Deliver(RankLostCommand& outcome) { io_->queue().Post(std::move(outcome)).IgnoreError(); }
void MemberThread::Deliver(MoveGroupCommand& outcome) { io_->queue().Post(std::move(outcome)).IgnoreError(); }
void MemberThread::Deliver(GiveGroupUpCommand& outcome) { io_->queue().Post(std::move(outcome)).IgnoreError(); }

}  // namespace shoal
