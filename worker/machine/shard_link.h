// The link of a group to one shard of its map, in one epoch: greeted, welcomed, perhaps lost; its window of chunks in
// flight, and the next chunk to push to it.
//
// A chunk in flight lives in a cell: position p of the window in cell p % credit. Cells are used again when the chunk's
// result has landed; no allocation after Welcome. One thread.
#ifndef SHOAL_WORKER_MACHINE_SHARD_LINK_H_
#define SHOAL_WORKER_MACHINE_SHARD_LINK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/credit_window.h"
#include "core/ids.h"
#include "core/shard_map.h"
#include "worker/machine/chunk_in_flight.h"
#include "worker/machine/connections.h"
#include "worker/machine/op_queue.h"
#include "worker/machine/staging_memory.h"

namespace shoal {

class ShardLink {
 public:
  // `first`: the first op that may have chunks for the shard.
  ShardLink(Connections::Use connection, OpNumber first) : connection_(std::move(connection)), next_{.op = first} {}

  uint32_t connection() const { return connection_.index(); }
  bool is_up() const { return connection_.is_up(); }
  PeerId peer() const { return connection_.peer(); }
  // From now on it is not connected again on this link's behalf.
  void StopWanting() { connection_.StopWanting(); }
  Connections::Use UseOfConnection() const { return connection_.WithoutWanting(); }

  // ---- from greeting to loss ----

  bool greeted() const { return state_ != State::kNew; }
  bool welcomed() const { return state_ == State::kWelcomed; }
  // Its connection broke, or it can't be used: it waits for a new map.
  bool lost() const { return state_ == State::kLost; }
  // A hello went out and the link was not lost: the server is told how the group ends.
  bool in_use() const { return state_ == State::kGreeted || state_ == State::kWelcomed; }
  const std::string& lost_because() const { return lost_because_; }

  // A hello goes out, with that watermark.
  void Greet(OpNumber landed_watermark);
  // The server took the group in, with credit for 1 or more chunks. `staging` has a place for each cell.
  void Welcome(uint32_t credit, std::shared_ptr<StagingMemory> staging);
  void Lose(std::string why);
  // Of a lost link: true if it is to be reported that its server can be reached, or can't, which is said once.
  bool TakeReport(bool reachable);
  // True the first time: its connection is to be cut.
  bool TakeCut();
  // True the first time, if it is welcomed: the server is to be asked to say when all is committed.
  bool TakeCommitQuestion(OpNumber landed_watermark);
  // True if the server does not know of this watermark yet; it is told now.
  bool TakeWatermark(OpNumber landed_watermark);

  // ---- the next chunk ----

  // True if there is a chunk to push to this shard of the map, by what is open and committed; it is next() then.
  bool FindNext(uint32_t shard, const ShardMap& map, const OpQueue& ops, OpNumber commit_watermark);
  ChunkPlace next() const { return next_; }
  // Welcomed and with credit left.
  bool CanPush() const { return welcomed() && window_.CanPush(); }
  // Positions of the window from its oldest unfinished chunk to its newest.
  uint64_t in_flight() const { return window_.in_flight(); }
  // The oldest chunk in flight; none: the window is empty.
  std::optional<ChunkPlace> OldestInFlight() const;

  // ---- chunks in flight, by cell ----

  // Gives next() a cell; FindNext and CanPush hold. The push carries the watermark.
  uint16_t Push(OpNumber landed_watermark);
  size_t cell_count() const { return cells_.size(); }
  ChunkInFlight& chunk(uint16_t cell) { return cells_[cell]; }
  const ChunkInFlight& chunk(uint16_t cell) const { return cells_[cell]; }
  // The cell of the chunk; nullopt: it is not in flight.
  std::optional<uint16_t> FindCell(ChunkPlace place) const;
  // Chunks of the op are in flight.
  bool HoldsChunkOf(OpNumber op) const;

  // The chunk's result is in the tensor: the window moves on.
  void Finish(uint16_t cell);
  // Offers that are held: they are to be declined.
  std::vector<OfferId> DropHeld();

  // The transport, or a copy between a device and the staging memory, reads or writes memory for it.
  bool HoldsMemory() const;
  // The transport does: to cut the connection frees that.
  bool IsInTransport() const;
  bool ResultMayBeInTensor() const;
  // Chunks of the op are copied from or to a device; are in the transport, or at the server.
  bool CopiesChunkOf(OpNumber op) const;
  bool SendsChunkOf(OpNumber op) const;
  // The tensor is read for a push of the chunk.
  bool ReadsTensor(ChunkPlace place) const;

  // ---- staging ----

  const std::shared_ptr<StagingMemory>& staging() const { return staging_; }
  uint32_t credit() const { return window_.credit(); }
  // Nothing is in flight, or the places are in use.
  bool MayChangeStaging() const { return window_.Empty() && !HoldsMemory(); }
  void ChangeStaging(std::shared_ptr<StagingMemory> staging) { staging_ = std::move(staging); }

  // ---- the newest result of each cell: the credit proves that all ranks have those before ----

  void KeepAsNewest(uint16_t cell) { newest_[cell] = cells_[cell].place(); }
  const std::vector<ChunkPlace>& newest() const { return newest_; }

 private:
  enum class State : uint8_t { kNew, kGreeted, kWelcomed, kLost };

  Connections::Use connection_;
  State state_ = State::kNew;
  std::string lost_because_;
  bool cut_ = false;
  bool reported_ = false;            // as one that can't be reached
  bool asked_about_commit_ = false;  // the server is to say when all is committed
  OpNumber told_watermark_;
  CreditWindow window_;
  std::vector<ChunkInFlight> cells_;
  std::vector<ChunkPlace> newest_;  // by cell
  std::shared_ptr<StagingMemory> staging_;
  ChunkPlace next_;  // the next chunk dealt to this shard, if `next_known_`; else where to look on from
  bool next_known_ = false;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_SHARD_LINK_H_
