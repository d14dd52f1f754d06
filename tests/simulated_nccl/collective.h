// What a collective's kernel does: pieces of it go around, and sums are made in the order of the ranks.
#ifndef SHOAL_TESTS_SIMULATED_NCCL_COLLECTIVE_H_
#define SHOAL_TESTS_SIMULATED_NCCL_COLLECTIVE_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "tests/simulated_nccl/meeting.h"

namespace shoal::simulated_nccl {

// The values of ncclDataType_t and ncclRedOp_t that are simulated.
enum Type : int32_t {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kUint32 = 3,
  kInt64 = 4,
  kUint64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
};
enum Op : int32_t { kSum = 0, kProd = 1, kMax = 2, kMin = 3, kAvg = 4, kPremulSum = 5 };
// Of Call::function.
enum Function : uint32_t { kReduceScatter, kAllGather, kReduce, kBroadcast };

// 0: it is not simulated.
size_t SizeOf(int32_t type);

// `send` and `receive` are memory as kernels see it. False: `is_over` said so, and what is received is undefined. One
// at a time for each meeting.
bool RunCollective(Meeting* meeting, uint32_t rank, uint32_t size, const Call& call, const std::byte* send,
                   std::byte* receive, const std::function<bool()>& is_over);

}  // namespace shoal::simulated_nccl

#endif  // SHOAL_TESTS_SIMULATED_NCCL_COLLECTIVE_H_
