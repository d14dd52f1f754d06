// What the ranks of a simulated job reduce, and the result that they must get.
//
// One in three sums of each op depends on the order in which the ranks are summed; the others are exact in every dtype
// and order.
#ifndef SHOAL_SIM_OP_TRUTH_H_
#define SHOAL_SIM_OP_TRUTH_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/wire_format.h"

namespace shoal::sim {

// One op of the workload: the same on every rank that follows the plan.
struct OpPlan {
  uint64_t elements = 1;
  DataType dtype = DataType::kFloat32;
  ReduceOp reduce_op = ReduceOp::kSum;
  bool order_matters = false;  // of the ranks in the sum
  uint64_t base = 0;           // of the contributions
};

OpPlan PlanOp(uint64_t seed, uint32_t job, const std::string& group, uint64_t op, WireFormat wire);
std::vector<std::byte> Contribution(const OpPlan& plan, uint32_t rank);
std::vector<std::byte> ExpectedResult(const OpPlan& plan, uint32_t ranks);

}  // namespace shoal::sim

#endif  // SHOAL_SIM_OP_TRUTH_H_
