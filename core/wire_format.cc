#include "core/wire_format.h"

namespace shoal {

std::string_view WireFormatName(WireFormat wire) {
  switch (wire) {
    case WireFormat::kAsIs:
      return "none";
    case WireFormat::kFloat16:
      return "fp16";
    case WireFormat::kBfloat16:
      return "bf16";
    case WireFormat::kInt8:
      return "int8";
    case WireFormat::kFloat8:
      return "fp8";
  }
  return "unknown";
}

std::string WireFormatNames(std::string_view separator) {
  std::string names;
  for (const WireFormat wire : kWireFormats) {
    if (!names.empty()) names += separator;
    names += WireFormatName(wire);
  }
  return names;
}

std::optional<WireFormat> WireFormatFromNumber(uint32_t number) {
  for (const WireFormat wire : kWireFormats) {
    if (static_cast<uint32_t>(wire) == number) return wire;
  }
  return std::nullopt;
}

std::optional<WireFormat> WireFormatFromName(std::string_view name) {
  for (const WireFormat wire : kWireFormats) {
    if (WireFormatName(wire) == name) return wire;
  }
  return std::nullopt;
}

}  // namespace shoal
