// How payloads are copied to where they stay.
//
// Pure. Any thread.
#ifndef SHOAL_NET_PAYLOAD_COPY_H_
#define SHOAL_NET_PAYLOAD_COPY_H_

#include <cstddef>

namespace shoal {

// From this size on the target is written past the caches: a payload that large is part of a tensor that is larger
// still, so it would be evicted before it is read, and fetching what is overwritten costs as much as writing it
// (docs/adr/0006). Not true of what is converted next, with a 16-bit wire; there it costs a little.
inline constexpr size_t kStreamedPayloadBytes = size_t{128} << 10;

// As memcpy: the places must not overlap. All of it is visible to a thread that the caller notifies afterwards.
void CopyPayload(std::byte* to, const std::byte* from, size_t bytes);

// As memcpy, for a piece of a tensor on its way through memory that stays in the caches. The C library copies more than
// 2 KiB by one instruction (rep movsb), which on some processors waits for each page of what is not in the caches yet.
void CopyPiece(std::byte* to, const std::byte* from, size_t bytes);

}  // namespace shoal

#endif  // SHOAL_NET_PAYLOAD_COPY_H_
