// What must hold in every simulation, checked from outside.
//
//   exactly once  a result that a rank gets is right: every rank's contribution is in it once (I2), summed in rank
//                 order, with rails node by node (I1); contributions differ by rank and position, so a missing, doubled
//                 or misplaced one shows
//   layout        a group reduces within its nodes where it is to, and nowhere else
//   local memory  what ranks share on a node is given up when they have closed their groups or are gone
//   agreement     all ranks that get a result of an op have the same bits (I1)
//   one map       all ranks that hear of a group's epoch hear of the same shards in it (I4)
//   one plan      all ranks of a group work with the same chunks and credit, which follow from the fastest link that
//                 they have measured, and what is under way to a port fits it (core/flow_plan.h) as long as the group
//                 is on the servers that it was planned for
//   waits         what a rank tells of how long it waited for servers is possible
//   bounds        a server's memory and tables never exceed what it was given at start-up (I7)
//   ownership     memory of an op that has ended is not touched any more, nor is memory that is being sent before its
//                 kSent
//   isolation     a job that no destructive fault hit succeeds (I8); with benign faults alone, every job does
//   lost rank     the survivors' ops end soon after a rank's death, or its end of the group, or the first failure of an
//                 op of the group on any rank, not at their deadline (I8)
//   message       the error of an op that fails names the rank that a fault hit, or says what was done to it; want of
//                 memory has the code for it on all ranks
//   healing       when all faults have ended, a group works within a lease and a second (I10): an op that all ranks
//                 have called ends within that time, or after the one before it; a group that all ranks have closed
//                 is left
//   loans         what a server borrows is not written to, and is returned once
//   steps         a worker's round looks at no more connections for all the servers that have come and gone
//   liveness      every op ends, every process ends, and servers are empty when all workers have gone
//
// wire_audit.h checks the messages between workers and servers.
#ifndef SHOAL_SIM_CHECKERS_H_
#define SHOAL_SIM_CHECKERS_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "core/flow_plan.h"
#include "core/shard_map.h"
#include "server/machine/server_counters.h"
#include "sim/fault_log.h"
#include "sim/op_truth.h"
#include "sim/sim_transport.h"
#include "sim/world.h"
#include "worker/machine/group_info.h"
#include "worker/machine/server_wait_book.h"

namespace shoal::sim {

// Checks that may be told to look away from a run of a job. That is counted: a run that nobody looks at shows nothing.
enum class ExcusableCheck : uint8_t { kIsolation, kLostRank, kHealing, kUntouched };
inline constexpr size_t kExcusableChecks = 4;
std::string_view ExcusableCheckName(ExcusableCheck check);

// What a group's plan has to follow from.
struct PlanFacts {
  uint32_t asked_chunk_bytes = 0;  // 0: any
  LinkFacts link;                  // the best that its ranks have measured
  uint64_t port_buffer_bytes = 0;  // what the scheduler was told that ports hold; 0: nothing
  uint32_t ranks_of_job = 0;       // 0: not to be checked
};

class Checkers {
 public:
  // `healing_ns`: how long a group may take to work again when all faults have ended (I10).
  // `last_fault_ended_ns`: of those that concern a run of a job.
  Checkers(World* world, std::function<uint64_t(uint32_t job)> last_fault_ended_ns, uint64_t healing_ns)
      : world_(world), last_fault_ended_ns_(std::move(last_fault_ended_ns)), healing_ns_(healing_ns) {}

  void Excuse(ExcusableCheck check, uint32_t job) { excused_[static_cast<size_t>(check)].insert(job); }
  bool IsExcused(ExcusableCheck check, uint32_t job) const {
    return excused_[static_cast<size_t>(check)].contains(job);
  }
  // Runs that each check was told to look away from.
  std::array<uint64_t, kExcusableChecks> excuses() const;

  // The text names the check that failed, in brackets.
  void Fail(const std::string& what);
  const std::vector<std::string>& failures() const { return failures_; }

  // A rank calls an op; of all ranks the last call counts.
  void OpCalled(uint32_t job, const std::string& group, uint64_t op);
  // A rank closes the group, whose ops it has made; it has left it.
  void GroupCloseCalled(uint32_t job, const std::string& group);
  void GroupClosed(uint32_t job, const std::string& group, size_t ranks);
  // `rank` in the group, whose ranks in the job are `job_ranks`.
  void OpEnded(uint32_t job, const std::string& group, uint64_t op, uint64_t called_ns, uint32_t rank,
               const std::vector<uint32_t>& job_ranks, const SumOrder& order, const OpPlan& plan,
               const absl::Status& status, const std::vector<std::byte>& memory);
  // What an error says where the servers that are left have too little memory (F20): that group has not what it needs.
  static constexpr char kNoMemory[] = "has no memory for the slots";
  // Of a group, or an op, that has failed: want of memory, and nothing else, is RESOURCE_EXHAUSTED on all ranks,
  // whoever heard it first (F21). A rank that passes an error on does not name its rank again.
  void CheckCode(const std::string& where, const absl::Status& status);
  // A fault of the run takes the scheduler's state.
  void SchedulerForgets() { scheduler_forgets_ = true; }
  // Ops of the job may fail now, with an error that has this text.
  void MayFailFor(uint32_t job, const std::string& text) { texts_[job].insert(text); }
  bool MayFail(uint32_t job) const { return texts_.contains(job); }
  // A rank leaves the job in good order; how many of them do, or have.
  void RankLeaves(uint32_t job) { ++ranks_that_leave_[job]; }
  uint32_t RanksThatLeave(uint32_t job) const {
    const auto found = ranks_that_leave_.find(job);
    return found == ranks_that_leave_.end() ? 0 : found->second;
  }
  // Ops of its groups must have ended by then.
  void RankDied(uint32_t job, uint32_t job_rank, uint64_t all_know_by_ns) {
    all_know_by_ns_.try_emplace({job, job_rank}, all_know_by_ns);
  }
  // It stands still, so that it knows of nothing before then.
  void RankStandsStill(uint32_t job, uint32_t job_rank, uint64_t until_ns) {
    uint64_t& still_until_ns = still_until_ns_[{job, job_rank}];
    still_until_ns = std::max(still_until_ns, until_ns);
  }
  // The only scheduler ended with a rank: what has not been told by then may come as late as that.
  void SchedulerEnded(uint64_t all_know_by_ns) {
    for (auto& [rank, known_ns] : all_know_by_ns_) {
      if (known_ns > world_->now_ns()) known_ns = std::max(known_ns, all_know_by_ns);
    }
  }
  // A rank gives the group up, before any op of it has failed.
  void RankGivesUp(uint32_t job, const std::string& group) { on_group_failed_(job, group); }
  // Called when the first op of a group has failed on a rank: they are to fail on all.
  void SetOnGroupFailed(std::function<void(uint32_t job, const std::string& group)> on_group_failed) {
    on_group_failed_ = std::move(on_group_failed);
  }
  // A rank gives the group up, or has lost it: its ops must have ended on all ranks by then.
  void GroupGivenUp(uint32_t job, const std::string& group, uint64_t all_know_by_ns) {
    given_up_by_ns_.try_emplace({job, group}, all_know_by_ns);
  }
  // From now on nothing may write to the memory; it is kept and compared again at the end.
  void Bury(std::string whose, std::vector<std::byte> memory);
  // True if nobody has told of this epoch of the group before, and it is not its first.
  bool SawMap(GroupId group, const ShardMap& map);
  // Of a rank's group with servers, in a job of so many ranks.
  void CheckPlan(const GroupInfo& group, const PlanFacts& facts);
  void CheckServerWaits(const std::string& worker, const std::vector<ServerWaitWindow>& windows);
  void CheckServerBounds(const std::string& server, const ServerCounters& counters, uint64_t slot_memory_bytes);
  void CheckServerEmpty(const std::string& server, const ServerCounters& counters);
  void CheckGraves();
  void CheckNetwork(const SimNetwork& network);

  // Of an open job, which RosterChecks looks at.
  void CountOp(bool ok) { ++(ok ? ops_ok_ : ops_failed_); }
  // Whether an error of the job may have this text.
  bool MaySay(uint32_t job, const std::string& text) const;

  uint64_t ops_ok() const { return ops_ok_; }
  uint64_t ops_failed() const { return ops_failed_; }
  // What the first op of the job that failed ended with; "" if none has.
  std::string first_error_of(uint32_t job) const;
  uint64_t refusals() const { return refusals_; }
  uint64_t preemptions() const { return preemptions_; }
  // Groups whose chunks the product's plan has chosen.
  uint64_t chunks_chosen() const { return chunks_chosen_; }
  // Between tensors on devices and host memory.
  void CountDeviceCopies(uint64_t copies) { device_copies_ += copies; }
  uint64_t device_copies() const { return device_copies_; }
  // How often ranks told for how long they waited for servers.
  uint64_t server_waits_told() const { return server_waits_told_; }

 private:
  struct Truth {
    std::vector<std::byte> expected;
    uint64_t told_digest = 0;  // of the result that the first rank got
    uint32_t told = 0;         // ranks
    uint32_t called = 0;       // likewise
    uint64_t called_ns = 0;    // by the last of them
    bool failed = false;       // on a rank, which does not take part any more
  };
  struct Closing {
    size_t called = 0;       // by ranks
    uint64_t called_ns = 0;  // by the last of them
  };
  struct Grave {
    std::string whose;
    std::vector<std::byte> memory;
  };

  // `worked_ns`: when the rank's last op of the group had ended.
  void CheckHealing(uint32_t job, const Truth& truth, uint64_t worked_ns, size_t ranks, const absl::Status& status,
                    absl::FunctionRef<std::string()> where);

  World* world_;
  const std::function<uint64_t(uint32_t job)> last_fault_ended_ns_;
  const uint64_t healing_ns_;
  bool scheduler_forgets_ = false;
  std::array<std::set<uint32_t>, kExcusableChecks> excused_;
  std::vector<std::string> failures_;
  std::map<std::tuple<uint32_t, std::string, uint64_t>, Truth> truths_;
  std::map<std::pair<GroupId, Epoch>, std::vector<Shard>> maps_;
  std::map<GroupId, FlowPlan> plans_;
  std::map<uint32_t, uint32_t> ranks_that_leave_;                        // by job
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> all_know_by_ns_;     // by job and rank
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> still_until_ns_;     // likewise
  std::map<std::pair<uint32_t, std::string>, uint64_t> given_up_by_ns_;  // by job and group
  std::set<std::pair<uint32_t, std::string>> failed_groups_;             // likewise
  std::function<void(uint32_t, const std::string&)> on_group_failed_ = [](uint32_t, const std::string&) {};
  std::map<std::tuple<uint32_t, std::string, uint32_t>, uint64_t> worked_ns_;  // by job, group and its rank
  std::map<std::pair<uint32_t, std::string>, Closing> closings_;               // by job and group
  std::vector<Grave> graves_;
  uint64_t ops_ok_ = 0;
  uint64_t ops_failed_ = 0;
  std::map<uint32_t, std::string> first_errors_;     // by job
  std::map<uint32_t, std::set<std::string>> texts_;  // likewise: one of them is in each error
  uint64_t refusals_ = 0;
  uint64_t preemptions_ = 0;
  uint64_t chunks_chosen_ = 0;
  uint64_t device_copies_ = 0;
  uint64_t server_waits_told_ = 0;
};

}  // namespace shoal::sim

#endif  // SHOAL_SIM_CHECKERS_H_
