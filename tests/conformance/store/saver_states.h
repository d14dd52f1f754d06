// States of very different sizes, of which a reader can tell whether it has the whole of one. They have much in common,
// as the states of a scheduler have.
#ifndef SHOAL_TESTS_CONFORMANCE_STORE_SAVER_STATES_H_
#define SHOAL_TESTS_CONFORMANCE_STORE_SAVER_STATES_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tests/conformance/store/random_bytes.h"

namespace shoal::scheduler {

// The largest takes several writes, to a file and to etcd. Two of them that follow each other differ by little.
inline std::string WholeState(uint64_t number) {
  constexpr std::array<size_t, 4> kFillBytes = {1'300'000, 10, 600'000, 1'300'000};
  static const std::string kInCommon = RandomBytes(kFillBytes[0], /*seed=*/0);
  const size_t bytes = kFillBytes[number % kFillBytes.size()];
  const std::string own = RandomBytes(std::min<size_t>(bytes, 20'000), number);
  std::string fill = kInCommon.substr(0, bytes);
  fill.replace(number * 100'003 % (bytes - own.size() + 1), own.size(), own);
  return absl::StrCat(number, ":", fill);
}

// nullopt: it is a part or a mixture.
inline std::optional<uint64_t> NumberOfWhole(const std::string& state) {
  uint64_t number = 0;
  if (!absl::SimpleAtoi(state.substr(0, state.find(':')), &number)) return std::nullopt;
  return state == WholeState(number) ? std::optional(number) : std::nullopt;
}

}  // namespace shoal::scheduler

#endif  // SHOAL_TESTS_CONFORMANCE_STORE_SAVER_STATES_H_
