// One all-reduce of a group in this worker: its tensor, which chunks of it are back, and who uses its memory.
//
// Its memory is the caller's again when it was reported, which is not before the transport is done with it. One thread.
#ifndef SHOAL_WORKER_MACHINE_WORKER_OP_H_
#define SHOAL_WORKER_MACHINE_WORKER_OP_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/frame.h"
#include "core/ids.h"
#include "core/node_parts.h"
#include "core/partial_op.h"
#include "core/wait_report.h"
#include "worker/machine/op_layout.h"
#include "worker/machine/worker_commands.h"
#include "worker/machine/worker_outcomes.h"

namespace shoal {

class WorkerOp {
 public:
  // `first_position`: of its chunks in the order that all ranks share, over all ops. `rotation`: of the map.
  WorkerOp(OpNumber number, const SubmitCommand& command, uint64_t first_position, uint32_t rotation);

  OpNumber number() const { return number_; }
  const SubmitCommand& command() const { return command_; }
  const OpLayout& layout() const { return command_.layout; }
  uint32_t chunk_count() const { return command_.layout.chunk_count(); }
  // Where a chunk lies in the tensor.
  std::byte* Chunk(ChunkNumber chunk) const { return command_.data + command_.layout.OffsetBytes(chunk); }
  // What a push, or a hand-over of the result, says of the chunk.
  FrameHeader HeaderOf(ChunkNumber chunk) const;
  bool on_device() const { return command_.on_device; }
  // What the transport reads and writes is not the tensor itself.
  bool staged() const { return on_device() || !layout().codec().is_identity(); }
  uint64_t first_position() const { return first_position_; }
  uint32_t rotation() const { return rotation_; }

  // ---- chunks ----

  // Another map deals its chunks anew; what servers of the last one said of missing ranks is void.
  void Deal(uint32_t rotation);
  // The tensor holds the chunk's result. A large op takes long without waiting for anybody, so waits count from here.
  void Land(ChunkNumber chunk, uint64_t now_ns);
  bool HasLanded(ChunkNumber chunk) const { return landed_[chunk.value()]; }
  uint32_t chunks_landed() const { return chunks_landed_; }
  bool AllLanded() const { return chunks_landed_ == chunk_count(); }
  // The first chunk that has not landed; chunk_count(): none.
  uint32_t FirstMissing() const { return first_missing_; }

  // ---- whose contributions its results have ----

  // A server says of a chunk's result that it has so many; the group has `size` ranks.
  void NoteContributors(ChunkNumber chunk, uint32_t contributors, uint32_t size);
  // In that chunk's result.
  uint32_t ContributorsOf(ChunkNumber chunk, uint32_t size) const {
    return contributors_.empty() ? size : contributors_[chunk.value()];
  }
  // In all of them.
  Contributors ContributorsOf(uint32_t size) const;
  // The same of these elements, which begin where a chunk does and end where one does.
  std::vector<ContributedRange> ContributedRanges(ElementRange elements, uint32_t size) const;

  // ---- contribution: all of it is there from the start, or it comes bit by bit ----

  // So many elements are there, from the first on. Until this was called, all of them.
  void SetReadyElements(uint64_t elements) { ready_elements_ = elements; }
  bool HasAllElements() const { return ready_elements_ >= layout().element_count(); }
  bool IsReady(ChunkNumber chunk) const {
    return layout().plan().FirstElement(chunk) + layout().plan().ElementCount(chunk) <= ready_elements_;
  }

  // ---- memory ----

  void StartOperation() { ++operations_; }
  void EndOperation() { --operations_; }
  // The transport, or a copy between a device and host memory, uses its memory.
  bool busy() const { return operations_ > 0; }

  // ---- end ----

  // Those of its results that some rank may lack were copied, or their copies have begun.
  bool results_kept() const { return results_kept_; }
  void NoteResultsKept() { results_kept_ = true; }
  bool reported() const { return reported_; }
  void Report() { reported_ = true; }

  // ---- waiting ----

  // A server waits for ranks, with the contributions to that chunk.
  void NoteMissingRanks(const Waiting& missing, uint32_t shard, ChunkNumber chunk);
  // That chunk is back from the shard: what was said of missing ranks is no longer so.
  void ForgetMissingRanks(uint32_t shard, ChunkNumber chunk);
  const Waiting& missing_ranks() const { return missing_ranks_; }  // none missing: no server has said so
  uint32_t missing_shard() const { return missing_shard_; }        // the server that said so
  // What servers of older maps said last, while none of this one's has.
  const Waiting& missing_before_move() const { return missing_before_move_; }
  const WaitReport& wait() const { return wait_; }
  // It went on at that time: the wait for it counts from there.
  void NoteProgress(uint64_t at_ns) { wait_.NoteProgress(at_ns); }
  // True: a line about the wait for it is due now.
  bool TakeWaitDue(uint64_t now_ns) { return wait_.TakeDue(now_ns); }

 private:
  OpNumber number_;
  SubmitCommand command_;
  uint64_t first_position_;
  uint32_t rotation_;
  std::vector<bool> landed_;            // by chunk
  std::vector<uint32_t> contributors_;  // by chunk; empty: all results have all ranks'
  uint32_t chunks_landed_ = 0;
  uint32_t first_missing_ = 0;
  uint64_t ready_elements_ = UINT64_MAX;
  uint32_t operations_ = 0;  // of the transport, and copies, on its memory, that have not ended
  bool results_kept_ = false;
  bool reported_ = false;
  WaitReport wait_;
  Waiting missing_ranks_;
  uint32_t missing_shard_ = 0;
  ChunkNumber missing_chunk_;
  Waiting missing_before_move_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_WORKER_OP_H_
