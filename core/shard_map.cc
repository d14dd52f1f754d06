#include "core/shard_map.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/hash.h"

namespace shoal {
namespace {

// Smooth weighted round robin: in each turn every shard gains its weight, the richest is dealt and pays the total.
std::vector<uint32_t> DealTable(const std::vector<Shard>& shards) {
  uint32_t divisor = 0;
  for (const Shard& shard : shards) divisor = std::gcd(divisor, shard.weight);
  std::vector<int64_t> weights;
  int64_t total = 0;
  for (const Shard& shard : shards) {
    weights.push_back(shard.weight / divisor);
    total += weights.back();
  }
  if (total == static_cast<int64_t>(shards.size())) {
    // Equal weights, the usual case: in turn (as below, but not in quadratic time).
    std::vector<uint32_t> in_turn(shards.size());
    std::iota(in_turn.begin(), in_turn.end(), 0u);
    return in_turn;
  }
  std::vector<int64_t> balance(shards.size(), 0);
  std::vector<uint32_t> table;
  table.reserve(static_cast<size_t>(total));
  for (int64_t turn = 0; turn < total; ++turn) {
    size_t richest = 0;
    for (size_t i = 0; i < shards.size(); ++i) {
      balance[i] += weights[i];
      if (balance[i] > balance[richest]) richest = i;
    }
    balance[richest] -= total;
    table.push_back(static_cast<uint32_t>(richest));
  }
  return table;
}

uint64_t HashText(const std::string& text) {
  uint64_t state = StableHash({text.size()});
  for (char c : text) state = StableHash({state, static_cast<unsigned char>(c)});
  return state;
}

}  // namespace

absl::StatusOr<ShardMap> ShardMap::Make(Epoch epoch, std::vector<Shard> shards) {
  if (shards.size() > kMaxShards) {
    return absl::InvalidArgumentError(
        absl::StrCat("a map of ", shards.size(), " shards is more than the limit of ", kMaxShards));
  }
  std::set<std::string> addresses;
  for (const Shard& shard : shards) {
    if (shard.weight == 0 || shard.weight > kMaxShardWeight) {
      return absl::InvalidArgumentError(absl::StrCat("the weight ", shard.weight, " of server ", shard.server_name,
                                                     " is not between 1 and ", kMaxShardWeight));
    }
    if (shard.address.empty() || !addresses.insert(shard.address).second) {
      return absl::InvalidArgumentError(absl::StrCat("the address \"", shard.address, "\" of server ",
                                                     shard.server_name, " is empty or stands in the map twice"));
    }
  }
  std::sort(shards.begin(), shards.end(), [](const Shard& a, const Shard& b) {
    return std::tie(a.server, a.address) < std::tie(b.server, b.address);
  });
  ShardMap map;
  map.epoch_ = epoch;
  map.shards_ = std::move(shards);
  map.deal_table_ = DealTable(map.shards_);
  return map;
}

uint32_t ShardMap::Rotation(GroupId group, uint64_t first_position) const {
  const uint64_t size = deal_table_.size();
  return static_cast<uint32_t>((StableHash({group.value()}) % size + first_position % size) % size);
}

uint32_t ShardMap::Owner(GroupId group, uint64_t position) const { return deal_table_[Rotation(group, position)]; }

uint64_t ShardMap::Digest() const {
  uint64_t digest = StableHash({epoch_.value(), shards_.size()});
  for (const Shard& shard : shards_) {
    digest = StableHash({digest, shard.server.value(), shard.incarnation.value(), HashText(shard.server_name),
                         HashText(shard.address), shard.weight});
  }
  return digest;
}

}  // namespace shoal
