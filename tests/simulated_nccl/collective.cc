#include "tests/simulated_nccl/collective.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "reduce/convert.h"

namespace shoal::simulated_nccl {
namespace {

WireFormat Narrow(int32_t type) { return type == kFloat16 ? WireFormat::kFloat16 : WireFormat::kBfloat16; }

template <typename Number>
Number Combine(int32_t op, Number a, Number b) {
  // Integers wrap around, as on a device; the small ones would be made int.
  using Unsigned = typename std::conditional_t<std::is_integral_v<Number>, std::make_unsigned<Number>,
                                               std::type_identity<Number>>::type;
  using Wide = std::conditional_t<std::is_integral_v<Number>, uint64_t, Number>;
  const auto wide_a = static_cast<Wide>(static_cast<Unsigned>(a));
  const auto wide_b = static_cast<Wide>(static_cast<Unsigned>(b));
  switch (op) {
    case kProd:
      return static_cast<Number>(wide_a * wide_b);
    case kMax:
      return std::max(a, b);
    case kMin:
      return std::min(a, b);
    default:
      return static_cast<Number>(wide_a + wide_b);
  }
}

template <typename Number>
Number ScalarOf(const Call& call) {
  Number scalar;
  std::memcpy(&scalar, &call.scalar, sizeof(scalar));
  return scalar;
}

template <typename Number>
void Accumulate(const Call& call, Number scalar, bool is_first, const Number* piece, size_t count, Number* result) {
  for (size_t i = 0; i < count; ++i) {
    const Number number = call.op == kPremulSum ? Combine<Number>(kProd, piece[i], scalar) : piece[i];
    result[i] = is_first ? number : Combine<Number>(call.op, result[i], number);
  }
}

template <typename Number>
void Divide(const Call& call, uint32_t size, size_t count, Number* result) {
  if (call.op != kAvg) return;
  for (size_t i = 0; i < count; ++i) result[i] = static_cast<Number>(result[i] / static_cast<Number>(size));
}

template <typename Number>
void Sum(const Meeting& meeting, uint32_t size, const Call& call, size_t count, std::byte* receive) {
  for (uint32_t rank = 0; rank < size; ++rank) {
    Accumulate(call, ScalarOf<Number>(call), rank == 0, reinterpret_cast<const Number*>(meeting.PieceOf(rank)), count,
               reinterpret_cast<Number*>(receive));
  }
  Divide(call, size, count, reinterpret_cast<Number*>(receive));
}

// In float32, and rounded once at the end.
void SumNarrow(const Meeting& meeting, uint32_t size, const Call& call, size_t count, std::byte* receive) {
  const WireCodec codec(DataType::kFloat32, Narrow(call.type));
  float scalar = 0;
  Decode(codec, reinterpret_cast<const std::byte*>(&call.scalar), reinterpret_cast<std::byte*>(&scalar), 1);
  std::vector<float> piece(count);
  std::vector<float> result(count);
  for (uint32_t rank = 0; rank < size; ++rank) {
    Decode(codec, meeting.PieceOf(rank), reinterpret_cast<std::byte*>(piece.data()), count);
    Accumulate(call, scalar, rank == 0, piece.data(), count, result.data());
  }
  Divide(call, size, count, result.data());
  Encode(codec, reinterpret_cast<const std::byte*>(result.data()), receive, count);
}

void SumPiece(const Meeting& meeting, uint32_t size, const Call& call, size_t count, std::byte* receive) {
  switch (call.type) {
    case kInt8:
      return Sum<int8_t>(meeting, size, call, count, receive);
    case kUint8:
      return Sum<uint8_t>(meeting, size, call, count, receive);
    case kInt32:
      return Sum<int32_t>(meeting, size, call, count, receive);
    case kUint32:
      return Sum<uint32_t>(meeting, size, call, count, receive);
    case kInt64:
      return Sum<int64_t>(meeting, size, call, count, receive);
    case kUint64:
      return Sum<uint64_t>(meeting, size, call, count, receive);
    case kFloat32:
      return Sum<float>(meeting, size, call, count, receive);
    case kFloat64:
      return Sum<double>(meeting, size, call, count, receive);
    default:
      return SumNarrow(meeting, size, call, count, receive);
  }
}

}  // namespace

size_t SizeOf(int32_t type) {
  switch (type) {
    case kInt8:
    case kUint8:
      return 1;
    case kFloat16:
    case kBfloat16:
      return 2;
    case kInt32:
    case kUint32:
    case kFloat32:
      return 4;
    case kInt64:
    case kUint64:
    case kFloat64:
      return 8;
    default:
      return 0;
  }
}

bool RunCollective(Meeting* meeting, uint32_t rank, uint32_t size, const Call& call, const std::byte* send,
                   std::byte* receive, const std::function<bool()>& is_over) {
  const size_t element_bytes = SizeOf(call.type);
  const uint64_t most = Meeting::kPieceBytes / element_bytes;
  const uint32_t parts = call.function == kReduceScatter ? size : 1;
  const auto root = static_cast<uint32_t>(call.root);
  for (uint32_t part = 0; part < parts; ++part) {
    const std::byte* const of_part = send + part * call.count * element_bytes;
    for (uint64_t first = 0; first < call.count; first += most) {
      const uint64_t count = std::min(most, call.count - first);
      const size_t bytes = count * element_bytes;
      const size_t offset = first * element_bytes;
      const bool sends = call.function != kBroadcast || rank == root;
      if (!meeting->Round(call, of_part + offset, sends ? bytes : 0, is_over)) return false;
      switch (call.function) {
        case kReduceScatter:
          if (part == rank) SumPiece(*meeting, size, call, count, receive + offset);
          break;
        case kAllGather:
          for (uint32_t other = 0; other < size; ++other) {
            std::memcpy(receive + other * call.count * element_bytes + offset, meeting->PieceOf(other), bytes);
          }
          break;
        case kReduce:
          if (rank == root) SumPiece(*meeting, size, call, count, receive + offset);
          break;
        default:
          std::memcpy(receive + offset, meeting->PieceOf(root), bytes);
          break;
      }
      meeting->Read();
    }
  }
  return true;
}

}  // namespace shoal::simulated_nccl
