// Float32 sent as blocks of int8: every kernel against a plain reference in double precision, and what the format
// promises (docs/numerics.md): idempotence, NaN and infinities in their places, and an answer to any bytes.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "gtest/gtest.h"
#include "reduce/convert.h"
#include "tests/unit/reduce/reference.h"

namespace shoal {
namespace {

using FloatData = std::vector<float>;
using WireData = std::vector<uint8_t>;

constexpr size_t kBlock = kInt8BlockElements;
constexpr std::byte kUntouched{0xa5};
constexpr float kInfinite = std::numeric_limits<float>::infinity();
constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();

WireCodec Codec() { return {DataType::kFloat32, WireFormat::kInt8}; }

const std::byte* RawBytesOf(const FloatData& numbers) { return reinterpret_cast<const std::byte*>(numbers.data()); }
std::byte* RawBytesOf(FloatData& numbers) { return reinterpret_cast<std::byte*>(numbers.data()); }
const std::byte* RawBytesOf(const WireData& bytes) { return reinterpret_cast<const std::byte*>(bytes.data()); }
std::byte* RawBytesOf(WireData& bytes) { return reinterpret_cast<std::byte*>(bytes.data()); }

std::vector<uint32_t> BitsOf(const FloatData& numbers) {
  std::vector<uint32_t> bits(numbers.size());
  std::memcpy(bits.data(), numbers.data(), bits.size() * sizeof(uint32_t));
  return bits;
}

// ---- the reference: the sentences of docs/numerics.md, one after another ----

double Units(double value, int scale) { return std::nearbyint(std::ldexp(value, 127 - scale)); }

void ReferenceEncodeBlock(const float* numbers, size_t count, WireData* wire) {
  double largest = 0;
  bool finite = true;
  for (size_t i = 0; i < count; ++i) {
    finite = finite && std::isfinite(numbers[i]);
    largest = std::max(largest, std::fabs(static_cast<double>(numbers[i])));
  }
  if (!finite) {
    wire->push_back(255);
    for (size_t i = 0; i < count; ++i) {
      wire->push_back(std::isfinite(numbers[i]) ? 0 : std::isnan(numbers[i]) ? 1 : numbers[i] > 0 ? 2 : 3);
    }
    return;
  }
  int scale = 1;
  while (scale < 248 && Units(largest, scale) > 127) ++scale;
  wire->push_back(static_cast<uint8_t>(scale));
  for (size_t i = 0; i < count; ++i) {
    const double units = std::clamp(Units(numbers[i], scale), -127.0, 127.0);
    wire->push_back(static_cast<uint8_t>(static_cast<int>(units)));
  }
}

WireData ReferenceEncode(const FloatData& numbers) {
  WireData wire;
  for (size_t first = 0; first < numbers.size(); first += kBlock) {
    ReferenceEncodeBlock(&numbers[first], std::min(kBlock, numbers.size() - first), &wire);
  }
  return wire;
}

FloatData ReferenceDecode(const WireData& wire, size_t count) {
  FloatData numbers;
  for (size_t i = 0; i < count; ++i) {
    const uint8_t scale = wire[i / kBlock * (kBlock + 1)];
    const uint8_t byte = wire[i / kBlock * (kBlock + 1) + 1 + i % kBlock];
    if (scale == 255) {
      numbers.push_back(byte == 0 ? 0.0f : byte == 2 ? kInfinite : byte == 3 ? -kInfinite : kNotANumber);
    } else {
      numbers.push_back(static_cast<float>(std::ldexp(static_cast<int8_t>(byte), scale - 127)));
    }
  }
  return numbers;
}

WireData ReferenceReduceBlocks(ReduceSpec spec, const std::vector<WireData>& inputs, size_t count) {
  std::vector<FloatData> decoded;
  std::vector<const std::byte*> pointers;
  for (const WireData& input : inputs) decoded.push_back(ReferenceDecode(input, count));
  for (const FloatData& input : decoded) pointers.push_back(RawBytesOf(input));
  spec.codec = WireCodec(DataType::kFloat32);
  FloatData sum(count);
  ReferenceReduce(spec, pointers, RawBytesOf(sum), count);
  return ReferenceEncode(sum);
}

// ---- numbers ----

// Blocks of every magnitude that float32 has, with zeros among them, numbers far smaller than their block's largest,
// ties, the borders between two scales, and what is not finite.
FloatData ManyNumbers(uint64_t seed, size_t count) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  FloatData numbers;
  while (numbers.size() < count) {
    const int exponent = static_cast<int>(random() % 280) - 151;
    const uint64_t kind = random() % 8;
    for (size_t i = 0; i < kBlock; ++i) {
      float number = std::ldexp(normal(random), exponent);
      if (kind == 1) number = std::ldexp(static_cast<float>(static_cast<int>(random() % 511) - 255) / 2, exponent);
      if (kind == 2) number = std::ldexp(number, -static_cast<int>(random() % 40));
      if (kind == 3) number = random() % 4 == 0 ? number : std::copysign(0.0f, number);
      if (kind == 4) number = std::bit_cast<float>(static_cast<uint32_t>(random()));  // one in 256 is not finite
      if (kind == 5) {
        const auto bits = static_cast<uint32_t>((random() % 255) << 23 | (0x7effff + random() % 3));
        number = i == 0 ? std::bit_cast<float>(bits) : std::copysign(0.0f, number);
      }
      if (kind == 6 && random() % 32 == 0) number = random() % 2 == 0 ? kNotANumber : std::copysign(kInfinite, number);
      if (kind == 7) number = std::bit_cast<float>(static_cast<uint32_t>(random() & 0x807fffff));  // denormal
      numbers.push_back(number);
    }
  }
  numbers.resize(count);
  return numbers;
}

WireData AnyBytes(uint64_t seed, size_t count) {
  std::mt19937_64 random(seed);
  WireData bytes(Codec().WireBytes(count));
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  // Or blocks would hardly ever be of like magnitudes.
  for (size_t at = 0; at < bytes.size(); at += kBlock + 1) {
    if (random() % 2 == 0) bytes[at] = static_cast<uint8_t>(120 + random() % 10);
    if (random() % 16 == 0) bytes[at] = 255;
  }
  return bytes;
}

WireData Encoded(const KernelTable& table, const FloatData& numbers) {
  WireData wire(Codec().WireBytes(numbers.size()));
  table.int8_blocks.narrow(RawBytesOf(numbers), RawBytesOf(wire), numbers.size());
  return wire;
}

FloatData Decoded(const KernelTable& table, const WireData& wire, size_t count) {
  FloatData numbers(count);
  table.int8_blocks.widen(RawBytesOf(wire), RawBytesOf(numbers), count);
  return numbers;
}

// ---- the format ----

TEST(Int8Block, TheBytesAreThoseOfThePage) {
  const WireData wire = Encoded(*AllKernels()[0], {1.0f, -0.5f, 0.0f, 1.0f / 64, 0.0078125f, 0.0078126f, -1.984375f});
  EXPECT_EQ(wire, (WireData{121, 64, 0xe0, 0, 1, 0, 1, 0x81})) << "units of 2^-6; a tie goes to the even number";
  EXPECT_EQ(Encoded(*AllKernels()[0], {127.5f, 1.0f}), (WireData{128, 64, 0})) << "127.5 would round to 128";
  EXPECT_EQ(Encoded(*AllKernels()[0], {127.49f, 1.0f}), (WireData{127, 127, 1}));
  EXPECT_EQ(Encoded(*AllKernels()[0], {0.0f, -0.0f, 0x1p-127f, 0x1.8p-127f}), (WireData{1, 0, 0, 0, 1}));
  EXPECT_EQ(Encoded(*AllKernels()[0], {0x1.fffffep127f, -0x1p127f}), (WireData{248, 127, 0xc0})) << "stays finite";
  EXPECT_EQ(Encoded(*AllKernels()[0], {3.0f, kNotANumber, kInfinite, -kInfinite}), (WireData{255, 0, 1, 2, 3}));
  EXPECT_EQ(Encoded(*AllKernels()[0], FloatData(33, 1.0f)).size(), 35u);
}

TEST(Int8Block, EveryKernelEncodesAsTheReference) {
  const FloatData numbers = ManyNumbers(1, 400'000);
  const WireData expected = ReferenceEncode(numbers);
  for (const KernelTable* table : AllKernels()) {
    const WireData wire = Encoded(*table, numbers);
    const auto differs = std::mismatch(wire.begin(), wire.end(), expected.begin(), expected.end()).first;
    EXPECT_EQ(wire, expected) << table->name << " at byte " << differs - wire.begin();
  }
}

TEST(Int8Block, EveryByteUnderEveryScaleIsDecodedAsByTheReference) {
  WireData wire;
  for (int scale = 0; scale < 256; ++scale) {
    for (int byte = 0; byte < 256; ++byte) {
      if (byte % static_cast<int>(kBlock) == 0) wire.push_back(static_cast<uint8_t>(scale));
      wire.push_back(static_cast<uint8_t>(byte));
    }
  }
  const std::vector<uint32_t> expected = BitsOf(ReferenceDecode(wire, 65536));
  for (const KernelTable* table : AllKernels()) {
    EXPECT_EQ(BitsOf(Decoded(*table, wire, 65536)), expected) << table->name;
  }
}

TEST(Int8Block, ANumberIsOffByAPartOfTheLargestOfItsBlock) {
  const FloatData numbers = ManyNumbers(2, 200'000);
  const FloatData back = Decoded(*AllKernels()[0], Encoded(*AllKernels()[0], numbers), numbers.size());
  for (size_t first = 0; first < numbers.size(); first += kBlock) {
    double largest = 0;
    bool finite = true;
    for (size_t i = first; i < first + kBlock; ++i) {
      largest = std::max(largest, std::fabs(static_cast<double>(numbers[i])));
      finite = finite && std::isfinite(numbers[i]);
    }
    for (size_t i = first; i < first + kBlock && finite; ++i) {
      ASSERT_LE(std::fabs(static_cast<double>(back[i]) - numbers[i]), std::max(largest / 127.5, 0x1p-127)) << i;
    }
  }
}

TEST(Int8Block, WhatIsNotFiniteKeepsItsPlace) {
  for (const KernelTable* table : AllKernels()) {
    for (size_t place = 0; place < 70; ++place) {
      for (const float special : {kNotANumber, kInfinite, -kInfinite}) {
        FloatData numbers(70, 1.5f);
        numbers[place] = special;
        const FloatData back = Decoded(*table, Encoded(*table, numbers), 70);
        for (size_t i = 0; i < back.size(); ++i) {
          const float expected = i == place ? special : i / kBlock == place / kBlock ? 0.0f : 1.5f;
          ASSERT_TRUE(std::isnan(expected) ? std::isnan(back[i]) : back[i] == expected) << i << " is " << back[i];
        }
      }
    }
  }
}

// ---- idempotence ----

TEST(Int8Block, WhatWasDecodedIsEncodedToTheSameBytes) {
  const FloatData numbers = ManyNumbers(3, 400'000);
  for (const KernelTable* table : AllKernels()) {
    const WireData wire = Encoded(*table, numbers);
    EXPECT_EQ(Encoded(*table, Decoded(*table, wire, numbers.size())), wire) << table->name;
  }
}

// All pairs of a largest number and another one, under every scale that is written.
TEST(Int8Block, EveryScaleAndPairOfNumbersComesBack) {
  WireData wire;
  for (int scale = 1; scale <= 248; ++scale) {
    for (int largest = scale == 1 ? 0 : 64; largest <= 127; ++largest) {
      int other = -largest;
      while (other <= largest) {
        wire.push_back(static_cast<uint8_t>(scale));
        wire.push_back(static_cast<uint8_t>(largest % 2 == 0 ? largest : -largest));
        for (size_t i = 1; i < kBlock; ++i) wire.push_back(static_cast<uint8_t>(std::min(other++, largest)));
      }
    }
  }
  const size_t count = wire.size() / (kBlock + 1) * kBlock;
  for (const KernelTable* table : AllKernels()) {
    EXPECT_EQ(Encoded(*table, Decoded(*table, wire, count)), wire) << table->name;
  }
}

// ---- sums ----

TEST(Int8Block, LengthAndAlignmentChangeNothing) {
  const FloatData numbers = ManyNumbers(4, 150);
  for (const KernelTable* table : AllKernels()) {
    for (size_t count = 1; count <= numbers.size(); ++count) {
      const WireData expected =
          ReferenceEncode({numbers.begin(), numbers.begin() + static_cast<std::ptrdiff_t>(count)});
      for (const size_t offset : {0, 3, 61}) {
        std::vector<std::byte> input(4 * count + offset);
        std::memcpy(input.data() + offset, numbers.data(), 4 * count);
        std::vector<std::byte> wire(expected.size() + offset + 8, kUntouched);
        table->int8_blocks.narrow(input.data() + offset, wire.data() + offset, count);
        ASSERT_EQ(std::memcmp(wire.data() + offset, expected.data(), expected.size()), 0) << table->name << count;
        ASSERT_EQ(wire[offset + expected.size()], kUntouched) << "wrote beyond " << count;
        std::vector<std::byte> back(4 * count + offset + 8, kUntouched);
        table->int8_blocks.widen(wire.data() + offset, back.data() + offset, count);
        const FloatData decoded = ReferenceDecode(expected, count);
        ASSERT_EQ(std::memcmp(back.data() + offset, decoded.data(), 4 * count), 0) << table->name << count;
        ASSERT_EQ(back[offset + 4 * count], kUntouched) << "wrote beyond " << count;
      }
    }
  }
}

void ExpectSumLikeReference(const ReduceSpec& spec, size_t input_count, size_t count, bool any_bytes) {
  std::vector<WireData> inputs;
  std::vector<const std::byte*> pointers;
  for (size_t k = 0; k < input_count; ++k) {
    const uint64_t seed = 1000 * count + k;
    inputs.push_back(any_bytes ? AnyBytes(seed, count) : ReferenceEncode(ManyNumbers(seed, count)));
  }
  for (const WireData& input : inputs) pointers.push_back(RawBytesOf(input));
  const WireData expected = ReferenceReduceBlocks(spec, inputs, count);
  for (const KernelTable* table : AllKernels()) {
    const ReduceKernel kernel = table->int8_block_kernels[static_cast<int>(spec.op) - 1];
    WireData output(expected.size() + 8, 0xa5);
    kernel(pointers.data(), input_count, RawBytesOf(output), count, spec.premul_factor, spec.ranks_per_input);
    ASSERT_EQ(std::memcmp(output.data(), expected.data(), expected.size()), 0)
        << Describe(*table, spec) << ": " << input_count << " inputs of " << count;
    ASSERT_EQ(output[expected.size()], 0xa5) << "wrote outside its output";
  }
}

std::vector<ReduceSpec> BlockSpecs() {
  std::vector<ReduceSpec> specs;
  for (uint8_t op = 1; ReduceOpFromWire(op).has_value(); ++op) specs.push_back({Codec(), *ReduceOpFromWire(op), 0.37});
  specs.push_back({Codec(), ReduceOp::kAvg, 1.0, 7});
  specs.push_back({Codec(), ReduceOp::kPremulSum, 1e300});  // infinite as a float32
  return specs;
}

TEST(Int8Block, EveryOpGivesTheReferencesBits) {
  for (const ReduceSpec& spec : BlockSpecs()) {
    for (const bool any_bytes : {false, true}) {
      for (size_t count = 1; count <= 140; ++count) ExpectSumLikeReference(spec, 3, count, any_bytes);
      for (const size_t inputs : {1, 2, 4, 5, 7, 8, 9, 12, 13, 33}) {
        ExpectSumLikeReference(spec, inputs, 301, any_bytes);
        ExpectSumLikeReference(spec, inputs, 4097, any_bytes);
      }
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Int8Block, InputsTooLargeForTheCacheGiveTheReferencesBits) {
  for (const size_t inputs : {12, 13}) ExpectSumLikeReference({Codec(), ReduceOp::kSum}, inputs, 800'001, false);
}

TEST(Int8Block, OutputMayBeAnyOfTheInputs) {
  constexpr size_t kCount = 9001;
  for (const size_t input_count : {3, 10}) {
    std::vector<WireData> inputs;
    for (size_t k = 0; k < input_count; ++k) inputs.push_back(ReferenceEncode(ManyNumbers(50 + k, kCount)));
    const WireData expected = ReferenceReduceBlocks({Codec(), ReduceOp::kSum}, inputs, kCount);
    for (const KernelTable* table : AllKernels()) {
      for (size_t aliased = 0; aliased < input_count; ++aliased) {
        std::vector<WireData> memory = inputs;
        std::vector<const std::byte*> pointers;
        for (const WireData& input : memory) pointers.push_back(RawBytesOf(input));
        table->int8_block_kernels[0](pointers.data(), input_count, RawBytesOf(memory[aliased]), kCount, 1, 1);
        ASSERT_EQ(memory[aliased], expected) << table->name << " into input " << aliased;
      }
    }
  }
}

// A server sums a chunk in steps, and chunks have any size: blocks lie by the element's place in the bucket.
TEST(Int8Block, BitsDoNotDependOnHowABucketIsCut) {
  constexpr size_t kCount = 5000;
  std::vector<WireData> inputs;
  for (size_t k = 0; k < 4; ++k) inputs.push_back(ReferenceEncode(ManyNumbers(70 + k, kCount)));
  const WireData expected = ReferenceReduceBlocks({Codec(), ReduceOp::kSum}, inputs, kCount);
  for (const size_t step : {64, 128, 960, 4992}) {
    WireData output(expected.size());
    for (size_t first = 0; first < kCount; first += step) {
      std::vector<const std::byte*> pointers;
      for (const WireData& input : inputs) pointers.push_back(RawBytesOf(input) + Codec().WireBytes(first));
      Reduce({Codec(), ReduceOp::kSum}, pointers, RawBytesOf(output) + Codec().WireBytes(first),
             std::min(step, kCount - first));
    }
    EXPECT_EQ(output, expected) << step;
  }
}

}  // namespace
}  // namespace shoal
