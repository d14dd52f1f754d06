// The numbers that ranks reduce, and the check of what comes back.
//
// Every number is a function of (seed, rank, index), so each rank can generate the data of all ranks and check the
// whole result by itself. Pure functions; any thread.
#ifndef SHOAL_PERF_TEST_DATA_H_
#define SHOAL_PERF_TEST_DATA_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/dtype.h"
#include "core/wire_codec.h"

namespace shoal {

inline constexpr double kPerfPremulFactor = 0.5;  // of kPremulSum

enum class NumberKind : uint8_t {
  kSmallIntegers,  // every sum, product and quotient is known to the bit
  kRandom,         // floats: |x| < 1, checked within the error that rounding may make; integers: any, checked exactly
};

struct TestData {
  NumberKind kind = NumberKind::kSmallIntegers;
  uint64_t seed = 0;
  WireCodec codec;  // of the ranks' tensors: contributions count as they were sent
  ReduceOp op = ReduceOp::kSum;
  uint32_t rank_count = 1;  // at least 1
};

// Writes the contribution of `rank`: `element_count` elements at `data`.
void FillContribution(const TestData& test, uint32_t rank, std::byte* data, uint64_t element_count);

struct CheckOutcome {
  uint64_t wrong = 0;       // elements
  std::string first_wrong;  // human-readable: index, what it is and what it should be; empty if none is wrong
};

// Compares a result with the one that the contributions of all ranks give.
CheckOutcome CheckResult(const TestData& test, const std::byte* data, uint64_t element_count);

// A digest of the bits. If it is not equal on all ranks and in every run, the result is not reproducible.
uint64_t DigestBits(uint64_t digest, const std::byte* data, uint64_t byte_count);

}  // namespace shoal

#endif  // SHOAL_PERF_TEST_DATA_H_
