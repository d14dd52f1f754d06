#include "scheduler/machine/job_registry.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/duration_text.h"
#include "scheduler/machine/node_reduce_decision.h"
#include "scheduler/machine/request_checks.h"

namespace shoal::scheduler {

void JobRegistry::Restore(const std::vector<JobState>& jobs, uint64_t next_job_id, Now now) {
  next_job_id_ = next_job_id;
  for (const JobState& state : jobs) {
    Job& job = jobs_.emplace(state.id, Job::Restored(state)).first->second;
    live_workers_ += job.live_count;
    for (auto& [rank, worker] : job.workers) {
      if (worker.state.phase == MemberPhase::kLive) GrantLease(&worker, now);
    }
    job.ForgetGone();
    JobId& newest = by_name_[job.name];
    newest = std::max(newest, job.id);
  }
}

const Job* JobRegistry::FindByName(const std::string& name) const {
  const auto named = by_name_.find(name);
  return named == by_name_.end() ? nullptr : &jobs_.at(named->second);
}

absl::Status JobRegistry::CheckKind(const Job& job, const JoinJob& request) {
  const std::string process = absl::StrCat("process ", request.pid, " on node ", CleanText(request.node));
  if (job.is_fixed() && request.open.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("job \"", job.name, "\" has world size ", job.world_size, ", but ",
                                                   process, " joins it as an open job; give one of them another name"));
  }
  if (!job.is_fixed() && !request.open.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("job \"", job.name, "\" is an open one, but ", process,
                                                   " joins it as rank ", request.rank.value(), " with world size ",
                                                   request.world_size, "; give one of them another name"));
  }
  if (!job.is_fixed() && job.min_ranks != request.open->min_ranks) {
    return absl::InvalidArgumentError(absl::StrCat("open job \"", job.name, "\" needs ", job.min_ranks,
                                                   " ranks at least, but ", process, " says ", request.open->min_ranks,
                                                   "; give every rank the same number"));
  }
  if (!job.is_fixed() || job.world_size == request.world_size) return absl::OkStatus();
  const auto& [first_rank, first] = *job.workers.begin();
  return absl::InvalidArgumentError(absl::StrCat(
      "job \"", job.name, "\" has world size ", job.world_size, " (from rank ", first_rank.value(), ", process ",
      first.state.pid, " on node ", first.state.node, "), but rank ", request.rank.value(), ", ", process,
      ", has world size ", request.world_size, "; give every rank the same world size, or give this job another name"));
}

absl::Status JobRegistry::CheckShare(const std::string& tenant, bool begins_job) const {
  const auto runs_short = [](size_t taken, size_t limit) { return limit - taken <= limit / 4; };
  const bool jobs_short = begins_job && runs_short(live_job_count(), kMaxLiveJobs);
  if (tenant.empty() || !(jobs_short || runs_short(live_workers_, kMaxLiveWorkers))) return absl::OkStatus();
  struct Use {
    size_t jobs = 0;
    size_t workers = 0;
  };
  std::map<std::string, Use> uses = {{tenant, {}}};
  for (const auto& [id, job] : jobs_) {
    if (job.live_count == 0) continue;
    Use& use = uses[job.tenant];
    ++use.jobs;
    use.workers += job.live_count;
  }
  const size_t parts = uses.size() + 1;
  const Use& own = uses[tenant];
  const auto too_many = [&](absl::string_view what, size_t has, size_t limit) {
    return absl::ResourceExhaustedError(
        absl::StrCat("tenant ", tenant, " has ", has, " of the ", limit, " ", what,
                     " that all tenants share, and what is left is kept for those who have fewer; end some of yours"));
  };
  if (jobs_short && own.jobs >= kMaxLiveJobs / parts) return too_many("jobs", own.jobs, kMaxLiveJobs);
  if (runs_short(live_workers_, kMaxLiveWorkers) && own.workers >= kMaxLiveWorkers / parts) {
    return too_many("ranks", own.workers, kMaxLiveWorkers);
  }
  return absl::OkStatus();
}

// The open job of that name, or a new one.
absl::StatusOr<Job*> JobRegistry::JobToJoin(const JoinJob& request, Joined* joined, Now now) {
  const auto named = by_name_.find(request.job_name);
  if (named != by_name_.end()) {
    Job& job = jobs_.at(named->second);
    const bool is_live_member = job.is_fixed() ? job.CheckMember(request.rank, request.incarnation).ok()
                                               : job.RankOf(request.incarnation).has_value();
    if (job.open() || is_live_member) {
      if (absl::Status status = CheckKind(job, request); !status.ok()) return status;
      return &job;
    }
  }
  if (live_job_count() >= kMaxLiveJobs) {
    return absl::ResourceExhaustedError(
        absl::StrCat("there are ", kMaxLiveJobs, " jobs already, which is the limit; wait for one to end"));
  }
  if (absl::Status status = CheckShare(request.tenant, /*begins_job=*/true); !status.ok()) return status;
  const JobId id(next_job_id_++);
  Job& job = jobs_[id];
  job.id = id;
  job.name = request.job_name;
  job.world_size = request.world_size;
  job.min_ranks = request.open.has_value() ? request.open->min_ranks : 0;
  job.tenant = request.tenant;
  job.started_at_unix_ms = now.unix_ms;
  by_name_[job.name] = id;
  joined->started_job = true;
  return &job;
}

absl::StatusOr<JobRegistry::Joined> JobRegistry::Join(const JoinJob& request, Now now) {
  absl::Status status = CheckControlVersion(request.control_version, request.oldest_control_version,
                                            request.software_version, WhoJoins(request));
  if (status.ok()) status = CheckRequest(request);
  if (!status.ok()) return status;
  if (live_workers_ >= kMaxLiveWorkers) {
    return absl::ResourceExhaustedError(
        absl::StrCat("there are ", kMaxLiveWorkers, " workers already, which is the limit; wait for some to leave"));
  }
  Joined joined;
  const absl::StatusOr<Job*> found = JobToJoin(request, &joined, now);
  if (!found.ok()) return found.status();
  Job& job = **found;
  joined.job = job.id;
  joined.rank = request.rank;
  if (!job.is_fixed()) joined.rank = job.RankOf(request.incarnation).value_or(JobRank(job.world_size));

  const auto holder = job.workers.find(joined.rank);
  if (holder != job.workers.end() && holder->second.state.phase == MemberPhase::kLive) {
    if (holder->second.state.incarnation == request.incarnation) {
      if (holder->second.state.node_reduce != request.node_reduce) job.needs_no_servers.reset();
      holder->second.state.node_reduce = request.node_reduce;
      GrantLease(&holder->second, now);
    } else {
      joined.held = true;
    }
    return joined;
  }
  if (!joined.started_job) {
    if (absl::Status share = CheckShare(request.tenant, /*begins_job=*/false); !share.ok()) return share;
  }
  Worker& worker = job.workers[joined.rank];
  worker = Worker();
  worker.signs = ProcessSigns(job.PatienceNs());
  if (!job.is_fixed()) {
    ++job.world_size;
    worker.state.identity = CleanText(request.open->identity);
  }
  worker.state.incarnation = request.incarnation;
  worker.state.node = CleanText(request.node);
  worker.state.boot_id = CleanText(request.boot_id);
  worker.state.pid = request.pid;
  worker.state.colocates_without_servers = request.colocates_without_servers;
  worker.state.node_reduce = request.node_reduce;
  job.needs_no_servers.reset();
  worker.joined_ns = now.monotonic_ns;
  GrantLease(&worker, now);
  ++job.live_count;
  ++live_workers_;
  joined.changed = true;
  if (job.phase == JobPhase::kJoining && job.all_joined()) {
    job.phase = JobPhase::kRunning;
    joined.job_runs_now = true;
  }
  return joined;
}

absl::StatusOr<const Job*> JobRegistry::FindMember(JobId id, JobRank rank, Incarnation incarnation) const {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) {
    return absl::NotFoundError(absl::StrCat("no job has id ", id.value(),
                                            " here (it has ended, or the scheduler lost its state); join again"));
  }
  if (absl::Status status = found->second.CheckMember(rank, incarnation); !status.ok()) return status;
  return &found->second;
}

absl::Status JobRegistry::Renew(const HeartbeatWorker& request, Now now) {
  const absl::StatusOr<const Job*> job = FindMember(request.job, request.rank, request.incarnation);
  if (!job.ok()) return job.status();
  Worker& worker = jobs_.at(request.job).workers.at(request.rank);
  worker.signs.OnHeartbeat(now);
  GrantLease(&worker, now);
  return absl::OkStatus();
}

void JobRegistry::HoldLease(JobId job, JobRank rank) { jobs_.at(job).workers.at(rank).lease_expires_ns = kNoDeadline; }

void JobRegistry::BeginLease(JobId job, JobRank rank, Incarnation incarnation, Now now) {
  if (FindMember(job, rank, incarnation).ok()) GrantLease(&jobs_.at(job).workers.at(rank), now);
}

absl::StatusOr<JobRegistry::Gone> JobRegistry::Leave(const LeaveJob& request, Now now) {
  const absl::StatusOr<const Job*> job = FindMember(request.job, request.rank, request.incarnation);
  if (!job.ok()) return job.status();
  const std::string reason =
      request.reason.empty() ? (request.failed ? "it gave up" : "it left") : CleanText(request.reason);
  return MarkGone(&jobs_.at(request.job), request.rank, request.failed ? MemberPhase::kLost : MemberPhase::kLeft,
                  reason, now);
}

std::vector<JobRegistry::Gone> JobRegistry::ExpireLeases(const std::function<bool(JobId, JobRank)>& is_awaited,
                                                         Now now) {
  std::vector<Gone> gone;
  if (now.monotonic_ns < next_expiry_ns_) return gone;
  next_expiry_ns_ = kNoDeadline;
  std::vector<std::pair<JobId, JobRank>> expired;
  for (const auto& [id, job] : jobs_) {
    for (const auto& [rank, worker] : job.workers) {
      if (worker.state.phase != MemberPhase::kLive) continue;
      const uint64_t lost_at_ns = std::min(worker.lease_expires_ns, worker.signs.EndedAtNs());
      if (lost_at_ns > now.monotonic_ns) {
        next_expiry_ns_ = std::min(next_expiry_ns_, lost_at_ns);
      } else {
        expired.emplace_back(id, rank);
      }
    }
  }
  for (const auto& [id, rank] : expired) {
    Job& job = jobs_.at(id);
    const Worker& worker = job.workers.at(rank);
    const uint64_t silent_ns = now.monotonic_ns - worker.last_heartbeat_ns;
    const std::string why =
        worker.signs.EndedAtNs() <= now.monotonic_ns
            ? worker.signs.Describe()
            : absl::StrCat("no heartbeat for ", Seconds(silent_ns), " (lease ", Seconds(lease_ttl_ns_), ")");
    gone.push_back(MarkGone(&job, rank, job.PhaseOfExpired(rank, is_awaited(id, rank), now), why, now));
  }
  return gone;
}

void JobRegistry::AddLivePlaces(std::vector<NodePlace>* places) const {
  for (const auto& [id, job] : jobs_) {
    for (const auto& [rank, worker] : job.workers) {
      if (worker.state.phase == MemberPhase::kLive) places->push_back(PlaceOf(worker.state));
    }
  }
}

void JobRegistry::RenewLeases(bool ends_processes, Now now) {
  const uint64_t expires_ns = now.monotonic_ns + lease_ttl_ns_;
  next_expiry_ns_ = kNoDeadline;
  for (auto& [id, job] : jobs_) {
    for (auto& [rank, worker] : job.workers) {
      if (worker.state.phase != MemberPhase::kLive) continue;
      worker.lease_expires_ns = expires_ns;
      next_expiry_ns_ = std::min(next_expiry_ns_, expires_ns);
      // Not before now: what is long due looks as if this scheduler had stood still.
      if (ends_processes) {
        next_expiry_ns_ = std::min(next_expiry_ns_, std::max(worker.signs.EndedAtNs(), now.monotonic_ns));
      }
    }
  }
}

void JobRegistry::ExtendLeasesOnce(Now now) {
  next_expiry_ns_ = kNoDeadline;
  for (auto& [id, job] : jobs_) {
    for (auto& [rank, worker] : job.workers) {
      if (worker.state.phase != MemberPhase::kLive) continue;
      if (!std::exchange(worker.lease_extended, true)) {
        worker.lease_expires_ns = std::max(worker.lease_expires_ns, now.monotonic_ns + lease_ttl_ns_);
      }
      const uint64_t lost_at_ns = std::min(worker.lease_expires_ns, worker.signs.EndedAtNs());
      next_expiry_ns_ = std::min(next_expiry_ns_, std::max(lost_at_ns, now.monotonic_ns));
    }
  }
}

void JobRegistry::RenewAll(Now now) {
  for (auto& [id, job] : jobs_) {
    for (auto& [rank, worker] : job.workers) worker.signs.Forget();
  }
  RenewLeases(/*ends_processes=*/true, now);
}

void JobRegistry::ForgetExclusions(ServerId server) {
  for (auto& [id, job] : jobs_) {
    for (auto& [group_id, group] : job.groups.all()) group.ForgetExclusion(server);
  }
}

const Job* JobRegistry::Find(JobId id) const {
  const auto found = jobs_.find(id);
  return found == jobs_.end() ? nullptr : &found->second;
}

uint32_t JobRegistry::live_job_count() const { return static_cast<uint32_t>(jobs_.size() - past_jobs_.size()); }

std::vector<JobState> JobRegistry::States() const {
  std::vector<JobState> states;
  for (const auto& [id, job] : jobs_) {
    if (job.live_count > 0) states.push_back(job.State());
  }
  return states;
}

void JobRegistry::GrantLease(Worker* worker, Now now) {
  worker->lease_extended = false;
  worker->last_heartbeat_ns = now.monotonic_ns;
  worker->lease_expires_ns = now.monotonic_ns + lease_ttl_ns_;
  next_expiry_ns_ = std::min(next_expiry_ns_, worker->lease_expires_ns);
}

absl::Status JobRegistry::NoneNamed(const std::string& name) const {
  std::vector<std::string> open;
  for (const auto& [id, job] : jobs_) {
    if (job.open()) open.push_back(job.name);
  }
  return absl::NotFoundError(
      absl::StrCat("no job is named \"", CleanText(name), "\"; open jobs: ", open.empty() ? "none" : NameList(open)));
}

absl::StatusOr<const Job*> JobRegistry::FindOpen(const std::string& name, std::string_view verb) const {
  const Job* const job = FindByName(name);
  if (job == nullptr) return NoneNamed(name);
  if (!job->open()) {
    const std::string how = job->phase == JobPhase::kFailed ? absl::StrCat("has failed: ", job->failure) : "has ended";
    return absl::FailedPreconditionError(
        absl::StrCat("job \"", name, "\" ", how, "; there is nothing to ", std::string(verb)));
  }
  return job;
}

// ---- signs of an end ----

Worker* JobRegistry::FindLive(JobId id, JobRank rank, Incarnation incarnation) {
  const auto job = jobs_.find(id);
  if (job == jobs_.end()) return nullptr;
  const auto worker = job->second.workers.find(rank);
  const bool is_live = worker != job->second.workers.end() && worker->second.state.phase == MemberPhase::kLive &&
                       worker->second.state.incarnation == incarnation;
  return is_live ? &worker->second : nullptr;
}

void JobRegistry::OnStreamOpened(const WatchOpened& stream) {
  Worker* const worker = FindLive(stream.job, stream.rank, stream.incarnation);
  if (worker == nullptr) return;
  worker->signs.OnStreamOpened(stream.watcher);
  streams_[stream.watcher] = {stream.job, stream.rank, stream.incarnation};
}

void JobRegistry::OnStreamClosed(WatcherId watcher, Now now) {
  const auto stream = streams_.find(watcher);
  if (stream == streams_.end()) return;
  Worker* const worker = FindLive(stream->second.job, stream->second.rank, stream->second.incarnation);
  streams_.erase(stream);
  if (worker == nullptr) return;
  worker->signs.OnStreamClosed(watcher, worker->last_heartbeat_ns, now);
  next_expiry_ns_ = std::min(next_expiry_ns_, worker->signs.EndedAtNs());
}

void JobRegistry::OnRankAbsent(const AbsentRankReport& absent, Now now) {
  // Of an epoch that is over as well: the group moves at once if the process that ended ran one of its servers.
  const Job* const job = Find(absent.job);
  const GroupState* const group = job == nullptr ? nullptr : job->FindReported(absent.group, absent.epoch, absent.rank);
  if (group == nullptr) return;
  Worker& worker = jobs_.at(absent.job).workers.at(group->ranks[absent.rank.value()]);
  worker.signs.OnConnectionLost(TimeOf(absent, now), CleanText(absent.because), now);
  next_expiry_ns_ = std::min(next_expiry_ns_, worker.signs.EndedAtNs());
}

JobRegistry::Gone JobRegistry::TakeOver(JobId id, const JoinJob& request, Now now) {
  Job& job = jobs_.at(id);
  const uint64_t ended_ns = job.workers.at(request.rank).signs.stream_closed_ns().value_or(now.monotonic_ns);
  return MarkGone(&job, request.rank, job.PhaseOfEnded(request.rank, ended_ns, now),
                  absl::StrCat("its process ended: it closed its stream to the scheduler, and process ", request.pid,
                               " on node ", CleanText(request.node), " joined as this rank"),
                  now);
}

JobRegistry::Gone JobRegistry::MarkGone(Job* job, JobRank rank, MemberPhase phase, const std::string& reason, Now now) {
  Gone gone;
  Worker& worker = job->workers.at(rank);
  gone.rank = {.job = job->id,
               .rank = rank,
               .node = worker.state.node,
               .reason = reason,
               .incarnation = worker.state.incarnation};
  gone.who = job->Describe(rank);
  gone.job_name = job->name;
  gone.lost = phase == MemberPhase::kLost;
  worker.state.phase = phase;
  worker.state.reason = reason;
  --job->live_count;
  --live_workers_;
  if (gone.lost) gone.going_on = job->groups.NoteLost(rank, job->WhyLost(rank, reason), now);
  gone.groups = job->groups.CloseAllOf(rank);
  const bool has_enough = !job->is_fixed() && (job->phase == JobPhase::kJoining || job->live_count >= job->min_ranks);
  if (gone.lost && job->open() && !has_enough) {
    job->failure = job->WhyLost(rank, reason);
    if (!job->is_fixed()) {
      job->failure += absl::StrCat("; ", job->DescribeRoster(), " left, and the job needs ", job->min_ranks);
    }
    job->phase = JobPhase::kFailed;
    gone.failed_job_now = true;
    gone.failure = job->failure;
  }
  if (!job->is_fixed()) job->ForgetGone();
  if (job->live_count == 0) {
    if (job->open()) {
      gone.failed_job_now = !job->failure.empty();
      gone.failure = job->failure;
      gone.ended_job_now = !gone.failed_job_now;
      job->phase = gone.failed_job_now ? JobPhase::kFailed : JobPhase::kEnded;
    }
    job->ended_ns = now.monotonic_ns;
    KeepAsPast(job->id);
  }
  return gone;
}

void JobRegistry::KeepAsPast(JobId id) {
  past_jobs_.push_back(id);
  if (past_jobs_.size() <= kMaxPastJobs) return;
  const auto oldest = jobs_.find(past_jobs_.front());
  past_jobs_.pop_front();
  const auto named = by_name_.find(oldest->second.name);
  if (named != by_name_.end() && named->second == oldest->first) by_name_.erase(named);
  jobs_.erase(oldest);
}

}  // namespace shoal::scheduler
