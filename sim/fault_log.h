// When the faults of a simulation began, were noticed, were settled and ended, and which of them met.
//
// A fault goes through phases: nobody has noticed it; it was noticed, and no group has moved for it; a group has moved
// and has not worked since; it goes on and the groups work without what it took; it has ended, and what it took is
// coming back. For each pair of kinds it is counted how often the second began in which phase of the first: what never
// met was not tried. One thread.
#ifndef SHOAL_SIM_FAULT_LOG_H_
#define SHOAL_SIM_FAULT_LOG_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "core/ids.h"
#include "sim/fault.h"

namespace shoal::sim {

enum class FaultPhase : uint8_t { kUnnoticed, kNoticed, kSettling, kGoingOn, kHealing };
inline constexpr size_t kFaultPhaseCount = 5;
std::string_view FaultPhaseName(FaultPhase phase);

// Victims beside processes and nodes.
inline constexpr char kScheduler[] = "<scheduler>";
inline constexpr char kStore[] = "<store>";
inline constexpr char kPayloads[] = "<payloads>";  // of all jobs, also of those that begin later

// How often faults of the second kind began while one of the first kind was in each phase.
class FaultMeetings {
 public:
  using PhaseCounts = std::array<uint64_t, kFaultPhaseCount>;

  void Count(FaultKind first, FaultKind second, FaultPhase phase) { ++counts_[Index(first, second)][size_t(phase)]; }
  void Add(const FaultMeetings& other);
  uint64_t Of(FaultKind first, FaultKind second) const;
  uint64_t Of(FaultKind first, FaultKind second, FaultPhase phase) const {
    return counts_[Index(first, second)][size_t(phase)];
  }
  // By the names of the first and of the second kind.
  std::map<std::string, std::map<std::string, PhaseCounts>> Counts() const;

 private:
  static size_t Index(FaultKind first, FaultKind second) { return size_t(first) * kFaultKindCount + size_t(second); }

  std::vector<PhaseCounts> counts_{kFaultKindCount * kFaultKindCount};
};

class FaultLog {
 public:
  // `healing_ns`: how long what a fault took may need to come back.
  explicit FaultLog(uint64_t healing_ns) : healing_ns_(healing_ns) {}

  // `victims`: processes that the fault concerns. `end_ns`: now, if what it did is done at once.
  void Begin(FaultKind kind, std::vector<std::string> victims, uint64_t now_ns, uint64_t end_ns);
  // Somebody lost one or several of the nodes and processes that the text names.
  void Noticed(std::string_view text);
  // A group was given a new map.
  void Moved(GroupId group);
  // An op of the group has ended well.
  void Worked(GroupId group);

  // A fault that has begun has not ended yet, and it is not known when it will.
  void GoesOn(uint64_t now_ns) {
    goes_on_ns_ = now_ns;
    last_end_ns_ = std::max(last_end_ns_, now_ns);
    well_again_ns_ = std::max(well_again_ns_, now_ns + healing_ns_);
  }

  // When the last fault that has begun ends; 0: none has begun.
  uint64_t last_end_ns() const { return last_end_ns_; }
  // The same of those whose victims are not all foreign: without the faults that hit other jobs' ranks alone.
  uint64_t LastEndNs(absl::FunctionRef<bool(const std::string& victim)> is_foreign) const;
  size_t begun() const { return faults_.size(); }
  const FaultMeetings& meetings() const { return meetings_; }
  uint64_t BegunSince(uint64_t begin_ns) const;
  // Whether a fault that concerns one of the processes may still be the cause of something: it was done at once, and
  // may be noticed late, or it, or one that began before all was well again, lasts or heals.
  bool Concerns(const std::set<std::string>& processes, uint64_t now_ns) const;
  // Whether one has begun after which schedulers may take servers for lost that are not, or for others.
  bool MisleadSchedulers() const { return mislead_schedulers_; }

 private:
  struct Begun {
    FaultKind kind;
    std::vector<std::string> victims;
    uint64_t begin_ns = 0;
    uint64_t end_ns = 0;
    bool noticed = false;
    bool moved = false;
    bool settled = false;
    std::set<GroupId> moving;  // groups that have not worked since they moved for it
  };

  // False: it is over.
  bool PhaseOf(const Begun& fault, uint64_t now_ns, FaultPhase* phase) const;

  const uint64_t healing_ns_;
  uint64_t last_end_ns_ = 0;
  uint64_t goes_on_ns_ = 0;
  uint64_t well_again_ns_ = 0;   // after the last fault that has begun
  size_t first_since_well_ = 0;  // of the faults
  bool mislead_schedulers_ = false;
  std::vector<Begun> faults_;
  FaultMeetings meetings_;
};

}  // namespace shoal::sim

#endif  // SHOAL_SIM_FAULT_LOG_H_
