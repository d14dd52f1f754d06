// The options of a reduction server: one table defines flags, environment variables, --help and the printout at the
// start.
#ifndef SHOAL_SERVER_SERVER_CONFIG_H_
#define SHOAL_SERVER_SERVER_CONFIG_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "core/ids.h"
#include "process/credential_files.h"
#include "process/flight_folder.h"

namespace shoal {

class OptionTable;

inline constexpr uint32_t kMaxServerIoThreads = 64;
inline constexpr uint32_t kMaxPort = 65535;
inline constexpr uint64_t kMinSlotMemoryBytesPerIoThread = 64u << 10;

struct ServerConfig {
  std::string scheduler;  // "host:port"
  std::string advertise;  // where workers connect to: an address, a network or a device of this node
  std::string name;       // empty: made from the node's name and the first port
  uint32_t io_threads = 1;
  uint64_t slot_memory_bytes = 256u << 20;         // of all I/O threads together
  uint32_t port_base = 0;                          // of the first I/O thread; 0: any free ports
  std::string net_device;                          // empty: that of each route
  std::string flight_recorder = kOwnFlightFolder;  // where a record is written when a group has failed: FlightFolder
  std::string transports = "tcp";
  bool network_only = false;
  uint32_t weight = 1;                 // of each I/O thread in the shard map
  uint64_t timeout_ms = 30'000;        // for a link and for registering, at the start
  uint64_t drain_timeout_ms = 10'000;  // for open groups to end after a signal
  std::string http;                    // "ip:port" of metrics and health; empty: none
  bool insecure_network = false;       // it may be of a network
  std::string log_format = "text";     // or "json"
  CredentialFiles credentials;         // that it shows the scheduler
  // These are no options of the program: a process with a colocated server gives its own job, and how the job knows
  // this node. 0: the server serves all jobs. No name: the node's own, and its boot id.
  JobId job;
  std::string node_name;
  std::string boot_id;  // beside a name; as in ServerRegistration
};

// Declares the server's options in `table`, with the values in `config` as defaults; both must outlive the table's use.
void DeclareServerOptions(ServerConfig* config, OptionTable* table);

// InvalidArgument names the option that is missing or contradicts another, and what to give. Checks the values only:
// whether this node has the address and the memory shows when the server starts.
absl::Status CheckServerConfig(const ServerConfig& config);

}  // namespace shoal

#endif  // SHOAL_SERVER_SERVER_CONFIG_H_
