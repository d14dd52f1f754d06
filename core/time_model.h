// What an all-reduce through the servers should take: the model behind core/flow_plan.h, to be printed and compared.
//
// The busiest of three paces sets the time: the links (the bucket, as many times as the busiest one carries it), the
// server with the largest part (it receives that part from all ranks), and the messages (each costs as much as was
// measured, of a rank's and of that server's). Before and after, one chunk is on its way alone, and a round trip
// passes.
//
// Pure; any thread.
#ifndef SHOAL_CORE_TIME_MODEL_H_
#define SHOAL_CORE_TIME_MODEL_H_

#include <cstdint>

#include "core/bucket_plan.h"
#include "core/flow_plan.h"
#include "core/ids.h"
#include "core/shard_map.h"

namespace shoal {

// How the chunks of a group's first op are spread over the shards of a map.
struct DealSummary {
  uint32_t shards_used = 0;
  uint32_t largest_part_chunks = 0;
};
DealSummary SummarizeDeal(const BucketPlan& plan, const ShardMap& map, GroupId group);

struct OpShape {
  uint64_t bytes = 0;  // on the wire, each way
  uint32_t chunk_bytes = 0;
  uint32_t chunk_count = 0;
  uint32_t largest_part_chunks = 0;
  uint32_t group_size = 1;
  double busiest_link = 1;  // PortLoad
};

// 0: the link was not measured, so there is no prediction.
uint64_t PredictOpNs(const OpShape& shape, const LinkFacts& link);

}  // namespace shoal

#endif  // SHOAL_CORE_TIME_MODEL_H_
