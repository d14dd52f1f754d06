#include "core/wire_format.h"

#include "gtest/gtest.h"

namespace shoal {
namespace {

constexpr WireFormat kAll[] = {WireFormat::kAsIs, WireFormat::kFloat16, WireFormat::kBfloat16};

TEST(WireFormat, OnlyFloat32IsNarrowed) {
  for (uint8_t number = 1; number <= 9; ++number) {
    const auto tensor = static_cast<DataType>(number);
    const bool is_float32 = tensor == DataType::kFloat32;
    EXPECT_EQ(TypeOnWire(WireFormat::kAsIs, tensor), tensor);
    EXPECT_EQ(TypeOnWire(WireFormat::kFloat16, tensor), is_float32 ? DataType::kFloat16 : tensor);
    EXPECT_EQ(TypeOnWire(WireFormat::kBfloat16, tensor), is_float32 ? DataType::kBfloat16 : tensor);
  }
}

TEST(WireFormat, NamesAndNumbersComeBack) {
  for (const WireFormat wire : kAll) {
    EXPECT_EQ(WireFormatFromName(WireFormatName(wire)), wire);
    EXPECT_EQ(WireFormatFromNumber(static_cast<uint32_t>(wire)), wire);
  }
  EXPECT_EQ(WireFormatName(WireFormat::kBfloat16), "bf16");
  EXPECT_EQ(static_cast<int>(WireFormat::kFloat16), 3) << "numbers are frozen";
  EXPECT_EQ(static_cast<int>(WireFormat::kBfloat16), 4);
}

TEST(WireFormat, WhatIsUnknownIsNone) {
  for (const uint32_t number : {1u, 2u, 5u, 259u, UINT32_MAX}) EXPECT_FALSE(WireFormatFromNumber(number)) << number;
  for (const char* name : {"", "bfloat16", "BF16", "fp32"}) EXPECT_FALSE(WireFormatFromName(name)) << name;
}

}  // namespace
}  // namespace shoal
