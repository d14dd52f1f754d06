#include "scheduler/store/content_pieces.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "core/hash.h"

namespace shoal::scheduler {
namespace {

// A byte has left the hash when it has been shifted this often.
constexpr size_t kWindowBytes = std::numeric_limits<uint64_t>::digits;
static_assert(kWindowBytes <= kLeastPieceBytes, "where a piece ends depends on its own bytes alone");

// So small a hash comes once in as many bytes as the mean piece has beyond the least. The highest bits decide, in which
// all bytes of the window have a say.
constexpr uint64_t kCutBelow = std::numeric_limits<uint64_t>::max() / (kMeanPieceBytes - kLeastPieceBytes);

// What each byte adds to the hash: any numbers that have nothing to do with each other, and never change.
std::array<uint64_t, 256> MakeGear() {
  constexpr uint64_t kSeed = 0x73686f616c;  // "shoal"
  std::array<uint64_t, 256> added{};
  for (uint64_t byte = 0; byte < added.size(); ++byte) added[byte] = StableHash({kSeed, byte});
  return added;
}

// Of the first piece.
size_t PieceBytes(std::string_view bytes) {
  static const std::array<uint64_t, 256> gear = MakeGear();
  const size_t most = std::min(bytes.size(), kMostPieceBytes);
  if (most <= kLeastPieceBytes) return most;
  uint64_t hash = 0;
  for (size_t i = kLeastPieceBytes - kWindowBytes; i < most; ++i) {
    hash = (hash << 1) + gear[static_cast<unsigned char>(bytes[i])];
    if (hash < kCutBelow && i + 1 >= kLeastPieceBytes) return i + 1;
  }
  return most;
}

}  // namespace

std::vector<std::string_view> CutByContent(std::string_view bytes) {
  std::vector<std::string_view> pieces;
  while (!bytes.empty()) {
    pieces.push_back(bytes.substr(0, PieceBytes(bytes)));
    bytes.remove_prefix(pieces.back().size());
  }
  return pieces;
}

}  // namespace shoal::scheduler
