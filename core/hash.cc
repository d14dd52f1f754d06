#include "core/hash.h"

namespace shoal {
namespace {

uint64_t Finalize(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

constexpr uint64_t kGamma = 0x9e3779b97f4a7c15u;

}  // namespace

uint64_t StableHash(std::initializer_list<uint64_t> words) {
  uint64_t state = kGamma * (words.size() + 1);
  for (uint64_t word : words) state = Finalize(state ^ word) + kGamma;
  return Finalize(state);
}

}  // namespace shoal
