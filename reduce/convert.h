// Conversion between the elements of a tensor and what crosses the wire (core/wire_codec.h): the only way from one to
// the other. A codec that is the identity copies.
//
// To 16 bits it rounds to nearest even (float16 beyond 65504 becomes infinite, after rounding); to fp32 it is exact.
// Every NaN becomes the canonical one. An element's bits do not depend on the processor, the length or the alignment.
//
// To blocks of int8 or fp8 it rounds to nearest even in units of the block's scale, which is a power of two and depends
// on the largest number of the block (reduce/block_numbers.h). Finite numbers in a block with an infinity or a NaN
// become 0; in int8 -0 becomes +0. From blocks any bytes give numbers. Memory begins at an element that begins a block.
//
// Pure functions, any thread, no allocation. Memory of any alignment; input and output must not overlap.
#ifndef SHOAL_REDUCE_CONVERT_H_
#define SHOAL_REDUCE_CONVERT_H_

#include <cstddef>

#include "core/wire_codec.h"

namespace shoal {

// `tensor` holds codec.TensorBytes(element_count), `wire` takes codec.WireBytes(element_count).
void Encode(WireCodec codec, const std::byte* tensor, std::byte* wire, size_t element_count);

// The other way.
void Decode(WireCodec codec, const std::byte* wire, std::byte* tensor, size_t element_count);

}  // namespace shoal

#endif  // SHOAL_REDUCE_CONVERT_H_
