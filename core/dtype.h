// Element types and reduce operations that the servers understand, with their numbers on the wire.
//
// The numbers are part of the wire format and of the public C header (worker/include/shoal/worker.h): never renumber.
// The next one is 11: 10 is a type that only the wire has (core/wire_format.h).
#ifndef SHOAL_CORE_DTYPE_H_
#define SHOAL_CORE_DTYPE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace shoal {

enum class DataType : uint8_t {
  kFloat32 = 1,
  kFloat64 = 2,
  kFloat16 = 3,
  kBfloat16 = 4,
  kInt8 = 5,
  kInt16 = 6,
  kInt32 = 7,
  kInt64 = 8,
  kUint8 = 9,
};

// kAvg divides the sum by the number of contributions (integers: truncated towards zero). kPremulSum multiplies each
// contribution by a factor that all ranks agree on, then sums; of floating types alone. kProd, kMin and kMax as named;
// a NaN in any input of kMin or kMax gives NaN.
enum class ReduceOp : uint8_t {
  kSum = 1,
  kAvg = 2,
  kPremulSum = 3,
  kMin = 4,
  kMax = 5,
  kProd = 6,
};

// Bytes of one element.
size_t DataTypeSize(DataType type);

// False: kPremulSum of integers.
bool CanReduce(DataType type, ReduceOp op);

// "float32", "bfloat16", ...; "sum", "avg", ...: the names that users read and type.
std::string_view DataTypeName(DataType type);
std::string_view ReduceOpName(ReduceOp op);

// nullopt for a number or name that is none of the above, whatever a peer or a user may have sent.
std::optional<DataType> DataTypeFromWire(uint8_t number);
std::optional<ReduceOp> ReduceOpFromWire(uint8_t number);
std::optional<DataType> DataTypeFromName(std::string_view name);
std::optional<ReduceOp> ReduceOpFromName(std::string_view name);

}  // namespace shoal

#endif  // SHOAL_CORE_DTYPE_H_
