#include "core/dtype.h"

#include <set>
#include <string>

#include "gtest/gtest.h"
#include "worker/include/shoal/worker.h"

namespace shoal {
namespace {

TEST(DataType, WireNumbersAreFrozenAndEqualThePublicHeader) {
  EXPECT_EQ(static_cast<int>(DataType::kFloat32), SHOAL_FLOAT32);
  EXPECT_EQ(static_cast<int>(DataType::kFloat64), SHOAL_FLOAT64);
  EXPECT_EQ(static_cast<int>(DataType::kFloat16), SHOAL_FLOAT16);
  EXPECT_EQ(static_cast<int>(DataType::kBfloat16), SHOAL_BFLOAT16);
  EXPECT_EQ(static_cast<int>(DataType::kInt8), SHOAL_INT8);
  EXPECT_EQ(static_cast<int>(DataType::kInt16), SHOAL_INT16);
  EXPECT_EQ(static_cast<int>(DataType::kInt32), SHOAL_INT32);
  EXPECT_EQ(static_cast<int>(DataType::kInt64), SHOAL_INT64);
  EXPECT_EQ(static_cast<int>(DataType::kUint8), SHOAL_UINT8);
  EXPECT_EQ(static_cast<int>(ReduceOp::kSum), SHOAL_SUM);
  EXPECT_EQ(static_cast<int>(ReduceOp::kAvg), SHOAL_AVG);
  EXPECT_EQ(static_cast<int>(ReduceOp::kPremulSum), SHOAL_PREMUL_SUM);
  EXPECT_EQ(static_cast<int>(ReduceOp::kMin), SHOAL_MIN);
  EXPECT_EQ(static_cast<int>(ReduceOp::kMax), SHOAL_MAX);
  EXPECT_EQ(static_cast<int>(ReduceOp::kProd), SHOAL_PROD);
}

TEST(DataType, EveryByteFromThePeerIsATypeOrRefused) {
  std::set<std::string> names;
  for (int number = 0; number < 256; ++number) {
    const std::optional<DataType> type = DataTypeFromWire(static_cast<uint8_t>(number));
    ASSERT_EQ(type.has_value(), number >= 1 && number <= 9) << number;
    if (!type) continue;
    EXPECT_EQ(static_cast<int>(*type), number);
    names.insert(std::string(DataTypeName(*type)));
    EXPECT_EQ(DataTypeFromName(DataTypeName(*type)), *type);
  }
  EXPECT_EQ(names.size(), 9u);
}

TEST(ReduceOp, EveryByteFromThePeerIsAnOpOrRefused) {
  std::set<std::string> names;
  for (int number = 0; number < 256; ++number) {
    const std::optional<ReduceOp> op = ReduceOpFromWire(static_cast<uint8_t>(number));
    ASSERT_EQ(op.has_value(), number >= 1 && number <= 6) << number;
    if (!op) continue;
    EXPECT_EQ(static_cast<int>(*op), number);
    names.insert(std::string(ReduceOpName(*op)));
    EXPECT_EQ(ReduceOpFromName(ReduceOpName(*op)), *op);
  }
  EXPECT_EQ(names.size(), 6u);
}

TEST(DataType, SizesInBytes) {
  EXPECT_EQ(DataTypeSize(DataType::kFloat32), 4u);
  EXPECT_EQ(DataTypeSize(DataType::kFloat64), 8u);
  EXPECT_EQ(DataTypeSize(DataType::kFloat16), 2u);
  EXPECT_EQ(DataTypeSize(DataType::kBfloat16), 2u);
  EXPECT_EQ(DataTypeSize(DataType::kInt8), 1u);
  EXPECT_EQ(DataTypeSize(DataType::kInt16), 2u);
  EXPECT_EQ(DataTypeSize(DataType::kInt32), 4u);
  EXPECT_EQ(DataTypeSize(DataType::kInt64), 8u);
  EXPECT_EQ(DataTypeSize(DataType::kUint8), 1u);
}

TEST(DataType, UnknownNamesAreRefused) {
  EXPECT_FALSE(DataTypeFromName("complex64"));
  EXPECT_FALSE(DataTypeFromName(""));
  EXPECT_FALSE(DataTypeFromName("Float32"));
  EXPECT_FALSE(ReduceOpFromName("band"));
  EXPECT_FALSE(ReduceOpFromName(""));
}

}  // namespace
}  // namespace shoal
