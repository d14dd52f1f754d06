// What the ranks of a simulated job reduce, and the result that they must get.
//
// Ops have one of three kinds of values. Small whole numbers, whose results this file works out itself, exact in every
// dtype and order, and on every wire. Float32 sums that depend on the order of the ranks, summed here in that order.
// Any bits at all (NaN, infinities, denormals, -0) in any dtype and op: what reduce/ makes of the contributions in that
// order, which its own tests compare with a reference. So it is with all that is
// sent as fp8, and with all but small whole numbers that are sent as int8.
#ifndef SHOAL_SIM_OP_TRUTH_H_
#define SHOAL_SIM_OP_TRUTH_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/wire_codec.h"
#include "core/wire_format.h"
#include "sim/node_layout.h"

namespace shoal::sim {

// One op of the workload: the same on every rank that follows the plan.
struct OpPlan {
  uint64_t elements = 1;
  DataType dtype = DataType::kFloat32;
  WireFormat wire = WireFormat::kAsIs;  // of blocks; the values are exact on the others
  ReduceOp reduce_op = ReduceOp::kSum;
  double premul_factor = 1;    // kPremulSum only
  bool order_matters = false;  // of the ranks in the sum
  bool any_bits = false;
  uint64_t base = 0;  // of the contributions

  WireCodec codec() const { return {dtype, wire}; }
};

// Of at most `most_elements`.
OpPlan PlanOp(uint64_t seed, uint32_t job, const std::string& group, uint64_t op, WireFormat wire,
              uint64_t most_elements);
std::vector<std::byte> Contribution(const OpPlan& plan, uint32_t rank);
std::vector<std::byte> ExpectedResult(const OpPlan& plan, const SumOrder& order);
// Of a sum of some of `inputs` ranks, or nodes with rails, that is scaled up to all of them.
std::vector<std::byte> ScaledResult(const OpPlan& plan, const SumOrder& order, uint32_t inputs);

}  // namespace shoal::sim

#endif  // SHOAL_SIM_OP_TRUTH_H_
