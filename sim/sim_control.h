// The control plane under virtual time: the scheduler's ControlHost port, and calls from simulated servers and workers.
//
// Calls and answers take time, fail with Unavailable while the scheduler is down and when it goes, and a stream breaks
// then. One thread (the world's).
#ifndef SHOAL_SIM_SIM_CONTROL_H_
#define SHOAL_SIM_SIM_CONTROL_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "scheduler/control_host.h"
#include "sim/world.h"

namespace shoal::sim {

class SimControl : public scheduler::ControlHost {
 public:
  using Answer = std::function<void(const absl::StatusOr<scheduler::Response>&)>;
  using Update = std::function<void(const scheduler::SendWatch&)>;

  SimControl(World* world, uint64_t latency_ns) : world_(world), latency_ns_(latency_ns) {}

  // ---- the callers' side ----
  // `answer` is called exactly once, from a world event, unless `caller` is gone by then.
  void Call(std::weak_ptr<bool> caller, scheduler::Request request, uint64_t timeout_ns, Answer answer);
  // Follows a job's losses until the caller is gone; a broken stream is opened again by itself.
  void Watch(std::weak_ptr<bool> caller, JobId job, Update update);

  // ---- the scheduler's side ----
  // Down: what is under way is lost.
  void SetUp(bool up);
  std::optional<scheduler::SchedulerEvent> Poll() override;
  void Execute(const scheduler::Reply& reply) override;
  void Execute(const scheduler::SendWatch& update) override;
  void Execute(const scheduler::SendEvent& event) override;
  void Execute(const scheduler::CloseStream& close) override;
  void SetWake(std::function<void()> wake) override { wake_ = std::move(wake); }

 private:
  struct PendingCall {
    std::weak_ptr<bool> caller;
    Answer answer;
  };
  struct Watcher {
    std::weak_ptr<bool> caller;
    JobId job;
    Update update;
  };

  void Arrive(scheduler::SchedulerEvent event);
  void End(scheduler::RequestHandle handle, const absl::StatusOr<scheduler::Response>& response);
  void OpenStream(const Watcher& watcher);
  uint64_t Delay() { return latency_ns_ + world_->random().Below(latency_ns_ + 1); }

  World* world_;
  uint64_t latency_ns_;
  bool up_ = false;
  uint64_t life_ = 0;  // of the scheduler: answers of an earlier one are lost
  uint64_t next_handle_ = 1;
  uint64_t next_watcher_ = 1;
  std::map<scheduler::RequestHandle, PendingCall> calls_;
  std::map<scheduler::WatcherId, Watcher> watchers_;
  std::deque<scheduler::SchedulerEvent> inbox_;
  std::function<void()> wake_ = [] {};
};

}  // namespace shoal::sim

#endif  // SHOAL_SIM_SIM_CONTROL_H_
