// What must hold of ops in groups of open jobs, whose ranks die, leave and come (docs/failover.md, F22 to F24). A part
// of the checkers.
//
//   one roster    all ranks that hear of a group's epoch hear of the same ranks in it
//   contributors  each chunk of a result is made of the contributions of one roster that the group has had, in rank
//                 order (I1, I2); the op tells how many these were at least and at most, and what ranks have the
//                 scheduler write down says it of each element
//   agreement     all ranks that get a result of an op, and are not lost, have the same bits, and are told the same
//                 numbers of contributors
//   goes on       in a group that goes on without lost ranks an op fails only where too few are left, on a rank that
//                 a fault hit, or with rails on one of such a rank's node, and then the error says so
//
// With rails each part of a tensor is reduced by the rosters of its rail, whose ranks are the group's nodes.
//   message       in another group the error names a rank that a fault hit, or that has left
//   healing       an op ends within a lease and a second after its ranks have called it, all know of those that do not,
//                 and faults have ended
#ifndef SHOAL_SIM_ROSTER_CHECKS_H_
#define SHOAL_SIM_ROSTER_CHECKS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/bucket_plan.h"
#include "core/ids.h"
#include "core/node_parts.h"
#include "core/partial_op.h"
#include "core/roster.h"
#include "sim/op_truth.h"
#include "sim/world.h"
#include "worker/machine/worker_outcomes.h"

namespace shoal::sim {

// What one rail reduces of an op; without rails all of it.
struct PartOfOp {
  ElementRange elements;
  BucketPlan chunks;  // of these elements
};

// An op on one of the ranks that called it.
struct OpOfRoster {
  uint32_t run = 0;
  GroupId group;                  // the whole one
  std::string name;               // of the group, in its run
  std::vector<uint32_t> members;  // of the job, by rank of the group
  uint32_t rank = 0;
  uint64_t number = 0;
  OpPlan plan;
  SumOrder order;               // of all ranks
  std::vector<PartOfOp> parts;  // by rail
  bool goes_on = false;
  bool scales_sums = false;
  bool was_hit = false;  // a fault has hit this rank, so that its ops may end anyhow
};

class RosterChecks {
 public:
  // In the error of an op whose node is not in its group any more.
  static constexpr char kNodeIsOut[] = "this rank is on that node, which is out of group";

  struct Ports {
    World* world;
    std::function<void(const std::string&)> fail;
    std::function<uint64_t(uint32_t run)> last_fault_ended_ns;  // of those that concern it
    // Whether an error of the run may have this text.
    std::function<bool(uint32_t run, const std::string& text)> may_say;
    std::function<bool(uint32_t run)> may_take_long;  // nobody can say when its ops end
  };

  RosterChecks(Ports ports, uint64_t healing_ns) : ports_(std::move(ports)), healing_ns_(healing_ns) {}

  // Of a group with rails, which is named by its first one. Without rails it is its own.
  void SawRail(GroupId group, size_t index, GroupId rail) { rails_[{group, index}] = rail; }
  // A rank hears of an epoch of a group, or rail, with so many ranks.
  void SawRoster(GroupId group, Epoch epoch, uint32_t size, std::span<const std::byte> sealed);
  // A fault has hit this rank of the job, or it leaves a group before the others: ops of its node's other ranks may
  // end.
  void MayEnd(uint32_t run, uint32_t member) { may_end_.insert({run, member}); }
  bool AnyMayEnd(uint32_t run, const std::vector<uint32_t>& members) const;
  // All others know by then that this rank of the job is gone.
  void RankIsGone(uint32_t run, uint32_t member, uint64_t all_know_by_ns);
  void OpCalled(const OpOfRoster& op);
  void OpEnded(const OpOfRoster& op, const absl::Status& status, Contributors told,
               const std::vector<std::byte>& memory);
  // A rank has these written down.
  void SawPartialOps(const std::string& who, const std::vector<PartialOp>& ops);
  // A group could not be made or opened, or a rank could not stay in its job.
  void Refused(uint32_t run, const std::string& who, bool was_hit, const absl::Status& status);

  // Ops that ended well, by whether all of the group contributed, some to other chunks than others, or fewer to all.
  uint64_t whole() const { return whole_; }
  uint64_t mixed() const { return mixed_; }
  uint64_t fewer() const { return fewer_; }
  // Of the two last, those with rails; and ops that ended since a rank of their node was gone.
  uint64_t without_nodes() const { return without_nodes_; }
  uint64_t left_alone() const { return left_alone_; }
  // That were written down, by each rank that did.
  uint64_t written_down() const { return written_down_.size(); }

 private:
  using OpKey = std::tuple<uint32_t, std::string, uint64_t>;  // run, group and number

  struct Told {
    uint64_t digest = 0;
    Contributors contributors;

    friend bool operator==(const Told&, const Told&) = default;
  };
  struct Truth {
    uint64_t called_ns = 0;         // by the last rank that did
    std::map<uint32_t, Told> told;  // by rank
  };

  // The newest roster of each of its rails has the rank, or its node.
  bool IsIn(const OpOfRoster& op, uint32_t rank) const;
  // Those that the rail has had.
  std::vector<Roster> RostersOf(const OpOfRoster& op, size_t rail) const;

  void CheckTime(const OpOfRoster& op, const Truth& truth, const std::string& where);
  void CheckFailure(const OpOfRoster& op, const absl::Status& status, const std::string& where);
  // Of the first rank that has this one.
  void CheckResult(const OpOfRoster& op, Contributors told, const std::vector<std::byte>& memory,
                   const std::string& where);

  const Ports ports_;
  const uint64_t healing_ns_;
  std::map<std::pair<GroupId, Epoch>, Roster> rosters_;
  std::map<std::pair<GroupId, size_t>, GroupId> rails_;               // by group and index
  std::set<std::pair<uint32_t, uint32_t>> may_end_;                   // by run and member
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> all_know_by_ns_;  // by run and member
  std::map<OpKey, Truth> truths_;
  // Of an op's chunks: where each ends, and how many contributions it may have.
  std::map<std::pair<GroupId, OpNumber>, std::map<uint64_t, std::set<uint32_t>>> contributors_;
  std::set<std::tuple<std::string, GroupId, OpNumber>> written_down_;
  std::map<std::tuple<uint32_t, std::string, uint32_t>, uint64_t> worked_ns_;  // by run, group and rank
  uint64_t whole_ = 0;
  uint64_t mixed_ = 0;
  uint64_t fewer_ = 0;
  uint64_t without_nodes_ = 0;
  uint64_t left_alone_ = 0;
};

}  // namespace shoal::sim

#endif  // SHOAL_SIM_ROSTER_CHECKS_H_
