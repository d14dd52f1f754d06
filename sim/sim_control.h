// The control plane under virtual time: calls and streams from simulated servers and workers to simulated schedulers.
//
// Calls and answers take time, fail with Unavailable while no scheduler is up and when theirs goes, and a stream breaks
// then. Of several schedulers each call goes to any one that its caller's connections lead to: the one that leads, one
// that was deposed and is still there, or a follower, which passes calls on to the leader and refuses them while it
// knows of none. One that stands still takes calls and says nothing; over connections that were made while it did, it
// is not called. A caller can be cut off: what is on its way to it, or from it, arrives after that. One thread (the
// world's).
#ifndef SHOAL_SIM_SIM_CONTROL_H_
#define SHOAL_SIM_SIM_CONTROL_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "scheduler/rpc/control_host.h"
#include "sim/world.h"

namespace shoal::sim {

class SimControlHost;
class SimFollower;

class SimControl {
 public:
  using Answer = std::function<void(const absl::StatusOr<scheduler::Response>&)>;
  using TakeUpdate = std::function<void(const scheduler::SendWatch&)>;
  using TakeEvent = std::function<void(const scheduler::EventRecord&)>;
  using Ended = std::function<void(const absl::Status&)>;

  struct Caller {
    std::weak_ptr<bool> alive;
    std::string name;
    // World time at which its connections were made; nullopt: the control plane makes new ones for it whenever a call
    // got no answer.
    std::optional<uint64_t> connected_ns = std::nullopt;
  };

  SimControl(World* world, uint64_t latency_ns) : world_(world), latency_ns_(latency_ns) {}

  // Called when a caller learns that a scheduler is not there, or does not answer.
  void SetOnUnanswered(std::function<void()> on_unanswered) { on_unanswered_ = std::move(on_unanswered); }
  // `answer` is called exactly once, from a world event, unless the caller is gone by then or the call is cancelled.
  scheduler::RequestHandle Call(Caller caller, scheduler::Request request, uint64_t timeout_ns, Answer answer);
  void Cancel(scheduler::RequestHandle handle);
  // Follows a job's losses and maps, or reads events, until the stream ends or breaks (`ended` is called once), is
  // closed here, or the caller is gone. `opened` without its watcher.
  scheduler::WatcherId OpenWatch(Caller caller, scheduler::WatchOpened opened, TakeUpdate take, Ended ended);
  scheduler::WatcherId OpenEvents(Caller caller, scheduler::EventsOpened opened, TakeEvent take, Ended ended);
  void CloseStream(scheduler::WatcherId stream);

  // The caller's process has ended, and its kernel closes its connections. What it has asked may still arrive.
  void CallerEnded(const std::string& caller);

  // Until then nothing from the caller reaches a scheduler (true) or nothing from a scheduler the caller (false).
  void Cut(const std::string& caller, bool from_caller, uint64_t until_ns);
  // Until then a scheduler hears the caller's calls, and their answers are lost: the calls break.
  void LoseAnswers(const std::string& caller, uint64_t until_ns) { answers_lost_[caller] = until_ns; }
  // Until then streams tell the caller nothing; its calls are answered.
  void HoldStreams(const std::string& caller, uint64_t until_ns) { streams_held_[caller] = until_ns; }

  // Of ranks, on servers, that were answered while the group stayed where it was.
  uint64_t reports_without_move() const { return reports_without_move_; }

 private:
  friend class SimControlHost;
  friend class SimFollower;

  // Where a call or stream has got to.
  struct Route {
    uint64_t host = 0;      // 0: on its way
    uint64_t follower = 0;  // that passes it on; 0: none
  };
  struct PendingCall {
    Caller caller;
    scheduler::Request request;
    Answer answer;
    Route route;
  };
  struct Stream {
    Caller caller;
    scheduler::SchedulerEvent opened;  // WatchOpened or EventsOpened
    TakeUpdate take_update;            // of the one
    TakeEvent take_event;              // of the other
    Ended ended;
    Route route;
    uint64_t last_ns = 0;                       // arrival of the newest that was sent: a stream keeps its order
    std::deque<scheduler::EventRecord> unread;  // events that have not arrived yet
    bool ends = false;                          // its end has been sent: nothing follows
  };

  uint64_t Delay() { return latency_ns_ + world_->random().Below(latency_ns_ + 1); }
  uint64_t TimeFrom(const std::string& caller);
  uint64_t TimeTo(const Caller& caller, const Route& route, bool stream);
  // Brings something to a scheduler that the caller's connections lead to: `arrive` is called with its host. `refuse`:
  // there is none.
  using Arrive = std::function<void(SimControlHost* host, uint64_t follower)>;
  using Refuse = std::function<void(const std::string& why)>;
  // `on_way`: the follower has it now, and breaks it when it ends.
  using OnWay = std::function<void(uint64_t follower)>;
  void Dispatch(const Caller& caller, const Arrive& arrive, const OnWay& on_way, const Refuse& refuse,
                uint32_t attempts = 0);
  void PassOn(uint64_t follower, const Arrive& arrive, const Refuse& refuse);
  // Does it when the follower does not stand still; not if it has gone.
  void WhenAwake(uint64_t follower, std::function<void()> what);
  uint64_t ConnectedNs(const Caller& caller) const;
  // Whose turn of those that the caller's connections lead to: each in turn, the first one by chance (round_robin of
  // proto/scheduler_channel.cc).
  uint64_t TakeTurn(const Caller& caller);
  // Does it when the follower does not stand still, and something gets through between it and the leader; at once if
  // there is no follower, and not if it has gone.
  void Through(uint64_t follower, std::function<void()> what);
  void End(scheduler::RequestHandle handle, const absl::StatusOr<scheduler::Response>& response);
  void Break(scheduler::RequestHandle handle, const absl::Status& why);
  scheduler::WatcherId Open(scheduler::WatcherId id, Stream stream);
  // What the scheduler sends on a stream: done at the reader's end, after all that was sent before.
  void SendOn(Stream* stream, const std::function<void()>& arrive);
  // The scheduler ends it, after all that was sent before.
  void EndStream(scheduler::WatcherId id, const absl::Status& status);
  // The connection breaks: what was sent may be lost.
  void BreakStream(scheduler::WatcherId id, const absl::Status& why);
  void StreamEnded(scheduler::WatcherId id, const absl::Status& status);
  template <typename Concerns>
  void BreakAll(const Concerns& concerns, const absl::Status& why);
  // What it had is lost.
  void HostIsGone(uint64_t host);
  void HostCame(uint64_t host);
  void Deliver(scheduler::WatcherId id, const scheduler::SendWatch& update);
  void DeliverEvent(scheduler::WatcherId id);  // the oldest that is unread

  World* world_;
  uint64_t latency_ns_;
  std::function<void()> on_unanswered_ = [] {};
  uint64_t next_number_ = 1;  // of hosts and followers
  uint64_t next_handle_ = 1;
  uint64_t next_watcher_ = 1;
  std::map<uint64_t, SimControlHost*> hosts_;   // that are up
  std::map<uint64_t, SimFollower*> followers_;  // likewise
  std::map<scheduler::RequestHandle, PendingCall> calls_;
  std::map<scheduler::WatcherId, Stream> streams_;
  struct Turn {
    uint64_t connected_ns = 0;
    uint64_t next = 0;
  };
  std::map<std::string, Turn> turns_;             // by caller
  std::map<std::string, uint64_t> connected_ns_;  // of callers that leave it to us
  std::map<std::string, uint64_t> cut_from_;
  std::map<std::string, uint64_t> cut_to_;
  std::map<std::string, uint64_t> answers_lost_;
  std::map<std::string, uint64_t> streams_held_;
  uint64_t reports_without_move_ = 0;
};

// A process that may stand still for a while: connections to it stay, and it says nothing.
class SimStillness {
 public:
  void StandStill(uint64_t now_ns, uint64_t until_ns) {
    if (!At(now_ns)) since_ns_ = now_ns;
    until_ns_ = std::max(until_ns_, until_ns);
  }
  bool At(uint64_t now_ns) const { return now_ns < until_ns_; }
  // Connections made then lead to it now.
  bool IsReachedFrom(uint64_t connected_ns, uint64_t now_ns) const { return !At(now_ns) || connected_ns < since_ns_; }
  uint64_t until_ns() const { return until_ns_; }

 private:
  uint64_t since_ns_ = 0;
  uint64_t until_ns_ = 0;
};

// One scheduler's end; up as long as it exists.
class SimControlHost : public scheduler::ControlHost {
 public:
  explicit SimControlHost(SimControl* control);
  ~SimControlHost() override;

  std::optional<scheduler::SchedulerEvent> Poll() override;
  void Execute(const scheduler::Reply& reply) override;
  void Execute(const scheduler::SendWatch& update) override;
  void Execute(const scheduler::SendEvent& event) override;
  void Execute(const scheduler::CloseStream& close) override;
  void SetWake(std::function<void()> wake) override { wake_ = std::move(wake); }

  void StandStillUntil(uint64_t world_ns);
  // Of all hosts and followers.
  uint64_t number() const { return number_; }

 private:
  friend class SimControl;
  void Arrive(scheduler::SchedulerEvent event);
  // For a call or stream that arrives: it is refused.
  bool IsOverloaded() const { return inbox_.size() >= scheduler::kMaxQueuedEvents; }

  SimControl* control_;
  uint64_t number_;
  SimStillness stillness_;
  std::deque<scheduler::SchedulerEvent> inbox_;
  std::function<void()> wake_ = [] {};
};

// One of several schedulers, that does not lead: scheduler/leading/forwarding_host.h. Up as long as it exists.
class SimFollower {
 public:
  // `is_told`: by SetLeader, and not by itself, who leads.
  explicit SimFollower(SimControl* control, uint64_t lease_ttl_ns, bool is_told = false);
  ~SimFollower();
  SimFollower(const SimFollower&) = delete;
  SimFollower& operator=(const SimFollower&) = delete;

  void StandStillUntil(uint64_t world_ns);
  // Until then nothing gets through between it and the leader. It notices by and by (core/failure_detection.h).
  void CutFromLeaderUntil(uint64_t world_ns);
  // The number of the leader's host, whose calls it passes on from now on; 0: nobody leads. Those that it has passed on
  // to another one break.
  void SetLeader(uint64_t host);
  uint64_t leader() const { return leader_; }

 private:
  friend class SimControl;

  // Until when it takes the leader for silent, having noticed.
  bool TakesLeaderForSilent(uint64_t now_ns) const { return silent_from_ns_ <= now_ns && now_ns < silent_until_ns_; }

  SimControl* control_;
  const uint64_t lease_ttl_ns_;
  const bool is_told_;
  uint64_t number_;
  uint64_t leader_ = 0;  // the host that it passes calls on to; 0: knows of none
  SimStillness stillness_;
  uint64_t cut_until_ns_ = 0;
  uint64_t silent_from_ns_ = 0;
  uint64_t silent_until_ns_ = 0;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace shoal::sim

#endif  // SHOAL_SIM_SIM_CONTROL_H_
