// How the tensors of an op are sent: what their elements are, and what they become on the wire.
//
// The one place that knows how many bytes elements have there; reduce/convert.h converts them. Every codec is
// idempotent: what was decoded is encoded to the same bytes again, because a rank that keeps a result for others, or
// gives it to the ranks of its node, has the decoded tensor alone (invariants I1 and I3). Values; any thread.
#ifndef SHOAL_CORE_WIRE_CODEC_H_
#define SHOAL_CORE_WIRE_CODEC_H_

#include <cstdint>
#include <optional>
#include <string>

#include "core/dtype.h"
#include "core/wire_format.h"

namespace shoal {

inline constexpr uint32_t kChunkAlignmentBytes = 64;
// Of WireFormat::kInt8 and kFloat8: so many elements of a bucket, from its first one on, share a scale. A block is the
// byte of its scale and then a byte for each element; the last one of a bucket may have fewer.
inline constexpr uint32_t kBlockElements = 32;

class WireCodec {
 public:
  constexpr WireCodec() = default;  // float32 as it is
  // Tensors that are sent as they are.
  constexpr explicit WireCodec(DataType tensor) : tensor_type_(tensor) {}
  // Tensors of a group with that wire: it changes float32 alone.
  constexpr WireCodec(DataType tensor, WireFormat wire)
      : tensor_type_(tensor), format_(tensor == DataType::kFloat32 ? wire : WireFormat::kAsIs) {}
  // What a frame says: the number of the type on the wire, and whether that was narrowed from float32. nullopt: there
  // is no such codec.
  static std::optional<WireCodec> FromWire(uint8_t type_number, bool narrowed);

  constexpr DataType tensor_type() const { return tensor_type_; }
  constexpr WireFormat format() const { return format_; }
  // Nothing is converted: a chunk may be sent from the tensor, and received into it.
  constexpr bool is_identity() const { return format_ == WireFormat::kAsIs; }
  // Numbers on the wire are in blocks with a scale.
  constexpr bool is_in_blocks() const { return IsInBlocks(format_); }
  // Of the type of the numbers on the wire.
  uint8_t type_number() const;

  // Of elements in the tensor.
  uint64_t TensorBytes(uint64_t element_count) const;
  // Of elements on the wire, from a multiple of alignment_elements() on.
  uint64_t WireBytes(uint64_t element_count) const;
  // How many elements have no more than that many bytes on the wire, in whole multiples of alignment_elements().
  uint64_t ElementsIn(uint64_t wire_bytes) const;
  // A chunk, or a part of one, begins at a multiple of so many elements: kChunkAlignmentBytes of them, without scales.
  // No codec has more than kMaxAlignmentElements, of which its own is a divisor.
  uint32_t alignment_elements() const;
  static constexpr uint32_t kMaxAlignmentElements = kChunkAlignmentBytes;
  static_assert(kChunkAlignmentBytes % kBlockElements == 0, "a chunk is made of whole blocks");

  friend bool operator==(const WireCodec&, const WireCodec&) = default;

 private:
  // Of one element, without its share of a scale.
  uint64_t NumberBytes() const;

  DataType tensor_type_ = DataType::kFloat32;
  WireFormat format_ = WireFormat::kAsIs;
};

// "int32", "float32 sent as bf16": for people.
std::string WireCodecName(WireCodec codec);

}  // namespace shoal

#endif  // SHOAL_CORE_WIRE_CODEC_H_
