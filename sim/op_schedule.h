// How many ops each group of a simulated job has, the same on all of its ranks. One thread.
#ifndef SHOAL_SIM_OP_SCHEDULE_H_
#define SHOAL_SIM_OP_SCHEDULE_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace shoal::sim {

class OpSchedule {
 public:
  using GroupKey = std::pair<uint32_t, std::string>;  // run and name

  // Whether a rank calls this op, the next one of its group. Ops up to `most` are called before `until_ns`; once a rank
  // has found that it is too late, nobody calls an op that nobody has called yet.
  bool Calls(const GroupKey& group, uint64_t op, uint64_t most, uint64_t until_ns, uint64_t now_ns) {
    Ops& ops = ops_[group];
    if (op <= ops.newest) return true;
    ops.complete = ops.complete || op > most || now_ns >= until_ns;
    if (!ops.complete) ops.newest = op;
    return !ops.complete;
  }
  // Ops that some rank has called.
  uint64_t Called(const GroupKey& group) const {
    const auto found = ops_.find(group);
    return found == ops_.end() ? 0 : found->second.newest;
  }

 private:
  struct Ops {
    uint64_t newest = 0;
    bool complete = false;
  };
  std::map<GroupKey, Ops> ops_;
};

}  // namespace shoal::sim

#endif  // SHOAL_SIM_OP_SCHEDULE_H_
