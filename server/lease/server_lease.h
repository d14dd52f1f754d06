// What a server says about itself when it registers with the scheduler, and what it is granted. Plain values.
#ifndef SHOAL_SERVER_LEASE_SERVER_LEASE_H_
#define SHOAL_SERVER_LEASE_SERVER_LEASE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/ids.h"
#include "core/token.h"
#include "core/trace_request.h"

namespace shoal {

struct ServerRegistration {
  std::string name;
  Incarnation incarnation;
  std::vector<std::string> addresses;  // "ip:port", one per I/O thread
  uint32_t weight = 1;
  std::string node;
  std::string boot_id;  // process/node_identity.h; empty: the node's name says who is on it
  uint64_t slot_memory_bytes = 0;
  std::string transports;    // human-readable
  bool can_encrypt = false;  // what it sends and receives between nodes
  JobId job;                 // of a colocated server: the only job that it serves; 0: it serves all jobs
};

struct ServerLease {
  ServerId server;
  uint64_t ttl_ms = 0;
  TokenKey token_key{};
  uint64_t key_period = 0;  // core/connection_ticket.h
  Epoch epoch;
  bool scheduler_is_colocated = false;  // it runs inside a worker, and ends with a rank
};

struct LeaseRenewal {
  uint64_t ttl_ms = 0;
  uint64_t key_period = 0;  // core/connection_ticket.h
  Epoch epoch;
  bool drain = false;                   // an operator wants the server to leave
  bool scheduler_is_colocated = false;  // it runs inside a worker, and ends with a rank
  std::optional<TraceRequest> trace = std::nullopt;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_LEASE_SERVER_LEASE_H_
