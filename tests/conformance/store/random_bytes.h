// Bytes in which nothing repeats, for states that are cut by content.
#ifndef SHOAL_TESTS_CONFORMANCE_STORE_RANDOM_BYTES_H_
#define SHOAL_TESTS_CONFORMANCE_STORE_RANDOM_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>

namespace shoal::scheduler {

inline std::string RandomBytes(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string bytes(count, '\0');
  for (char& each : bytes) each = static_cast<char>(random());
  return bytes;
}

}  // namespace shoal::scheduler

#endif  // SHOAL_TESTS_CONFORMANCE_STORE_RANDOM_BYTES_H_
