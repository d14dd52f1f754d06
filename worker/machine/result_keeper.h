// What other ranks may need of this one after a server's death (docs/adr/0009), and its hand-over to servers that ask.
//
// A chunk of an op that is not done lies in the tensor, as contribution or as result. Of a done op, the results that
// some rank may lack are copied first: the newest ones of each shard, as many as its credit (that all ranks have those
// before follows from the credit), and those of chunks that were in flight when the group moved, of which the credit
// proves nothing. They are kept until every rank is known to have them (invariant I3). One thread.
#ifndef SHOAL_WORKER_MACHINE_RESULT_KEEPER_H_
#define SHOAL_WORKER_MACHINE_RESULT_KEEPER_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "core/frame.h"
#include "core/ids.h"
#include "worker/machine/chunk_in_flight.h"
#include "worker/machine/connections.h"
#include "worker/machine/epoch_links.h"
#include "worker/machine/op_queue.h"
#include "worker/machine/retained_results.h"

namespace shoal {

class ResultKeeper {
 public:
  // `arena`: as in WorkerMachineOptions.
  ResultKeeper(uint32_t max_chunk_bytes, std::shared_ptr<StagingArena> arena)
      : retained_(max_chunk_bytes, std::move(arena)) {}

  // ---- which results some rank may lack ----

  void NotePushed(ChunkPlace pushed) { newest_pushed_ = std::max(newest_pushed_, pushed); }
  // A result is in the tensor. True: its link is to keep it as the newest of its cell.
  bool NoteLanded(ChunkPlace landed);
  // The group moves on from these links: of what was in flight the credit proves nothing.
  void LeaveEpoch(const EpochLinks& links, const OpQueue& ops);
  // Chunks of an op that all landed here, whose results some rank may lack. Once per op; valid
  // until the next call.
  std::span<const ChunkNumber> TakeUnproven(OpNumber op, const EpochLinks& links);
  // The newest op with a landed chunk; 0: none.
  OpNumber newest_result() const { return newest_result_; }

  // ---- keeping them ----

  // Where to copy the result of the header's chunk to. ResourceExhausted: no memory; the group fails.
  absl::StatusOr<std::shared_ptr<StagingMemory>> Keep(const FrameHeader& header) { return retained_.Keep(header); }
  // nullptr: it is not kept (any more).
  const RetainedResults::Result* Find(ChunkPlace place) const { return retained_.Find(place.op, place.chunk); }
  size_t retained_count() const { return retained_.size(); }
  // A server says that every rank has the results of the ops up to this one.
  void Commit(OpNumber watermark);
  OpNumber commit_watermark() const { return commit_watermark_; }

  // ---- handing them over ----

  // A chunk's memory for a result that is not kept. ResourceExhausted: as above.
  absl::StatusOr<std::shared_ptr<StagingMemory>> TakeMemory() { return retained_.TakeMemory(); }
  struct HandOver {
    std::shared_ptr<StagingMemory> memory;  // its place 0; null: the entry is free
    Connections::Use connection;
    FrameHeader header;            // as the chunk is pushed
    bool is_in_transport = false;  // else a device still fills it
  };

  // A result goes to a server. Its index; nullopt: more than any server could ask for in good faith.
  std::optional<uint16_t> StartHandOver(HandOver hand_over);
  const HandOver& FindHandOver(uint16_t index) const { return hand_overs_[index]; }
  void NoteSent(uint16_t index) { hand_overs_[index].is_in_transport = true; }
  // The transport is done with its memory.
  void EndHandOver(uint16_t index);
  bool HandsOver() const;
  // Calls `each` with the connection of every hand-over that the transport has.
  void ForEachHandOver(absl::FunctionRef<void(uint32_t connection)> each) const;

 private:
  ChunkPlace newest_pushed_;  // of all epochs
  ChunkPlace settle_until_;   // newest_pushed_ before this epoch
  OpNumber newest_result_;
  OpNumber commit_watermark_;
  std::vector<ChunkPlace> unproven_;  // landed chunks of ops that are not done, outside of the credit's proof
  std::vector<ChunkNumber> taken_;    // by TakeUnproven
  RetainedResults retained_;
  std::vector<HandOver> hand_overs_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_RESULT_KEEPER_H_
