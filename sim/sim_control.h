// The control plane under virtual time: calls and streams from simulated servers and workers to simulated schedulers.
//
// Calls and answers take time, fail with Unavailable while no scheduler is up and when theirs goes, and a stream breaks
// then and is opened again. While a scheduler that was deposed is still there, each call goes to any of those that
// are up. A caller can be cut off: what is on its way to it, or from it, arrives after that. One thread (the world's).
#ifndef SHOAL_SIM_SIM_CONTROL_H_
#define SHOAL_SIM_SIM_CONTROL_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "scheduler/rpc/control_host.h"
#include "sim/world.h"

namespace shoal::sim {

class SimControlHost;

class SimControl {
 public:
  using Answer = std::function<void(const absl::StatusOr<scheduler::Response>&)>;
  using Update = std::function<void(const scheduler::SendWatch&)>;

  struct Caller {
    std::weak_ptr<bool> alive;
    std::string name;
  };

  SimControl(World* world, uint64_t latency_ns) : world_(world), latency_ns_(latency_ns) {}

  // `answer` is called exactly once, from a world event, unless the caller is gone by then.
  void Call(Caller caller, scheduler::Request request, uint64_t timeout_ns, Answer answer);
  // Follows a job's losses and maps until the caller is gone; a broken stream is opened again by itself.
  void Watch(Caller caller, JobId job, Update update);

  // Until then nothing from the caller reaches a scheduler (true) or nothing from a scheduler the caller (false).
  void Cut(const std::string& caller, bool from_caller, uint64_t until_ns);
  // Until then a scheduler hears the caller's calls, and their answers are lost: the calls break.
  void LoseAnswers(const std::string& caller, uint64_t until_ns) { answers_lost_[caller] = until_ns; }
  // Until then streams tell the caller nothing; its calls are answered.
  void HoldStreams(const std::string& caller, uint64_t until_ns) { streams_held_[caller] = until_ns; }

 private:
  friend class SimControlHost;
  struct PendingCall {
    Caller caller;
    Answer answer;
    uint64_t host = 0;  // 0: on its way
  };
  struct Watcher {
    Caller caller;
    JobId job;
    Update update;
    uint64_t host = 0;
    uint64_t last_ns = 0;  // arrival of its newest update: a stream keeps its order
  };

  uint64_t Delay() { return latency_ns_ + world_->random().Below(latency_ns_ + 1); }
  uint64_t TimeFrom(const std::string& caller);
  uint64_t TimeTo(const std::string& caller, bool stream);
  SimControlHost* AnyHost();
  void End(scheduler::RequestHandle handle, const absl::StatusOr<scheduler::Response>& response);
  void OpenStream(Watcher watcher);
  // What it had is lost.
  void HostIsGone(uint64_t host);
  void Deliver(scheduler::WatcherId id, const scheduler::SendWatch& update);

  World* world_;
  uint64_t latency_ns_;
  uint64_t next_host_ = 1;
  uint64_t next_handle_ = 1;
  uint64_t next_watcher_ = 1;
  std::map<uint64_t, SimControlHost*> hosts_;  // that are up
  std::map<scheduler::RequestHandle, PendingCall> calls_;
  std::map<scheduler::WatcherId, Watcher> watchers_;
  std::map<std::string, uint64_t> cut_from_;
  std::map<std::string, uint64_t> cut_to_;
  std::map<std::string, uint64_t> answers_lost_;
  std::map<std::string, uint64_t> streams_held_;
};

// One scheduler's end; up as long as it exists.
class SimControlHost : public scheduler::ControlHost {
 public:
  explicit SimControlHost(SimControl* control);
  ~SimControlHost() override;

  std::optional<scheduler::SchedulerEvent> Poll() override;
  void Execute(const scheduler::Reply& reply) override;
  void Execute(const scheduler::SendWatch& update) override;
  // Nobody reads the events of a simulated scheduler.
  void Execute(const scheduler::SendEvent&) override {}
  void Execute(const scheduler::CloseStream& close) override;
  void SetWake(std::function<void()> wake) override { wake_ = std::move(wake); }

 private:
  friend class SimControl;
  void Arrive(scheduler::SchedulerEvent event);

  SimControl* control_;
  uint64_t number_;
  std::deque<scheduler::SchedulerEvent> inbox_;
  std::function<void()> wake_ = [] {};
};

}  // namespace shoal::sim

#endif  // SHOAL_SIM_SIM_CONTROL_H_
