#include "worker/machine/group_staging.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

DeviceCopyAction DeviceCopyOf(const DeviceCopyToken& token, const WorkerOp& op, ChunkNumber chunk,
                              const std::shared_ptr<StagingMemory>& memory, uint32_t place) {
  return {{.token = token,
           .ticket = op.command().ticket,
           .tensor = op.Chunk(chunk),
           .staging = memory,
           .place = memory->Place(place),
           .elements = op.layout().plan().ElementCount(chunk),
           .codec = op.layout().codec()}};
}

}  // namespace

absl::StatusOr<std::shared_ptr<StagingMemory>> GroupStaging::Allocate(uint32_t places, bool for_device) const {
  absl::StatusOr<std::shared_ptr<StagingMemory>> memory =
      StagingMemory::Allocate(places, info_->max_chunk_bytes, arena_);
  if (memory.ok() && for_device && !(*memory)->is_in_arena()) return ArenaIsFull();
  return memory;
}

absl::StatusOr<std::shared_ptr<StagingMemory>> GroupStaging::TakeChunk(bool for_device) {
  if (free_.empty()) return Allocate(1, for_device);
  std::shared_ptr<StagingMemory> memory = std::move(free_.back());
  free_.pop_back();
  return memory;
}

// Not what an action still has to fill, and nothing that devices can't reach where it may be for one.
void GroupStaging::GiveChunk(std::shared_ptr<StagingMemory> memory) {
  const bool is_usable = arena_ == nullptr || memory->is_in_arena();
  if (memory.use_count() == 1 && is_usable) free_.push_back(std::move(memory));
}

absl::Status GroupStaging::ArenaIsFull() const {
  return absl::ResourceExhaustedError(absl::StrCat(
      "group \"", info_->name, "\" has tensors on a device, and the host memory that devices can reach is used up: ",
      arena_->taken_bytes() >> 20, " of ", arena_->size_bytes() >> 20,
      " MiB are taken; set device_memory_bytes to more (SHOAL_DEVICE_MEMORY)"));
}

bool GroupStaging::FromTensor(const DeviceCopyToken& token, const WorkerOp& op, ChunkNumber chunk,
                              const std::shared_ptr<StagingMemory>& memory, uint32_t place, WorkerActions* actions) {
  if (op.on_device()) {
    actions->push_back(DeviceCopyOf(token, op, chunk, memory, place));
  } else {
    // Of a result these are the bytes that came: codecs are idempotent.
    actions->push_back(WorkerEncodeAction{.codec = op.layout().codec(),
                                          .staging = memory,
                                          .tensor = op.Chunk(chunk),
                                          .place = memory->Place(place),
                                          .elements = op.layout().plan().ElementCount(chunk)});
  }
  return !op.on_device();
}

bool GroupStaging::ToTensor(const DeviceCopyToken& token, const WorkerOp& op, ChunkNumber chunk,
                            const std::shared_ptr<StagingMemory>& memory, uint32_t place, WorkerActions* actions) {
  if (op.on_device()) {
    actions->push_back(DeviceCopyOf(token, op, chunk, memory, place));
  } else {
    actions->push_back(WorkerDecodeAction{.codec = op.layout().codec(),
                                          .staging = memory,
                                          .place = memory->Place(place),
                                          .tensor = op.Chunk(chunk),
                                          .elements = op.layout().plan().ElementCount(chunk)});
  }
  return !op.on_device();
}

}  // namespace shoal
