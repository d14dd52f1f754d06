// How the processes of a simulated open job agree on who is in their next group, as a lighthouse of torchft does it:
// not the product's business.
//
// A meeting ends when all that are there want one, or some time after the first one did; those who want it then are its
// members. Processes that die are known to be gone at once, and those that stand still are waited for that time: what
// the scheduler knows of either comes sooner or later than that. One thread (the world's).
#ifndef SHOAL_SIM_RENDEZVOUS_H_
#define SHOAL_SIM_RENDEZVOUS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/ids.h"
#include "sim/world.h"

namespace shoal::sim {

struct Meeting {
  uint32_t number = 0;            // from 1
  std::vector<uint32_t> members;  // ranks of the job, in order; none: there are no more meetings
  std::vector<uint32_t> nodes;    // of each of them
};

class Rendezvous {
 public:
  using Told = std::function<void(const Meeting&)>;

  Rendezvous(World* world, uint32_t meetings, uint64_t until_ns, uint64_t patience_ns)
      : world_(world), meetings_(meetings), until_ns_(until_ns), patience_ns_(patience_ns) {}

  // The process is there, and will want a meeting; it ends, or has died.
  void Come(const std::string& process) { processes_[process]; }
  void Go(const std::string& process);
  // It wants to be in the next meeting; `told` is called later, unless it has gone by then. A job that has ended may be
  // followed by another one under its name: only those of the newest one meet.
  void Want(const std::string& process, JobId job, JobRank rank, uint32_t node, Told told);
  bool is_over() const { return over_; }
  uint32_t held() const { return held_; }

 private:
  struct Process {
    JobId job;
    JobRank rank;
    uint32_t node = 0;
    Told told;  // null: it wants none
  };

  bool AllWantOne() const;
  void Meet();

  World* const world_;
  const uint32_t meetings_;  // at most
  const uint64_t until_ns_;  // 0: for ever
  const uint64_t patience_ns_;
  std::map<std::string, Process> processes_;
  uint32_t held_ = 0;
  uint64_t wait_ = 0;  // counts the times that a first one wanted a meeting
  bool waits_ = false;
  bool over_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace shoal::sim

#endif  // SHOAL_SIM_RENDEZVOUS_H_
