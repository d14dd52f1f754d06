// Tensors whose sums show every difference in order or rounding, and what a reduction of them has to be.
#ifndef SHOAL_TESTS_SCENARIO_TENSORS_H_
#define SHOAL_TESTS_SCENARIO_TENSORS_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "core/dtype.h"
#include "reduce/reduce.h"

namespace shoal {

using Bytes = std::vector<std::byte>;

// Numbers of all magnitudes that a sum in another order would show.
inline Bytes RandomTensor(uint64_t seed, DataType dtype, size_t elements) {
  std::mt19937_64 random(seed);
  Bytes bytes(elements * DataTypeSize(dtype));
  for (size_t i = 0; i < elements; ++i) {
    if (dtype == DataType::kFloat32) {
      const float value =
          std::ldexp(static_cast<float>(random() % 20001) - 10000.0f, static_cast<int>(random() % 24) - 12);
      std::memcpy(&bytes[i * 4], &value, 4);
    } else if (dtype == DataType::kFloat64) {
      const double value =
          std::ldexp(static_cast<double>(random() % 20001) - 10000.0, static_cast<int>(random() % 60) - 30);
      std::memcpy(&bytes[i * 8], &value, 8);
    } else if (dtype == DataType::kFloat16 || dtype == DataType::kBfloat16) {
      // Any finite number: the highest exponent bit is off.
      const auto value = static_cast<uint16_t>(random() & 0xbfff);
      std::memcpy(&bytes[i * 2], &value, 2);
    } else {
      for (size_t b = 0; b < DataTypeSize(dtype); ++b) bytes[i * DataTypeSize(dtype) + b] = std::byte(random());
    }
  }
  return bytes;
}

// Of a whole tensor as it is sent.
inline size_t ElementCount(WireCodec codec, size_t wire_bytes) {
  size_t count = codec.ElementsIn(wire_bytes);
  while (codec.WireBytes(count + 1) <= wire_bytes) ++count;
  return count;
}

inline Bytes Expected(const std::vector<Bytes>& inputs, const ReduceSpec& spec) {
  std::vector<const std::byte*> pointers;
  for (const Bytes& input : inputs) pointers.push_back(input.data());
  Bytes result(inputs[0].size());
  Reduce(spec, pointers, result.data(), ElementCount(spec.codec, result.size()));
  return result;
}

inline std::vector<Bytes> Tensors(uint32_t workers, DataType dtype, size_t elements, uint64_t seed) {
  std::vector<Bytes> tensors;
  for (uint32_t w = 0; w < workers; ++w) tensors.push_back(RandomTensor(seed * 100 + w, dtype, elements));
  return tensors;
}

}  // namespace shoal

#endif  // SHOAL_TESTS_SCENARIO_TENSORS_H_
