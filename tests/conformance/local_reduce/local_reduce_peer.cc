// A local rank that the tests kill or stop, on the shared memory that the product runs on.
//
//   local_reduce_peer MEETING RANK SIZE ops|fork
//
// Reduces small and large tensors without end; `fork` has a child that keeps every descriptor open. Runs until it is
// killed, or its group fails: its exit code is then 100 and the local rank that it holds to be the cause, or 3 if it
// knows none.
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "net/wake_up.h"
#include "worker/local_reduce/host_local_reduce.h"

namespace shoal {
namespace {

constexpr GroupHandle kGroup{1};

int Run(const LocalGroup& group, const std::string& mode) {
  absl::StatusOr<std::unique_ptr<LocalReduce>> port = MakeHostLocalReduce();
  if (!port.ok()) return 2;
  (*port)->Open(group);
  std::vector<float> tensor(1'000'000);
  for (uint64_t ticket = 0;; ++ticket) {
    const uint64_t elements = ticket % 3 == 0 ? tensor.size() : ticket % 3 == 1 ? 1'000 : 100'000;
    (*port)->Start({.group = kGroup,
                    .ticket = ticket,
                    .data = reinterpret_cast<std::byte*>(tensor.data()),
                    .element_count = elements});
    for (bool ended = false; !ended;) {
      for (const LocalReduceEvent& event : (*port)->Poll()) {
        if (const auto* const failed = std::get_if<LocalGroupFailed>(&event)) {
          return failed->culprit.has_value() ? 100 + static_cast<int>(failed->culprit->value()) : 3;
        }
        if (std::holds_alternative<LocalGroupMet>(event) && mode == "fork" && fork() == 0) {
          pause();
          _exit(0);
        }
        ended = ended || std::holds_alternative<LocalOpEnded>(event);
      }
      if (!ended && (*port)->Arm()) WaitReadable({(*port)->wake_fd()}, std::nullopt);
    }
  }
}

}  // namespace
}  // namespace shoal

int main(int argc, char** argv) {
  if (argc != 5) return 1;
  return shoal::Run({.group = shoal::kGroup,
                     .meeting_name = argv[1],
                     .rank = shoal::LocalRank(static_cast<uint32_t>(std::atoi(argv[2]))),
                     .size = static_cast<uint32_t>(std::atoi(argv[3]))},
                    argv[4]);
}
