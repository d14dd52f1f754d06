// Numbers as bytes, the lowest byte first, on every machine. Pure; any thread.
#ifndef SHOAL_CORE_LITTLE_ENDIAN_H_
#define SHOAL_CORE_LITTLE_ENDIAN_H_

#include <concepts>
#include <cstddef>

namespace shoal {

// Writes sizeof(number) bytes.
template <std::unsigned_integral Number>
void WriteLittleEndian(std::byte* to, Number number) {
  for (size_t i = 0; i < sizeof(Number); ++i) to[i] = static_cast<std::byte>(number >> (8 * i) & 0xff);
}

// Reads as many.
template <std::unsigned_integral Number>
Number ReadLittleEndian(const std::byte* from) {
  Number number = 0;
  for (size_t i = 0; i < sizeof(Number); ++i) number |= static_cast<Number>(static_cast<Number>(from[i]) << (8 * i));
  return number;
}

}  // namespace shoal

#endif  // SHOAL_CORE_LITTLE_ENDIAN_H_
