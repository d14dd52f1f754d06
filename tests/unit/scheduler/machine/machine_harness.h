// Drives a scheduler's machines under virtual time and keeps what it does.
#ifndef SHOAL_TESTS_UNIT_SCHEDULER_MACHINE_MACHINE_HARNESS_H_
#define SHOAL_TESTS_UNIT_SCHEDULER_MACHINE_MACHINE_HARNESS_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/insight/observed_scheduler.h"

namespace shoal::scheduler {

inline constexpr uint64_t kMs = 1'000'000;
inline constexpr uint64_t kTtlMs = 5000;

inline std::string Text(const absl::Status& status) { return std::string(status.message()); }

PersistedState NewState();

class MachineHarness {
 public:
  explicit MachineHarness(const std::optional<PersistedState>& saved = std::nullopt, uint64_t port_buffer_bytes = 0,
                          bool encrypt = false);
  MachineHarness(MachineHarness&&) noexcept;
  MachineHarness& operator=(MachineHarness&&) noexcept;
  ~MachineHarness();

  // With false, saves wait for FinishSave.
  void set_save_at_once(bool at_once) { save_at_once_ = at_once; }
  bool save_under_way() const { return save_.has_value(); }
  size_t saves() const { return saves_; }  // that were begun
  const std::optional<PersistedState>& last_saved() const { return last_saved_; }

  void FinishSave(const absl::Status& status = absl::OkStatus());
  void StepEvent(const SchedulerEvent& event);
  RequestHandle Send(Request request);

  bool HasReply(RequestHandle handle) const { return replies_.contains(handle); }
  absl::Status StatusOf(RequestHandle handle) const;

  template <typename Value>
  Value Get(RequestHandle handle) const {
    const Response* response = GoodReply(handle);
    return response == nullptr ? Value() : std::get<Value>(*response);
  }

  template <typename Value>
  Value Ask(Request request) {
    return Get<Value>(Send(std::move(request)));
  }
  // Those of the first page, which has all of a small cluster.
  std::vector<ServerView> Servers();
  std::vector<JobView> Jobs();
  absl::Status Try(Request request) { return StatusOf(Send(std::move(request))); }

  // A rank gives up the oldest group of the first job.
  void GiveOldestGroupUp(JobId job, JobRank rank, Incarnation incarnation);

  WatcherId Watch(JobId job = JobId());
  // As a rank does.
  WatcherId WatchAs(JobId job, uint32_t rank, uint64_t incarnation);

  // Runs the machine at each of its deadlines on the way.
  void Advance(uint64_t ms);

  // As if the process had been stopped for that long.
  void Stall(uint64_t ms);

  const Now& now() const { return now_; }
  const ObservedScheduler& machine() const { return *machine_; }
  std::vector<SendWatch>& watched(WatcherId watcher) { return watched_[watcher]; }
  const std::map<WatcherId, absl::Status>& closed() const { return closed_; }
  const std::map<WatcherId, std::vector<EventRecord>>& followed() const { return followed_; }
  const std::vector<EventRecord>& events() const { return events_; }  // but those that tell of calls
  const std::vector<EventRecord>& calls() const { return calls_; }    // told of by events

  std::vector<std::string> EventKinds() const;

 private:
  void MoveTo(uint64_t monotonic_ns);
  void Tick();
  void Take(const SchedulerActions& actions);
  // nullptr, and the test has failed, if there is none.
  const Response* GoodReply(RequestHandle handle) const;

  Now now_;
  std::unique_ptr<ObservedScheduler> machine_;
  bool save_at_once_ = true;
  std::optional<Persist> save_;
  std::optional<PersistedState> last_saved_;
  uint64_t next_number_ = 1;
  std::map<RequestHandle, absl::StatusOr<Response>> replies_;
  std::map<WatcherId, std::vector<SendWatch>> watched_;
  std::map<WatcherId, std::vector<EventRecord>> followed_;
  std::map<WatcherId, absl::Status> closed_;
  std::vector<EventRecord> events_;
  std::vector<EventRecord> calls_;
  size_t saves_ = 0;
};

RegisterServer Server(const std::string& name, uint64_t incarnation, uint32_t port);
std::vector<JobRank> JobRanks(const std::vector<uint32_t>& numbers);
JoinJob Join(const std::string& job, uint32_t world_size, uint32_t rank, uint64_t incarnation);
JoinGroup Group(JobId job, uint32_t rank, uint64_t incarnation, const std::vector<uint32_t>& ranks,
                uint64_t wait_ms = 3000);
HeartbeatWorker Beat(JobId job, uint32_t rank, uint64_t incarnation);
// Everybody but these ranks, which are processes 100 + rank, and the server, which is process 11, is silent for so long
// that all others are lost.
void LoseAllRanksBut(MachineHarness* harness, JobId job, const std::vector<uint32_t>& ranks, ServerId server);
LeaveJob Leave(JobId job, uint32_t rank, uint64_t incarnation, bool failed = false, const std::string& reason = "");
JobView OnlyJob(MachineHarness& harness);

}  // namespace shoal::scheduler

#endif  // SHOAL_TESTS_UNIT_SCHEDULER_MACHINE_MACHINE_HARNESS_H_
