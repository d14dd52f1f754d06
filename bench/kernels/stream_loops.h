// What a reduction is measured against: loops that only read or copy (the bounds, after McCalpin's STREAM), and the
// pairwise sum of servers that add each contribution to the result as it comes (the contender).
//
// Each is compiled for the instruction sets of the kernels and chosen at run time, so that nobody wins by his compiler
// flags. Pure functions, any thread. Memory is 64-byte aligned, counts are multiples of 64.
#ifndef SHOAL_BENCH_KERNELS_STREAM_LOOPS_H_
#define SHOAL_BENCH_KERNELS_STREAM_LOOPS_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace shoal {

// Reads all once, from front to end, or four quarters side by side; the result keeps the compiler from leaving it out.
uint64_t ReadStream(const uint64_t* words, size_t count);
uint64_t ReadFourStreams(const uint64_t* words, size_t count);

// Copies by a plain loop. (std::memcpy is the other way: it has non-temporal stores for much memory.)
void CopyStream(const uint64_t* words, uint64_t* output, size_t count);

// output = inputs[0], then output += inputs[i] for each other one.
void SumPairwise(std::span<const float* const> inputs, float* output, size_t count);

}  // namespace shoal

#endif  // SHOAL_BENCH_KERNELS_STREAM_LOOPS_H_
