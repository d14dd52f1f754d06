#include "worker/library/link_turn.h"

#include <chrono>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "process/clock.h"

namespace shoal {
namespace {

// A measurement takes one to some tens of them.
constexpr std::chrono::milliseconds kPause{1};

}  // namespace

LinkTurn::LinkTurn(const std::string& name, uint64_t until_ns) {
  while (true) {
    absl::StatusOr<FileDescriptor> taken = ListenOnThisNode(name);
    if (taken.ok()) {
      name_ = *std::move(taken);
      return;
    }
    if (!absl::IsAlreadyExists(taken.status()) || MonotonicNs() >= until_ns) return;
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace shoal
