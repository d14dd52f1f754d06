// fp32 to 16 bits and back: every 16-bit value, ties, lengths, alignments, and the thread's floating point mode.
#include "reduce/convert.h"

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
  DataType type;
  HalfFormat format;
};
constexpr WireCase kWireCases[] = {{DataType::kFloat16, kFloat16Format}, {DataType::kBfloat16, kBfloat16Format}};

const ConvertKernels& KernelsOf(const KernelTable& table, DataType type) {
  return type == DataType::kFloat16 ? table.float16 : table.bfloat16;
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
      KernelsOf(*table, wire.type).widen(BytesOf(halves), reinterpret_cast<std::byte*>(output.data()), halves.size());
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
      KernelsOf(*table, wire.type).narrow(BytesOf(input), reinterpret_cast<std::byte*>(output.data()), input.size());
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
        const ConvertKernel kernel = narrow ? KernelsOf(*table, wire.type).narrow : KernelsOf(*table, wire.type).widen;
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
    std::vector<uint16_t> expected(input.size());
    NarrowFloat32(wire.type, BytesOf(input), reinterpret_cast<std::byte*>(expected.data()), input.size());
    std::vector<uint16_t> output(input.size());
    std::fesetround(FE_UPWARD);
    NarrowFloat32(wire.type, BytesOf(input), reinterpret_cast<std::byte*>(output.data()), input.size());
    std::fesetround(FE_TONEAREST);
    EXPECT_EQ(output, expected);
    std::vector<uint32_t> wide(output.size());
    WidenToFloat32(wire.type, BytesOf(output), reinterpret_cast<std::byte*>(wide.data()), output.size());
    std::vector<uint16_t> again(output.size());
    NarrowFloat32(wire.type, BytesOf(wide), reinterpret_cast<std::byte*>(again.data()), wide.size());
    EXPECT_EQ(again, output);
  }
}

}  // namespace
}  // namespace shoal
