// The options of a scheduler: one table defines flags, environment variables, --help and the printout at the start.
#ifndef SHOAL_SCHEDULER_CONFIG_SCHEDULER_CONFIG_H_
#define SHOAL_SCHEDULER_CONFIG_SCHEDULER_CONFIG_H_

#include <cstdint>
#include <string>

#include "process/credential_files.h"

namespace shoal {

class OptionTable;

inline constexpr uint64_t kMinLeaseTtlMs = 100;
inline constexpr uint64_t kMaxLeaseTtlMs = 600'000;
inline constexpr uint64_t kMinLeaderLeaseMs = 2000;  // etcd gives no shorter one

struct SchedulerConfig {
  std::string listen = "127.0.0.1:7070";  // port 0: any free port
  bool insecure_network = false;          // `listen` without credentials, and `http`, may be of a network
  std::string state_file;                 // empty: in memory, or in `store`
  std::string store;                      // "etcd://...": one of several schedulers; empty: the only one
  std::string advertise;                  // where the other schedulers reach this one; empty: as `listen`
  uint64_t leader_lease_ms = 5000;        // so long after its last sign another scheduler takes over
  uint64_t lease_ttl_ms = 5000;
  uint64_t port_buffer_bytes = 0;  // of every switch port on the way between nodes; 0: as core/flow_plan.h assumes
  bool encrypt = false;            // what ranks and servers send each other over TCP
  bool reflection = false;
  bool log_events = false;           // each event as a line on stderr; otherwise warnings and errors alone
  std::string log_format = "text";   // or "json"
  std::string audit_log;             // file of the calls that change something; empty: none
  std::string http;                  // "ip:port" of metrics and health; empty: none
  CredentialFiles credentials;       // with these everybody who calls has to show a certificate
  std::string identities;            // file of IdentityRules; empty: the default form
  CredentialFiles etcd_credentials;  // of the store; without a certificate it shows none
  std::string etcd_login;            // file with "USER:PASSWORD"; empty: etcd asks for none
  bool is_colocated = false;         // it runs inside a worker, and ends with a rank; no option
};

// Declares the scheduler's options in `table`, with the values in `config` as defaults; both must outlive the table's
// use.
void DeclareSchedulerOptions(SchedulerConfig* config, OptionTable* table);

// What everybody on the network may do, in a sentence, since it was said that this may be. Empty: nothing.
std::string OpenToNetwork(const SchedulerConfig& config);

}  // namespace shoal

#endif  // SHOAL_SCHEDULER_CONFIG_SCHEDULER_CONFIG_H_
