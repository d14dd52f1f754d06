#include "core/wire_codec.h"

#include "absl/strings/str_cat.h"

namespace shoal {

std::optional<WireCodec> WireCodec::Float32As(DataType wire_type) {
  for (const WireFormat wire : kWireFormats) {
    const WireCodec codec(DataType::kFloat32, wire);
    if (!codec.is_identity() && codec.wire_type() == wire_type) return codec;
  }
  return std::nullopt;
}

DataType WireCodec::wire_type() const {
  switch (format_) {
    case WireFormat::kAsIs:
      return tensor_type_;
    case WireFormat::kFloat16:
      return DataType::kFloat16;
    case WireFormat::kBfloat16:
      return DataType::kBfloat16;
    case WireFormat::kInt8:
      return DataType::kInt8;
  }
  return tensor_type_;
}

uint64_t WireCodec::TensorBytes(uint64_t element_count) const { return element_count * DataTypeSize(tensor_type_); }

uint64_t WireCodec::WireBytes(uint64_t element_count) const {
  const uint64_t bytes = element_count * DataTypeSize(wire_type());
  if (format_ != WireFormat::kInt8) return bytes;
  return bytes + element_count / kInt8BlockElements + (element_count % kInt8BlockElements != 0 ? 1 : 0);
}

uint64_t WireCodec::ElementsIn(uint64_t wire_bytes) const {
  return wire_bytes / WireBytes(alignment_elements()) * alignment_elements();
}

uint32_t WireCodec::alignment_elements() const {
  return static_cast<uint32_t>(kChunkAlignmentBytes / DataTypeSize(wire_type()));
}

std::string WireCodecName(WireCodec codec) {
  const std::string on_wire(DataTypeName(codec.wire_type()));
  if (codec.is_identity()) return on_wire;
  return absl::StrCat(std::string(DataTypeName(codec.tensor_type())), " sent as ", on_wire,
                      codec.format() == WireFormat::kInt8 ? " blocks" : "");
}

}  // namespace shoal
