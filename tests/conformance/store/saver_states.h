// States of very different sizes, of which a reader can tell whether it has the whole of one.
#ifndef SHOAL_TESTS_CONFORMANCE_STORE_SAVER_STATES_H_
#define SHOAL_TESTS_CONFORMANCE_STORE_SAVER_STATES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace shoal::scheduler {

// The largest takes several writes, to a file and to etcd.
inline std::string WholeState(uint64_t number) {
  constexpr std::array<size_t, 3> kFillBytes = {1'300'000, 10, 600'000};
  return absl::StrCat(number, ":", std::string(kFillBytes[number % 3], static_cast<char>('a' + number % 26)));
}

// nullopt: it is a part or a mixture.
inline std::optional<uint64_t> NumberOfWhole(const std::string& state) {
  uint64_t number = 0;
  if (!absl::SimpleAtoi(state.substr(0, state.find(':')), &number)) return std::nullopt;
  return state == WholeState(number) ? std::optional(number) : std::nullopt;
}

}  // namespace shoal::scheduler

#endif  // SHOAL_TESTS_CONFORMANCE_STORE_SAVER_STATES_H_
