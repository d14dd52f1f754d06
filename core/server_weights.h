// Which share of every bucket each server carries, when some servers share a node, and so its link, with ranks of the
// group ("on a rank's node": in a rank's process, or simply started there) and others have a node of their own.
//
// A rank's link carries the bucket once each way, and the shares of the server on its node n - 1 times; the link of a
// server on its own node carries its share n times. With n nodes, m of them with a server, and kappa = what the links
// of all servers on their own nodes carry in units of a rank's, all links are busy for the same time when the shares
// are as
//
//   server on its own node, link rate b : server on a rank's node  =  b (n - 2 + m) : (n - kappa)
//
// which for m = n is the optimum of BytePS (Jiang et al., OSDI 2020, theorem 1) for any n, kappa and b. From kappa = n
// on nothing is left for the ranks' nodes. A job on one node needs no link at all if a server is there too. What
// the ranks of a node push and take both grow with their number, so only the number of nodes matters.
//
// Pure; any thread.
#ifndef SHOAL_CORE_SERVER_WEIGHTS_H_
#define SHOAL_CORE_SERVER_WEIGHTS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/flow_plan.h"

namespace shoal {

struct ServerOfGroup {
  std::optional<uint32_t> node;  // of the group's nodes, from 0; none: on its own node
  uint32_t weight = 1;           // of each I/O thread as registered; beside servers on ranks' nodes: of its link, in
                                 // units of a rank's link. At least 1.
  uint32_t io_threads = 1;       // at least 1
};

// The weight of each server's I/O threads in the group's shard map, 0 for a server that the group does not use. Where
// all servers are alike in where they are, the weights as registered. Else the smallest whole numbers, at most
// kMaxShardWeight, that are within 2 % of the optimum, or as near as that limit allows. `node_count` is at least 1.
// Unless `servers` is empty, some weight is not 0.
std::vector<uint32_t> PlanServerWeights(uint32_t node_count, std::span<const ServerOfGroup> servers);

// Of all I/O threads of the servers together: an I/O thread's part of it is its share of every bucket.
double TotalWeight(std::span<const ServerOfGroup> servers, std::span<const uint32_t> weights);

// What the weights mean for the ports. `ranks_of_node` has the number of ranks by node, of a group or of all that
// reduce at the same time; each node has `network_cards` ports (1 or more), over which its ranks are dealt evenly, and
// its servers are at one of them.
PortLoad LoadOfPorts(std::span<const uint32_t> ranks_of_node, std::span<const ServerOfGroup> servers,
                     std::span<const uint32_t> weights, uint32_t network_cards = 1);

}  // namespace shoal

#endif  // SHOAL_CORE_SERVER_WEIGHTS_H_
