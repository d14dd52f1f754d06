// The frozen 64-bit hash that places buckets on servers.
//
// Every worker and server must compute the same value in every version of Shoal, so the algorithm never changes; golden
// vectors in tests/unit/core/hash_test.cc hold it still. It mixes words with the finalizer of SplitMix64 (Steele, Lea
// and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014). Not for anything an attacker may steer.
#ifndef SHOAL_CORE_HASH_H_
#define SHOAL_CORE_HASH_H_

#include <cstdint>
#include <initializer_list>

namespace shoal {

uint64_t StableHash(std::initializer_list<uint64_t> words);

}  // namespace shoal

#endif  // SHOAL_CORE_HASH_H_
