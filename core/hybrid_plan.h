// Which share of every bucket each server carries, when some servers share a host, and so its link, with ranks of the
// group ("on a rank's host": hosted by a rank's process, or simply started there) and others have a host of their own
// ("apart").
//
// A rank's link carries the bucket once each way, and the shares of the server on its host n - 1 times; the link of a
// server apart carries its share n times. With n hosts, m of them with a server, and kappa = what the links of all
// servers apart carry in units of a rank's, all links are busy for the same time when the shares are as
//
//   server apart, link rate b : server on a rank's host  =  b (n - 2 + m) : (n - kappa)
//
// which for m = n is the optimum of BytePS (Jiang et al., OSDI 2020, theorem 1) for any n, kappa and b. From kappa = n
// on nothing is left for the ranks' hosts. A job on one host needs no link at all if a server is there too. Several
// ranks on a host push as many times as much and take as many results, so hosts are what counts.
//
// Pure; any thread.
#ifndef SHOAL_CORE_HYBRID_PLAN_H_
#define SHOAL_CORE_HYBRID_PLAN_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/flow_plan.h"

namespace shoal {

struct HybridServer {
  std::optional<uint32_t> host;  // of the group's hosts, from 0; none: apart
  uint32_t weight = 1;           // of each I/O thread as registered; beside servers on ranks' hosts: of its link, in
                                 // units of a rank's link. At least 1.
  uint32_t io_threads = 1;       // at least 1
};

// The weight of each server's I/O threads in the group's shard map, 0 for a server that the group does not use. Where
// all servers are alike in where they are, the weights as registered. Else the smallest whole numbers, at most
// kMaxShardWeight, that are within 2 % of the optimum, or as near as that limit allows. `host_count` is at least 1.
// Unless `servers` is empty, some weight is not 0.
std::vector<uint32_t> PlanHybridWeights(uint32_t host_count, std::span<const HybridServer> servers);

// What the weights mean for the ports. `ranks_of_host` has the number of ranks by host of the group.
PortLoad HybridPortLoad(std::span<const uint32_t> ranks_of_host, std::span<const HybridServer> servers,
                        std::span<const uint32_t> weights);

}  // namespace shoal

#endif  // SHOAL_CORE_HYBRID_PLAN_H_
