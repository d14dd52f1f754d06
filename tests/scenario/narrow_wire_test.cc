// All-reduces of groups whose float32 tensors cross the wire as 16 or 8 bits: which bits come back, and how far they
// are off.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "reduce/convert.h"
#include "reduce/reduce.h"
#include "tests/scenario/cluster.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

using Bytes = std::vector<std::byte>;
using Tensor = std::vector<float>;

Tensor RandomTensor(uint64_t seed, size_t elements) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  Tensor tensor(elements);
  for (float& value : tensor) value = normal(random);
  return tensor;
}

std::vector<Tensor> RandomTensors(uint32_t workers, uint64_t seed, size_t elements) {
  std::vector<Tensor> tensors;
  for (uint32_t w = 0; w < workers; ++w) tensors.push_back(RandomTensor(seed * 100 + w, elements));
  return tensors;
}

std::span<std::byte> BytesOf(Tensor& tensor) { return std::as_writable_bytes(std::span(tensor)); }

WireCodec CodecOf(WireFormat wire) { return {DataType::kFloat32, wire}; }

Bytes Narrowed(WireFormat wire, const Tensor& tensor) {
  Bytes narrow(CodecOf(wire).WireBytes(tensor.size()));
  Encode(CodecOf(wire), reinterpret_cast<const std::byte*>(tensor.data()), narrow.data(), tensor.size());
  return narrow;
}

Tensor Widened(WireFormat wire, const Bytes& narrow, size_t elements) {
  Tensor tensor(elements);
  Decode(CodecOf(wire), narrow.data(), BytesOf(tensor).data(), tensor.size());
  return tensor;
}

// What the definition gives: each contribution rounded, summed in fp32 in rank order, rounded once.
Tensor Expected(WireFormat wire, const std::vector<Tensor>& inputs, ReduceOp op, double factor) {
  std::vector<Bytes> narrow;
  std::vector<const std::byte*> pointers;
  for (const Tensor& input : inputs) narrow.push_back(Narrowed(wire, input));
  for (const Bytes& input : narrow) pointers.push_back(input.data());
  Bytes result(narrow[0].size());
  Reduce({CodecOf(wire), op, factor}, pointers, result.data(), inputs[0].size());
  return Widened(wire, result, inputs[0].size());
}

void ExpectTensor(const Tensor& got, const Tensor& expected, const std::string& where) {
  ASSERT_EQ(got.size(), expected.size());
  ASSERT_EQ(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)), 0) << where;
}

void ExpectExpected(const ClusterOptions& options) {
  const std::string where =
      absl::StrCat(options.workers, " workers, ", options.servers, " servers, chunks of ", options.max_chunk_bytes,
                   " bytes, ", std::string(WireFormatName(options.wire)));
  struct Call {
    ReduceOp op;
    double factor;
    size_t elements;
  };
  const Call calls[] = {{ReduceOp::kSum, 1, 30'011}, {ReduceOp::kAvg, 1, 5'003}, {ReduceOp::kPremulSum, 0.3, 2'001},
                        {ReduceOp::kMin, 1, 513},    {ReduceOp::kMax, 1, 1},     {ReduceOp::kProd, 1, 511}};
  Cluster cluster(options);
  cluster.OpenGroup(1, 0);
  std::vector<std::vector<Tensor>> tensors;
  std::vector<Tensor> expected;
  for (size_t i = 0; i < std::size(calls); ++i) {
    tensors.push_back(RandomTensors(options.workers, i, calls[i].elements));
    expected.push_back(Expected(options.wire, tensors[i], calls[i].op, calls[i].factor));
    for (uint32_t w = 0; w < options.workers; ++w) {
      cluster.Submit(w, 0, i, BytesOf(tensors[i][w]), DataType::kFloat32, calls[i].op, calls[i].factor);
    }
  }
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.AllDone(0, std::size(calls) - 1); })) << where;
  for (size_t i = 0; i < std::size(calls); ++i) {
    for (uint32_t w = 0; w < options.workers; ++w) {
      ASSERT_TRUE(cluster.Done(w, i)->status.ok()) << where << ": " << cluster.Done(w, i)->status;
      ExpectTensor(tensors[i][w], expected[i], absl::StrCat(where, ", op ", i, ", worker ", w));
    }
  }
}

TEST(NarrowWire, I1TheBitsDoNotDependOnServersChunkSizeOrArrivalOrder) {
  for (const WireFormat wire : kNarrowWires) {
    for (uint32_t workers = 1; workers <= 4; ++workers) {
      for (uint32_t servers = 1; servers <= 3; ++servers) {
        for (uint32_t chunk_bytes : {1024u, 16u << 10, 1u << 20}) {
          ExpectExpected({.workers = workers,
                          .servers = servers,
                          .max_chunk_bytes = chunk_bytes,
                          .wire = wire,
                          .seed = workers * 100 + servers * 10});
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

void ExpectBytes(WireFormat wire, uint64_t bytes) {
  Cluster cluster({.workers = 2, .servers = 2, .wire = wire});
  cluster.OpenGroup(1, 0);
  std::vector<Tensor> tensors = RandomTensors(2, 3, 20'000);
  for (uint32_t w = 0; w < 2; ++w) {
    cluster.Submit(w, 0, 1, BytesOf(tensors[w]), DataType::kFloat32, ReduceOp::kSum);
  }
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.AllDone(1, 1); }));
  EXPECT_EQ(cluster.worker_counters(0).bytes_pushed, bytes);
  EXPECT_EQ(cluster.worker_counters(0).bytes_pulled, bytes);
}

TEST(NarrowWire, HalfTheBytesCross) { ExpectBytes(WireFormat::kBfloat16, 40'000); }

TEST(NarrowWire, AByteAndAThirtysecondCrossForANumberOfABlock) {
  ExpectBytes(WireFormat::kInt8, 20'000 + 625);
  ExpectBytes(WireFormat::kFloat8, 20'000 + 625);
}

// In its place, with what is beside it in its block lost and all else as it is.
void ExpectNanAndInfinityInTheirPlaces(WireFormat wire) {
  Cluster cluster({.workers = 3, .servers = 2, .wire = wire});
  cluster.OpenGroup(1, 0);
  std::vector<Tensor> tensors(3, Tensor(3000, 0.25f));
  tensors[1][1000] = std::numeric_limits<float>::quiet_NaN();
  tensors[2][2000] = -std::numeric_limits<float>::infinity();
  for (uint32_t w = 0; w < 3; ++w) {
    cluster.Submit(w, 0, 1, BytesOf(tensors[w]), DataType::kFloat32, ReduceOp::kSum);
  }
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.AllDone(1, 1); }));
  for (uint32_t w = 0; w < 3; ++w) {
    for (size_t i = 0; i < 3000; ++i) {
      if (i == 1000) {
        ASSERT_TRUE(std::isnan(tensors[w][i]));
      } else if (i == 2000) {
        ASSERT_EQ(tensors[w][i], -std::numeric_limits<float>::infinity());
      } else {
        ASSERT_EQ(tensors[w][i], i / 32 == 1000 / 32 || i / 32 == 2000 / 32 ? 0.0f : 0.75f) << i;
      }
    }
  }
}

TEST(NarrowWire, NanAndInfinityOfOneRankReachAllInBlocks) {
  ExpectNanAndInfinityInTheirPlaces(WireFormat::kInt8);
  ExpectNanAndInfinityInTheirPlaces(WireFormat::kFloat8);
}

TEST(NarrowWire, OtherTypesCrossAsTheyAre) {
  Cluster cluster({.workers = 2, .servers = 2, .wire = WireFormat::kFloat16});
  cluster.OpenGroup(1, 0);
  std::vector<std::vector<double>> tensors(2, std::vector<double>(1000));
  for (size_t i = 0; i < 1000; ++i) {
    tensors[0][i] = 1.0 + static_cast<double>(i) * 0x1p-50;
    tensors[1][i] = 1.0 / 3.0;
  }
  const std::vector<double> left = tensors[0];
  for (uint32_t w = 0; w < 2; ++w) {
    cluster.Submit(w, 0, 1, std::as_writable_bytes(std::span(tensors[w])), DataType::kFloat64, ReduceOp::kSum);
  }
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.AllDone(1, 1); }));
  for (size_t i = 0; i < 1000; ++i) ASSERT_EQ(tensors[0][i], left[i] + 1.0 / 3.0);
}

TEST(NarrowWire, ATensorOf16BitsIsNoFloat32ThatWasNarrowed) {
  Cluster cluster({.workers = 2, .servers = 1, .wire = WireFormat::kBfloat16});
  cluster.OpenGroup(1, 0);
  Tensor float32s = RandomTensor(1, 100);
  Bytes bfloat16s(200);
  cluster.Submit(0, 0, 1, BytesOf(float32s), DataType::kFloat32, ReduceOp::kSum);
  cluster.RunUntilQuiet();
  cluster.Submit(1, 0, 1, bfloat16s, DataType::kBfloat16, ReduceOp::kSum);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.AllDone(1, 1); }));
  for (uint32_t w = 0; w < 2; ++w) {
    EXPECT_THAT(std::string(cluster.Done(w, 1)->status.message()),
                ::testing::AllOf(HasSubstr("rank 0 called sum of 100 float32 sent as bf16"),
                                 HasSubstr("rank 1 called sum of 100 bfloat16")));
  }
}

// ---- how far off ----

Tensor Rounded(WireFormat wire, const Tensor& tensor) { return Widened(wire, Narrowed(wire, tensor), tensor.size()); }

struct Errors {
  double mean_square = 0;
  double largest = 0;
};

Errors ErrorsOf(const Tensor& got, const std::vector<Tensor>& inputs) {
  Errors errors;
  for (size_t i = 0; i < got.size(); ++i) {
    double exact = 0;
    for (const Tensor& input : inputs) exact += input[i];
    const double error = std::fabs(got[i] - exact);
    errors.mean_square += error * error / static_cast<double>(got.size());
    errors.largest = std::max(errors.largest, error);
  }
  return errors;
}

// A ring's reduce-scatter with the same wire: the part travels from rank to rank, each adds its own and rounds.
// `rounded_first`: the tensor was rounded before, as a compression hook does; else each rank adds its float32.
Tensor RingSum(WireFormat wire, const std::vector<Tensor>& inputs, bool rounded_first) {
  Tensor sum = Rounded(wire, inputs[0]);
  for (size_t k = 1; k < inputs.size(); ++k) {
    const Tensor own = rounded_first ? Rounded(wire, inputs[k]) : inputs[k];
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += own[i];
    sum = Rounded(wire, sum);
  }
  return sum;
}

Tensor ClusterSum(WireFormat wire, std::vector<Tensor> tensors) {
  Cluster cluster({.workers = static_cast<uint32_t>(tensors.size()), .servers = 2, .wire = wire});
  cluster.OpenGroup(1, 0);
  for (uint32_t w = 0; w < tensors.size(); ++w) {
    cluster.Submit(w, 0, 1, BytesOf(tensors[w]), DataType::kFloat32, ReduceOp::kSum);
  }
  EXPECT_TRUE(cluster.RunUntil([&] { return cluster.AllDone(1, 1); }));
  return tensors[0];
}

TEST(NarrowWire, TheErrorIsBelowThatOfARingWithTheSameWire) {
  constexpr uint32_t kRanks = 8;
  constexpr size_t kElements = 20'000;
  std::vector<Tensor> of_both_signs = RandomTensors(kRanks, 77, kElements);
  std::vector<Tensor> positive = of_both_signs;
  for (Tensor& tensor : positive) {
    for (float& value : tensor) value = std::fabs(value);
  }
  for (const WireFormat wire : kNarrowWires) {
    for (const std::vector<Tensor>* inputs : {&of_both_signs, &positive}) {
      const Errors ours = ErrorsOf(ClusterSum(wire, *inputs), *inputs);
      for (const bool rounded_first : {false, true}) {
        const Errors ring = ErrorsOf(RingSum(wire, *inputs, rounded_first), *inputs);
        EXPECT_LE(ours.mean_square, ring.mean_square) << WireFormatName(wire) << rounded_first;
        EXPECT_LE(ours.largest, ring.largest) << WireFormatName(wire) << rounded_first;
        RecordProperty(absl::StrCat(std::string(WireFormatName(wire)), inputs == &positive ? "_positive" : "_normal",
                                    rounded_first ? "_hook" : "_fp32_add", "_rms_over_ring"),
                       absl::StrCat(std::sqrt(ours.mean_square / ring.mean_square)));
      }
    }
  }
}

// Documented in docs/numerics.md: u (sum of |x| + |sum|), and what fp32 adds.
TEST(NarrowWire, TheErrorKeepsItsBound) {
  constexpr size_t kElements = 20'000;
  const std::vector<Tensor> inputs = RandomTensors(8, 78, kElements);
  for (const WireFormat wire : {WireFormat::kFloat16, WireFormat::kBfloat16}) {
    const double unit = std::ldexp(1.0, wire == WireFormat::kBfloat16 ? -8 : -11);
    const Tensor sum = ClusterSum(wire, inputs);
    for (size_t i = 0; i < kElements; ++i) {
      double exact = 0;
      double magnitudes = 0;
      for (const Tensor& input : inputs) {
        exact += input[i];
        magnitudes += std::fabs(input[i]);
      }
      // The result is rounded from a sum that may itself be off; the 1.01 covers that, fp32's share and denormals.
      ASSERT_LE(std::fabs(sum[i] - exact), 1.01 * unit * (magnitudes + std::fabs(exact)) + 0x1p-24) << i;
    }
  }
}

// There as well: the largest numbers of the element's block count too, and with int8 they alone.
void ExpectErrorsOfBlocksWithinTheirBound(WireFormat wire) {
  constexpr size_t kElements = 20'000;
  const std::vector<Tensor> inputs = RandomTensors(8, 79, kElements);
  const Tensor sum = ClusterSum(wire, inputs);
  for (size_t first = 0; first < kElements; first += kBlockElements) {
    const size_t end = std::min<size_t>(first + kBlockElements, kElements);
    std::vector<double> exact(end - first);
    std::vector<double> magnitudes(end - first);
    double largest_sum = 0;
    double largest_inputs = 0;
    for (const Tensor& input : inputs) {
      double largest = 0;
      for (size_t i = first; i < end; ++i) {
        const double magnitude = std::fabs(static_cast<double>(input[i]));
        exact[i - first] += input[i];
        magnitudes[i - first] += magnitude;
        largest = std::max(largest, magnitude);
      }
      largest_inputs += largest;
    }
    for (const double each : exact) largest_sum = std::max(largest_sum, std::fabs(each));
    for (size_t i = 0; i < exact.size(); ++i) {
      // The second sum of each may itself be off.
      const double of_int8 = (1.01 * largest_inputs + largest_sum) / 127.5;
      const double of_float8 =
          (1.06 * magnitudes[i] + std::fabs(exact[i])) / 17 + (1.06 * largest_inputs + 1.06 * largest_sum) / 237'568;
      ASSERT_LE(std::fabs(sum[first + i] - exact[i]), wire == WireFormat::kInt8 ? of_int8 : of_float8) << first + i;
    }
  }
}

TEST(NarrowWire, TheErrorOfInt8KeepsItsBound) { ExpectErrorsOfBlocksWithinTheirBound(WireFormat::kInt8); }

TEST(NarrowWire, TheErrorOfFloat8KeepsItsBound) { ExpectErrorsOfBlocksWithinTheirBound(WireFormat::kFloat8); }

}  // namespace
}  // namespace shoal
