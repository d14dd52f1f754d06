#include "core/dtype.h"

#include <array>

namespace shoal {
namespace {

struct DataTypeRow {
  DataType type;
  size_t size_bytes;
  std::string_view name;
};

constexpr std::array<DataTypeRow, 9> kDataTypes = {{
    {DataType::kFloat32, 4, "float32"},
    {DataType::kFloat64, 8, "float64"},
    {DataType::kFloat16, 2, "float16"},
    {DataType::kBfloat16, 2, "bfloat16"},
    {DataType::kInt8, 1, "int8"},
    {DataType::kInt16, 2, "int16"},
    {DataType::kInt32, 4, "int32"},
    {DataType::kInt64, 8, "int64"},
    {DataType::kUint8, 1, "uint8"},
}};

struct ReduceOpRow {
  ReduceOp op;
  std::string_view name;
};

constexpr std::array<ReduceOpRow, 6> kReduceOps = {{
    {ReduceOp::kSum, "sum"},
    {ReduceOp::kAvg, "avg"},
    {ReduceOp::kPremulSum, "premul-sum"},
    {ReduceOp::kMin, "min"},
    {ReduceOp::kMax, "max"},
    {ReduceOp::kProd, "prod"},
}};

}  // namespace

size_t DataTypeSize(DataType type) {
  for (const DataTypeRow& row : kDataTypes) {
    if (row.type == type) return row.size_bytes;
  }
  return 0;
}

bool CanReduce(DataType type, ReduceOp op) { return op != ReduceOp::kPremulSum || type <= DataType::kBfloat16; }

std::string_view DataTypeName(DataType type) {
  for (const DataTypeRow& row : kDataTypes) {
    if (row.type == type) return row.name;
  }
  return "unknown";
}

std::string_view ReduceOpName(ReduceOp op) {
  for (const ReduceOpRow& row : kReduceOps) {
    if (row.op == op) return row.name;
  }
  return "unknown";
}

std::optional<DataType> DataTypeFromWire(uint8_t number) {
  for (const DataTypeRow& row : kDataTypes) {
    if (static_cast<uint8_t>(row.type) == number) return row.type;
  }
  return std::nullopt;
}

std::optional<ReduceOp> ReduceOpFromWire(uint8_t number) {
  for (const ReduceOpRow& row : kReduceOps) {
    if (static_cast<uint8_t>(row.op) == number) return row.op;
  }
  return std::nullopt;
}

std::optional<DataType> DataTypeFromName(std::string_view name) {
  for (const DataTypeRow& row : kDataTypes) {
    if (row.name == name) return row.type;
  }
  return std::nullopt;
}

std::optional<ReduceOp> ReduceOpFromName(std::string_view name) {
  for (const ReduceOpRow& row : kReduceOps) {
    if (row.name == name) return row.op;
  }
  return std::nullopt;
}

}  // namespace shoal
