// A simulated process (or thread of one): something that the world runs when it has been woken or its deadline has
// come.
//
// The process has a clock of its own: it starts anywhere, runs faster or slower than the world's by up to the profile's
// drift, and its wall clock is off by up to an hour, because the clocks of different nodes are independent. One thread
// (the world's).
#ifndef SHOAL_SIM_SIM_PROCESS_H_
#define SHOAL_SIM_SIM_PROCESS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/now.h"
#include "sim/profile.h"
#include "sim/world.h"

namespace shoal::sim {

class SimProcess {
 public:
  SimProcess(World* world, std::string name, const Profile& profile);
  virtual ~SimProcess();
  SimProcess(const SimProcess&) = delete;
  SimProcess& operator=(const SimProcess&) = delete;

  // Runs soon (not at once: another process gets its turn first, by chance).
  void Wake();
  // Nothing runs before then; a process that was woken meanwhile runs afterwards.
  void PauseUntil(uint64_t world_ns);
  const std::string& name() const { return name_; }
  bool IsPaused() const { return world_->now_ns() < paused_until_ns_; }

 protected:
  static constexpr int kMostRounds = 100'000;  // without time passing

  // Does what there is to do. Returns the next deadline on the process's clock (kNoDeadline: none).
  virtual uint64_t Run(Now now) = 0;

  World& world() { return *world_; }
  Now LocalNow() const;
  // Runs `what` after a delay on the process's clock, if the process is still there then; after a pause if there is
  // one.
  void After(uint64_t delay_ns, std::function<void()> what);
  // For world events that must not run when the process is gone: they hold this and check it first.
  std::weak_ptr<bool> alive() const { return alive_; }

 private:
  void RunNow();
  void RunAt(uint64_t world_ns, std::function<void()> what);
  void ScheduleAt(uint64_t world_ns);
  uint64_t WorldTime(uint64_t local_ns) const;

  World* world_;
  std::string name_;
  uint64_t wake_delay_ns_;
  uint64_t clock_offset_ns_;
  uint64_t clock_rate_;  // local nanoseconds in a million of the world's
  uint64_t unix_offset_ms_;
  uint64_t paused_until_ns_ = 0;
  uint64_t scheduled_ns_ = kNoDeadline;  // of the earliest run asked for
  std::shared_ptr<bool> alive_;
};

}  // namespace shoal::sim

#endif  // SHOAL_SIM_SIM_PROCESS_H_
