// What other ranks may need of this one after a server's death (docs/adr/0009), and its hand-over to servers that ask.
//
// A chunk of an op that is not done lies in the tensor, as contribution or as result. Of a done op, the results that
// some rank may lack are copied first: the newest ones of each shard, as many as its credit (that all ranks have those
// before follows from the credit), and those of chunks that were in flight when the group moved, of which the credit
// proves nothing. They are kept until every rank is known to have them (invariant I3). Memory comes from GroupStaging,
// which outlives this. One thread.
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
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/frame.h"
#include "core/ids.h"
#include "worker/machine/chunk_in_flight.h"
#include "worker/machine/connections.h"
#include "worker/machine/epoch_links.h"
#include "worker/machine/group_staging.h"
#include "worker/machine/op_queue.h"
#include "worker/machine/worker_actions.h"

namespace shoal {

class ResultKeeper {
 public:
  ResultKeeper(GroupStaging* staging, uint32_t group_size) : staging_(*staging), group_size_(group_size) {}

  // ---- which results some rank may lack ----

  void NotePushed(ChunkPlace pushed) { newest_pushed_ = std::max(newest_pushed_, pushed); }
  // A result is in the tensor. True: its link is to keep it as the newest of its cell.
  bool NoteLanded(ChunkPlace landed);
  // The group moves on from these links: of what was in flight the credit proves nothing.
  void LeaveEpoch(const EpochLinks& links, const OpQueue& ops);
  // The newest op with a landed chunk; 0: none.
  OpNumber newest_result() const { return newest_result_; }

  // ---- keeping them ----

  // All results of the op have landed: copies those that some rank may lack. Once per op. Copies from a device keep it
  // busy. ResourceExhausted: no memory; the group fails.
  absl::Status Keep(WorkerOp* op, const EpochLinks& links, WorkerActions* actions);
  size_t retained_count() const { return retained_.size(); }
  // A server says that every rank has the results of the ops up to this one.
  void Commit(OpNumber watermark);
  OpNumber commit_watermark() const { return commit_watermark_; }

  // ---- handing them over ----

  struct HandOver {
    std::shared_ptr<StagingMemory> memory;  // its place 0; null: the entry is free
    Connections::Use connection;
    FrameHeader header;            // HeaderOfResult
    bool is_in_transport = false;  // else a device still fills it
  };

  // The server of the shard asks for a result. `op`: the chunk's, null if it is not known any more. The index of a
  // hand-over that is to be sent now; nullopt: this rank does not have the result, a device still has to copy it, or
  // more is asked for than any server could in good faith. ResourceExhausted: as above.
  absl::StatusOr<std::optional<uint16_t>> OnAsk(WorkerOp* op, ChunkPlace place, uint32_t shard, const EpochLinks& links,
                                                WorkerActions* actions);
  const HandOver& FindHandOver(uint16_t index) const { return hand_overs_[index]; }
  void NoteSent(uint16_t index) { hand_overs_[index].is_in_transport = true; }
  // The transport is done with its memory.
  void EndHandOver(uint16_t index);
  bool HandsOver() const;
  // Calls `each` with the peer of every hand-over that the transport has.
  void ForEachHandOver(absl::FunctionRef<void(PeerId peer)> each) const;

 private:
  struct Result {
    FrameHeader header;                     // HeaderOfResult
    std::shared_ptr<StagingMemory> memory;  // its place 0, as it crosses the wire
  };

  // WorkerOp::HeaderOf, and how many contributions the result has.
  FrameHeader HeaderOfResult(const WorkerOp& op, ChunkNumber chunk) const;
  // Chunks of an op that all landed here, whose results some rank may lack. Valid until the next call.
  std::span<const ChunkNumber> TakeUnproven(OpNumber op, const EpochLinks& links);
  std::optional<uint16_t> StartHandOver(HandOver hand_over);

  GroupStaging& staging_;
  const uint32_t group_size_;
  ChunkPlace newest_pushed_;  // of all epochs
  ChunkPlace settle_until_;   // newest_pushed_ before this epoch
  OpNumber newest_result_;
  OpNumber commit_watermark_;
  std::vector<ChunkPlace> unproven_;  // landed chunks of ops that are not done, outside of the credit's proof
  std::vector<ChunkNumber> taken_;    // by TakeUnproven
  std::vector<Result> retained_;
  std::vector<HandOver> hand_overs_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_RESULT_KEEPER_H_
