#include "worker/library/job_membership.h"

#include <algorithm>
#include <optional>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "process/clock.h"
#include "process/start_thread.h"

namespace shoal {
namespace {

// Of a lease, so that two heartbeats may be refused before it is over, or one remain without an answer.
constexpr uint64_t kHeartbeatsPerLease = 3;
constexpr uint64_t kFirstWatchRetryMs = 100;
constexpr uint64_t kMaxWatchRetryMs = 5000;
constexpr uint64_t kReportTimeoutNs = 2 * kNsPerS;
constexpr uint64_t kReportRetryNs = 100 * kNsPerMs;

}  // namespace

JobMembership::JobMembership(SchedulerClient* scheduler, IoThread* io, TroubleQueue* troubles, NoticeLog* notices,
                             const JobMember& member, const JoinedJob& job,
                             std::optional<ColocatedServerOptions> may_colocate)
    : scheduler_(scheduler),
      io_(io),
      troubles_(troubles),
      notices_(notices),
      member_(member),
      job_(job),
      may_colocate_(std::move(may_colocate)) {}

absl::StatusOr<std::unique_ptr<JobMembership>> JobMembership::Start(
    SchedulerClient* scheduler, IoThread* io, TroubleQueue* troubles, NoticeLog* notices, const JobMember& member,
    const JoinedJob& job, std::optional<ColocatedServerOptions> may_colocate) {
  std::unique_ptr<JobMembership> membership(
      new JobMembership(scheduler, io, troubles, notices, member, job, std::move(may_colocate)));
  JobMembership* raw = membership.get();
  absl::StatusOr<std::thread> heartbeats = StartThread("shoal-lease", [raw] { raw->SendHeartbeats(); });
  if (!heartbeats.ok()) return heartbeats.status();
  membership->heartbeat_thread_ = *std::move(heartbeats);
  absl::StatusOr<std::thread> watch = StartThread("shoal-watch", [raw] { raw->FollowWatch(); });
  if (!watch.ok()) return watch.status();
  membership->watch_thread_ = *std::move(watch);
  absl::StatusOr<std::thread> reports = StartThread("shoal-report", [raw] { raw->ReportTroubles(); });
  if (!reports.ok()) return reports.status();
  membership->report_thread_ = *std::move(reports);
  return membership;
}

JobMembership::~JobMembership() { Stop(); }

void JobMembership::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  troubles_->Close();
  if (report_thread_.joinable()) report_thread_.join();
  if (heartbeat_thread_.joinable()) heartbeat_thread_.join();
  if (watch_thread_.joinable()) watch_thread_.join();
}

absl::Status JobMembership::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

std::shared_ptr<const ShardMap> JobMembership::map() const {
  const std::lock_guard lock(mutex_);
  return map_;
}

std::shared_ptr<const ShardMap> JobMembership::WaitForMap(uint64_t deadline_ns) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, AsTimePoint(deadline_ns), [this] { return stopping_ || map_ != nullptr; });
  return map_;
}

bool JobMembership::stopping() const {
  const std::lock_guard lock(mutex_);
  return stopping_;
}

bool JobMembership::Sleep(uint64_t ns) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, std::chrono::nanoseconds(ns), [this] { return stopping_; });
}

void JobMembership::SendHeartbeats() {
  uint64_t period_ns = job_.lease_ttl_ms * kNsPerMs / kHeartbeatsPerLease;
  uint64_t wait_ns = period_ns;
  bool is_unknown = false;
  while (Sleep(wait_ns)) {
    wait_ns = period_ns;
    const uint64_t sent_ns = MonotonicNs();
    const absl::StatusOr<WorkerCounters> counters = io_->Counters();
    const absl::StatusOr<HeartbeatAnswer> renewal =
        scheduler_->Heartbeat(member_, job_.id, counters.ok() ? *counters : WorkerCounters(), sent_ns + period_ns);
    ReportWaits(renewal);
    if (renewal.ok()) {
      is_unknown = false;
      wait_ns = period_ns = std::max<uint64_t>(renewal->ttl_ms, 1) * kNsPerMs / kHeartbeatsPerLease;
    } else if (absl::IsNotFound(renewal.status()) && !std::exchange(is_unknown, true)) {
      // A scheduler that led, stood still and goes on may say so once, before it learns that another one leads.
      wait_ns = period_ns / 8;
    } else if (absl::IsNotFound(renewal.status())) {
      const std::lock_guard lock(mutex_);
      status_ = absl::FailedPreconditionError(absl::StrCat("the scheduler at ", scheduler_->address(),
                                                           " ended this worker's membership in job '", member_.job_name,
                                                           "': ", renewal.status().message(), "; connect again"));
      return;
    } else if (absl::IsUnavailable(renewal.status())) {
      // Silence has lasted for a period by now, and a second one would take the lease.
      wait_ns = std::max(NsUntil(sent_ns + period_ns), period_ns / 8);
    }
  }
}

void JobMembership::ReportWaits(const absl::StatusOr<HeartbeatAnswer>& renewal) {
  const uint64_t now_ns = MonotonicNs();
  if (absl::IsUnavailable(renewal.status())) {
    if (!scheduler_wait_.has_value()) scheduler_wait_ = WaitReport(now_ns, kNoDeadline);
    if (scheduler_wait_->TakeDue(now_ns)) {
      notices_->Say(absl::StrCat("waiting for the scheduler at ", scheduler_->address(), " since ",
                                 scheduler_wait_->Text(now_ns), " (", renewal.status().message(),
                                 "): open groups go on; new groups, and moves to other servers, wait"));
    }
    return;
  }
  if (scheduler_wait_.has_value() && scheduler_wait_->reported()) {
    notices_->Say(
        absl::StrCat("the scheduler at ", scheduler_->address(), " is back after ", scheduler_wait_->Text(now_ns)));
  }
  scheduler_wait_.reset();
  if (!renewal.ok() || renewal->waits.empty()) return group_wait_.reset();
  // The scheduler tells only of waits that have lasted.
  if (!group_wait_.has_value()) group_wait_ = WaitReport(now_ns, now_ns);
  if (!group_wait_->TakeDue(now_ns)) return;
  for (const std::string& wait : renewal->waits) notices_->Say(wait);
}

void JobMembership::ReportTroubles() {
  while (const std::optional<ServerTrouble> trouble = troubles_->Pop()) {
    // Until the scheduler is back: nobody else can give the group another map.
    while (
        absl::IsUnavailable(scheduler_->ReportServer(member_, job_.id, *trouble, MonotonicNs() + kReportTimeoutNs))) {
      if (!Sleep(kReportRetryNs)) return;
    }
  }
}

void JobMembership::FollowWatch() {
  std::minstd_rand random{std::random_device{}()};
  uint64_t retry_ms = kFirstWatchRetryMs;
  do {
    const std::unique_ptr<SchedulerClient::WatchStream> stream = scheduler_->Watch(job_.id);
    WatchNews news;
    while (!stopping() && stream->Read(&news)) {
      retry_ms = kFirstWatchRetryMs;
      if (news.map != nullptr) {
        const std::lock_guard lock(mutex_);
        map_ = std::move(news.map);
        changed_.notify_all();
      }
      // A rank of a job is lost once; a stream that was opened again repeats the losses.
      for (RankLostCommand& lost : news.lost_ranks) {
        if (!lost_ranks_told_.insert(lost.job_rank).second) continue;
        io_->queue().Post(std::move(lost)).IgnoreError();  // refused only by a worker that is closing
      }
      if (std::count(news.colocation_wanted.begin(), news.colocation_wanted.end(), member_.rank) > 0) {
        StartColocatedServer(news.colocation_wanted_because);
      }
      for (MoveGroupCommand& move : news.moved_groups) io_->queue().Post(std::move(move)).IgnoreError();
    }
    if (!status().ok()) return;
    const uint64_t wait_ms = retry_ms / 2 + std::uniform_int_distribution<uint64_t>(0, retry_ms / 2)(random);
    retry_ms = std::min(2 * retry_ms, kMaxWatchRetryMs);
    if (!Sleep(wait_ms * kNsPerMs)) return;
  } while (true);
}

void JobMembership::StartColocatedServer(const std::string& because) {
  if (!may_colocate_.has_value() || server_ != nullptr) return;
  absl::StatusOr<std::unique_ptr<ColocatedServer>> server = ColocatedServer::Start(*may_colocate_, notices_);
  if (!server.ok()) {
    notices_->Say(absl::StrCat("no reduction server is left (", because, "), and ", server.status().message()));
    return;
  }
  server_ = *std::move(server);
  notices_->Say(absl::StrCat("no reduction server is left (", because,
                             "): this process runs a colocated server for its job now"));
}

}  // namespace shoal
