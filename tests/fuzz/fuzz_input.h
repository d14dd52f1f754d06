// What the fuzz targets share: reading choices from the input, and stopping where something is not as it must be.
#ifndef SHOAL_TESTS_FUZZ_FUZZ_INPUT_H_
#define SHOAL_TESTS_FUZZ_FUZZ_INPUT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>

namespace shoal {

// The fuzzer's input as a row of choices. What is asked for beyond its end is zeros, so every input is a valid one.
class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const std::byte*>(data), size) {}

  bool empty() const { return rest_.empty(); }

  std::span<const std::byte> Take(size_t size) {
    const std::span<const std::byte> taken = rest_.first(std::min(size, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }

  template <typename Number>
  Number TakeNumber() {
    Number number = 0;
    const std::span<const std::byte> bytes = Take(sizeof(number));
    if (!bytes.empty()) std::memcpy(&number, bytes.data(), bytes.size());
    return number;
  }

  // Below `limit`, which is at most 256.
  uint32_t TakeBelow(uint32_t limit) { return TakeNumber<uint8_t>() % limit; }

  template <typename Value, size_t kCount>
  Value TakeOneOf(const Value (&values)[kCount]) {
    return values[TakeBelow(kCount)];
  }

 private:
  std::span<const std::byte> rest_;
};

// Ends the program, which is how a fuzz target reports.
inline void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz target: not so: %s\n", what);
  std::abort();
}

}  // namespace shoal

// The name that libFuzzer calls, with arguments that it fixes.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

#endif  // SHOAL_TESTS_FUZZ_FUZZ_INPUT_H_
