// The n-way reduction as a template. A kernel file includes it, defines one KernelTable with MakeKernelTable, and is
// compiled for one instruction set.
//
// Because the same source is compiled with different flags into one program, everything here has internal linkage and
// nothing of the standard library is called: a shared inline function would be merged by the linker, and the copy that
// it keeps could hold instructions that the processor lacks. A test looks for such symbols in the object files.
//
// The way of the numbers: a tile of a few registers takes the same stretch of every input, in rank order, and is
// written once. With many inputs so many streams at once thrash the first-level cache and outnumber the prefetcher's:
// then a block of accumulators takes a few inputs a pass. Where the inputs are in the cache the block is small, so that
// it stays in the first level; where they come from memory it is long, because a prefetcher needs a few pages of a
// stream to get going. The output may be one of the inputs, because a stretch is written only after it was read from
// all of them.
#ifndef SHOAL_REDUCE_KERNEL_TEMPLATE_H_
#define SHOAL_REDUCE_KERNEL_TEMPLATE_H_

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"
#include "reduce/block_element.h"
#include "reduce/convert_template.h"
#include "reduce/divided_integer.h"
#include "reduce/element.h"
#include "reduce/kernel_table.h"

namespace shoal {
namespace {

// Measured with reduce_bench (README.md).
struct BlockShape {
  size_t direct_inputs;  // at most so many are read side by side, without a block
  size_t pass_inputs;    // so many a pass when there are more
  size_t bytes;          // of accumulators
};
constexpr BlockShape kCachedBlock = {8, 4, 4096};
constexpr BlockShape kLongBlock = {12, 12, 131072};
constexpr size_t kCachedInputBytes = 8u << 20;  // more than that, all inputs together, is taken to be in memory
constexpr size_t kTileParts = kVectorBytes == 64 ? 4 : 8;  // registers

template <typename Element, ReduceOp op>
typename Element::Part Fold(typename Element::Part kept, typename Element::Part next) {
  using Part = typename Element::Part;
  // Integers wrap modulo 2^n, which is defined for unsigned lanes only.
  using Unsigned = Vector<typename IntegersOfSize<sizeof(typename Element::Accumulator)>::Unsigned, sizeof(Part)>;
  // Of equal values (also -0 and +0) the lower rank's is kept. A NaN wins and stays.
  if constexpr (op == ReduceOp::kMin) return ((next < kept) | (next != next)) ? next : kept;
  if constexpr (op == ReduceOp::kMax) return ((next > kept) | (next != next)) ? next : kept;
  if constexpr (op == ReduceOp::kProd && Element::kIsInteger) return (Part)((Unsigned)kept * (Unsigned)next);
  if constexpr (op == ReduceOp::kProd) return kept * next;
  if constexpr (Element::kIsInteger) return (Part)((Unsigned)kept + (Unsigned)next);
  return kept + next;
}

template <typename Element, ReduceOp op>
struct Kernel {
  using Storeds = typename Element::Storeds;
  using Accumulator = typename Element::Accumulator;
  using Part = typename Element::Part;
  static constexpr size_t kParts = Element::kParts;
  static constexpr size_t kTileVectors = kTileParts / kParts;

  // One vector of an input, ready to be folded in.
  static void Take(const std::byte* input, double factor, Part* parts, size_t bytes = sizeof(Storeds)) {
    LoadFrom<Element>(input, bytes, parts);
    if constexpr (op == ReduceOp::kPremulSum) {
      for (size_t p = 0; p < kParts; ++p) parts[p] *= static_cast<Accumulator>(factor);
    }
  }

  static void FoldIn(const std::byte* input, double factor, Part* kept, size_t bytes = sizeof(Storeds)) {
    Part next[kParts];
    Take(input, factor, next, bytes);
    for (size_t p = 0; p < kParts; ++p) kept[p] = Fold<Element, op>(kept[p], next[p]);
  }

  static void Put(const Part* kept, size_t divisor, std::byte* output, size_t bytes = sizeof(Storeds)) {
    Part finished[kParts];
    for (size_t p = 0; p < kParts; ++p) {
      finished[p] = kept[p];
      if constexpr (op == ReduceOp::kAvg && Element::kIsInteger) {
        finished[p] = DivideIntegers<Accumulator>(kept[p], divisor);
      } else if constexpr (op == ReduceOp::kAvg) {
        finished[p] /= static_cast<Accumulator>(divisor);
      }
    }
    StoreTo<Element>(finished, output, bytes);
  }

  struct Inputs {
    const std::byte* const* starts;
    size_t count;
    size_t divisor;  // of kAvg
    double factor;
  };

  // Folds the inputs' next `vector_count` vectors (whole tiles) at `offset_bytes`: from the first input on if kBegins,
  // else on top of `block`; into the output if kEnds, else into `block`.
  template <bool kBegins, bool kEnds>
  static void Pass(const Inputs& inputs, size_t offset_bytes, size_t vector_count, Part* block, std::byte* output) {
    for (size_t first = 0; first < vector_count; first += kTileVectors) {
      const size_t at = offset_bytes + first * sizeof(Storeds);
      Part kept[kTileVectors * kParts];
#pragma GCC unroll 8
      for (size_t v = 0; v < kTileVectors; ++v) {
        if constexpr (kBegins) {
          Take(inputs.starts[0] + at + v * sizeof(Storeds), inputs.factor, kept + v * kParts);
        } else {
          for (size_t p = 0; p < kParts; ++p) kept[v * kParts + p] = block[(first + v) * kParts + p];
        }
      }
      for (size_t k = kBegins ? 1 : 0; k < inputs.count; ++k) {
        const std::byte* const input = inputs.starts[k] + at;
#pragma GCC unroll 8
        for (size_t v = 0; v < kTileVectors; ++v) {
          FoldIn(input + v * sizeof(Storeds), inputs.factor, kept + v * kParts);
        }
      }
#pragma GCC unroll 8
      for (size_t v = 0; v < kTileVectors; ++v) {
        if constexpr (kEnds) {
          Put(kept + v * kParts, inputs.divisor, output + at + v * sizeof(Storeds));
        } else {
          for (size_t p = 0; p < kParts; ++p) block[(first + v) * kParts + p] = kept[v * kParts + p];
        }
      }
    }
  }

  static void RunBlock(const Inputs& inputs, size_t pass_inputs, size_t offset_bytes, size_t vector_count, Part* block,
                       std::byte* output) {
    Inputs some = inputs;
    some.count = pass_inputs;
    Pass<true, false>(some, offset_bytes, vector_count, block, output);
    size_t left = inputs.count - pass_inputs;
    for (some.starts += pass_inputs; left > pass_inputs; some.starts += pass_inputs, left -= pass_inputs) {
      Pass<false, false>(some, offset_bytes, vector_count, block, output);
    }
    some.count = left;
    Pass<false, true>(some, offset_bytes, vector_count, block, output);
  }

  static void RunTiles(const Inputs& inputs, size_t vector_count, std::byte* output) {
    const bool cached = inputs.count * vector_count * sizeof(Storeds) <= kCachedInputBytes;
    const BlockShape shape = cached ? kCachedBlock : kLongBlock;
    if (inputs.count <= shape.direct_inputs) return Pass<true, true>(inputs, 0, vector_count, nullptr, output);
    const size_t block_vectors = shape.bytes / (sizeof(Part) * kParts);
    Part block[kLongBlock.bytes / sizeof(Part)];
    for (size_t first = 0; first < vector_count; first += block_vectors) {
      const size_t left = vector_count - first;
      RunBlock(inputs, shape.pass_inputs, first * sizeof(Storeds), left < block_vectors ? left : block_vectors, block,
               output);
    }
  }

  // A vector, or the last elements where there are fewer.
  static void RunVector(const Inputs& inputs, size_t at, size_t bytes, std::byte* output) {
    Part kept[kParts];
    Take(inputs.starts[0] + at, inputs.factor, kept, bytes);
    for (size_t k = 1; k < inputs.count; ++k) FoldIn(inputs.starts[k] + at, inputs.factor, kept, bytes);
    Put(kept, inputs.divisor, output + at, bytes);
  }

  static void Run(const std::byte* const* starts, size_t input_count, std::byte* output, size_t element_count,
                  double factor, uint32_t ranks_per_input) {
    const Inputs inputs{starts, input_count, input_count * ranks_per_input, factor};
    const size_t whole_vectors = element_count / Element::kLanes;
    const size_t tiled_vectors = whole_vectors / kTileVectors * kTileVectors;
    RunTiles(inputs, tiled_vectors, output);
    const size_t end = whole_vectors * sizeof(Storeds);
    size_t at = tiled_vectors * sizeof(Storeds);
    for (; at < end; at += sizeof(Storeds)) RunVector(inputs, at, sizeof(Storeds), output);
    const size_t rest = element_count % Element::kLanes;
    if (rest > 0) RunVector(inputs, at, Element::StoredBytes(rest), output);
  }
};

template <DataType type, ReduceOp op>
constexpr ReduceKernel KernelFor() {
  if constexpr (op == ReduceOp::kPremulSum && Element<type>::kIsInteger)
    return nullptr;
  else
    return &Kernel<Element<type>, op>::Run;
}

template <typename Numbers, ReduceOp op>
constexpr ReduceKernel kBlockKernel = &Kernel<BlockElement<Numbers>, op>::Run;

template <typename Numbers>
constexpr BlockKernels MakeBlockKernels() {
  return {.reduce = {kBlockKernel<Numbers, ReduceOp::kSum>, kBlockKernel<Numbers, ReduceOp::kAvg>,
                     kBlockKernel<Numbers, ReduceOp::kPremulSum>, kBlockKernel<Numbers, ReduceOp::kMin>,
                     kBlockKernel<Numbers, ReduceOp::kMax>, kBlockKernel<Numbers, ReduceOp::kProd>},
          .convert = {.narrow = &EncodeBlocks<Numbers>, .widen = &DecodeBlocks<Numbers>}};
}

template <DataType type>
constexpr void FillRow(KernelTable* table) {
  ReduceKernel* const row = table->kernels[static_cast<int>(type) - 1];
  row[0] = KernelFor<type, ReduceOp::kSum>();
  row[1] = KernelFor<type, ReduceOp::kAvg>();
  row[2] = KernelFor<type, ReduceOp::kPremulSum>();
  row[3] = KernelFor<type, ReduceOp::kMin>();
  row[4] = KernelFor<type, ReduceOp::kMax>();
  row[5] = KernelFor<type, ReduceOp::kProd>();
}

// Rows and columns are in the order of the wire numbers (core/dtype.h).
constexpr KernelTable MakeKernelTable(const char* name) {
  KernelTable table{.name = name,
                    .kernels = {},
                    .float16 = MakeConvertKernels<DataType::kFloat16>(),
                    .bfloat16 = MakeConvertKernels<DataType::kBfloat16>(),
                    .int8_blocks = MakeBlockKernels<Int8Numbers>(),
                    .float8_blocks = MakeBlockKernels<Float8Numbers>()};
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
