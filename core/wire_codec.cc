#include "core/wire_codec.h"

#include "absl/strings/str_cat.h"

namespace shoal {

std::optional<WireCodec> WireCodec::FromWire(uint8_t type_number, bool narrowed) {
  if (narrowed) {
    const std::optional<WireFormat> wire = WireFormatFromNumber(type_number);
    if (!wire.has_value() || *wire == WireFormat::kAsIs) return std::nullopt;
    return WireCodec(DataType::kFloat32, *wire);
  }
  const std::optional<DataType> type = DataTypeFromWire(type_number);
  if (!type.has_value()) return std::nullopt;
  return WireCodec(*type);
}

uint8_t WireCodec::type_number() const {
  return is_identity() ? static_cast<uint8_t>(tensor_type_) : static_cast<uint8_t>(format_);
}

uint64_t WireCodec::NumberBytes() const {
  switch (format_) {
    case WireFormat::kAsIs:
      return DataTypeSize(tensor_type_);
    case WireFormat::kFloat16:
    case WireFormat::kBfloat16:
      return 2;
    case WireFormat::kInt8:
    case WireFormat::kFloat8:
      return 1;
  }
  return DataTypeSize(tensor_type_);
}

uint64_t WireCodec::TensorBytes(uint64_t element_count) const { return element_count * DataTypeSize(tensor_type_); }

uint64_t WireCodec::WireBytes(uint64_t element_count) const {
  const uint64_t bytes = element_count * NumberBytes();
  if (!is_in_blocks()) return bytes;
  return bytes + element_count / kBlockElements + (element_count % kBlockElements != 0 ? 1 : 0);
}

uint64_t WireCodec::ElementsIn(uint64_t wire_bytes) const {
  return wire_bytes / WireBytes(alignment_elements()) * alignment_elements();
}

uint32_t WireCodec::alignment_elements() const { return static_cast<uint32_t>(kChunkAlignmentBytes / NumberBytes()); }

std::string WireCodecName(WireCodec codec) {
  std::string name(DataTypeName(codec.tensor_type()));
  if (codec.is_identity()) return name;
  return absl::StrCat(name, " sent as ", std::string(WireFormatName(codec.format())),
                      codec.is_in_blocks() ? " blocks" : "");
}

}  // namespace shoal
