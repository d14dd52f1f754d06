#include "net/payload_copy.h"

#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace shoal {

void CopyPayload(std::byte* to, const std::byte* from, size_t bytes) {
#ifdef __SSE2__
  if (bytes >= kStreamedPayloadBytes) {
    constexpr size_t kLineBytes = 64;
    const size_t before_line = -reinterpret_cast<uintptr_t>(to) % kLineBytes;
    std::memcpy(to, from, before_line);
    size_t done = before_line;
    for (; done + kLineBytes <= bytes; done += kLineBytes) {
      const auto* const source = reinterpret_cast<const __m128i*>(from + done);
      auto* const target = reinterpret_cast<__m128i*>(to + done);
      const __m128i first = _mm_loadu_si128(source);
      const __m128i second = _mm_loadu_si128(source + 1);
      const __m128i third = _mm_loadu_si128(source + 2);
      const __m128i fourth = _mm_loadu_si128(source + 3);
      _mm_stream_si128(target, first);
      _mm_stream_si128(target + 1, second);
      _mm_stream_si128(target + 2, third);
      _mm_stream_si128(target + 3, fourth);
    }
    // Streamed stores are not ordered with others, which tell the reader that they are done.
    _mm_sfence();
    std::memcpy(to + done, from + done, bytes - done);
    return;
  }
#endif
  if (bytes > 0) std::memcpy(to, from, bytes);  // of no bytes there may be no address
}

void CopyPiece(std::byte* to, const std::byte* from, size_t bytes) {
  constexpr size_t kLineBytes = 64;
  // So far ahead does memory answer in time; the processor itself looks ahead to the end of a page alone.
  constexpr size_t kAheadBytes = 1024;
  size_t done = 0;
  for (; done + kAheadBytes + kLineBytes <= bytes; done += kLineBytes) {
    __builtin_prefetch(from + done + kAheadBytes);
    std::memcpy(to + done, from + done, kLineBytes);
  }
  if (done < bytes) std::memcpy(to + done, from + done, bytes - done);
}

}  // namespace shoal
