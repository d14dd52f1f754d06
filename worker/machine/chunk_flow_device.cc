// ChunkFlow's copies between tensors on devices and the memory in which chunks cross the network.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/machine/chunk_flow.h"

namespace shoal {

absl::Status ChunkFlow::MakeReachableByDevices() {
  for (ShardLink& link : links_) {
    if (link.staging() == nullptr || link.staging()->is_in_arena()) continue;
    // The arena was full when the link was welcomed.
    if (!link.MayChangeStaging()) return ArenaIsFull();
    absl::StatusOr<std::shared_ptr<StagingMemory>> memory =
        StagingMemory::Allocate(link.credit(), info_->max_chunk_bytes, options_.staging_arena);
    if (!memory.ok()) return memory.status();
    if (!(*memory)->is_in_arena()) return ArenaIsFull();
    link.ChangeStaging(*std::move(memory));
  }
  return absl::OkStatus();
}

absl::Status ChunkFlow::ArenaIsFull() const {
  const StagingArena& arena = *options_.staging_arena;
  return absl::ResourceExhaustedError(absl::StrCat(
      "group \"", info_->name,
      "\" has tensors on a device, and the host memory that devices can reach is used up: ", arena.taken_bytes() >> 20,
      " of ", arena.size_bytes() >> 20, " MiB are taken; set device_memory_bytes to more (SHOAL_DEVICE_MEMORY)"));
}

void ChunkFlow::HandOverFromDevice(uint32_t shard, WorkerOp* op, ChunkNumber chunk,
                                   const std::shared_ptr<StagingMemory>& memory, WorkerActions* actions) {
  const std::optional<uint16_t> index = results_.StartHandOver(
      {.memory = memory, .connection = links_[shard].UseOfConnection(), .header = PushHeader(*op, chunk)});
  if (!index.has_value()) return;
  op->StartOperation();
  StartDeviceCopy(DeviceCopyKind::kHandOver, shard, *index, op, chunk, memory, memory->Place(0), actions);
}

void ChunkFlow::StartDeviceCopy(DeviceCopyKind kind, uint32_t shard, uint16_t cell, WorkerOp* op, ChunkNumber chunk,
                                std::shared_ptr<const StagingMemory> staging, std::byte* place,
                                WorkerActions* actions) {
  actions->push_back(DeviceCopyAction{{.token = {.group = handle_,
                                                 .kind = kind,
                                                 .generation = links_.generation(),
                                                 .shard = static_cast<uint16_t>(shard),
                                                 .cell = cell,
                                                 .op = op->number()},
                                       .ticket = op->command().ticket,
                                       .tensor = op->Chunk(chunk),
                                       .staging = std::move(staging),
                                       .place = place,
                                       .elements = op->layout().plan().ElementCount(chunk),
                                       .tensor_type = op->layout().dtype(),
                                       .place_type = op->layout().type_on_wire()}});
}

absl::Status ChunkFlow::OnDeviceCopyEnded(const DeviceCopyEnded& ended, Now now, WorkerActions* actions) {
  switch (ended.token.kind) {
    case DeviceCopyKind::kContribution:
      return EndCopyOfContribution(ended, now, actions);
    case DeviceCopyKind::kResult:
      return EndCopyOfResult(ended, now, actions);
    default:
      return EndCopyForOthers(ended, now, actions);
  }
}

absl::Status ChunkFlow::EndCopyOfContribution(const DeviceCopyEnded& ended, Now now, WorkerActions* actions) {
  const OperationToken token = TokenOf(ended.token);
  ShardLink& link = FindLink(token);
  WorkerOp* const op = ops_.Find(ended.token.op);
  link.EndCopy(token.cell);
  if (!failed() && ended.status.ok() && !IsRetired(token) && link.welcomed()) {
    SendChunk(token.shard, token.cell, *op, link.staging()->Place(token.cell), actions);
    return absl::OkStatus();
  }
  // It is pushed to the chunk's next owner, if at all.
  link.EndSend(token.cell);
  EndOperation(op, now, actions);
  if (failed()) return absl::OkStatus();
  if (!ended.status.ok()) return ended.status;
  return IsRetired(token) ? EndRetired(op, now, actions) : EndOpIfDone(op, now, actions);
}

absl::Status ChunkFlow::EndCopyOfResult(const DeviceCopyEnded& ended, Now now, WorkerActions* actions) {
  // The group does not move before this copy has ended.
  ShardLink& link = links_[ended.token.shard];
  WorkerOp* const op = ops_.Find(ended.token.op);
  link.EndCopy(ended.token.cell);
  EndOperation(op, now, actions);
  if (failed()) return absl::OkStatus();
  if (!ended.status.ok()) return ended.status;
  FinishChunk(ended.token.shard, ended.token.cell, op, now, actions);
  return EndOpIfDone(op, now, actions);
}

absl::Status ChunkFlow::EndCopyForOthers(const DeviceCopyEnded& ended, Now now, WorkerActions* actions) {
  const DeviceCopyToken& token = ended.token;
  WorkerOp* const op = ops_.Find(token.op);
  if (token.kind == DeviceCopyKind::kHandOver) {
    const bool is_asked = token.generation == links_.generation() && links_[token.shard].in_use();
    if (!failed() && ended.status.ok() && is_asked) {
      SendHandOver(token.cell, actions);
    } else {
      results_.EndHandOver(token.cell);
    }
  }
  EndOperation(op, now, actions);
  if (failed()) return absl::OkStatus();
  if (!ended.status.ok()) return ended.status;
  return EndOpIfDone(op, now, actions);
}

}  // namespace shoal
