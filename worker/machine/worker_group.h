// One group in a worker: its ops in call order, and for each shard of its map the chunks dealt to it.
//
// Data and rules for WorkerMachine, which owns it and talks to the servers. One thread.
//
// What others may need of this rank after a server's death (docs/adr/0009): a chunk of an op that is not done lies in
// the tensor, as contribution or as result. Of a done op, the results that some rank may lack are copied first: the
// last ones of each shard, as many as its credit, and those of chunks that were in flight when the group moved.
#ifndef SHOAL_WORKER_MACHINE_WORKER_GROUP_H_
#define SHOAL_WORKER_MACHINE_WORKER_GROUP_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "core/bucket_plan.h"
#include "core/credit_window.h"
#include "core/now.h"
#include "core/op_ledger.h"
#include "core/wait_report.h"
#include "worker/machine/retained_results.h"
#include "worker/machine/worker_events.h"

namespace shoal {

struct WorkerOp {
  OpNumber number;
  uint64_t ticket = 0;
  std::byte* data = nullptr;
  DataType dtype = DataType::kFloat32;
  DataType type_on_wire = DataType::kFloat32;  // unlike dtype: chunks go through the staging memory
  ReduceOp reduce_op = ReduceOp::kSum;
  double premul_factor = 1.0;
  BucketPlan plan;  // chunk_count 0: nothing to reduce
  uint32_t rotation = 0;
  uint64_t first_position = 0;  // of its chunks in the order that all ranks share, over all ops
  uint64_t submitted_ns = 0;
  uint64_t deadline_ns = 0;
  std::vector<bool> landed;  // by chunk: the tensor holds the result
  uint32_t chunks_landed = 0;
  uint32_t busy = 0;      // transport operations on its memory that have not ended
  bool reported = false;  // OpDone was said
  WaitReport wait;

  bool narrowed() const { return type_on_wire != dtype; }
  // Where a chunk lies in the tensor.
  std::byte* Chunk(ChunkNumber chunk) const { return data + plan.FirstElement(chunk) * DataTypeSize(dtype); }
  uint64_t BytesOnWire(ChunkNumber chunk) const {
    return uint64_t{plan.ElementCount(chunk)} * DataTypeSize(type_on_wire);
  }

  // The newest word of a server on whom a chunk waits for; nobody missing once that chunk is back.
  Waiting waiting;
  uint32_t waiting_shard = 0;
  ChunkNumber waiting_chunk;
};

// A chunk's place in the order in which all ranks push.
struct ChunkPlace {
  OpNumber op;
  ChunkNumber chunk;

  friend auto operator<=>(const ChunkPlace&, const ChunkPlace&) = default;
};

// A chunk in flight to a shard. Its cell is used again when it is sent and its result has landed.
struct ChunkInFlight {
  OpNumber op;
  ChunkNumber chunk;
  uint64_t position = 0;
  bool open = false;
  bool sent = false;     // the transport is done with the contribution
  bool landing = false;  // the transport writes the result
  // How it is written: not known until the loop says so; to the tensor at once; beside it.
  enum class Taking : uint8_t { kAsked, kAtOnce, kBeside };
  Taking taking = Taking::kAsked;
  bool landed = false;
  bool again = false;  // to be pushed again once it is sent
  OfferId held_offer;  // a result that came before the transport was done with this push, or with an older one
};

struct ShardLink {
  uint32_t connection = 0;
  bool hello_sent = false;
  bool welcomed = false;
  bool lost = false;  // its connection broke, or it can't be used: it waits for a new map
  std::string lost_because;
  bool closing = false;           // we cut the connection
  bool reported = false;          // ServerTrouble was said, of a server that can't be reached
  bool waits_for_commit = false;  // the server was asked to tell
  CreditWindow window;
  std::vector<ChunkInFlight> cells;        // position p lives at p % credit
  std::vector<ChunkPlace> last_landed;     // likewise: the newest result of each place
  std::shared_ptr<StagingMemory> staging;  // a place for each cell; null: results land in the tensor, which is not kept
  OpNumber reported_watermark;
  // The next chunk dealt to this shard, if `next_known`; else where to look on from.
  OpNumber next_op;
  uint32_t next_chunk = 0;
  bool next_known = false;

  // The transport reads or writes memory for it.
  bool HoldsMemory() const;
};

// Links of an earlier epoch, until the transport is done with their memory.
struct RetiredLinks {
  uint16_t generation = 0;
  std::vector<ShardLink> links;
  uint64_t force_at_ns = kNoDeadline;  // when connections that still hold memory, and are no more in use, are cut
};

// A result that is being pushed to a server which asked for it.
struct HandOver {
  std::shared_ptr<StagingMemory> memory;  // null: the entry is free
  uint32_t connection = 0;
};

class WorkerGroup {
 public:
  enum class State : uint8_t { kOpening, kOpen, kFailed };

  WorkerGroup(std::shared_ptr<const GroupInfo> info, uint64_t now_ns, uint64_t open_deadline_ns);

  const GroupInfo& info() const { return *info_; }
  const ShardMap& map() const { return *map_; }
  Epoch epoch() const { return map_->epoch(); }
  uint32_t size() const { return static_cast<uint32_t>(info_->job_ranks.size()); }

  // Takes an op in; its number follows from the order of calls. InvalidArgument: it can't be cut into chunks.
  absl::Status Submit(const SubmitCommand& command);
  // nullptr: not known (any more).
  WorkerOp* FindOp(OpNumber number);

  // True if there is a chunk to push to the link's shard now; it is then in next_op and next_chunk.
  bool FindNext(uint32_t shard);
  // The link whose next chunk is first in the order that all ranks share, or -1 if nothing may be pushed now: links
  // have no credit left or no chunks, or the chunk is too far ahead of the oldest unfinished one (core/flow_plan.h).
  int NextLink();

  // Goes over to another map: all unfinished chunks are to be pushed again. `links` are new, the old ones returned.
  std::vector<ShardLink> MoveTo(std::shared_ptr<const ShardMap> map);
  // A result is in the tensor. `place` is its cell's.
  void NoteLanded(ShardLink* link, size_t place, WorkerOp* op, ChunkNumber chunk);
  // Chunks of an op that all landed here, whose results some rank may lack. Once per op.
  std::vector<ChunkNumber> TakeUnproven(OpNumber op);
  // The servers' newest word.
  void NoteCommitted(OpNumber watermark);
  // The transport still reads the tensor for a push of the chunk in an epoch that is over.
  bool OldPushIsRead(const WorkerOp& op, ChunkNumber chunk) const;
  // A result is written to a tensor, or may be: until its event, the chunk is neither contribution nor result.
  bool ResultIsBeingTaken() const;

  // Drops done ops at the front; true if the landed watermark moved.
  bool AdvanceWatermark();
  OpNumber landed_watermark() const { return OpNumber(first_op_ - 1); }

  bool AllWelcomed() const;
  // Waits for the others until then at the latest, and counts from now on: it is closed, and all its ops are done.
  void WaitForOthers(uint64_t now_ns, uint64_t until_ns);
  bool Idle() const;  // no transport operation is under way on any op's memory, or on a result's copy
  // "rank 3 on node-b"
  std::string DescribeRank(Rank rank) const;

  State state = State::kOpening;
  absl::Status failure;  // kFailed: why
  uint64_t open_deadline_ns;
  uint64_t next_op_deadline_ns = kNoDeadline;
  WaitReport open_wait;
  WaitReport leave_wait;
  uint64_t next_wait_report_ns;  // when to look whether somebody should be told of a wait
  uint64_t commit_note_at_ns = kNoDeadline;
  uint64_t leave_by_ns = kNoDeadline;  // an orderly end waits for the other ranks until then
  Waiting leave_waiting;               // the newest word of a server on who lacks results
  uint64_t force_at_ns = kNoDeadline;  // kFailed: when connections that hold memory are cut
  OpNumber commit_watermark;           // newest word of the servers; see NoteCommitted
  bool was_open = false;
  bool close_requested = false;  // by whatever means
  bool close_commanded = false;  // by the caller, who waits for GroupClosed
  std::vector<ShardLink> links;  // by shard of the map
  std::deque<WorkerOp> ops;
  uint16_t generation = 0;  // of the links
  std::vector<RetiredLinks> retired;
  std::shared_ptr<const ShardMap> next_map;  // to move to as soon as possible; null: none
  ChunkPlace newest_pushed;                  // of all epochs
  OpNumber newest_result;                    // the newest op with a landed chunk
  RetainedResults retained;
  std::vector<HandOver> hand_overs;

 private:
  // Of the link's next chunk, which is known.
  uint64_t NextPosition(const ShardLink& link);
  // Of the first chunk whose result has not landed; UINT64_MAX: there is none.
  uint64_t OldestUnfinished();

  std::shared_ptr<const GroupInfo> info_;
  std::shared_ptr<const ShardMap> map_;
  ChunkPlace settle_until_;           // newest_pushed before this epoch
  std::vector<ChunkPlace> unproven_;  // landed chunks of ops that are not done, outside of the credit's proof
  uint64_t first_op_ = 1;             // number of ops.front()
  uint64_t next_position_ = 0;        // of the first chunk of the next op
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_WORKER_GROUP_H_
