// Every kernel, type and op against the reference: lengths, alignments, numbers of inputs, aliasing, order.
#include "reduce/reduce.h"

#include <cstring>
#include <random>

#include "gtest/gtest.h"
#include "tests/unit/reduce/reference.h"

namespace shoal {
namespace {

constexpr std::byte kGuard{0xa5};

// Inputs in one allocation each, `offset` bytes past an aligned address.
class Contributions {
 public:
  Contributions(size_t input_count, size_t bytes, size_t offset, uint64_t seed) : bytes_(bytes), offset_(offset) {
    std::mt19937_64 random(seed);
    for (size_t k = 0; k < input_count; ++k) {
      memory_.emplace_back(bytes + offset + 64);
      for (std::byte& byte : memory_.back()) byte = static_cast<std::byte>(random());
    }
    for (std::vector<std::byte>& memory : memory_) pointers_.push_back(memory.data() + offset);
  }
  std::span<const std::byte* const> inputs() const { return pointers_; }
  std::byte* input(size_t k) { return memory_[k].data() + offset_; }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_;
  size_t offset_;
  std::vector<std::vector<std::byte>> memory_;
  std::vector<const std::byte*> pointers_;
};

void ExpectLikeReference(const ReduceSpec& spec, size_t input_count, size_t element_count, size_t offset) {
  const size_t bytes = element_count * DataTypeSize(spec.codec.tensor_type());
  // Random bits: every NaN, infinity and denormal comes up in the 16-bit types.
  Contributions contributions(input_count, bytes, offset, input_count * 1000003 + element_count * 31 + offset);
  std::vector<std::byte> expected(bytes);
  ReferenceReduce(spec, contributions.inputs(), expected.data(), element_count);
  for (const KernelTable* table : AllKernels()) {
    SCOPED_TRACE(Describe(*table, spec));
    std::vector<std::byte> output(bytes + offset + 64, kGuard);
    KernelOf(*table, spec)(contributions.inputs().data(), input_count, output.data() + offset, element_count,
                           spec.premul_factor, spec.ranks_per_input);
    ASSERT_EQ(std::memcmp(output.data() + offset, expected.data(), bytes), 0)
        << input_count << " inputs, " << element_count << " elements, offset " << offset;
    for (size_t i = 0; i < output.size(); ++i) {
      if (i >= offset && i < offset + bytes) continue;
      ASSERT_EQ(output[i], kGuard) << "wrote outside its output, at byte " << i;
    }
  }
}

TEST(Reduce, EveryLengthGivesTheReferencesBits) {
  for (const ReduceSpec& spec : AllSpecs()) {
    for (size_t count = 1; count <= 140; ++count) ExpectLikeReference(spec, 3, count, 0);
    if (HasFatalFailure()) return;
  }
}

TEST(Reduce, BlockBordersGiveTheReferencesBits) {
  for (const ReduceSpec& spec : AllSpecs()) {
    for (size_t count : {1023, 1024, 1025, 2047, 2048, 2049, 4096, 8191, 8193, 16411}) {
      ExpectLikeReference(spec, 5, count, 0);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Reduce, EveryAlignmentGivesTheReferencesBits) {
  for (const ReduceSpec& spec : AllSpecs()) {
    for (size_t offset = 0; offset < 64; ++offset) ExpectLikeReference(spec, 2, 77, offset);
    if (HasFatalFailure()) return;
  }
}

TEST(Reduce, EveryNumberOfInputsGivesTheReferencesBits) {
  for (const ReduceSpec& spec : AllSpecs()) {
    for (size_t inputs : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 33, 100}) ExpectLikeReference(spec, inputs, 301, 4);
    if (HasFatalFailure()) return;
  }
}

TEST(Reduce, InputsTooLargeForTheCacheGiveTheReferencesBits) {
  // More than 8 MiB together: the kernels go over them in another way.
  for (DataType type : {DataType::kFloat32, DataType::kBfloat16, DataType::kInt64}) {
    for (size_t inputs : {9, 12, 13, 24, 25})
      ExpectLikeReference({WireCodec(type), ReduceOp::kSum, 1.0}, inputs, 500'001, 4);
    if (HasFatalFailure()) return;
  }
}

// 512 ranks of 8 inputs are as many as there may be; 7 divides no power of two.
TEST(Reduce, AnAverageOfSumsIsDividedByTheRanksThatTheyAreOf) {
  for (int type = 1; type <= kReduceDataTypes; ++type) {
    for (const uint32_t ranks_per_input : {2u, 7u, 512u}) {
      for (const size_t inputs : {2u, 8u}) {
        ExpectLikeReference({WireCodec(static_cast<DataType>(type)), ReduceOp::kAvg, 1.0, ranks_per_input}, inputs,
                            9001, 8);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Reduce, NoOtherOpKnowsOfHowManyRanksAnInputIs) {
  for (ReduceSpec spec : AllSpecs()) {
    if (spec.op == ReduceOp::kAvg) continue;
    Contributions contributions(3, 500 * DataTypeSize(spec.codec.tensor_type()), 0, 9);
    std::vector<std::byte> expected(contributions.bytes());
    std::vector<std::byte> output(contributions.bytes());
    Reduce(spec, contributions.inputs(), expected.data(), 500);
    spec.ranks_per_input = 4;
    Reduce(spec, contributions.inputs(), output.data(), 500);
    EXPECT_EQ(output, expected) << Describe(*AllKernels()[0], spec);
  }
}

TEST(Reduce, ThereIsAKernelForWhatCanBeReducedAndForNothingElse) {
  for (const KernelTable* table : AllKernels()) {
    for (int type = 1; type <= kReduceDataTypes; ++type) {
      for (int op = 1; op <= kReduceOps; ++op) {
        const ReduceSpec spec{WireCodec(static_cast<DataType>(type)), static_cast<ReduceOp>(op)};
        EXPECT_EQ(KernelOf(*table, spec) != nullptr, CanReduce(spec.codec.tensor_type(), spec.op))
            << Describe(*table, spec);
      }
    }
  }
}

TEST(Reduce, MostInputsAllowed) {
  for (DataType type : {DataType::kFloat32, DataType::kBfloat16, DataType::kInt8}) {
    for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg}) {
      ExpectLikeReference({WireCodec(type), op, 1.0}, kMaxReduceInputs, 70, 0);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Reduce, OutputMayBeAnyOfTheInputs) {
  for (const ReduceSpec& spec : AllSpecs()) {
    const size_t count = 9001;
    const size_t bytes = count * DataTypeSize(spec.codec.tensor_type());
    for (const KernelTable* table : AllKernels()) {
      SCOPED_TRACE(Describe(*table, spec));
      for (size_t aliased = 0; aliased < 6; ++aliased) {
        Contributions contributions(6, bytes, 8, 77);
        std::vector<std::byte> expected(bytes);
        ReferenceReduce(spec, contributions.inputs(), expected.data(), count);
        KernelOf(*table, spec)(contributions.inputs().data(), 6, contributions.input(aliased), count,
                               spec.premul_factor, spec.ranks_per_input);
        ASSERT_EQ(std::memcmp(contributions.input(aliased), expected.data(), bytes), 0) << "input " << aliased;
      }
    }
  }
}

TEST(Reduce, PublicEntryPointGivesTheReferencesBits) {
  for (const ReduceSpec& spec : AllSpecs()) {
    Contributions contributions(4, 5000 * DataTypeSize(spec.codec.tensor_type()), 0, 5);
    std::vector<std::byte> expected(contributions.bytes());
    std::vector<std::byte> output(contributions.bytes());
    ReferenceReduce(spec, contributions.inputs(), expected.data(), 5000);
    Reduce(spec, contributions.inputs(), output.data(), 5000);
    EXPECT_EQ(output, expected) << Describe(*AllKernels()[0], spec);
  }
}

TEST(Reduce, FoldsFromTheFirstRankOn) {
  // Any other order or grouping of these gives another sum than ((1e30 + -1e30) + 1) + 1e-8.
  const std::vector<float> ranks = {1e30f, -1e30f, 1.0f, 1e-8f, -1.0f};
  std::vector<const std::byte*> inputs;
  for (const float& value : ranks) inputs.push_back(reinterpret_cast<const std::byte*>(&value));
  float sum = -1;
  Reduce({WireCodec(DataType::kFloat32), ReduceOp::kSum, 1.0}, inputs, reinterpret_cast<std::byte*>(&sum), 1);
  EXPECT_EQ(sum, 0.0f);
  std::swap(inputs[1], inputs[2]);
  Reduce({WireCodec(DataType::kFloat32), ReduceOp::kSum, 1.0}, inputs, reinterpret_cast<std::byte*>(&sum), 1);
  EXPECT_EQ(sum, -1.0f);
}

TEST(Reduce, BitsOfAnElementDoNotDependOnItsPosition) {
  for (const ReduceSpec& spec : AllSpecs()) {
    const size_t size = DataTypeSize(spec.codec.tensor_type());
    Contributions contributions(5, 3000 * size, 0, 11);
    std::vector<std::byte> whole(3000 * size);
    Reduce(spec, contributions.inputs(), whole.data(), 3000);
    // The same elements in pieces of odd lengths.
    std::vector<std::byte> pieces(3000 * size);
    for (size_t first = 0; first < 3000;) {
      const size_t count = std::min<size_t>(3000 - first, 1 + first % 97);
      std::vector<const std::byte*> inputs;
      for (const std::byte* input : contributions.inputs()) inputs.push_back(input + first * size);
      Reduce(spec, inputs, pieces.data() + first * size, count);
      first += count;
    }
    EXPECT_EQ(pieces, whole) << Describe(*AllKernels()[0], spec);
  }
}

TEST(Reduce, NamesAKernelThatTheMachineRuns) {
  const std::string name = ReduceKernelName();
  EXPECT_TRUE(name == "avx512" || name == "avx2" || name == "neon" || name == "portable") << name;
  EXPECT_EQ(name, AllKernels().front()->name);
  EXPECT_STREQ(AllKernels().back()->name, "portable");
}

}  // namespace
}  // namespace shoal
