#include "core/wire_format.h"

#include <iterator>

#include "gtest/gtest.h"

namespace shoal {
namespace {

TEST(WireFormat, NamesAndNumbersComeBack) {
  for (const WireFormat wire : kWireFormats) {
    EXPECT_EQ(WireFormatFromName(WireFormatName(wire)), wire);
    EXPECT_EQ(WireFormatFromNumber(static_cast<uint32_t>(wire)), wire);
  }
  EXPECT_EQ(WireFormatName(WireFormat::kBfloat16), "bf16");
  EXPECT_EQ(static_cast<int>(WireFormat::kFloat16), 3) << "numbers are frozen";
  EXPECT_EQ(static_cast<int>(WireFormat::kBfloat16), 4);
  EXPECT_EQ(static_cast<int>(WireFormat::kInt8), 5);
  EXPECT_EQ(static_cast<int>(WireFormat::kFloat8), 10);
  EXPECT_EQ(WireFormatNames(", "), "none, fp16, bf16, int8, fp8");
  EXPECT_EQ(kNarrowWires.size() + 1, std::size(kWireFormats));
  for (const WireFormat wire : kNarrowWires) EXPECT_NE(wire, WireFormat::kAsIs);
}

TEST(WireFormat, WhatIsUnknownIsNone) {
  for (const uint32_t number : {1u, 2u, 6u, 9u, 11u, 259u, UINT32_MAX})
    EXPECT_FALSE(WireFormatFromNumber(number)) << number;
  for (const char* name : {"", "bfloat16", "BF16", "fp32"}) EXPECT_FALSE(WireFormatFromName(name)) << name;
}

}  // namespace
}  // namespace shoal
