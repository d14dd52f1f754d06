// Links of epochs that are over, until the transport, and copies from devices, are done with the memory of their
// chunks.
//
// One thread.
#ifndef SHOAL_WORKER_MACHINE_RETIRED_LINKS_H_
#define SHOAL_WORKER_MACHINE_RETIRED_LINKS_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "core/now.h"
#include "worker/machine/epoch_links.h"

namespace shoal {

class RetiredLinks {
 public:
  // Links that hold no memory are dropped. The others are cut when that time has come (Tick).
  void Add(EpochLinks links, uint64_t force_at_ns);
  // Those of the generation. An operation on them has not ended, so they are there.
  EpochLinks& Find(uint16_t generation);
  // Drops what holds no memory any more.
  void DropIdle();
  // The tensor is still read for a push of the chunk.
  bool ReadsTensor(ChunkPlace place) const;

  // Calls `cut` for each due link whose memory is in the transport and whose connection is not spared. A connection is
  // spared while the group uses it, which may end: it is looked at again after `again_after_ns`.
  void Tick(uint64_t now_ns, uint64_t again_after_ns, absl::FunctionRef<bool(uint32_t connection)> is_spared,
            absl::FunctionRef<void(ShardLink*)> cut);
  uint64_t NextDeadlineNs() const;

 private:
  struct Generation {
    EpochLinks links;
    uint64_t force_at_ns = kNoDeadline;
  };

  std::vector<Generation> generations_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_RETIRED_LINKS_H_
