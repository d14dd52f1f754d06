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
    EXPECT_EQ(WireCodec(tensor).wire_type(), tensor);
    EXPECT_EQ(WireCodec(tensor, WireFormat::kFloat16).wire_type(), is_float32 ? DataType::kFloat16 : tensor);
    EXPECT_EQ(WireCodec(tensor, WireFormat::kBfloat16).wire_type(), is_float32 ? DataType::kBfloat16 : tensor);
    EXPECT_EQ(WireCodec(tensor, WireFormat::kInt8).wire_type(), is_float32 ? DataType::kInt8 : tensor);
  }
  EXPECT_EQ(WireCodec(), WireCodec(DataType::kFloat32));
}

TEST(WireCodec, AConvertedTensorIsNoTensorOfTheTypeOnTheWire) {
  const WireCodec converted(DataType::kFloat32, WireFormat::kBfloat16);
  EXPECT_EQ(converted.wire_type(), WireCodec(DataType::kBfloat16).wire_type());
  EXPECT_NE(converted, WireCodec(DataType::kBfloat16));
  EXPECT_NE(converted, WireCodec(DataType::kFloat32, WireFormat::kFloat16));
}

TEST(WireCodec, Float32IsSentAs16BitTypesAndInt8AndAsNoOther) {
  for (const DataType type : AllTypes()) {
    const std::optional<WireCodec> codec = WireCodec::Float32As(type);
    const bool may_be = type == DataType::kFloat16 || type == DataType::kBfloat16 || type == DataType::kInt8;
    ASSERT_EQ(codec.has_value(), may_be) << DataTypeName(type);
    if (!codec.has_value()) continue;
    EXPECT_EQ(codec->wire_type(), type);
    EXPECT_EQ(codec->tensor_type(), DataType::kFloat32);
    EXPECT_FALSE(codec->is_identity());
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

TEST(WireCodec, ABlockOf32Int8HasAByteMore) {
  const WireCodec codec(DataType::kFloat32, WireFormat::kInt8);
  EXPECT_EQ(codec.WireBytes(0), 0u);
  EXPECT_EQ(codec.WireBytes(1), 2u);
  EXPECT_EQ(codec.WireBytes(32), 33u);
  EXPECT_EQ(codec.WireBytes(33), 35u);
  EXPECT_EQ(codec.WireBytes(uint64_t{1} << 40), 33 * (uint64_t{1} << 35));
  EXPECT_EQ(codec.TensorBytes(33), 132u);
  EXPECT_EQ(codec.alignment_elements(), 64u);
  EXPECT_EQ(codec.ElementsIn(1024), 960u) << "15 times 66 bytes";
  EXPECT_EQ(WireCodec(DataType::kInt32, WireFormat::kInt8).WireBytes(33), 132u);
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
  EXPECT_EQ(WireCodecName(WireCodec(DataType::kFloat32, WireFormat::kFloat16)), "float32 sent as float16");
  EXPECT_EQ(WireCodecName(WireCodec(DataType::kFloat32, WireFormat::kInt8)), "float32 sent as int8 blocks");
}

}  // namespace
}  // namespace shoal
