#include "net/shm/shm_peers.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

using State = ShmPeer::State;

// Connections that have not greeted yet. A greeting follows at once on what connects, so the oldest makes room.
constexpr size_t kMaxGuests = 256;
// A quarter of a process's address space on the machines that have the least.
constexpr uint64_t kMaxMappedBytes = uint64_t{1} << 45;

}  // namespace

// Memory that we lent stays readable for peers that have it mapped, and is not written any more.
ShmPeers::~ShmPeers() {
  for (const auto& [id, peer] : peers_) peer->connection().SayClosing(peer->outgoing().lends());
  for (const auto& [id, peer] : peers_) peer->connection().SayStage(SideStage::kDoneReading);
}

absl::Status ShmPeers::CheckRoom() const {
  if (peers_.size() - guests_.size() < shared_.limits->max_peers) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("all ", shared_.limits->max_peers, " connections are in use"));
}

ShmPeer* ShmPeers::Add(State state, FileDescriptor socket, std::string name) {
  const PeerId id(next_id_++);
  auto peer = std::make_unique<ShmPeer>(id, state, std::move(name), shared_);
  if (!peer->connection().Start(std::move(socket), epoll_).ok()) return nullptr;
  return peers_.emplace(id, std::move(peer)).first->second.get();
}

absl::StatusOr<PeerId> ShmPeers::Connect(const std::string& address) {
  absl::StatusOr<FileDescriptor> socket = ConnectOnThisNode(address);
  if (absl::IsResourceExhausted(socket.status())) return socket.status();
  // Whoever can't be reached this way may be reached over the network.
  if (!socket.ok()) return absl::NotFoundError(socket.status().message());
  if (absl::Status status = CheckRoom(); !status.ok()) return status;
  ShmPeer* const peer = Add(State::kGreeting, *std::move(socket), address);
  if (peer == nullptr) return absl::ResourceExhaustedError("there are no descriptors for one more connection");
  const PeerId id = peer->id();
  if (const absl::Status status = peer->connection().Greet(*shared_.lent); !status.ok()) End(*peer, status, status);
  return id;
}

PeerId ShmPeers::AddDown(const absl::Status& why) {
  const PeerId id(next_id_++);
  shared_.events->Add({.kind = TransportEventKind::kPeerDown, .peer = id, .status = why});
  return id;
}

bool ShmPeers::AddGuest(FileDescriptor socket) {
  ShmPeer* const peer = Add(State::kGuest, std::move(socket), "a process of this node");
  if (peer == nullptr) return false;
  if (guests_.size() >= kMaxGuests) ForgetOldestGuest();
  guests_.push_back(peer->id());
  OnGreeting(*peer);  // it is there already, as a rule
  return true;
}

bool ShmPeers::ForgetOldestGuest() {
  if (guests_.empty()) return false;
  ForgetGuest(*peers_.at(guests_.front()));
  return true;
}

void ShmPeers::ForgetGuest(ShmPeer& peer) {
  std::erase(guests_, peer.id());
  peer.connection().HangUp();
  Forget(peer);
}

void ShmPeers::OnGreeting(ShmPeer& peer) {
  const absl::StatusOr<bool> greeted = peer.connection().ReadGreeting(kMaxMappedBytes - mapped_bytes_);
  if (greeted.ok() && !*greeted) return;
  mapped_bytes_ += peer.connection().mapped_bytes();
  absl::Status status = greeted.status();
  if (peer.state() == State::kGuest) {
    // The peer is told our version; a peer that is refused for another reason sees the end of the socket.
    if (absl::IsFailedPrecondition(status)) peer.connection().SayVersion(*shared_.lent);
    if (status.ok()) status = CheckRoom();
    if (status.ok()) status = peer.connection().Greet(*shared_.lent);
    if (!status.ok()) return ForgetGuest(peer);
    std::erase(guests_, peer.id());
  }
  if (!status.ok()) {
    const absl::Status why(status.code(), absl::StrCat("connection to ", peer.name(), ": ", status.message()));
    return End(peer, why, why);
  }
  up_.push_back(&peer);
  peer.SetUp();
}

absl::StatusOr<ShmPeer*> ShmPeers::FindUp(PeerId id) {
  const auto found = peers_.find(id);
  const State state = found == peers_.end() ? State::kGuest : found->second->state();
  if (state == State::kUp) return found->second.get();
  if (state == State::kGreeting) {
    return absl::FailedPreconditionError(absl::StrCat("the connection to ", found->second->name(), " is not up yet"));
  }
  return absl::NotFoundError(absl::StrCat("there is no connection ", id.value(), " (any more)"));
}

void ShmPeers::Close(PeerId id) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  ShmPeer& peer = *found->second;
  if (peer.state() == State::kGuest || peer.state() == State::kEnding) return;
  End(peer, absl::CancelledError("the connection was closed"), absl::OkStatus());
}

void ShmPeers::End(ShmPeer& peer, const absl::Status& under_way, const absl::Status& down) {
  if (const auto found = std::find(up_.begin(), up_.end(), &peer); found != up_.end()) {
    *found = up_.back();
    up_.pop_back();
  }
  peer.End(under_way, down);
  Settle(peer);
}

void ShmPeers::Settle(ShmPeer& peer) {
  if (peer.Settle()) Forget(peer);
}

void ShmPeers::Forget(ShmPeer& peer) {
  mapped_bytes_ -= peer.connection().mapped_bytes();
  peers_.erase(PeerId(peer.id()));
}

void ShmPeers::PollRings() {
  // Continues after the peer that was read last, so that peers that send much don't keep the others waiting.
  for (size_t i = 0; i < up_.size() && shared_.events->size() < shared_.limits->max_events_per_poll; ++i, ++next_up_) {
    if (next_up_ >= up_.size()) next_up_ = 0;
    ShmPeer& peer = *up_[next_up_];
    if (const absl::Status status = peer.Read(); !status.ok()) {
      End(peer, status, status);
    } else if (peer.outgoing().IsAnythingWaiting()) {
      Flush(peer);
    }
  }
}

bool ShmPeers::AreRingsIdle() {
  for (ShmPeer* const peer : up_) {
    const ShmConnection& connection = peer->connection();
    if (connection.HasMore() || connection.their_stage() != SideStage::kOpen) return false;
    // Nobody is asked after one that was ended: the list has changed.
    if (peer->outgoing().IsAnythingWaiting() && (Flush(*peer) || !shared_.events->empty())) return false;
  }
  return true;
}

bool ShmPeers::Flush(ShmPeer& peer) {
  const absl::StatusOr<bool> any = peer.Flush();
  if (!any.ok()) End(peer, any.status(), any.status());
  return any.value_or(true);
}

void ShmPeers::OnSocket(uint64_t key) {
  const auto found = peers_.find(PeerId(key & ~ShmConnection::kProcessBit));
  if (found == peers_.end()) return;
  ShmPeer& peer = *found->second;
  if ((key & ShmConnection::kProcessBit) != 0) return OnDeath(peer);
  if (peer.state() == State::kGuest || peer.state() == State::kGreeting) return OnGreeting(peer);
  if (!peer.connection().DrainBells()) return OnDeath(peer);
  if (peer.state() == State::kEnding) Settle(peer);
}

void ShmPeers::OnDeath(ShmPeer& peer) {
  if (peer.state() == State::kGuest) return ForgetGuest(peer);
  peer.connection().SetDead();
  if (peer.state() == State::kEnding) return Settle(peer);
  const absl::Status why = peer.state() == State::kUp
                               ? peer.Read()
                               : absl::UnavailableError(absl::StrCat(peer.name(), " died before its greeting"));
  End(peer, why, why);
}

}  // namespace shoal
