// Server memory for one chunk while it is gathered, reduced and replied: the exactly-once ledger of invariant I2.
//
//   kFree -> kGathering -> kReducing -> kReplying -> kFree
//
// A rank's contribution goes through absent -> landing -> landed, once; whatever comes a second time is refused. In
// place of its contribution a rank may hand over the result, from an earlier epoch: then nothing is reduced. The slot
// counts and remembers, it never touches memory. One thread; no allocation after Size().
#ifndef SHOAL_CORE_CHUNK_SLOT_H_
#define SHOAL_CORE_CHUNK_SLOT_H_

#include <cstdint>
#include <vector>

#include "core/frame.h"
#include "core/ids.h"

namespace shoal {

class ChunkSlot {
 public:
  enum class State : uint8_t { kFree, kGathering, kReducing, kReplying };

  // Once, before use: how many ranks contribute.
  void Size(uint32_t group_size);
  // Of these, in chunks that start from now on.
  void Expect(uint32_t ranks) { expected_ = ranks; }

  State state() const { return state_; }
  OpNumber op() const { return op_; }
  ChunkNumber chunk() const { return chunk_; }
  uint64_t gathering_since_ns() const { return since_ns_; }
  // Transport operations on the slot's memory that have not ended: the memory must not be used again before 0.
  uint32_t busy() const { return busy_; }

  // kFree -> kGathering.
  void Start(OpNumber op, ChunkNumber chunk, uint64_t now_ns);

  // A rank offers its contribution, or the result: kNone and it counts as landing, or kDuplicate and nothing changed.
  Refusal Offer(Rank rank, bool is_result = false);
  // Of how many contributions a result is that was offered; all that are offered are of the same ones.
  void NoteResultOf(uint32_t contributors) { contributors_ = contributors; }
  // The rank's contribution ended landing. False in `ok`: it is absent again. True when all ranks are there; the state
  // is kReducing then. Also to be called in a slot that was given up (see Abandon).
  bool Landed(Rank rank, bool ok);

  // kReducing -> kReplying, with `replies` sends under way.
  void StartReplies(uint32_t replies);
  // One reply ended. True when it was the last; the slot is kFree then.
  bool ReplySent();

  // Gives the chunk up, in any state: nothing will be reduced or replied any more. The slot becomes kFree once busy()
  // is 0.
  void Abandon();

  // How many ranks' contributions, or results, have landed.
  uint32_t landed_count() const { return landed_count_; }
  bool Has(Rank rank) const { return landed_[rank.value()]; }
  // It offered its contribution, or the result, and that did not fail to land.
  bool Offered(Rank rank) const { return offered_[rank.value()]; }
  // In the result: of all ranks that were expected, unless that was handed over.
  uint32_t contributors() const { return contributors_; }
  // It handed the result over.
  bool HasResultOf(Rank rank) const { return is_result_[rank.value()]; }
  // Given up: what is busy on its memory ends without consequence.
  bool abandoned() const { return abandoned_; }

 private:
  void FreeIfIdle();

  State state_ = State::kFree;
  bool abandoned_ = false;
  OpNumber op_;
  ChunkNumber chunk_;
  uint64_t since_ns_ = 0;
  uint32_t busy_ = 0;
  uint32_t landed_count_ = 0;
  uint32_t expected_ = 0;
  uint32_t contributors_ = 0;
  std::vector<bool> offered_;
  std::vector<bool> landed_;
  std::vector<bool> is_result_;
};

}  // namespace shoal

#endif  // SHOAL_CORE_CHUNK_SLOT_H_
