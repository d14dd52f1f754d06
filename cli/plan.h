// `shoalctl plan`: how many dedicated servers pay for a job, by the model of core/time_model.h. Asks no cluster.
//
// The ranks of a node reduce among themselves first, and each pushes and pulls its own part: so a node's link carries
// the tensor once each way, whatever the number of its ranks, whose parts meet at it. Within the node a part of each
// rank's tensor goes to each other rank before, and comes back afterwards, which the model adds. With fewer dedicated
// servers than nodes each node runs a colocated server as well (docs/adr/0010). A ring moves 2 (n - 1) / n times the
// tensor through every link, by the same link and without any cost of messages.
#ifndef SHOAL_CLI_PLAN_H_
#define SHOAL_CLI_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace shoal::cli {

struct PlanOptions {
  uint64_t bytes = 25u << 20;  // of an all-reduce, as it is sent
  uint32_t nodes = 0;
  uint32_t ranks = 1;         // of a node
  double link_gbit = 0;       // of a node, each way
  double node_link_gbit = 0;  // of a rank to the others of its node, each way; 0: that takes no time
  double round_trip_us = 50;
  double message_us = 2;
  uint64_t port_buffer_bytes = 0;  // as of a scheduler; 0: not known
};

struct PlanRow {
  uint32_t dedicated_servers = 0;
  uint32_t colocated_servers = 0;
  uint64_t predicted_ns = 0;
};

struct ServerPlan {
  uint64_t link_bound_ns = 0;   // the tensor, at the link's rate
  uint64_t within_node_ns = 0;  // in each of the rows
  uint64_t ring_ns = 0;
  std::vector<PlanRow> rows;    // by the number of dedicated servers, from 0 to twice the nodes, by steps for many
  uint32_t enough_servers = 0;  // the fewest of the rows that are within 5 % of the best
};

// InvalidArgument: a number that can't be, with the option's name.
absl::StatusOr<ServerPlan> PlanServers(const PlanOptions& options);
// A table of 100 columns at most, and what it says.
std::string PlanText(const PlanOptions& options, const ServerPlan& plan);
// One document.
std::string PlanJson(const ServerPlan& plan);

}  // namespace shoal::cli

#endif  // SHOAL_CLI_PLAN_H_
