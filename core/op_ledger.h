// What a server knows of the ops of one group that are not committed yet: their layout, and which chunks were summed.
//
// The first contribution to an op registers its layout; the others must agree (invariant I7). A chunk that was summed
// stays known until the commit watermark passes its op, so that a late copy is refused and never summed (I2). Holds at
// most kMaxUncommittedOps ops with kMaxUncommittedChunks chunks in all, a bit for each; records are reused. One thread.
#ifndef SHOAL_CORE_OP_LEDGER_H_
#define SHOAL_CORE_OP_LEDGER_H_

#include <cstdint>
#include <vector>

#include "core/bucket_plan.h"
#include "core/frame.h"
#include "core/ids.h"
#include "core/wire_codec.h"

namespace shoal {

inline constexpr uint32_t kMaxUncommittedOps = 256;
// Far beyond what credit lets be under way: an honest rank gets there only with tensors of so many chunks submitted and
// not done (128 GiB of the smallest chunks) while one of the servers stands still. A rank that lies about sizes gets
// 2 MiB.
inline constexpr uint64_t kMaxUncommittedChunks = 2 * uint64_t{kMaxChunksPerBucket};
// A server tells its workers when its watermark has moved by so many ops since it last told them.
inline constexpr uint32_t kCommitAnnounceOps = kMaxUncommittedOps / 4;

// Whether a worker that knows of this commit watermark may push to the op. Its push carries the watermark, so a server
// that knew less learns it by the push itself, and an honest worker is never refused with kNoSlot. And no worker waits
// for ever: once an op has landed at all ranks, every server hears so from every rank and announces it, at the latest
// kCommitAnnounceOps later.
inline bool MayPushOp(OpNumber op, OpNumber commit_watermark) {
  return op <= commit_watermark || op.value() - commit_watermark.value() <= kMaxUncommittedOps;
}

struct OpRecord {
  OpNumber op;  // 0: the record is free
  BucketPlan plan;
  WireCodec codec;
  ReduceOp reduce_op = ReduceOp::kSum;
  double premul_factor = 1.0;
  bool scaled_to_all = false;  // FrameHeader's
  Rank registered_by;
  std::vector<bool> summed;  // by chunk
};

class OpLedger {
 public:
  explicit OpLedger(uint32_t max_chunk_bytes);

  // Finds or registers the op of a push. kNone: *record is it. Else nothing changed: kStaleOp (committed already),
  // kNoSlot (too far ahead of the watermark, or too many chunks), kLayoutMismatch (bucket differs from the record,
  // which *record points to then), kMalformed (the chunk does not lie where the plan has it).
  Refusal Admit(const FrameHeader& push, const OpRecord** record);

  // The record of an op that was admitted and is not committed; nullptr otherwise.
  const OpRecord* Find(OpNumber op) const;
  // The chunk of such an op was summed.
  void NoteSummed(OpNumber op, ChunkNumber chunk);

  // Forgets the ops that are not committed: their chunks are gathered anew, in another epoch.
  void Restart();

  // Ops up to this one are done at every rank.
  void Commit(OpNumber watermark);
  OpNumber watermark() const { return watermark_; }
  // True if the watermark is to be told to the workers; they count as told then.
  bool TakeAnnouncement();

 private:
  // Its op is over.
  void Free(OpRecord* record);

  uint32_t max_chunk_bytes_;
  uint64_t uncommitted_chunks_ = 0;
  OpNumber watermark_;
  OpNumber announced_;
  std::vector<OpRecord> records_;  // op n lives at n % kMaxUncommittedOps
};

}  // namespace shoal

#endif  // SHOAL_CORE_OP_LEDGER_H_
