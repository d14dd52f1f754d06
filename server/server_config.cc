#include "server/server_config.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/shard_map.h"
#include "process/scheduler_address.h"

namespace shoal {
absl::Status CheckServerConfig(const ServerConfig& config) {
  if (config.scheduler.empty()) {
    return absl::InvalidArgumentError("no scheduler given; give --scheduler HOST:PORT (or SHOAL_SCHEDULER)");
  }
  if (const auto target = SchedulerTarget(config.scheduler); !target.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--scheduler: ", target.status().message()));
  }
  if (config.advertise.empty()) {
    return absl::InvalidArgumentError(
        "no address given; give --advertise IP (or SHOAL_SERVER_ADVERTISE), the address of this node that workers "
        "connect to");
  }
  if (config.port_base != 0 && config.port_base + config.io_threads - 1 > kMaxPort) {
    return absl::InvalidArgumentError(absl::StrCat("--port-base ", config.port_base, " with --io-threads ",
                                                   config.io_threads, " exceeds port ", kMaxPort));
  }
  if (config.slot_memory_bytes / config.io_threads < kMinSlotMemoryBytesPerIoThread) {
    return absl::InvalidArgumentError(absl::StrCat("--slot-memory ", config.slot_memory_bytes,
                                                   " is too little for --io-threads ", config.io_threads,
                                                   "; each needs at least ", kMinSlotMemoryBytesPerIoThread, " bytes"));
  }
  if (config.transports.empty()) {
    return absl::InvalidArgumentError("--transports is empty; give tcp, or RDMA transports of UCX such as rc");
  }
  return absl::OkStatus();
}

}  // namespace shoal
