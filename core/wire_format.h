// How a group's fp32 tensors are sent: unchanged, or as narrower numbers that servers accumulate in fp32 and round
// once. Other tensors are always sent unchanged (core/wire_codec.h). It is part of a group's identity: all its ranks
// must give the same.
//
// The numbers are those of the narrower type (core/dtype.h), or of a type that only the wire has. They are part of the
// frame, of the control plane and of the public C header: never renumber. Values; any thread.
#ifndef SHOAL_CORE_WIRE_FORMAT_H_
#define SHOAL_CORE_WIRE_FORMAT_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/dtype.h"

namespace shoal {

enum class WireFormat : uint8_t {
  kAsIs = 0,
  kFloat16 = static_cast<uint8_t>(DataType::kFloat16),
  kBfloat16 = static_cast<uint8_t>(DataType::kBfloat16),
  // In blocks with a scale each (docs/numerics.md).
  kInt8 = static_cast<uint8_t>(DataType::kInt8),
  // In such blocks: E4M3 numbers of the Open Compute Project. No DataType has this number.
  kFloat8 = 10,
};

inline constexpr WireFormat kWireFormats[] = {WireFormat::kAsIs, WireFormat::kFloat16, WireFormat::kBfloat16,
                                              WireFormat::kInt8, WireFormat::kFloat8};
// Those that change float32.
inline constexpr std::span<const WireFormat> kNarrowWires = std::span(kWireFormats).subspan(1);

// "none", "fp16", "bf16", "int8", "fp8": the names that users read and type.
std::string_view WireFormatName(WireFormat wire);
// All of them: "none|fp16|..." with the separator "|".
std::string WireFormatNames(std::string_view separator);

// Whether numbers are sent in blocks with a scale (core/wire_codec.h).
constexpr bool IsInBlocks(WireFormat wire) { return wire == WireFormat::kInt8 || wire == WireFormat::kFloat8; }

// nullopt for a number or name that is none of the above, whatever a peer or a user may have sent.
std::optional<WireFormat> WireFormatFromNumber(uint32_t number);
std::optional<WireFormat> WireFormatFromName(std::string_view name);

}  // namespace shoal

#endif  // SHOAL_CORE_WIRE_FORMAT_H_
