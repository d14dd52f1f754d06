#include "bench/kernels/stream_loops.h"

#include <cstring>

#if defined(__x86_64__)
#define SHOAL_FOR_EVERY_INSTRUCTION_SET __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define SHOAL_FOR_EVERY_INSTRUCTION_SET
#endif

namespace shoal {
namespace {

SHOAL_FOR_EVERY_INSTRUCTION_SET void AddTo(float* __restrict sum, const float* __restrict next, size_t count) {
  for (size_t i = 0; i < count; ++i) sum[i] += next[i];
}

}  // namespace

SHOAL_FOR_EVERY_INSTRUCTION_SET uint64_t ReadStream(const uint64_t* words, size_t count) {
  uint64_t sum = 0;
  for (size_t i = 0; i < count; ++i) sum += words[i];
  return sum;
}

SHOAL_FOR_EVERY_INSTRUCTION_SET uint64_t ReadFourStreams(const uint64_t* words, size_t count) {
  const size_t part = count / 4;
  uint64_t sum = 0;
  for (size_t i = 0; i < part; ++i) {
    sum += (words[i] ^ words[part + i]) + (words[2 * part + i] ^ words[3 * part + i]);
  }
  return sum;
}

SHOAL_FOR_EVERY_INSTRUCTION_SET void CopyStream(const uint64_t* __restrict words, uint64_t* __restrict output,
                                                size_t count) {
  for (size_t i = 0; i < count; ++i) output[i] = words[i];
}

void SumPairwise(std::span<const float* const> inputs, float* output, size_t count) {
  std::memcpy(output, inputs[0], count * sizeof(float));
  for (const float* next : inputs.subspan(1)) AddTo(output, next, count);
}

}  // namespace shoal
