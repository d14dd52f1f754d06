// Results of chunks that some rank may not have yet: copies, kept until every rank is known to have them (invariant
// I3).
//
// The machine hands out addresses; the loop fills them. One thread. Memory of what is dropped is used again.
#ifndef SHOAL_WORKER_MACHINE_RETAINED_RESULTS_H_
#define SHOAL_WORKER_MACHINE_RETAINED_RESULTS_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/frame.h"
#include "core/ids.h"
#include "worker/machine/staging_memory.h"

namespace shoal {

class RetainedResults {
 public:
  struct Result {
    FrameHeader header;                     // as the chunk is pushed
    std::shared_ptr<StagingMemory> memory;  // its place 0, as it crosses the wire
  };

  // `arena`: as in WorkerMachineOptions.
  RetainedResults(uint32_t max_chunk_bytes, std::shared_ptr<StagingArena> arena)
      : max_chunk_bytes_(max_chunk_bytes), arena_(std::move(arena)) {}

  // Where to copy the result of the header's chunk to. ResourceExhausted: no memory.
  absl::StatusOr<std::shared_ptr<StagingMemory>> Keep(const FrameHeader& header);
  // nullptr: it is not kept (any more).
  const Result* Find(OpNumber op, ChunkNumber chunk) const;
  // Drops the results of ops up to the watermark.
  void Commit(OpNumber watermark);

  size_t size() const { return results_.size(); }

  // A chunk's memory for another use; drop it, or give it back.
  absl::StatusOr<std::shared_ptr<StagingMemory>> TakeMemory();
  void GiveMemory(std::shared_ptr<StagingMemory> memory);

 private:
  const uint32_t max_chunk_bytes_;
  const std::shared_ptr<StagingArena> arena_;
  std::vector<Result> results_;
  std::vector<std::shared_ptr<StagingMemory>> free_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_RETAINED_RESULTS_H_
