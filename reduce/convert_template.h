// Conversion between fp32 and the 16-bit floats as a template, and blocks with a scale. Part of a kernel file (see
// kernel_template.h): all of it has internal linkage and calls nothing of the standard library.
#ifndef SHOAL_REDUCE_CONVERT_TEMPLATE_H_
#define SHOAL_REDUCE_CONVERT_TEMPLATE_H_

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"
#include "reduce/block_element.h"
#include "reduce/element.h"
#include "reduce/kernel_table.h"

namespace shoal {
namespace {

template <DataType type>
Halves Narrow(Float32s value) {
  if constexpr (type == DataType::kFloat16) return NarrowToFloat16(CanonicalNan(value));
  if constexpr (type == DataType::kBfloat16) return NarrowToBfloat16(CanonicalNan(value));
}

template <DataType type>
Float32s Widen(Halves halves) {
  if constexpr (type == DataType::kFloat16) return CanonicalNan(WidenFloat16(halves));
  if constexpr (type == DataType::kBfloat16) return CanonicalNan(WidenBfloat16(halves));
}

// Applies kConvert to vectors of memory of any alignment; at the end to a part of one, whose other lanes are zero.
template <typename From, typename To, To (*kConvert)(From)>
void ConvertAll(const std::byte* input, std::byte* output, size_t element_count) {
  constexpr size_t kLanes = sizeof(Float32s) / sizeof(float);
  constexpr size_t kFromBytes = sizeof(From) / kLanes;
  constexpr size_t kToBytes = sizeof(To) / kLanes;
  const auto convert = [&](size_t first, size_t count) {
    From from{};
    __builtin_memcpy(&from, input + first * kFromBytes, count * kFromBytes);
    const To to = kConvert(from);
    __builtin_memcpy(output + first * kToBytes, &to, count * kToBytes);
  };
  size_t first = 0;
#pragma GCC unroll 4
  for (; first + kLanes <= element_count; first += kLanes) convert(first, kLanes);
  if (first < element_count) convert(first, element_count - first);
}

template <DataType type>
constexpr ConvertKernels MakeConvertKernels() {
  return {.narrow = &ConvertAll<Float32s, Halves, &Narrow<type>>, .widen = &ConvertAll<Halves, Float32s, &Widen<type>>};
}

constexpr size_t kBlockFloatBytes = kBlockElements * sizeof(float);

template <typename Numbers>
void EncodeBlocks(const std::byte* tensor, std::byte* wire, size_t element_count) {
  for (; element_count >= kBlockElements; element_count -= kBlockElements) {
    Float32s parts[kBlockParts];
#pragma GCC unroll 8
    for (size_t p = 0; p < kBlockParts; ++p) {
      // By way of a variable of its own, or GCC 12 copies halves of it to memory and waits for them there.
      Float32s part;
      __builtin_memcpy(&part, tensor + p * kVectorBytes, kVectorBytes);
      parts[p] = part;
    }
    BlockElement<Numbers>::StoreTo(parts, wire, sizeof(Block));
    tensor += kBlockFloatBytes;
    wire += sizeof(Block);
  }
  if (element_count == 0) return;
  Float32s parts[kBlockParts] = {};
  __builtin_memcpy(parts, tensor, element_count * sizeof(float));
  BlockElement<Numbers>::StoreTo(parts, wire, BlockElement<Numbers>::StoredBytes(element_count));
}

template <typename Numbers>
void DecodeBlocks(const std::byte* wire, std::byte* tensor, size_t element_count) {
  Float32s parts[kBlockParts];
  for (; element_count >= kBlockElements; element_count -= kBlockElements) {
    BlockElement<Numbers>::LoadFrom(wire, sizeof(Block), parts);
#pragma GCC unroll 8
    for (size_t p = 0; p < kBlockParts; ++p) {
      const Float32s part = parts[p];
      __builtin_memcpy(tensor + p * kVectorBytes, &part, kVectorBytes);
    }
    tensor += kBlockFloatBytes;
    wire += sizeof(Block);
  }
  if (element_count == 0) return;
  BlockElement<Numbers>::LoadFrom(wire, BlockElement<Numbers>::StoredBytes(element_count), parts);
  __builtin_memcpy(tensor, parts, element_count * sizeof(float));
}

}  // namespace
}  // namespace shoal

#endif  // SHOAL_REDUCE_CONVERT_TEMPLATE_H_
