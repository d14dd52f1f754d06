#include "net/shm/shm_transport.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/frame.h"
#include "net/event_list.h"
#include "net/shm/lent_memory.h"
#include "net/shm/same_node_socket.h"
#include "net/shm/shm_incoming.h"
#include "net/shm/shm_peers.h"
#include "net/wake_up.h"
#include "process/socket_address.h"

namespace shoal {
namespace {

// A Poll looks after the rings each time, after the sockets only now and then: they cost a system call and say little.
constexpr int kMaxPollsWithoutSockets = 32;
constexpr int kMaxAcceptsPerPoll = 64;
constexpr int kMaxSocketEvents = 64;
constexpr int64_t kAcceptPauseNs = 100'000'000;

// Of the epoll. Other keys are of peers, whose ids are given from first_id on, which is never near the end.
constexpr uint64_t kWakeUpKey = 0;
constexpr uint64_t kListenerKey = UINT64_MAX;
constexpr uint64_t kPauseKey = UINT64_MAX - 1;

// Where processes of this node connect. Without descriptors it pauses: a listener stays readable until somebody has
// been accepted, and would keep the loop awake.
class Listener {
 public:
  // AlreadyExists: another process listens there. ResourceExhausted: no descriptors.
  absl::Status Start(const std::string& address, int epoll) {
    absl::StatusOr<FileDescriptor> listener = ListenOnThisNode(address);
    if (!listener.ok()) return listener.status();
    FileDescriptor timer(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    if (!timer.valid()) return absl::ResourceExhaustedError(absl::StrCat("no timer: ", std::strerror(errno)));
    if (absl::Status status = timer_.Watch(std::move(timer), epoll, kPauseKey); !status.ok()) return status;
    return listener_.Watch(*std::move(listener), epoll, kListenerKey, EPOLLIN);
  }

  absl::StatusOr<FileDescriptor> Accept() { return AcceptOnThisNode(listener_.get()); }

  void Pause() {
    listener_.WatchFor(0);
    const itimerspec once{.it_interval = {}, .it_value = {.tv_sec = 0, .tv_nsec = kAcceptPauseNs}};
    timerfd_settime(timer_.get(), 0, &once, nullptr);
  }

  void Resume() {
    uint64_t expirations = 0;
    [[maybe_unused]] const ssize_t got = read(timer_.get(), &expirations, sizeof(expirations));
    listener_.WatchFor(EPOLLIN);
  }

 private:
  WatchedDescriptor listener_;
  WatchedDescriptor timer_;
};

class ShmTransportImpl final : public ShmTransport, private PayloadLender {
 public:
  ShmTransportImpl(const ShmTransportOptions& options, std::unique_ptr<LentMemory> lent,
                   std::unique_ptr<WakeUp> wake_up, FileDescriptor epoll)
      : options_(options),
        lent_(std::move(lent)),
        wake_up_(std::move(wake_up)),
        epoll_(std::move(epoll)),
        offers_(std::make_unique<ShmOffers>(options.first_id)),
        peers_({.limits = &options_.limits, .lent = lent_.get(), .events = &pending_, .offers = offers_.get()},
               epoll_.get(), options.first_id) {}

  absl::Status Start();

  absl::StatusOr<PeerId> Connect(const std::string& address) override;
  absl::StatusOr<PeerId> ConnectIfOnThisNode(const std::string& address) override { return peers_.Connect(address); }
  absl::Status SendNote(PeerId peer, std::span<const std::byte> note) override;
  absl::Status Send(PeerId peer, std::span<const std::byte> header, std::span<const std::byte> payload,
                    uint64_t token) override;
  absl::Status Accept(OfferId offer, std::span<std::byte> buffer, uint64_t token) override;
  bool AcceptsAtOnce(OfferId offer) const override;
  PayloadLender* lender() override { return this; }
  void Decline(OfferId offer) override;
  void Close(PeerId peer) override { peers_.Close(peer); }
  std::span<const TransportEvent> Poll() override { return PollRings(/*is_called=*/lent_->is_asleep()); }
  std::span<const TransportEvent> PollUncalled() override { return PollRings(/*is_called=*/false); }
  bool Arm() override;
  int wake_fd() const override { return epoll_.get(); }
  void Wake() override { wake_up_->Signal(); }
  std::string listen_address() const override { return options_.listen_address; }
  TransportReport Report(std::span<const PeerId> peers) const override;
  size_t peer_count() const override { return peers_.up_count(); }

 private:
  const std::byte* Borrow(OfferId offer) override;
  void Return(OfferId offer) override;

  static ShmIncoming& IncomingOf(ShmOffers::Iterator offer) { return offer->second.peer->incoming(); }
  std::span<const TransportEvent> PollRings(bool is_called);
  void PollSockets();
  void AcceptGuests();

  const ShmTransportOptions options_;
  const std::unique_ptr<LentMemory> lent_;
  const std::unique_ptr<WakeUp> wake_up_;
  const FileDescriptor epoll_;
  Listener listener_;
  const std::unique_ptr<ShmOffers> offers_;
  EventList pending_;
  EventList returned_;
  ShmPeers peers_;
  int polls_without_sockets_ = 0;
};

absl::Status ShmTransportImpl::Start() {
  if (absl::Status status = WatchBorrowed(wake_up_->fd(), epoll_.get(), kWakeUpKey); !status.ok()) return status;
  if (options_.listen_address.empty()) return absl::OkStatus();
  return listener_.Start(options_.listen_address, epoll_.get());
}

absl::StatusOr<PeerId> ShmTransportImpl::Connect(const std::string& address) {
  if (absl::StatusOr<SocketAddress> parsed = ParseSocketAddress(address); !parsed.ok()) return parsed.status();
  absl::StatusOr<PeerId> peer = peers_.Connect(address);
  return absl::IsNotFound(peer.status()) ? peers_.AddDown(absl::UnavailableError(peer.status().message())) : peer;
}

absl::Status ShmTransportImpl::SendNote(PeerId peer, std::span<const std::byte> note) {
  if (note.empty() || note.size() > kMaxNoteBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a note has 1 to ", kMaxNoteBytes, " bytes, not ", note.size()));
  }
  const absl::StatusOr<ShmPeer*> found = peers_.FindUp(peer);
  return found.ok() ? (*found)->outgoing().SendNote(note) : found.status();
}

absl::Status ShmTransportImpl::Send(PeerId peer, std::span<const std::byte> header, std::span<const std::byte> payload,
                                    uint64_t token) {
  if (header.size() > kMaxNoteBytes || payload.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a header has at most ", kMaxNoteBytes, " bytes and a payload at least one"));
  }
  const absl::StatusOr<ShmPeer*> found = peers_.FindUp(peer);
  return found.ok() ? (*found)->outgoing().Send(header, payload, token) : found.status();
}

absl::Status ShmTransportImpl::Accept(OfferId id, std::span<std::byte> buffer, uint64_t token) {
  const std::optional<ShmOffers::Iterator> offer = offers_->Find(id);
  if (!offer.has_value()) return absl::NotFoundError(absl::StrCat("there is no offer ", id.value(), " (any more)"));
  return IncomingOf(*offer).Accept(*offer, buffer, token);
}

bool ShmTransportImpl::AcceptsAtOnce(OfferId id) const {
  const std::optional<ShmOffers::Iterator> offer = offers_->Find(id);
  return offer.has_value() && IncomingOf(*offer).AcceptsAtOnce((*offer)->second);
}

void ShmTransportImpl::Decline(OfferId id) {
  if (const std::optional<ShmOffers::Iterator> offer = offers_->Find(id)) IncomingOf(*offer).GiveBack(*offer);
}

const std::byte* ShmTransportImpl::Borrow(OfferId id) {
  const std::optional<ShmOffers::Iterator> offer = offers_->Find(id);
  return offer.has_value() ? IncomingOf(*offer).Borrow((*offer)->second) : nullptr;
}

void ShmTransportImpl::Return(OfferId id) {
  const std::optional<ShmOffers::Iterator> offer = offers_->Find(id, /*is_borrowed=*/true);
  if (!offer.has_value()) return;
  ShmPeer& peer = *(*offer)->second.peer;
  peer.incoming().GiveBack(*offer);
  if (peer.state() == ShmPeer::State::kEnding) peers_.Settle(peer);
}

std::span<const TransportEvent> ShmTransportImpl::PollRings(bool is_called) {
  lent_->SetAsleep(false);
  peers_.PollRings();
  if (is_called || ++polls_without_sockets_ >= kMaxPollsWithoutSockets) {
    polls_without_sockets_ = 0;
    PollSockets();
  }
  returned_.Clear();
  returned_.Swap(pending_);
  return returned_.events();
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
      listener_.Resume();
    } else {
      peers_.OnSocket(key);
    }
  }
}

void ShmTransportImpl::AcceptGuests() {
  for (int i = 0; i < kMaxAcceptsPerPoll; ++i) {
    absl::StatusOr<FileDescriptor> socket = listener_.Accept();
    if (!socket.ok()) {
      if (!peers_.ForgetOldestGuest()) return listener_.Pause();
    } else if (!socket->valid() || !peers_.AddGuest(*std::move(socket))) {
      return;
    }
  }
}

bool ShmTransportImpl::Arm() {
  if (!pending_.empty()) return false;
  lent_->SetAsleep(true);
  // A peer that publishes from here on sees that we sleep; what was published before, we see.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const bool is_idle = peers_.AreRingsIdle();
  if (!is_idle) lent_->SetAsleep(false);
  return is_idle;
}

TransportReport ShmTransportImpl::Report(std::span<const PeerId> peers) const {
  return {.description = "shared memory",
          .shared_memory_peers = peers_.up_count(),
          .peer_transports = std::vector<std::string>(peers.size(), "shared memory")};
}

}  // namespace

absl::StatusOr<std::unique_ptr<ShmTransport>> MakeShmTransport(const ShmTransportOptions& options) {
  absl::StatusOr<std::unique_ptr<LentMemory>> lent = LentMemory::Make(options.arena_bytes, options.region);
  if (!lent.ok()) return lent.status();
  absl::StatusOr<std::unique_ptr<WakeUp>> wake_up = WakeUp::Make();
  if (!wake_up.ok()) return wake_up.status();
  absl::StatusOr<FileDescriptor> epoll = MakeEpoll();
  if (!epoll.ok()) return epoll.status();
  auto transport =
      std::make_unique<ShmTransportImpl>(options, *std::move(lent), *std::move(wake_up), *std::move(epoll));
  if (absl::Status status = transport->Start(); !status.ok()) return status;
  return transport;
}

}  // namespace shoal
