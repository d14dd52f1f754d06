// From tensors to the wire and back: every codec; of fp32 to 16 bits every 16-bit value, ties, lengths, alignments, and
// the thread's floating point mode. (Of fp32 to blocks: block_test.cc.)
#include "reduce/convert.h"

#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <random>

#include "gtest/gtest.h"
#include "tests/unit/reduce/reference.h"

namespace shoal {
namespace {

struct WireCase {
  WireFormat wire;
  HalfFormat format;
};
constexpr WireCase kWireCases[] = {{WireFormat::kFloat16, kFloat16Format}, {WireFormat::kBfloat16, kBfloat16Format}};

const ConvertKernels& KernelsOf(const KernelTable& table, WireFormat wire) {
  return wire == WireFormat::kFloat16 ? table.float16 : table.bfloat16;
}

std::vector<WireCodec> AllCodecs() {
  std::vector<WireCodec> codecs;
  for (uint8_t number = 1; DataTypeFromWire(number).has_value(); ++number) {
    codecs.push_back(WireCodec(*DataTypeFromWire(number)));
  }
  for (const WireFormat wire : kNarrowWires) codecs.push_back(WireCodec(DataType::kFloat32, wire));
  return codecs;
}

template <typename From>
const std::byte* BytesOf(const std::vector<From>& numbers) {
  return reinterpret_cast<const std::byte*>(numbers.data());
}

// Numbers around every value of the format: the value, half a unit in the last place more, and the neighbours of both.
std::vector<uint32_t> Float32sAround(HalfFormat format) {
  std::vector<uint32_t> all;
  for (uint32_t bits = 0; bits < 0x8000; ++bits) {
    const double value = DecodeHalf(format, static_cast<uint16_t>(bits));
    if (std::isnan(value)) continue;
    const double next = DecodeHalf(format, static_cast<uint16_t>(bits + 1));
    const double middle = std::isfinite(next) ? (value + next) / 2 : value;
    for (const double center : {value, middle}) {
      const uint32_t exact = std::bit_cast<uint32_t>(static_cast<float>(center));
      for (const uint32_t near : {exact, exact + 1, exact == 0 ? 0 : exact - 1}) {
        all.push_back(near);
        all.push_back(near | 0x80000000u);
      }
    }
  }
  std::mt19937 random(17);
  for (int i = 0; i < 100'000; ++i) all.push_back(random());
  return all;
}

TEST(Convert, EveryNumberIsWidenedExactly) {
  std::vector<uint16_t> halves(65536);
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i);
  for (const WireCase& wire : kWireCases) {
    for (const KernelTable* table : AllKernels()) {
      std::vector<uint32_t> output(halves.size());
      KernelsOf(*table, wire.wire).widen(BytesOf(halves), reinterpret_cast<std::byte*>(output.data()), halves.size());
      for (size_t i = 0; i < halves.size(); ++i) {
        const double value = DecodeHalf(wire.format, halves[i]);
        const uint32_t expected = std::isnan(value) ? 0x7fc00000u : std::bit_cast<uint32_t>(static_cast<float>(value));
        ASSERT_EQ(output[i], expected) << table->name << " of 0x" << std::hex << i;
      }
    }
  }
}

TEST(Convert, NumbersAreNarrowedToNearestEven) {
  for (const WireCase& wire : kWireCases) {
    const std::vector<uint32_t> input = Float32sAround(wire.format);
    for (const KernelTable* table : AllKernels()) {
      std::vector<uint16_t> output(input.size());
      KernelsOf(*table, wire.wire).narrow(BytesOf(input), reinterpret_cast<std::byte*>(output.data()), input.size());
      for (size_t i = 0; i < input.size(); ++i) {
        ASSERT_EQ(output[i], EncodeHalf(wire.format, std::bit_cast<float>(input[i])))
            << table->name << " of 0x" << std::hex << input[i];
      }
    }
  }
}

TEST(Convert, LengthAndAlignmentChangeNothing) {
  constexpr size_t kCount = 150;
  constexpr std::byte kGuard{0xa5};
  std::mt19937 random(5);
  std::vector<std::byte> input(4 * kCount + 64);
  for (std::byte& byte : input) byte = static_cast<std::byte>(random());
  for (const WireCase& wire : kWireCases) {
    for (const KernelTable* table : AllKernels()) {
      for (const bool narrow : {true, false}) {
        const ConvertKernel kernel = narrow ? KernelsOf(*table, wire.wire).narrow : KernelsOf(*table, wire.wire).widen;
        const size_t to_bytes = narrow ? 2 : 4;
        for (size_t offset = 0; offset < 64; offset += 7) {
          std::vector<std::byte> whole(to_bytes * kCount);
          kernel(input.data() + offset, whole.data(), kCount);
          for (size_t count = 0; count <= kCount; ++count) {
            std::vector<std::byte> output(to_bytes * kCount + 8, kGuard);
            kernel(input.data() + offset, output.data() + 3, count);
            ASSERT_EQ(std::memcmp(output.data() + 3, whole.data(), to_bytes * count), 0) << table->name << count;
            ASSERT_EQ(output[2], kGuard);
            ASSERT_EQ(output[3 + to_bytes * count], kGuard) << table->name << " wrote beyond " << count;
          }
        }
      }
    }
  }
}

TEST(Convert, TheThreadsRoundingModeChangesNothing) {
  for (const WireCase& wire : kWireCases) {
    const std::vector<uint32_t> input = Float32sAround(wire.format);
    const WireCodec codec(DataType::kFloat32, wire.wire);
    std::vector<uint16_t> expected(input.size());
    Encode(codec, BytesOf(input), reinterpret_cast<std::byte*>(expected.data()), input.size());
    std::vector<uint16_t> output(input.size());
    std::fesetround(FE_UPWARD);
    Encode(codec, BytesOf(input), reinterpret_cast<std::byte*>(output.data()), input.size());
    std::fesetround(FE_TONEAREST);
    EXPECT_EQ(output, expected);
    std::vector<uint32_t> wide(output.size());
    Decode(codec, BytesOf(output), reinterpret_cast<std::byte*>(wide.data()), output.size());
    std::vector<uint16_t> again(output.size());
    Encode(codec, BytesOf(wide), reinterpret_cast<std::byte*>(again.data()), wide.size());
    EXPECT_EQ(again, output);
  }
}

// Lengths around those of vectors and lines, nothing included; no byte beside what was asked for is written.
TEST(Convert, EveryCodecFillsItsBytesAndNoOthers) {
  constexpr size_t kMost = 1000;
  constexpr std::byte kGuard{0xa5};
  std::mt19937 random(9);
  std::vector<std::byte> tensor(8 * kMost);
  for (std::byte& byte : tensor) byte = static_cast<std::byte>(random());
  for (const WireCodec codec : AllCodecs()) {
    for (const size_t count : {0, 1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1000}) {
      SCOPED_TRACE(WireCodecName(codec) + " " + std::to_string(count));
      // Zeros do not change the scale of their block.
      std::vector<std::byte> padded = tensor;
      std::fill(padded.begin() + static_cast<std::ptrdiff_t>(codec.TensorBytes(count)), padded.end(), std::byte{});
      std::vector<std::byte> whole(codec.WireBytes(kMost));
      Encode(codec, padded.data(), whole.data(), kMost);
      std::vector<std::byte> decoded(codec.TensorBytes(kMost));
      Decode(codec, whole.data(), decoded.data(), kMost);
      std::vector<std::byte> wire(codec.WireBytes(count) + 2, kGuard);
      Encode(codec, tensor.data(), wire.data() + 1, count);
      ASSERT_EQ(std::memcmp(wire.data() + 1, whole.data(), codec.WireBytes(count)), 0);
      ASSERT_TRUE(wire.front() == kGuard && wire.back() == kGuard);
      std::vector<std::byte> back(codec.TensorBytes(count) + 2, kGuard);
      Decode(codec, wire.data() + 1, back.data() + 1, count);
      ASSERT_EQ(std::memcmp(back.data() + 1, decoded.data(), codec.TensorBytes(count)), 0);
      ASSERT_TRUE(back.front() == kGuard && back.back() == kGuard);
    }
  }
}

// A rank that keeps a result for others keeps the decoded tensor alone.
TEST(Convert, EveryCodecIsIdempotent) {
  constexpr size_t kElements = 100'000;
  std::mt19937 random(10);
  std::vector<std::byte> tensor(8 * kElements);
  for (std::byte& byte : tensor) byte = static_cast<std::byte>(random());
  for (const WireCodec codec : AllCodecs()) {
    std::vector<std::byte> wire(codec.WireBytes(kElements));
    Encode(codec, tensor.data(), wire.data(), kElements);
    std::vector<std::byte> decoded(codec.TensorBytes(kElements));
    Decode(codec, wire.data(), decoded.data(), kElements);
    std::vector<std::byte> again(wire.size());
    Encode(codec, decoded.data(), again.data(), kElements);
    EXPECT_EQ(again, wire) << WireCodecName(codec);
    const bool is_as_before = std::memcmp(decoded.data(), tensor.data(), decoded.size()) == 0;
    EXPECT_EQ(is_as_before, codec.is_identity()) << WireCodecName(codec);
  }
}

TEST(Convert, ARunFromAnAlignedElementOnIsEncodedAsAlone) {
  constexpr size_t kElements = 640;
  std::mt19937 random(11);
  std::vector<std::byte> tensor(8 * kElements);
  for (std::byte& byte : tensor) byte = static_cast<std::byte>(random());
  for (const WireCodec codec : AllCodecs()) {
    std::vector<std::byte> whole(codec.WireBytes(kElements));
    Encode(codec, tensor.data(), whole.data(), kElements);
    for (size_t first = 0; first < kElements; first += codec.alignment_elements()) {
      std::vector<std::byte> rest(codec.WireBytes(kElements - first));
      Encode(codec, tensor.data() + codec.TensorBytes(first), rest.data(), kElements - first);
      ASSERT_EQ(codec.WireBytes(first) + rest.size(), whole.size());
      ASSERT_EQ(std::memcmp(rest.data(), whole.data() + codec.WireBytes(first), rest.size()), 0)
          << WireCodecName(codec) << " from element " << first;
    }
  }
}

}  // namespace
}  // namespace shoal
