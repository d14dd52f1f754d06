// The n-way reduction as a template. A kernel file includes it, defines one KernelTable with MakeKernelTable, and is
// compiled for one instruction set.
//
// Because the same source is compiled with different flags into one program, everything here has internal linkage and
// nothing of the standard library is called: a shared inline function would be merged by the linker, and the copy that
// it keeps could hold instructions that the machine lacks. A test looks for such symbols in the object files.
//
// The way of a block: its accumulators (kBlockBytes) stay in the first-level cache, every input is streamed through
// them in rank order, up to four inputs a pass, and the finished block is written once. The output may be one of the
// inputs, because a block is written only after the blocks of all inputs were read.
#ifndef SHOAL_REDUCE_KERNEL_TEMPLATE_H_
#define SHOAL_REDUCE_KERNEL_TEMPLATE_H_

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"
#include "reduce/element.h"
#include "reduce/kernel_table.h"

namespace shoal {
namespace {

constexpr size_t kBlockBytes = 8192;

template <size_t kBytes>
struct UnsignedOfSize;
// clang-format off
template <> struct UnsignedOfSize<1> { using Type = uint8_t; };
template <> struct UnsignedOfSize<2> { using Type = uint16_t; };
template <> struct UnsignedOfSize<4> { using Type = uint32_t; };
template <> struct UnsignedOfSize<8> { using Type = uint64_t; };
// clang-format on

// Integers wrap modulo 2^n, which is defined for unsigned lanes only.
template <typename Number>
using UnsignedVector = Vector<typename UnsignedOfSize<sizeof(Number)>::Type>;

// Towards zero; beyond the type's range to its end, NaN to 0.
template <typename Number>
Number TruncateToInteger(double value) {
  constexpr bool kIsSigned = static_cast<Number>(-1) < 0;
  constexpr double kEnd = kIsSigned ? 2.0 * static_cast<double>(uint64_t{1} << (8 * sizeof(Number) - 2))
                                    : 4.0 * static_cast<double>(uint64_t{1} << (8 * sizeof(Number) - 2));
  constexpr Number kHighest = static_cast<Number>(~uint64_t{0} >> (64 - 8 * sizeof(Number) + (kIsSigned ? 1 : 0)));
  constexpr Number kLowest = kIsSigned ? static_cast<Number>(-kHighest - 1) : Number{0};
  if (value != value) return 0;
  if (value >= kEnd) return kHighest;
  if (value <= static_cast<double>(kLowest)) return kLowest;
  return static_cast<Number>(value);
}

template <typename Number>
Number DivideInteger(Number value, size_t input_count) {
  if constexpr (sizeof(Number) == 8) {
    return value / static_cast<int64_t>(input_count);
  } else {
    return static_cast<Number>(static_cast<int32_t>(value) / static_cast<int32_t>(input_count));
  }
}

// One vector of an input, ready to be folded in.
template <typename Element, ReduceOp op>
typename Element::Accumulators Prepare(typename Element::Storeds stored, double factor) {
  using Number = typename Element::Accumulator;
  typename Element::Accumulators values = Element::Load(stored);
  if constexpr (op == ReduceOp::kPremulSum && Element::kIsInteger) {
    for (size_t i = 0; i < Element::kLanes; ++i) {
      values[i] = TruncateToInteger<Number>(static_cast<double>(values[i]) * factor);
    }
  } else if constexpr (op == ReduceOp::kPremulSum) {
    values *= static_cast<Number>(factor);
  }
  return values;
}

template <typename Element, ReduceOp op>
typename Element::Accumulators Fold(typename Element::Accumulators kept, typename Element::Accumulators next) {
  using Accumulators = typename Element::Accumulators;
  using Unsigned = UnsignedVector<typename Element::Accumulator>;
  // Of equal values (also -0 and +0) the lower rank's is kept. A NaN wins and stays.
  if constexpr (op == ReduceOp::kMin) return ((next < kept) | (next != next)) ? next : kept;
  if constexpr (op == ReduceOp::kMax) return ((next > kept) | (next != next)) ? next : kept;
  if constexpr (op == ReduceOp::kProd && Element::kIsInteger) return (Accumulators)((Unsigned)kept * (Unsigned)next);
  if constexpr (op == ReduceOp::kProd) return kept * next;
  if constexpr (Element::kIsInteger) return (Accumulators)((Unsigned)kept + (Unsigned)next);
  return kept + next;
}

template <typename Element, ReduceOp op>
typename Element::Storeds Finish(typename Element::Accumulators values, size_t input_count) {
  if constexpr (op == ReduceOp::kAvg && Element::kIsInteger) {
    for (size_t i = 0; i < Element::kLanes; ++i) values[i] = DivideInteger(values[i], input_count);
  } else if constexpr (op == ReduceOp::kAvg) {
    values /= static_cast<typename Element::Accumulator>(input_count);
  }
  return Element::Store(values);
}

template <typename Element, ReduceOp op>
struct Kernel {
  using Storeds = typename Element::Storeds;
  using Accumulators = typename Element::Accumulators;
  static constexpr size_t kBlockVectors = kBlockBytes / kVectorBytes;

  // Memory may have any alignment. `bytes` below a whole vector: the other lanes are zero.
  static Accumulators Take(const std::byte* input, double factor, size_t bytes = sizeof(Storeds)) {
    Storeds stored{};
    __builtin_memcpy(&stored, input, bytes);
    return Prepare<Element, op>(stored, factor);
  }

  static void Put(Accumulators values, size_t input_count, std::byte* output, size_t bytes = sizeof(Storeds)) {
    const Storeds stored = Finish<Element, op>(values, input_count);
    __builtin_memcpy(output, &stored, bytes);
  }

  // Folds kInputs inputs into the block, or begins it with them.
  template <bool kBegin, size_t kInputs>
  static void Pass(const std::byte* const* inputs, size_t offset_bytes, Accumulators* block, size_t vector_count,
                   double factor) {
    const std::byte* input[kInputs];
    for (size_t k = 0; k < kInputs; ++k) input[k] = inputs[k] + offset_bytes;
#pragma GCC unroll 2
    for (size_t v = 0; v < vector_count; ++v) {
      const size_t at = v * sizeof(Storeds);
      Accumulators kept =
          kBegin ? Take(input[0] + at, factor) : Fold<Element, op>(block[v], Take(input[0] + at, factor));
      for (size_t k = 1; k < kInputs; ++k) kept = Fold<Element, op>(kept, Take(input[k] + at, factor));
      block[v] = kept;
    }
  }

  static void RunBlock(const std::byte* const* inputs, size_t input_count, std::byte* output, size_t offset_bytes,
                       size_t vector_count, double factor) {
    Accumulators block[kBlockVectors];
    // The first pass takes so many that all others take four.
    const size_t first = (input_count - 1) % 4 + 1;
    if (first == 1) Pass<true, 1>(inputs, offset_bytes, block, vector_count, factor);
    if (first == 2) Pass<true, 2>(inputs, offset_bytes, block, vector_count, factor);
    if (first == 3) Pass<true, 3>(inputs, offset_bytes, block, vector_count, factor);
    if (first == 4) Pass<true, 4>(inputs, offset_bytes, block, vector_count, factor);
    for (size_t next = first; next < input_count; next += 4) {
      Pass<false, 4>(inputs + next, offset_bytes, block, vector_count, factor);
    }
    for (size_t v = 0; v < vector_count; ++v) Put(block[v], input_count, output + offset_bytes + v * sizeof(Storeds));
  }

  // The last elements, fewer than a vector has.
  static void RunTail(const std::byte* const* inputs, size_t input_count, std::byte* output, size_t offset_bytes,
                      size_t bytes, double factor) {
    Accumulators kept = Take(inputs[0] + offset_bytes, factor, bytes);
    for (size_t k = 1; k < input_count; ++k) {
      kept = Fold<Element, op>(kept, Take(inputs[k] + offset_bytes, factor, bytes));
    }
    Put(kept, input_count, output + offset_bytes, bytes);
  }

  static void Run(const std::byte* const* inputs, size_t input_count, std::byte* output, size_t element_count,
                  double factor) {
    const size_t vector_count = element_count / Element::kLanes;
    for (size_t first = 0; first < vector_count; first += kBlockVectors) {
      const size_t left = vector_count - first;
      RunBlock(inputs, input_count, output, first * sizeof(Storeds), left < kBlockVectors ? left : kBlockVectors,
               factor);
    }
    const size_t tail_bytes = element_count % Element::kLanes * sizeof(typename Element::Stored);
    if (tail_bytes != 0) RunTail(inputs, input_count, output, vector_count * sizeof(Storeds), tail_bytes, factor);
  }
};

template <DataType type>
constexpr void FillRow(KernelTable* table) {
  ReduceKernel* const row = table->kernels[static_cast<int>(type) - 1];
  row[0] = &Kernel<Element<type>, ReduceOp::kSum>::Run;
  row[1] = &Kernel<Element<type>, ReduceOp::kAvg>::Run;
  row[2] = &Kernel<Element<type>, ReduceOp::kPremulSum>::Run;
  row[3] = &Kernel<Element<type>, ReduceOp::kMin>::Run;
  row[4] = &Kernel<Element<type>, ReduceOp::kMax>::Run;
  row[5] = &Kernel<Element<type>, ReduceOp::kProd>::Run;
}

// Rows and columns are in the order of the wire numbers (core/dtype.h).
constexpr KernelTable MakeKernelTable(const char* name) {
  KernelTable table{name, {}};
  FillRow<DataType::kFloat32>(&table);
  FillRow<DataType::kFloat64>(&table);
  FillRow<DataType::kFloat16>(&table);
  FillRow<DataType::kBfloat16>(&table);
  FillRow<DataType::kInt8>(&table);
  FillRow<DataType::kInt16>(&table);
  FillRow<DataType::kInt32>(&table);
  FillRow<DataType::kInt64>(&table);
  FillRow<DataType::kUint8>(&table);
  return table;
}

}  // namespace
}  // namespace shoal

#endif  // SHOAL_REDUCE_KERNEL_TEMPLATE_H_
