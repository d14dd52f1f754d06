// How tensors are sent: which types change on which wire, how many bytes they have, and where chunks may begin.
#include "core/wire_codec.h"

#include <vector>

#include "core/bucket_plan.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

std::vector<DataType> AllTypes() {
  std::vector<DataType> types;
  for (uint8_t number = 1; DataTypeFromWire(number).has_value(); ++number) types.push_back(*DataTypeFromWire(number));
  return types;
}

TEST(WireCodec, OnlyFloat32IsConverted) {
  for (const DataType tensor : AllTypes()) {
    const bool is_float32 = tensor == DataType::kFloat32;
    for (const WireFormat wire : kWireFormats) {
      const WireCodec codec(tensor, wire);
      EXPECT_EQ(codec.tensor_type(), tensor);
      EXPECT_EQ(codec.is_identity(), !is_float32 || wire == WireFormat::kAsIs);
      EXPECT_EQ(codec == WireCodec(tensor), codec.is_identity()) << "the wire makes no difference";
    }
    EXPECT_EQ(WireCodec(tensor).type_number(), static_cast<uint8_t>(tensor));
  }
  EXPECT_EQ(WireCodec(), WireCodec(DataType::kFloat32));
}

TEST(WireCodec, AConvertedTensorIsNoTensorOfTheTypeOnTheWire) {
  const WireCodec converted(DataType::kFloat32, WireFormat::kBfloat16);
  EXPECT_EQ(converted.type_number(), WireCodec(DataType::kBfloat16).type_number());
  EXPECT_NE(converted, WireCodec(DataType::kBfloat16));
  EXPECT_NE(converted, WireCodec(DataType::kFloat32, WireFormat::kFloat16));
}

TEST(WireCodec, WhatAFrameSaysIsACodecOrNone) {
  for (int number = 0; number < 256; ++number) {
    const auto byte = static_cast<uint8_t>(number);
    const std::optional<WireCodec> narrowed = WireCodec::FromWire(byte, true);
    ASSERT_EQ(narrowed.has_value(), number == 3 || number == 4 || number == 5 || number == 10) << number;
    if (narrowed.has_value()) {
      EXPECT_EQ(*narrowed, WireCodec(DataType::kFloat32, static_cast<WireFormat>(number)));
      EXPECT_FALSE(narrowed->is_identity());
      EXPECT_EQ(narrowed->type_number(), number);
    }
    const std::optional<WireCodec> as_it_is = WireCodec::FromWire(byte, false);
    ASSERT_EQ(as_it_is.has_value(), number >= 1 && number <= 9) << number;
    if (as_it_is.has_value()) {
      EXPECT_EQ(*as_it_is, WireCodec(static_cast<DataType>(number)));
    }
  }
}

TEST(WireCodec, BytesAreThoseOfTheElements) {
  for (const uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{7}, uint64_t{1} << 40}) {
    EXPECT_EQ(WireCodec(DataType::kInt8).WireBytes(count), count);
    EXPECT_EQ(WireCodec(DataType::kFloat64).WireBytes(count), 8 * count);
    EXPECT_EQ(WireCodec(DataType::kFloat64).TensorBytes(count), 8 * count);
    for (const WireFormat wire : {WireFormat::kFloat16, WireFormat::kBfloat16}) {
      EXPECT_EQ(WireCodec(DataType::kFloat32, wire).TensorBytes(count), 4 * count);
      EXPECT_EQ(WireCodec(DataType::kFloat32, wire).WireBytes(count), 2 * count);
      EXPECT_EQ(WireCodec(DataType::kInt64, wire).WireBytes(count), 8 * count);
    }
  }
}

TEST(WireCodec, ABlockOf32HasAByteMore) {
  for (const WireFormat wire : {WireFormat::kInt8, WireFormat::kFloat8}) {
    const WireCodec codec(DataType::kFloat32, wire);
    EXPECT_TRUE(codec.is_in_blocks());
    EXPECT_EQ(codec.WireBytes(0), 0u);
    EXPECT_EQ(codec.WireBytes(1), 2u);
    EXPECT_EQ(codec.WireBytes(32), 33u);
    EXPECT_EQ(codec.WireBytes(33), 35u);
    EXPECT_EQ(codec.WireBytes(uint64_t{1} << 40), 33 * (uint64_t{1} << 35));
    EXPECT_EQ(codec.TensorBytes(33), 132u);
    EXPECT_EQ(codec.alignment_elements(), 64u);
    EXPECT_EQ(codec.ElementsIn(1024), 960u) << "15 times 66 bytes";
    EXPECT_FALSE(WireCodec(DataType::kInt32, wire).is_in_blocks());
    EXPECT_EQ(WireCodec(DataType::kInt32, wire).WireBytes(33), 132u);
  }
}

// What cuts tensors counts on it (core/bucket_plan.h, worker/local_reduce/op_rounds.h, server/loop/inline_reducer.cc).
TEST(WireCodec, WhatFitsIsAlignedAndOneLineMoreDoesNotFit) {
  for (const DataType tensor : AllTypes()) {
    for (const WireFormat wire : kWireFormats) {
      const WireCodec codec(tensor, wire);
      EXPECT_EQ(WireCodec::kMaxAlignmentElements % codec.alignment_elements(), 0u) << WireCodecName(codec);
      for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, uint64_t{63}, uint64_t{64}, uint64_t{65}, uint64_t{1000},
                                   uint64_t{kMaxChunkBytes}, kMaxBucketBytes}) {
        const uint64_t elements = codec.ElementsIn(bytes);
        EXPECT_EQ(elements % codec.alignment_elements(), 0u) << WireCodecName(codec) << " in " << bytes;
        EXPECT_LE(codec.WireBytes(elements), bytes);
        EXPECT_GT(codec.WireBytes(elements + codec.alignment_elements()), bytes);
      }
    }
  }
}

TEST(WireCodec, NamesSayWhatIsConverted) {
  EXPECT_EQ(WireCodecName(WireCodec(DataType::kInt32, WireFormat::kFloat16)), "int32");
  EXPECT_EQ(WireCodecName(WireCodec(DataType::kFloat32, WireFormat::kFloat16)), "float32 sent as fp16");
  EXPECT_EQ(WireCodecName(WireCodec(DataType::kFloat32, WireFormat::kInt8)), "float32 sent as int8 blocks");
  EXPECT_EQ(WireCodecName(WireCodec(DataType::kFloat32, WireFormat::kFloat8)), "float32 sent as fp8 blocks");
}

}  // namespace
}  // namespace shoal
