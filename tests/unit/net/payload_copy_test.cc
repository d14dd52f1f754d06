#include "net/payload_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace shoal {
namespace {

// Sizes around the streamed one's, at every way to lie across a line of the cache, with guards before and after.
template <typename Copy>
void ExpectToCopyAllAndNothingElse(Copy copy) {
  constexpr size_t kGuardBytes = 64;
  constexpr std::byte kGuard{0xa5};
  for (const size_t bytes :
       {size_t{0}, size_t{1}, size_t{63}, size_t{64}, size_t{65}, size_t{4096}, kStreamedPayloadBytes - 1,
        kStreamedPayloadBytes, kStreamedPayloadBytes + 1, kStreamedPayloadBytes + 63, 2 * kStreamedPayloadBytes + 4}) {
    for (const size_t from_offset : {0, 1, 4, 16, 63}) {
      for (const size_t to_offset : {0, 1, 4, 32, 63}) {
        std::vector<std::byte> source(from_offset + bytes);
        for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::byte>(i * 131 + i / 251);
        std::vector<std::byte> target(kGuardBytes + to_offset + bytes + kGuardBytes, kGuard);
        std::byte* const to = target.data() + kGuardBytes + to_offset;
        copy(to, source.data() + from_offset, bytes);
        std::vector<std::byte> expected(target.size(), kGuard);
        std::copy(source.begin() + from_offset, source.end(), expected.begin() + kGuardBytes + to_offset);
        ASSERT_TRUE(target == expected) << bytes << " bytes from " << from_offset << " to " << to_offset;
      }
    }
  }
}

TEST(CopyPayloadTest, CopiesAllAndNothingElse) { ExpectToCopyAllAndNothingElse(CopyPayload); }

TEST(CopyPieceTest, CopiesAllAndNothingElse) { ExpectToCopyAllAndNothingElse(CopyPiece); }

}  // namespace
}  // namespace shoal
