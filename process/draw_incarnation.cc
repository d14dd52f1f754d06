#include "process/draw_incarnation.h"

#include <sys/random.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace shoal {

absl::StatusOr<Incarnation> DrawIncarnation() {
  uint64_t number = 0;
  while (number == 0) {
    if (getrandom(&number, sizeof(number), 0) != sizeof(number)) {
      return absl::InternalError(absl::StrCat("the kernel returned no random number: ", std::strerror(errno)));
    }
  }
  return Incarnation(number);
}

}  // namespace shoal
