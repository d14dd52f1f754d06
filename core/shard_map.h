// The shard map: which reduction server owns which chunk in an epoch.
//
// A map is a value: computed by the scheduler, published to everybody, immutable afterwards, so it may be shared
// between threads. A shard is one I/O thread of one server (it has an address of its own). Ownership is dealt, not
// drawn: the chunks of a group, in the one order that its ranks share, are dealt in turn over the weighted table of
// shards, from a place that the group's hash gives. A bucket goes on where the last one ended. So every server carries
// its share of every stretch of that order to within one chunk: of a large bucket, and of many small ones.
#ifndef SHOAL_CORE_SHARD_MAP_H_
#define SHOAL_CORE_SHARD_MAP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/ids.h"

namespace shoal {

inline constexpr uint32_t kMaxShards = 4096;
inline constexpr uint32_t kMaxShardWeight = 64;

struct Shard {
  ServerId server;
  Incarnation incarnation;  // of the server process
  std::string server_name;  // for logs and status
  std::string address;      // "ip:port" of the I/O thread's listener
  uint32_t weight = 1;      // 1 .. kMaxShardWeight

  friend bool operator==(const Shard&, const Shard&) = default;
};

class ShardMap {
 public:
  ShardMap() = default;

  // Orders the shards by (server, address), so that a map does not depend on the order in which servers registered.
  // InvalidArgument: too many shards, a weight out of range, an empty or repeated address.
  static absl::StatusOr<ShardMap> Make(Epoch epoch, std::vector<Shard> shards);

  Epoch epoch() const { return epoch_; }
  const std::vector<Shard>& shards() const { return shards_; }
  bool empty() const { return shards_.empty(); }

  // Index into shards() of the owner of a chunk, by its position in its group's order, counted over all buckets from 0.
  // The map must not be empty.
  uint32_t Owner(GroupId group, uint64_t position) const;

  // The table of indices over which chunks are dealt: index i stands in it weight(i) times, spread evenly (smooth
  // weighted round robin, as nginx deals requests). Weights are divided by their greatest common divisor first.
  const std::vector<uint32_t>& deal_table() const { return deal_table_; }

  // Where in deal_table() the deal of a bucket starts whose first chunk has this position.
  uint32_t Rotation(GroupId group, uint64_t first_position) const;

  // A digest of everything in the map; equal maps have equal digests on every node.
  uint64_t Digest() const;

 private:
  Epoch epoch_;
  std::vector<Shard> shards_;
  std::vector<uint32_t> deal_table_;
};

}  // namespace shoal

#endif  // SHOAL_CORE_SHARD_MAP_H_
