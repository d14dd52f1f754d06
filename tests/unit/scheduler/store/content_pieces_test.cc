// Where bytes are cut, and what a change of them leaves as it was.
#include "scheduler/store/content_pieces.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/hash.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/conformance/store/random_bytes.h"

namespace shoal::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string Join(const std::vector<std::string_view>& pieces) {
  std::string joined;
  for (const std::string_view piece : pieces) joined += piece;
  return joined;
}

// Expects what holds for any bytes; returns their pieces.
std::vector<std::string_view> Cut(std::string_view bytes) {
  const std::vector<std::string_view> pieces = CutByContent(bytes);
  EXPECT_TRUE(Join(pieces) == bytes);
  for (size_t i = 0; i < pieces.size(); ++i) {
    EXPECT_LE(pieces[i].size(), kMostPieceBytes);
    EXPECT_GE(pieces[i].size(), i + 1 < pieces.size() ? kLeastPieceBytes : 1) << "piece " << i;
  }
  return pieces;
}

TEST(ContentPieces, NothingHasNoPieces) { EXPECT_THAT(CutByContent(""), IsEmpty()); }

TEST(ContentPieces, AreTheBytesInOrderAndOfBoundedSize) {
  const std::string random = RandomBytes(300'000, 1);
  for (const size_t size : {size_t{1}, size_t{63}, size_t{64}, kLeastPieceBytes - 1, kLeastPieceBytes,
                            kLeastPieceBytes + 1, kMostPieceBytes, kMostPieceBytes + 1, random.size()}) {
    Cut(std::string_view(random).substr(0, size));
    Cut(std::string(size, '\0'));
  }
}

TEST(ContentPieces, OfRandomBytesAreAboutAsLargeAsTheMean) {
  const std::string bytes = RandomBytes(size_t{4} << 20, 2);
  const size_t mean_bytes = bytes.size() / Cut(bytes).size();
  EXPECT_GT(mean_bytes, kMeanPieceBytes * 9 / 10);
  EXPECT_LT(mean_bytes, kMeanPieceBytes * 11 / 10);
}

TEST(ContentPieces, OfEqualBytesAreAsLargeAsTheyMayBe) {
  const std::string equal(3 * kMostPieceBytes + 5, 'x');
  const std::vector<std::string_view> pieces = Cut(equal);
  ASSERT_EQ(pieces.size(), 4u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(pieces[i].size(), kMostPieceBytes);
}

// Two versions of the program must cut alike, or each writes anew what the other one has written. The positions were
// computed by another implementation, in Python.
TEST(ContentPieces, AreTheSameInEveryVersion) {
  std::string bytes(65536, '\0');
  for (uint64_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(StableHash({i}) & 0xff);
  std::vector<size_t> ends;
  for (const std::string_view piece : Cut(bytes)) ends.push_back((ends.empty() ? 0 : ends.back()) + piece.size());
  EXPECT_THAT(ends, ElementsAre(4193, 8211, 9394, 15483, 19335, 23721, 27872, 28921, 30887, 33065, 35586, 37142, 40655,
                                43963, 45441, 47988, 52593, 59442, 64528, 65536));
}

TEST(ContentPieces, AChangeAtAnyPlaceLeavesAllButAFewPieces) {
  constexpr size_t kMostNewPieces = 8;
  const std::string bytes = RandomBytes(200'000, 3);
  const std::vector<std::string_view> before = Cut(bytes);
  const std::set<std::string_view> old(before.begin(), before.end());
  size_t changes = 0;
  size_t new_pieces = 0;
  for (size_t at = 0; at < bytes.size(); at += 997) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    const std::string one_less = bytes.substr(0, at) + bytes.substr(at + 1);
    const std::string less = bytes.substr(0, at) + bytes.substr(std::min(at + 7000, bytes.size()));
    const std::string one_more = bytes.substr(0, at) + "x" + bytes.substr(at);
    const std::string more = bytes.substr(0, at) + RandomBytes(300, at) + bytes.substr(at);
    for (const std::string& after : {changed, one_less, less, one_more, more}) {
      size_t these = 0;
      for (const std::string_view piece : Cut(after)) these += old.contains(piece) ? 0 : 1;
      EXPECT_LE(these, kMostNewPieces) << "at " << at << ", then " << after.size() << " bytes";
      new_pieces += these;
      ++changes;
    }
  }
  EXPECT_LT(new_pieces, 3 * changes / 2) << "nearly always it is one piece";
}

TEST(ContentPieces, OfContentThatRepeatsAreTheSame) {
  const std::string passage = RandomBytes(100'000, 4);
  const std::string other = RandomBytes(1234, 5);
  const std::string repeated = passage + passage + other + passage;
  const std::vector<std::string_view> pieces = Cut(repeated);
  const std::set<std::string_view> distinct(pieces.begin(), pieces.end());
  EXPECT_LE(distinct.size(), Cut(passage).size() + 8);
}

}  // namespace
}  // namespace shoal::scheduler
