// Float32 sent in blocks of int8 and of fp8: every kernel against a plain reference in double precision, and what the
// format promises (docs/numerics.md): idempotence, NaN and infinities in their places, and an answer to any bytes.
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

constexpr size_t kBlock = kBlockElements;
constexpr std::byte kUntouched{0xa5};
constexpr float kInfinite = std::numeric_limits<float>::infinity();
constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();

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

// The magnitudes that the bytes of a type stand for, in order, and one more: 128 is no int8, and 480 would be the byte
// that is NaN.
std::vector<double> MakeMagnitudes(WireFormat wire) {
  const bool is_int8 = wire == WireFormat::kInt8;
  std::vector<double> magnitudes;
  for (int code = 0; code <= (is_int8 ? 128 : 127); ++code) {
    const double of_float8 = code < 8 ? std::ldexp(code, -9) : std::ldexp(8 + code % 8, code / 8 - 10);
    magnitudes.push_back(is_int8 ? code : of_float8);
  }
  return magnitudes;
}

struct BlockFormat {
  WireFormat wire;
  int least_scale;
  int most_scale;
  uint32_t border_mantissa;  // of the largest number of a block that has the smaller one of two scales
  std::vector<double> magnitudes = MakeMagnitudes(wire);

  WireCodec codec() const { return {DataType::kFloat32, wire}; }
  size_t most_code() const { return magnitudes.size() - 2; }
  // The nearest magnitude, of two the even one. Too large: the last.
  size_t NearestCode(double magnitude) const {
    const auto above = std::lower_bound(magnitudes.begin(), magnitudes.end(), magnitude);
    if (above == magnitudes.end()) return magnitudes.size() - 1;
    const auto code = static_cast<size_t>(above - magnitudes.begin());
    if (code == 0) return 0;
    const double more = *above - magnitude;
    const double less = magnitude - magnitudes[code - 1];
    return more < less || (more == less && code % 2 == 0) ? code : code - 1;
  }
  uint8_t ByteOf(size_t code, bool negative) const {
    if (wire == WireFormat::kFloat8) return static_cast<uint8_t>(code | (negative ? 0x80 : 0));
    return static_cast<uint8_t>(negative ? -static_cast<int>(code) : static_cast<int>(code));
  }
  // In units of the scale.
  double ValueOf(uint8_t byte) const {
    if (wire == WireFormat::kInt8) return static_cast<int8_t>(byte);
    if ((byte & 0x7f) == 0x7f) return kNotANumber;
    return std::copysign(magnitudes[byte & 0x7f], (byte & 0x80) != 0 ? -1.0 : 1.0);
  }
};

const BlockFormat& FormatOf(WireFormat wire) {
  static const auto& int8 = *new BlockFormat{WireFormat::kInt8, 1, 248, 0x7effff};
  static const auto& float8 = *new BlockFormat{WireFormat::kFloat8, 10, 246, 0x680000};
  return wire == WireFormat::kInt8 ? int8 : float8;
}

double Units(double value, int scale) { return std::ldexp(value, 127 - scale); }

void ReferenceEncodeBlock(const BlockFormat& format, const float* numbers, size_t count, WireData* wire) {
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
  int scale = format.least_scale;
  while (scale < format.most_scale && format.NearestCode(Units(largest, scale)) > format.most_code()) ++scale;
  wire->push_back(static_cast<uint8_t>(scale));
  for (size_t i = 0; i < count; ++i) {
    const size_t code = format.NearestCode(Units(std::fabs(static_cast<double>(numbers[i])), scale));
    wire->push_back(format.ByteOf(std::min(code, format.most_code()), std::signbit(numbers[i])));
  }
}

WireData ReferenceEncode(const BlockFormat& format, const FloatData& numbers) {
  WireData wire;
  for (size_t first = 0; first < numbers.size(); first += kBlock) {
    ReferenceEncodeBlock(format, &numbers[first], std::min(kBlock, numbers.size() - first), &wire);
  }
  return wire;
}

FloatData ReferenceDecode(const BlockFormat& format, const WireData& wire, size_t count) {
  FloatData numbers;
  for (size_t i = 0; i < count; ++i) {
    const uint8_t scale = wire[i / kBlock * (kBlock + 1)];
    const uint8_t byte = wire[i / kBlock * (kBlock + 1) + 1 + i % kBlock];
    if (scale == 255) {
      numbers.push_back(byte == 0 ? 0.0f : byte == 2 ? kInfinite : byte == 3 ? -kInfinite : kNotANumber);
    } else {
      numbers.push_back(static_cast<float>(std::ldexp(format.ValueOf(byte), scale - 127)));
    }
  }
  return numbers;
}

WireData ReferenceReduceBlocks(ReduceSpec spec, const std::vector<WireData>& inputs, size_t count) {
  const BlockFormat& format = FormatOf(spec.codec.format());
  std::vector<FloatData> decoded;
  std::vector<const std::byte*> pointers;
  for (const WireData& input : inputs) decoded.push_back(ReferenceDecode(format, input, count));
  for (const FloatData& input : decoded) pointers.push_back(RawBytesOf(input));
  spec.codec = WireCodec(DataType::kFloat32);
  FloatData sum(count);
  ReferenceReduce(spec, pointers, RawBytesOf(sum), count);
  return ReferenceEncode(format, sum);
}

// ---- numbers ----

// Blocks of every magnitude that float32 has, with zeros among them, numbers far smaller than their block's largest,
// ties, the borders between two scales, and what is not finite.
FloatData ManyNumbers(const BlockFormat& format, uint64_t seed, size_t count) {
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
        const auto bits = static_cast<uint32_t>((random() % 255) << 23 | (format.border_mantissa - 1 + random() % 4));
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

WireData AnyBytes(const BlockFormat& format, uint64_t seed, size_t count) {
  std::mt19937_64 random(seed);
  WireData bytes(format.codec().WireBytes(count));
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  // Or blocks would hardly ever be of like magnitudes.
  for (size_t at = 0; at < bytes.size(); at += kBlock + 1) {
    if (random() % 2 == 0) bytes[at] = static_cast<uint8_t>(120 + random() % 10);
    if (random() % 16 == 0) bytes[at] = 255;
  }
  return bytes;
}

class Block : public ::testing::TestWithParam<WireFormat> {
 protected:
  const BlockFormat& format() const { return FormatOf(GetParam()); }
  WireCodec codec() const { return format().codec(); }
  const BlockKernels& KernelsOf(const KernelTable& table) const {
    return GetParam() == WireFormat::kInt8 ? table.int8_blocks : table.float8_blocks;
  }
  FloatData Numbers(uint64_t seed, size_t count) const { return ManyNumbers(format(), seed, count); }
  WireData ReferenceBytes(const FloatData& numbers) const { return ReferenceEncode(format(), numbers); }

  WireData Encoded(const KernelTable& table, const FloatData& numbers) const {
    WireData wire(codec().WireBytes(numbers.size()));
    KernelsOf(table).convert.narrow(RawBytesOf(numbers), RawBytesOf(wire), numbers.size());
    return wire;
  }
  FloatData Decoded(const KernelTable& table, const WireData& wire, size_t count) const {
    FloatData numbers(count);
    KernelsOf(table).convert.widen(RawBytesOf(wire), RawBytesOf(numbers), count);
    return numbers;
  }

  void ExpectSumLikeReference(const ReduceSpec& spec, size_t input_count, size_t count, bool any_bytes) const;
  std::vector<ReduceSpec> Specs() const;
};

using Int8Block = Block;
using Float8Block = Block;

INSTANTIATE_TEST_SUITE_P(Wire, Block, testing::Values(WireFormat::kInt8, WireFormat::kFloat8),
                         [](const auto& named) { return std::string(WireFormatName(named.param)); });
INSTANTIATE_TEST_SUITE_P(Wire, Int8Block, testing::Values(WireFormat::kInt8));
INSTANTIATE_TEST_SUITE_P(Wire, Float8Block, testing::Values(WireFormat::kFloat8));

// ---- the format ----

TEST_P(Int8Block, TheBytesAreThoseOfThePage) {
  const KernelTable& table = *AllKernels()[0];
  const WireData wire = Encoded(table, {1.0f, -0.5f, 0.0f, 1.0f / 64, 0.0078125f, 0.0078126f, -1.984375f});
  EXPECT_EQ(wire, (WireData{121, 64, 0xe0, 0, 1, 0, 1, 0x81})) << "units of 2^-6; a tie goes to the even number";
  EXPECT_EQ(Encoded(table, {127.5f, 1.0f}), (WireData{128, 64, 0})) << "127.5 would round to 128";
  EXPECT_EQ(Encoded(table, {127.49f, 1.0f}), (WireData{127, 127, 1}));
  EXPECT_EQ(Encoded(table, {0.0f, -0.0f, 0x1p-127f, 0x1.8p-127f}), (WireData{1, 0, 0, 0, 1}));
  EXPECT_EQ(Encoded(table, {0x1.fffffep127f, -0x1p127f}), (WireData{248, 127, 0xc0})) << "stays finite";
  EXPECT_EQ(Encoded(table, {3.0f, kNotANumber, kInfinite, -kInfinite}), (WireData{255, 0, 1, 2, 3}));
  EXPECT_EQ(Encoded(table, FloatData(33, 1.0f)).size(), 35u);
}

TEST_P(Float8Block, TheBytesAreThoseOfThePage) {
  const KernelTable& table = *AllKernels()[0];
  EXPECT_EQ(Encoded(table, {448.0f, -1.0f, 0.0f, -0.0f, 17.0f, 19.0f, 0x1p-9f}),
            (WireData{127, 0x7e, 0xb8, 0, 0x80, 0x58, 0x5a, 1}))
      << "ties go to even numbers: 17 to 16, 19 to 20";
  EXPECT_EQ(Encoded(table, {0x1p-10f, 0x1.8p-10f, 0x1.ep-7f, 400.0f}), (WireData{127, 0, 1, 8, 0x7c}))
      << "below 2^-6 in steps of 2^-9";
  EXPECT_EQ(Encoded(table, {464.0f, 1.0f}), (WireData{127, 0x7e, 0x38})) << "a tie, which goes to 448";
  EXPECT_EQ(Encoded(table, {464.1f, 1.0f}), (WireData{128, 0x77, 0x30})) << "would round to 480, which there is not";
  EXPECT_EQ(Encoded(table, {0.0f, 0x1p-127f, -0x1.8p-127f}), (WireData{10, 0, 0, 0x81}));
  EXPECT_EQ(Encoded(table, {0x1.fffffep127f, -0x1p127f}), (WireData{246, 0x7e, 0xf8})) << "stays finite";
  EXPECT_EQ(Encoded(table, {3.0f, kNotANumber, kInfinite, -kInfinite}), (WireData{255, 0, 1, 2, 3}));
  const FloatData decoded = Decoded(table, {128, 0x7f, 0xff, 0x7e, 0x80}, 4);
  EXPECT_EQ(BitsOf(decoded), (std::vector<uint32_t>{0x7fc00000, 0x7fc00000, 0x44600000, 0x80000000}));
  EXPECT_EQ(Encoded(table, FloatData(33, 1.0f)).size(), 35u);
}

TEST_P(Block, EveryKernelEncodesAsTheReference) {
  const FloatData numbers = Numbers(1, 400'000);
  const WireData expected = ReferenceBytes(numbers);
  for (const KernelTable* table : AllKernels()) {
    const WireData wire = Encoded(*table, numbers);
    const auto differs = std::mismatch(wire.begin(), wire.end(), expected.begin(), expected.end()).first;
    EXPECT_TRUE(wire == expected) << table->name << " at byte " << differs - wire.begin();
  }
}

TEST_P(Block, EveryByteUnderEveryScaleIsDecodedAsByTheReference) {
  WireData wire;
  for (int scale = 0; scale < 256; ++scale) {
    for (int byte = 0; byte < 256; ++byte) {
      if (byte % static_cast<int>(kBlock) == 0) wire.push_back(static_cast<uint8_t>(scale));
      wire.push_back(static_cast<uint8_t>(byte));
    }
  }
  const std::vector<uint32_t> expected = BitsOf(ReferenceDecode(format(), wire, 65536));
  for (const KernelTable* table : AllKernels()) {
    const std::vector<uint32_t> bits = BitsOf(Decoded(*table, wire, 65536));
    const auto differs = std::mismatch(bits.begin(), bits.end(), expected.begin()).first;
    EXPECT_TRUE(bits == expected) << table->name << " at number " << differs - bits.begin();
  }
}

// Which is the number's own 17th with fp8, where it is not far smaller than the block's largest.
TEST_P(Block, ANumberIsOffByNoMoreThanItsBound) {
  const FloatData numbers = Numbers(2, 200'000);
  const FloatData back = Decoded(*AllKernels()[0], Encoded(*AllKernels()[0], numbers), numbers.size());
  const bool is_int8 = GetParam() == WireFormat::kInt8;
  for (size_t first = 0; first < numbers.size(); first += kBlock) {
    double largest = 0;
    bool finite = true;
    for (size_t i = first; i < first + kBlock; ++i) {
      largest = std::max(largest, std::fabs(static_cast<double>(numbers[i])));
      finite = finite && std::isfinite(numbers[i]);
    }
    if (!finite || largest > std::ldexp(464, 119)) continue;  // what is beyond is cut
    for (size_t i = first; i < first + kBlock; ++i) {
      const double number = numbers[i];
      const double bound = is_int8 ? largest / 127.5 : std::max(std::fabs(number) / 17, largest / 237'568);
      ASSERT_LE(std::fabs(back[i] - number), std::max(bound, 0x1p-127)) << i;
    }
  }
}

TEST_P(Block, WhatIsNotFiniteKeepsItsPlace) {
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

TEST_P(Block, WhatWasDecodedIsEncodedToTheSameBytes) {
  const FloatData numbers = Numbers(3, 400'000);
  for (const KernelTable* table : AllKernels()) {
    const WireData wire = Encoded(*table, numbers);
    EXPECT_TRUE(Encoded(*table, Decoded(*table, wire, numbers.size())) == wire) << table->name;
  }
}

// All pairs of a largest number and another one, under every scale that is written.
TEST_P(Block, EveryScaleAndPairOfNumbersComesBack) {
  WireData wire;
  for (int scale = format().least_scale; scale <= format().most_scale; ++scale) {
    for (size_t largest = 0; largest <= format().most_code(); ++largest) {
      // Half the scale would have been enough.
      const double twice = 2 * format().magnitudes[largest];
      if (scale > format().least_scale && format().NearestCode(twice) <= format().most_code()) continue;
      std::vector<uint8_t> others;
      for (size_t code = 0; code <= largest; ++code) {
        others.push_back(format().ByteOf(code, false));
        others.push_back(format().ByteOf(code, true));
      }
      for (size_t at = 0; at < others.size();) {
        wire.push_back(static_cast<uint8_t>(scale));
        wire.push_back(format().ByteOf(largest, largest % 2 != 0));
        for (size_t i = 1; i < kBlock; ++i, ++at) wire.push_back(others[std::min(at, others.size() - 1)]);
      }
    }
  }
  const size_t count = wire.size() / (kBlock + 1) * kBlock;
  for (const KernelTable* table : AllKernels()) {
    EXPECT_TRUE(Encoded(*table, Decoded(*table, wire, count)) == wire) << table->name;
  }
}

// ---- sums ----

TEST_P(Block, LengthAndAlignmentChangeNothing) {
  const FloatData numbers = Numbers(4, 150);
  for (const KernelTable* table : AllKernels()) {
    const ConvertKernels& convert = KernelsOf(*table).convert;
    for (size_t count = 1; count <= numbers.size(); ++count) {
      const WireData expected = ReferenceBytes({numbers.begin(), numbers.begin() + static_cast<std::ptrdiff_t>(count)});
      const FloatData decoded = ReferenceDecode(format(), expected, count);
      for (const size_t offset : {0, 3, 61}) {
        std::vector<std::byte> input(4 * count + offset);
        std::memcpy(input.data() + offset, numbers.data(), 4 * count);
        std::vector<std::byte> wire(expected.size() + offset + 8, kUntouched);
        convert.narrow(input.data() + offset, wire.data() + offset, count);
        ASSERT_EQ(std::memcmp(wire.data() + offset, expected.data(), expected.size()), 0) << table->name << count;
        ASSERT_EQ(wire[offset + expected.size()], kUntouched) << "wrote beyond " << count;
        std::vector<std::byte> back(4 * count + offset + 8, kUntouched);
        convert.widen(wire.data() + offset, back.data() + offset, count);
        ASSERT_EQ(std::memcmp(back.data() + offset, decoded.data(), 4 * count), 0) << table->name << count;
        ASSERT_EQ(back[offset + 4 * count], kUntouched) << "wrote beyond " << count;
      }
    }
  }
}

void Block::ExpectSumLikeReference(const ReduceSpec& spec, size_t input_count, size_t count, bool any_bytes) const {
  std::vector<WireData> inputs;
  std::vector<const std::byte*> pointers;
  for (size_t k = 0; k < input_count; ++k) {
    const uint64_t seed = 1000 * count + k;
    inputs.push_back(any_bytes ? AnyBytes(format(), seed, count) : ReferenceBytes(Numbers(seed, count)));
  }
  for (const WireData& input : inputs) pointers.push_back(RawBytesOf(input));
  const WireData expected = ReferenceReduceBlocks(spec, inputs, count);
  for (const KernelTable* table : AllKernels()) {
    const ReduceKernel kernel = KernelsOf(*table).reduce[static_cast<int>(spec.op) - 1];
    WireData output(expected.size() + 8, 0xa5);
    kernel(pointers.data(), input_count, RawBytesOf(output), count, spec.premul_factor, spec.ranks_per_input);
    ASSERT_EQ(std::memcmp(output.data(), expected.data(), expected.size()), 0)
        << Describe(*table, spec) << ": " << input_count << " inputs of " << count;
    ASSERT_EQ(output[expected.size()], 0xa5) << "wrote outside its output";
  }
}

std::vector<ReduceSpec> Block::Specs() const {
  std::vector<ReduceSpec> specs;
  for (uint8_t op = 1; ReduceOpFromWire(op).has_value(); ++op) specs.push_back({codec(), *ReduceOpFromWire(op), 0.37});
  specs.push_back({codec(), ReduceOp::kAvg, 1.0, 7});
  specs.push_back({codec(), ReduceOp::kPremulSum, 1e300});  // infinite as a float32
  return specs;
}

TEST_P(Block, EveryOpGivesTheReferencesBits) {
  for (const ReduceSpec& spec : Specs()) {
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

TEST_P(Block, InputsTooLargeForTheCacheGiveTheReferencesBits) {
  for (const size_t inputs : {12, 13}) ExpectSumLikeReference({codec(), ReduceOp::kSum}, inputs, 800'001, false);
}

TEST_P(Block, OutputMayBeAnyOfTheInputs) {
  constexpr size_t kCount = 9001;
  for (const size_t input_count : {3, 10}) {
    std::vector<WireData> inputs;
    for (size_t k = 0; k < input_count; ++k) inputs.push_back(ReferenceBytes(Numbers(50 + k, kCount)));
    const WireData expected = ReferenceReduceBlocks({codec(), ReduceOp::kSum}, inputs, kCount);
    for (const KernelTable* table : AllKernels()) {
      for (size_t aliased = 0; aliased < input_count; ++aliased) {
        std::vector<WireData> memory = inputs;
        std::vector<const std::byte*> pointers;
        for (const WireData& input : memory) pointers.push_back(RawBytesOf(input));
        KernelsOf(*table).reduce[0](pointers.data(), input_count, RawBytesOf(memory[aliased]), kCount, 1, 1);
        ASSERT_TRUE(memory[aliased] == expected) << table->name << " into input " << aliased;
      }
    }
  }
}

// A server sums a chunk in steps, and chunks have any size: blocks lie by the element's place in the bucket.
TEST_P(Block, BitsDoNotDependOnHowABucketIsCut) {
  constexpr size_t kCount = 5000;
  std::vector<WireData> inputs;
  for (size_t k = 0; k < 4; ++k) inputs.push_back(ReferenceBytes(Numbers(70 + k, kCount)));
  const WireData expected = ReferenceReduceBlocks({codec(), ReduceOp::kSum}, inputs, kCount);
  for (const size_t step : {64, 128, 960, 4992}) {
    WireData output(expected.size());
    for (size_t first = 0; first < kCount; first += step) {
      std::vector<const std::byte*> pointers;
      for (const WireData& input : inputs) pointers.push_back(RawBytesOf(input) + codec().WireBytes(first));
      Reduce({codec(), ReduceOp::kSum}, pointers, RawBytesOf(output) + codec().WireBytes(first),
             std::min(step, kCount - first));
    }
    EXPECT_TRUE(output == expected) << step;
  }
}

}  // namespace
}  // namespace shoal
