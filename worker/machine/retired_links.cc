#include "worker/machine/retired_links.h"

#include <algorithm>
#include <utility>

namespace shoal {

void RetiredLinks::Add(EpochLinks links, uint64_t force_at_ns) {
  links.StopWanting();
  if (links.HoldsMemory()) generations_.push_back({.links = std::move(links), .force_at_ns = force_at_ns});
}

EpochLinks& RetiredLinks::Find(uint16_t generation) {
  return std::find_if(generations_.begin(), generations_.end(),
                      [generation](const Generation& each) { return each.links.generation() == generation; })
      ->links;
}

void RetiredLinks::DropIdle() {
  std::erase_if(generations_, [](const Generation& each) { return !each.links.HoldsMemory(); });
}

bool RetiredLinks::ReadsTensor(ChunkPlace place) const {
  return std::any_of(generations_.begin(), generations_.end(), [place](const Generation& each) {
    return std::any_of(each.links.begin(), each.links.end(),
                       [place](const ShardLink& link) { return link.ReadsTensor(place); });
  });
}

void RetiredLinks::Tick(uint64_t now_ns, uint64_t again_after_ns, absl::FunctionRef<bool(uint32_t)> is_spared,
                        absl::FunctionRef<void(ShardLink*)> cut) {
  for (Generation& each : generations_) {
    if (now_ns < each.force_at_ns) continue;
    each.force_at_ns = kNoDeadline;
    for (ShardLink& link : each.links) {
      if (!link.IsInTransport()) continue;
      if (is_spared(link.connection())) {
        each.force_at_ns = now_ns + again_after_ns;
      } else {
        cut(&link);
      }
    }
  }
}

uint64_t RetiredLinks::NextDeadlineNs() const {
  uint64_t deadline_ns = kNoDeadline;
  for (const Generation& each : generations_) deadline_ns = std::min(deadline_ns, each.force_at_ns);
  return deadline_ns;
}

}  // namespace shoal
