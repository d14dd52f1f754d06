#include "net/shm/shm_connection.h"

#include <array>
#include <thread>
#include <utility>

#include "process/clock.h"

namespace shoal {

absl::Status ShmConnection::Start(FileDescriptor socket, int epoll) {
  const uint64_t key = peer_.value();
  if (absl::Status status = socket_.Watch(std::move(socket), epoll, key); !status.ok()) return status;
  // A process that forked without exec leaves its sockets open when it dies. Without a descriptor for its process (an
  // old kernel, another PID namespace, none left) the sockets' end must do.
  if (absl::StatusOr<FileDescriptor> process = OtherProcess(socket_.get()); process.ok() && process->valid()) {
    process_.Watch(*std::move(process), epoll, key | kProcessBit).IgnoreError();
  }
  return absl::OkStatus();
}

absl::Status ShmConnection::Greet(const LentMemory& lent) {
  absl::StatusOr<std::unique_ptr<OwnedMemory>> memory = OwnedMemory::Make("shoal-outbox", kOutboxBytes);
  if (!memory.ok()) return memory.status();
  outbox_memory_ = *std::move(memory);
  outbox_.emplace(outbox_memory_->bytes());
  const uint64_t region_bytes = lent.region() == nullptr ? 0 : lent.region()->bytes().size();
  std::array<int, 3> memory_fds = {outbox_memory_->fd(), lent.arena().fd(), -1};
  if (region_bytes != 0) memory_fds[2] = lent.region()->fd();
  return SendGreeting(socket_.get(),
                      {.magic = kSameNodeMagic,
                       .layout_version = kSameNodeLayoutVersion,
                       .outbox_bytes = kOutboxBytes,
                       .arena_bytes = lent.arena().bytes().size(),
                       .region_bytes = region_bytes},
                      std::span(memory_fds).first(region_bytes == 0 ? 2 : 3));
}

void ShmConnection::SayVersion(const LentMemory& lent) {
  const int memory_fd = lent.arena().fd();
  SendGreeting(socket_.get(), {.magic = kSameNodeMagic, .layout_version = kSameNodeLayoutVersion}, {&memory_fd, 1})
      .IgnoreError();
}

absl::StatusOr<bool> ShmConnection::ReadGreeting(uint64_t most_bytes) {
  const absl::StatusOr<std::optional<ReceivedGreeting>> received = ReceiveGreeting(socket_.get());
  if (!received.ok()) return received.status();
  if (!received->has_value()) return false;
  if (absl::Status status = MapMemory(**received, most_bytes); !status.ok()) return status;
  return true;
}

absl::Status ShmConnection::MapMemory(const ReceivedGreeting& received, uint64_t most_bytes) {
  const SameNodeGreeting& greeting = received.greeting;
  if (greeting.outbox_bytes != kOutboxBytes || greeting.arena_bytes < kStatusPageBytes) {
    return absl::InvalidArgumentError("the greeting names memory of impossible sizes");
  }
  if (greeting.arena_bytes > most_bytes || greeting.region_bytes > most_bytes ||
      greeting.outbox_bytes + greeting.arena_bytes + greeting.region_bytes > most_bytes) {
    return absl::ResourceExhaustedError("its memory does not fit beside that of the other peers");
  }
  const std::array<std::pair<std::unique_ptr<PeerMemory>*, uint64_t>, 3> parts = {
      {{&their_outbox_memory_, greeting.outbox_bytes},
       {&their_arena_, greeting.arena_bytes},
       {&their_region_, greeting.region_bytes}}};
  for (size_t i = 0; i < received.memory.size(); ++i) {
    absl::StatusOr<std::unique_ptr<PeerMemory>> mapped = PeerMemory::Map(received.memory[i].get(), parts[i].second);
    if (!mapped.ok()) return mapped.status();
    *parts[i].first = *std::move(mapped);
    mapped_bytes_ += parts[i].second;
  }
  inbox_.emplace(their_outbox_memory_->bytes());
  return absl::OkStatus();
}

void ShmConnection::SetWantsRoom(bool wants_room) {
  outbox_->header().wants_room.store(wants_room ? 1 : 0, std::memory_order_relaxed);
  // We say that we want room and then look for it; the other side makes room and then looks whether we want any.
  if (wants_room) std::atomic_thread_fence(std::memory_order_seq_cst);
}

void ShmConnection::SayConsumed() {
  if (inbox_->consumed() == said_consumed_) return;
  said_consumed_ = inbox_->consumed();
  outbox_->header().consumed.store(said_consumed_, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // as in SetWantsRoom
  if (inbox_->header().wants_room.load(std::memory_order_relaxed) != 0) RingIfAsleep();
}

const std::byte* ShmConnection::Find(uint64_t offset, uint64_t bytes) const {
  const bool in_region = (offset & kInRegionBit) != 0;
  offset = in_region ? offset & ~kInRegionBit : offset + kStatusPageBytes;
  const PeerMemory* const memory = in_region ? their_region_.get() : their_arena_.get();
  const uint64_t size = memory == nullptr ? 0 : memory->bytes().size();
  return memory == nullptr || offset > size || bytes > size - offset ? nullptr : memory->bytes().data() + offset;
}

void ShmConnection::RingIfAsleep() {
  // The peer says that it sleeps and then looks at our records; we publish and then look whether it sleeps.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const auto* const status = reinterpret_cast<const StatusPage*>(their_arena_->bytes().data());
  const uint64_t sleeps = status->sleeps.load(std::memory_order_relaxed);
  if (sleeps % 2 == 0 || sleeps == rung_for_sleep_) return;
  rung_for_sleep_ = sleeps;
  RingBell(socket_.get());
}

void ShmConnection::SayStage(SideStage stage) {
  if (!outbox_.has_value()) return;
  outbox_->header().stage.store(static_cast<uint32_t>(stage), std::memory_order_release);
  // The region may be used for something else only after this can be seen.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (socket_.valid()) RingBell(socket_.get());
}

void ShmConnection::SayClosing(bool lends) {
  const auto is_open = [this] { return outbox_->header().stage.load() == static_cast<uint32_t>(SideStage::kOpen); };
  if (!outbox_.has_value() || !is_open()) return;
  SayStage(SideStage::kClosing);
  if (!lends || !inbox_.has_value()) return;
  const auto is_copying = [this] { return inbox_->header().copying.load(std::memory_order_acquire) != 0; };
  const uint64_t until_ns = MonotonicNs() + kMostCopyingNs;
  while (is_copying() && !is_dead_ && MonotonicNs() < until_ns) std::this_thread::yield();
}

bool ShmConnection::BeginCopy() {
  outbox_->header().copying.store(1, std::memory_order_relaxed);
  // The peer says that it is closing and then looks whether we copy; we say that we copy and then look at its stage.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (is_dead_ || their_stage() == SideStage::kOpen) return true;
  outbox_->header().copying.store(0, std::memory_order_release);
  return false;
}

bool ShmConnection::EndCopy() {
  // What the peer has done to its memory since is seen after its stage.
  std::atomic_thread_fence(std::memory_order_acquire);
  const SideStage stage = their_stage();
  outbox_->header().copying.store(0, std::memory_order_release);
  return stage == SideStage::kOpen || stage == SideStage::kClosing;
}

void ShmConnection::SetDead() {
  is_dead_ = true;
  process_.Reset();
}

}  // namespace shoal
