// The all-reduces that the model compares. Each gives the seconds from the first bucket's start to the last one's end
// at the last worker.
#ifndef SHOAL_BENCH_FABRIC_MODEL_LAYOUTS_H_
#define SHOAL_BENCH_FABRIC_MODEL_LAYOUTS_H_

#include <cstdint>

#include "bench/fabric_model/fabric.h"

namespace shoal::fabric_model {

// What the ranks of a node have beside the node's link, which they share.
struct InsideNode {
  uint32_t ranks = 1;
  double bytes_per_s = 0;  // of a rank, each way, to the others of its node
  double latency_s = 0;    // of a hop from rank to rank; for servers, of a whole reduce-scatter or all-gather
};

struct Training {
  uint32_t nodes = 0;
  double link_bytes_per_s = 0;  // of a node, each way
  InsideNode inside;
  uint64_t bucket_bytes = 0;
  uint32_t buckets = 1;    // one after the other
  uint32_t in_flight = 1;  // so many of them at a time
  uint32_t groups = 0;     // of equal nodes that the model takes for one each
};

// Shoal: chunks are dealt to servers, all workers push them in one order and pull the sums. Several ranks of a node are
// rails: rank r of every node has the r-th part of the bucket. What is pushed was reduced and scattered inside the
// node, and what comes back is gathered there, a chunk of each rank at a time, in one queue for both.
struct ServerLayout {
  uint32_t dedicated = 0;            // servers with a link of their own
  double server_bytes_per_s = 0;     // of each
  double dedicated_share = 1;        // of a bucket, on all of them together; the rest is on servers inside the nodes
  uint32_t chunk_bytes = 0;          // at most
  uint32_t credit_chunks = 2;        // under way from a worker to a server
  uint32_t window_chunks = 0;        // a worker pushes none so far past its oldest one that is not back; 0: any
  double reduce_bytes_per_s = 1e12;  // of a server, of inputs
};
double RunServers(Fabric* fabric, const Training& training, const ServerLayout& layout);

// A bandwidth-optimal ring over all ranks: n - 1 steps of reduce-scatter and n - 1 of all-gather, each of an n-th of
// the bucket. It enters and leaves each node once.
double RunRing(Fabric* fabric, const Training& training);

// NCCL's double binary tree: two trees with half of the bucket each, every node a leaf in one of them and an inner
// one in the other; segments are reduced upwards and broadcast downwards in a pipeline. The ranks of a node are a
// chain, of which a segment passes one more rank at each level, and all of them at the beginning and the end.
double RunDoubleTree(Fabric* fabric, const Training& training, uint32_t segment_bytes);

}  // namespace shoal::fabric_model

#endif  // SHOAL_BENCH_FABRIC_MODEL_LAYOUTS_H_
