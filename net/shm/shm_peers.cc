// The part of ShmTransportImpl that concerns how connections begin and end.
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "net/shm/shm_connections.h"

namespace shoal {
namespace {

constexpr uint64_t kWakeUpKey = 0;
// Ids are given from first_id on, which is never near the end.
constexpr uint64_t kListenerKey = UINT64_MAX;
constexpr uint64_t kPauseKey = UINT64_MAX - 1;
// With a peer's id: its process, not its socket.
constexpr uint64_t kProcessBit = uint64_t{1} << 63;
// Connections that have not greeted yet. A greeting follows at once on what connects, so the oldest makes room.
constexpr size_t kMaxGuests = 256;
constexpr int kMaxAcceptsPerPoll = 64;
constexpr int kMaxSocketEvents = 64;
constexpr int64_t kPauseNs = 100'000'000;
// A quarter of a process's address space on the machines that have the least.
constexpr uint64_t kMaxMappedBytes = uint64_t{1} << 45;

}  // namespace

absl::Status ShmTransportImpl::Start() {
  absl::StatusOr<std::unique_ptr<OwnedMemory>> memory =
      OwnedMemory::Make("shoal-arena", kStatusPageBytes + arena_.capacity_bytes());
  if (!memory.ok()) return memory.status();
  arena_memory_ = *std::move(memory);
  new (arena_memory_->bytes().data()) StatusPage{};
  absl::StatusOr<std::unique_ptr<WakeUp>> wake_up = WakeUp::Make();
  if (!wake_up.ok()) return wake_up.status();
  wake_up_ = *std::move(wake_up);
  absl::StatusOr<FileDescriptor> epoll = MakeEpoll();
  if (!epoll.ok()) return epoll.status();
  epoll_ = *std::move(epoll);
  if (absl::Status status = WatchBorrowed(wake_up_->fd(), epoll_.get(), kWakeUpKey); !status.ok()) return status;
  if (options_.listen_address.empty()) return absl::OkStatus();
  absl::StatusOr<FileDescriptor> listener = ListenOnThisNode(options_.listen_address);
  if (!listener.ok()) return listener.status();
  FileDescriptor pause(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!pause.valid()) return absl::ResourceExhaustedError(absl::StrCat("no timer: ", std::strerror(errno)));
  if (absl::Status status = pause_.Watch(std::move(pause), epoll_.get(), kPauseKey); !status.ok()) return status;
  return listener_.Watch(*std::move(listener), epoll_.get(), kListenerKey, EPOLLIN);
}

// Memory that we lent stays readable for peers that have it mapped, and is not written any more.
ShmTransportImpl::~ShmTransportImpl() {
  for (const auto& [id, peer] : peers_) SayStage(*peer, SideStage::kDoneReading);
}

absl::Status ShmTransportImpl::CheckRoomForPeer() const {
  if (peers_.size() - guests_.size() < options_.limits.max_peers) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("all ", options_.limits.max_peers, " connections are in use"));
}

ShmTransportImpl::Peer* ShmTransportImpl::AddPeer(PeerState state, FileDescriptor socket, std::string name) {
  const PeerId id(next_id_++);
  auto peer = std::make_unique<Peer>();
  peer->id = id;
  peer->state = state;
  peer->name = std::move(name);
  if (!peer->socket.Watch(std::move(socket), epoll_.get(), id.value()).ok()) return nullptr;
  // A process that forked without exec leaves its sockets open when it dies. Without a descriptor for its process (an
  // old kernel, another PID namespace, none left) the sockets' end must do.
  if (absl::StatusOr<FileDescriptor> process = OtherProcess(peer->socket.get()); process.ok() && process->valid()) {
    peer->process.Watch(*std::move(process), epoll_.get(), id.value() | kProcessBit).IgnoreError();
  }
  return peers_.emplace(id, std::move(peer)).first->second.get();
}

absl::StatusOr<PeerId> ShmTransportImpl::ConnectIfOnThisNode(const std::string& address) {
  absl::StatusOr<FileDescriptor> socket = ConnectOnThisNode(address);
  if (absl::IsResourceExhausted(socket.status())) return socket.status();
  // Whoever can't be reached this way may be reached over the network.
  if (!socket.ok()) return absl::NotFoundError(socket.status().message());
  if (absl::Status status = CheckRoomForPeer(); !status.ok()) return status;
  Peer* const peer = AddPeer(PeerState::kGreeting, *std::move(socket), address);
  if (peer == nullptr) return absl::ResourceExhaustedError("there are no descriptors for one more connection");
  const PeerId id = peer->id;
  Greet(*peer);
  return id;
}

void ShmTransportImpl::AcceptGuests() {
  for (int i = 0; i < kMaxAcceptsPerPoll; ++i) {
    absl::StatusOr<FileDescriptor> socket = AcceptOnThisNode(listener_.get());
    if (!socket.ok() && guests_.empty()) return PauseAccepting();
    if (!socket.ok()) {
      ForgetGuest(*peers_.at(guests_.front()));
      continue;
    }
    if (!socket->valid()) return;
    Peer* const peer = AddPeer(PeerState::kGuest, *std::move(socket), "a process of this node");
    if (peer == nullptr) return;
    if (guests_.size() >= kMaxGuests) ForgetGuest(*peers_.at(guests_.front()));
    guests_.push_back(peer->id);
    OnGreeting(*peer);  // it is there already, as a rule
  }
}

// A listener stays readable until somebody has been accepted, and would keep the loop awake.
void ShmTransportImpl::PauseAccepting() {
  listener_.WatchFor(0);
  const itimerspec once{.it_interval = {}, .it_value = {.tv_sec = 0, .tv_nsec = kPauseNs}};
  timerfd_settime(pause_.get(), 0, &once, nullptr);
}

void ShmTransportImpl::ResumeAccepting() {
  uint64_t expirations = 0;
  [[maybe_unused]] const ssize_t got = read(pause_.get(), &expirations, sizeof(expirations));
  listener_.WatchFor(EPOLLIN);
}

void ShmTransportImpl::ForgetGuest(Peer& peer) {
  std::erase(guests_, peer.id);
  peer.socket.HangUp();
  Forget(peer);
}

void ShmTransportImpl::Greet(Peer& peer) {
  absl::StatusOr<std::unique_ptr<OwnedMemory>> memory = OwnedMemory::Make("shoal-outbox", kOutboxBytes);
  if (!memory.ok()) return EndPeer(peer, memory.status(), memory.status());
  peer.outbox_memory = *std::move(memory);
  peer.outbox = std::make_unique<OutboxWriter>(peer.outbox_memory->bytes());
  const uint64_t region_bytes = options_.region == nullptr ? 0 : options_.region->bytes().size();
  std::array<int, 3> memory_fds = {peer.outbox_memory->fd(), arena_memory_->fd(), -1};
  if (region_bytes != 0) memory_fds[2] = options_.region->fd();
  const absl::Status status = SendGreeting(peer.socket.get(),
                                           {.magic = kSameNodeMagic,
                                            .layout_version = kSameNodeLayoutVersion,
                                            .outbox_bytes = kOutboxBytes,
                                            .arena_bytes = arena_memory_->bytes().size(),
                                            .region_bytes = region_bytes},
                                           std::span(memory_fds).first(region_bytes == 0 ? 2 : 3));
  if (!status.ok()) EndPeer(peer, status, status);
}

absl::Status ShmTransportImpl::MapMemory(Peer& peer, ReceivedGreeting* received) {
  const SameNodeGreeting& greeting = received->greeting;
  if (greeting.outbox_bytes != kOutboxBytes || greeting.arena_bytes < kStatusPageBytes) {
    return absl::InvalidArgumentError("the greeting names memory of impossible sizes");
  }
  const std::array<std::pair<std::unique_ptr<PeerMemory>*, uint64_t>, 3> parts = {
      {{&peer.their_outbox_memory, greeting.outbox_bytes},
       {&peer.their_arena, greeting.arena_bytes},
       {&peer.their_region, greeting.region_bytes}}};
  if (greeting.arena_bytes > kMaxMappedBytes || greeting.region_bytes > kMaxMappedBytes ||
      mapped_bytes_ + greeting.outbox_bytes + greeting.arena_bytes + greeting.region_bytes > kMaxMappedBytes) {
    return absl::ResourceExhaustedError("its memory does not fit beside that of the other peers");
  }
  for (size_t i = 0; i < received->memory.size(); ++i) {
    absl::StatusOr<std::unique_ptr<PeerMemory>> mapped = PeerMemory::Map(received->memory[i].get(), parts[i].second);
    if (!mapped.ok()) return mapped.status();
    *parts[i].first = *std::move(mapped);
    peer.mapped_bytes += parts[i].second;
    mapped_bytes_ += parts[i].second;
  }
  peer.inbox = std::make_unique<OutboxReader>(peer.their_outbox_memory->bytes());
  return absl::OkStatus();
}

void ShmTransportImpl::OnGreeting(Peer& peer) {
  absl::StatusOr<std::optional<ReceivedGreeting>> received = ReceiveGreeting(peer.socket.get());
  absl::Status status = received.status();
  if (status.ok() && !received->has_value()) return;
  if (status.ok()) status = MapMemory(peer, &**received);
  if (peer.state == PeerState::kGuest) {
    if (status.ok()) status = CheckRoomForPeer();
    if (!status.ok()) {
      // The peer is told our version; a peer that is refused for another reason sees the end of the socket.
      if (absl::IsFailedPrecondition(status)) {
        const SameNodeGreeting ours{.magic = kSameNodeMagic, .layout_version = kSameNodeLayoutVersion};
        const int memory_fd = arena_memory_->fd();
        SendGreeting(peer.socket.get(), ours, {&memory_fd, 1}).IgnoreError();
      }
      return ForgetGuest(peer);
    }
    const PeerId id = peer.id;
    std::erase(guests_, id);
    Greet(peer);
    if (!peers_.contains(id)) return;
  }
  if (!status.ok()) {
    const absl::Status why(status.code(), absl::StrCat("connection to ", peer.name, ": ", status.message()));
    return EndPeer(peer, why, why);
  }
  peer.state = PeerState::kUp;
  peer.index = up_.size();
  up_.push_back(&peer);
  pending_.Add({.kind = TransportEventKind::kPeerUp, .peer = peer.id});
}

void ShmTransportImpl::SayStage(Peer& peer, SideStage stage) {
  if (peer.outbox == nullptr) return;
  peer.outbox->header().stage.store(static_cast<uint32_t>(stage), std::memory_order_release);
  // The region may be used for something else only after this can be seen.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (peer.socket.valid()) RingBell(peer.socket.get());
}

void ShmTransportImpl::EndPeer(Peer& peer, const absl::Status& sends, const absl::Status& down) {
  const bool known_to_user = peer.state != PeerState::kGuest;
  if (peer.state == PeerState::kUp) {
    up_.back()->index = peer.index;
    up_[peer.index] = up_.back();
    up_.pop_back();
  }
  peer.state = PeerState::kEnding;
  for (const WaitingPayload& waiting : peer.payloads) FinishSend(peer, waiting.token, sends);
  peer.payloads.clear();
  peer.words.clear();
  EndPieces(peer, sends);
  absl::erase_if(peer.lent, [&](const auto& entry) {
    if (entry.second.in_region) FinishSend(peer, entry.second.token, sends);
    return entry.second.in_region;
  });
  absl::erase_if(offers_, [&](auto& entry) {
    if (entry.second.peer != &peer) return false;
    ReleaseBlock(entry.second);
    return true;
  });
  peer.offers = 0;
  if (known_to_user) pending_.Add({.kind = TransportEventKind::kPeerDown, .peer = peer.id, .status = down});
  SayStage(peer, SideStage::kClosed);
  Settle(peer, /*peer_is_dead=*/false);
}

void ShmTransportImpl::Settle(Peer& peer, bool peer_is_dead) {
  if (peer.borrowed == 0) SayStage(peer, SideStage::kDoneReading);
  const bool peer_reads = !peer_is_dead && peer.inbox != nullptr && peer.inbox->stage() != SideStage::kDoneReading;
  if (!peer_reads) {
    for (const auto& [number, lent] : peer.lent) arena_.Give(lent.offset, lent.bytes);
    peer.lent.clear();
  }
  if (peer_is_dead) peer.socket.Reset();
  if (peer.borrowed == 0 && peer.lent.empty()) Forget(peer);
}

void ShmTransportImpl::Forget(Peer& peer) {
  mapped_bytes_ -= peer.mapped_bytes;
  peers_.erase(PeerId(peer.id));
}

void ShmTransportImpl::PollSockets() {
  std::array<epoll_event, kMaxSocketEvents> events;
  const int count = epoll_wait(epoll_.get(), events.data(), kMaxSocketEvents, 0);
  for (int i = 0; i < count; ++i) {
    const uint64_t key = events[static_cast<size_t>(i)].data.u64;
    if (key == kWakeUpKey) {
      wake_up_->Drain();
    } else if (key == kListenerKey) {
      AcceptGuests();
    } else if (key == kPauseKey) {
      ResumeAccepting();
    } else if (const auto found = peers_.find(PeerId(key & ~kProcessBit)); found != peers_.end()) {
      if ((key & kProcessBit) != 0) {
        OnDeath(*found->second);
      } else {
        OnSocket(*found->second);
      }
    }
  }
}

void ShmTransportImpl::OnSocket(Peer& peer) {
  if (peer.state == PeerState::kGuest || peer.state == PeerState::kGreeting) return OnGreeting(peer);
  if (!DrainBells(peer.socket.get())) return OnDeath(peer);
  if (peer.state == PeerState::kEnding) Settle(peer, /*peer_is_dead=*/false);
}

void ShmTransportImpl::OnDeath(Peer& peer) {
  if (peer.state == PeerState::kGuest) return ForgetGuest(peer);
  const PeerId id = peer.id;
  peer.process.Reset();
  if (peer.state == PeerState::kUp) {
    ReadPeer(peer, /*ended=*/true);
  } else if (peer.state == PeerState::kGreeting) {
    const absl::Status why = absl::UnavailableError(absl::StrCat(peer.name, " died before its greeting"));
    EndPeer(peer, why, why);
  }
  if (peers_.contains(id)) Settle(peer, /*peer_is_dead=*/true);
}

}  // namespace shoal
