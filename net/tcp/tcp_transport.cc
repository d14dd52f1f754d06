#include "net/tcp/tcp_transport.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "net/event_list.h"
#include "net/payload_copy.h"
#include "net/peer_socket.h"
#include "net/tcp/silent_path.h"
#include "net/tcp/tcp_connection.h"
#include "net/tcp/tcp_dialer.h"
#include "net/tcp/tcp_door.h"
#include "net/tcp/tls_context.h"
#include "net/tcp/unanswered_offers.h"
#include "net/tick_timer.h"
#include "net/wake_up.h"
#include "process/node_address.h"
#include "process/socket_address.h"

namespace shoal {
namespace {

using Clock = std::chrono::steady_clock;

// What an epoll event is about. Between these two: the peer of that number.
constexpr uint64_t kTimer = 0;
constexpr uint64_t kWakeUp = 1;
constexpr uint64_t kOther = 2;
constexpr uint64_t kFirstPeer = 16;
constexpr uint64_t kDoor = uint64_t{1} << 63;

constexpr int kMaxReadyPerPoll = 64;
constexpr int kMaxPollsWithoutLooking = 4;
constexpr size_t kScratchBytes = 64 << 10;

class TcpTransport final : public Transport {
 public:
  explicit TcpTransport(const TcpTransportOptions& options)
      : options_(options), offers_(options.limits), scratch_(kScratchBytes) {}
  ~TcpTransport() override;

  // Errors of MakeTcpTransport.
  absl::Status Open();

  absl::StatusOr<PeerId> Connect(const std::string& address) override;
  absl::Status SendNote(PeerId peer, std::span<const std::byte> note) override;
  absl::Status Send(PeerId peer, std::span<const std::byte> header, std::span<const std::byte> payload,
                    uint64_t token) override;
  absl::Status Accept(OfferId offer_id, std::span<std::byte> buffer, uint64_t token) override;
  bool AcceptsAtOnce(OfferId offer_id) const override;
  void Decline(OfferId offer_id) override;
  void Close(PeerId peer) override;
  std::span<const TransportEvent> Poll() override;
  bool Arm() override;
  int wake_fd() const override { return epoll_.get(); }
  bool Sleep(std::optional<int64_t> timeout_ns, int other_fd) override;
  void Wake() override { wake_up_->Signal(); }
  std::string listen_address() const override { return door_ == nullptr ? "" : door_->listen_address(); }
  TransportReport Report(std::span<const PeerId> peers) const override;

 private:
  struct Connected {
    std::unique_ptr<TcpConnection> connection;
    uint64_t received_in_poll = 0;
  };

  absl::StatusOr<TcpConnection*> Find(PeerId peer);
  size_t peers() const { return connections_.size() + dialer_->size(); }
  void ReportDown(PeerId peer, absl::Status why);
  void ProceedDialing(PeerId peer, bool hung_up);
  void LetIn(std::unique_ptr<TcpHandshake> greeted);
  void Establish(PeerId peer, TcpStream stream);
  void HandleReady(uint64_t what, uint32_t events);
  void Receive(PeerId peer);
  void FlushAll();
  void Flush(TcpConnection& connection);
  void EndConnection(PeerId peer, const absl::Status& why);
  void Look();
  void Tick();

  const TcpTransportOptions options_;
  std::unique_ptr<WakeUp> wake_up_;
  FileDescriptor epoll_;
  TickTimer timer_;
  std::unique_ptr<TlsContext> tls_;
  std::unique_ptr<TcpDialer> dialer_;
  std::unique_ptr<TcpDoor> door_;  // null: does not listen
  uint64_t poll_ = 0;              // counts the calls
  uint64_t next_peer_ = kFirstPeer;
  absl::flat_hash_map<PeerId, Connected> connections_;
  UnansweredOffers offers_;
  std::vector<std::byte> scratch_;
  absl::flat_hash_set<PeerId> to_flush_;                   // something was queued since the last Poll
  absl::flat_hash_set<PeerId> to_receive_;                 // more is there, or may be, than the sockets said
  std::vector<PeerId> again_;                              // of to_receive_, during Poll
  int polls_without_looking_ = 0;                          // of all sockets, in a row
  bool slept_ = false;                                     // and what that found has been taken
  int other_fd_ = -1;                                      // which the epoll watches too
  std::array<epoll_event, kMaxReadyPerPoll> ready_;        // what the newest look or sleep found,
  size_t ready_count_ = 0;                                 // so many, that Poll has not taken
  absl::flat_hash_map<PeerId, Clock::time_point> in_use_;  // something may be under way to these, since then
  EventList pending_;
  EventList returned_;
};

absl::Status NoSuchPeer(PeerId peer) {
  return absl::NotFoundError(absl::StrCat("there is no peer ", peer.value(), " (any more)"));
}

std::string DeviceOf(int socket) {
  SocketAddress bound;
  bound.length = sizeof(bound.storage);
  getsockname(socket, reinterpret_cast<sockaddr*>(&bound.storage), &bound.length);
  const std::string device = DeviceOfAddress(bound);
  return device.empty() ? "tcp" : absl::StrCat("tcp/", device);
}

absl::Status TcpTransport::Open() {
  absl::StatusOr<std::unique_ptr<WakeUp>> wake_up = WakeUp::Make();
  if (!wake_up.ok()) return wake_up.status();
  wake_up_ = *std::move(wake_up);
  absl::StatusOr<FileDescriptor> epoll = MakeEpoll();
  if (!epoll.ok()) return epoll.status();
  epoll_ = *std::move(epoll);
  if (absl::Status status = timer_.Open(epoll_.get(), kTimer); !status.ok()) return status;
  if (absl::Status status = WatchBorrowed(wake_up_->fd(), epoll_.get(), kWakeUp); !status.ok()) return status;
  absl::StatusOr<std::unique_ptr<TlsContext>> tls = TlsContext::Make(options_.keys);
  if (!tls.ok()) return tls.status();
  tls_ = *std::move(tls);
  dialer_ = std::make_unique<TcpDialer>(tls_.get(), options_.keys, epoll_.get(), options_.carries);
  if (absl::Status status = dialer_->UseDevice(options_.net_device); !status.ok()) return status;
  if (options_.listen_ip.empty()) return absl::OkStatus();
  const absl::StatusOr<SocketAddress> address = MakeSocketAddress(options_.listen_ip, options_.port);
  if (!address.ok()) return address.status();
  // Connections are made over the device of the address, whichever the option names.
  if (const std::string device = DeviceOfAddress(*address); !device.empty() && LacksLink(device)) return NoLink(device);
  door_ = std::make_unique<TcpDoor>(tls_.get(), epoll_.get(), kDoor);
  return door_->Listen(*address);
}

TcpTransport::~TcpTransport() {
  // A copy of a socket in a forked child must not keep the other side waiting.
  EventList unread;
  for (auto& [peer, connected] : connections_) connected.connection->End(absl::OkStatus(), &unread);
}

// ---- peers come and go ----

absl::StatusOr<PeerId> TcpTransport::Connect(const std::string& address) {
  const absl::StatusOr<SocketAddress> parsed = ParseSocketAddress(address);
  if (!parsed.ok()) return parsed.status();
  if (peers() >= options_.limits.max_peers) {
    return absl::ResourceExhaustedError(absl::StrCat("all ", options_.limits.max_peers, " connections are in use"));
  }
  const PeerId peer(next_peer_++);
  if (absl::Status status = dialer_->Dial(peer, address, *parsed); !status.ok()) ReportDown(peer, std::move(status));
  timer_.Start();
  return peer;
}

void TcpTransport::ReportDown(PeerId peer, absl::Status why) {
  pending_.Add({.kind = TransportEventKind::kPeerDown, .peer = peer, .status = std::move(why)});
}

void TcpTransport::ProceedDialing(PeerId peer, bool hung_up) {
  absl::StatusOr<std::optional<TcpStream>> agreed = dialer_->Proceed(peer, hung_up);
  if (!agreed.ok()) return ReportDown(peer, agreed.status());
  if (agreed->has_value()) Establish(peer, **std::move(agreed));
}

void TcpTransport::LetIn(std::unique_ptr<TcpHandshake> greeted) {
  if (peers() >= options_.limits.max_peers) {
    greeted->Refuse(absl::UnavailableError(absl::StrCat("all ", options_.limits.max_peers, " connections are in use")));
    return;
  }
  if (greeted->carries() != options_.carries) {
    const auto name = [](const std::string& carries) { return carries.empty() ? "sockets alone" : carries; };
    greeted->Refuse(absl::FailedPreconditionError(
        absl::StrCat("the process that connects moves payloads by ", name(greeted->carries()),
                     " and the one that listens by ", name(options_.carries), ": compare their transports")));
    return;
  }
  greeted->Welcome();
  TcpStream stream = greeted->Take();
  const PeerId peer(next_peer_++);
  if (!stream.WatchAs(epoll_.get(), peer.value()).ok()) return;
  Establish(peer, std::move(stream));
  to_flush_.insert(peer);
}

void TcpTransport::Establish(PeerId peer, TcpStream stream) {
  connections_.emplace(peer, Connected{.connection = std::make_unique<TcpConnection>(peer, std::move(stream))});
  pending_.Add({.kind = TransportEventKind::kPeerUp, .peer = peer});
  // The handshake may have read on.
  to_receive_.insert(peer);
}

void TcpTransport::EndConnection(PeerId peer, const absl::Status& why) {
  const auto found = connections_.find(peer);
  offers_.RemoveAllOf(peer);
  found->second.connection->End(why.ok() ? absl::CancelledError("the connection was closed") : why, &pending_);
  connections_.erase(found);
  to_flush_.erase(peer);
  to_receive_.erase(peer);
  in_use_.erase(peer);
  ReportDown(peer, why);
}

void TcpTransport::Close(PeerId peer) {
  if (dialer_->Has(peer)) {
    dialer_->Drop(peer);
    ReportDown(peer, absl::OkStatus());
  }
  if (connections_.contains(peer)) EndConnection(peer, absl::OkStatus());
}

// ---- what the user sends and takes ----

absl::StatusOr<TcpConnection*> TcpTransport::Find(PeerId peer) {
  const auto found = connections_.find(peer);
  if (found == connections_.end()) return NoSuchPeer(peer);
  return found->second.connection.get();
}

absl::Status TcpTransport::SendNote(PeerId peer, std::span<const std::byte> note) {
  if (note.empty() || note.size() > kMaxNoteBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a note has 1 to ", kMaxNoteBytes, " bytes, not ", note.size()));
  }
  const absl::StatusOr<TcpConnection*> connection = Find(peer);
  if (!connection.ok()) return connection.status();
  SendQueue& queue = (*connection)->queue();
  if (queue.notes() >= options_.limits.max_notes_per_peer) {
    return absl::ResourceExhaustedError(
        absl::StrCat(queue.notes(), " notes to ", (*connection)->peer_name(), " wait for the network already"));
  }
  queue.Add(RecordKind::kNote, note);
  to_flush_.insert(peer);
  return absl::OkStatus();
}

absl::Status TcpTransport::Send(PeerId peer, std::span<const std::byte> header, std::span<const std::byte> payload,
                                uint64_t token) {
  if (header.size() > kMaxNoteBytes || payload.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a header has at most ", kMaxNoteBytes, " bytes and a payload at least one"));
  }
  const absl::StatusOr<TcpConnection*> connection = Find(peer);
  if (!connection.ok()) return connection.status();
  SendQueue& queue = (*connection)->queue();
  if (queue.payloads() >= options_.limits.max_sends_per_peer) {
    return absl::ResourceExhaustedError(
        absl::StrCat(queue.payloads(), " payloads to ", (*connection)->peer_name(), " wait for the network already"));
  }
  queue.AddPayload(header, payload, token);
  to_flush_.insert(peer);
  return absl::OkStatus();
}

absl::Status TcpTransport::Accept(OfferId offer_id, std::span<std::byte> buffer, uint64_t token) {
  const UnansweredOffers::Offer* offer = offers_.Find(offer_id);
  if (offer == nullptr) return absl::NotFoundError(absl::StrCat("there is no offer ", offer_id.value(), " (any more)"));
  if (buffer.size() != offer->payload_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the offer has ", offer->payload_bytes, " bytes, the buffer ", buffer.size()));
  }
  if (offer->whole != nullptr) {
    CopyPayload(buffer.data(), offer->whole, buffer.size());
    pending_.Add({.kind = TransportEventKind::kLanded,
                  .peer = offer->peer,
                  .offer = offer_id,
                  .token = token,
                  .payload_bytes = buffer.size(),
                  .came_with_last = offer->came_with_last});
  } else {
    connections_.at(offer->peer).connection->Land(offer_id, buffer, token);
    to_receive_.insert(offer->peer);  // most of it is there by now
  }
  offers_.Remove(offer_id);
  return absl::OkStatus();
}

bool TcpTransport::AcceptsAtOnce(OfferId offer_id) const {
  const UnansweredOffers::Offer* offer = offers_.Find(offer_id);
  return offer != nullptr && offer->whole != nullptr;
}

void TcpTransport::Decline(OfferId offer_id) {
  const UnansweredOffers::Offer* offer = offers_.Find(offer_id);
  if (offer == nullptr) return;
  if (offer->whole == nullptr) connections_.at(offer->peer).connection->DropPayload();
  offers_.Remove(offer_id);
}

// ---- what happens ----

void TcpTransport::FlushAll() {
  for (const PeerId peer : std::exchange(to_flush_, {})) Flush(*connections_.at(peer).connection);
}

void TcpTransport::Flush(TcpConnection& connection) {
  if (!in_use_.contains(connection.id())) in_use_.emplace(connection.id(), Clock::now());
  timer_.Start();
  if (!connection.Flush(&pending_)) to_receive_.insert(connection.id());
}

void TcpTransport::Receive(PeerId peer) {
  Connected& connected = connections_.at(peer);
  // What it offered is the user's to answer before more is read.
  if (std::exchange(connected.received_in_poll, poll_) == poll_) return;
  const std::string name = connected.connection->peer_name();
  const absl::StatusOr<bool> more = connected.connection->Receive({.events = &pending_,
                                                                   .max_events = options_.limits.max_events_per_poll,
                                                                   .offers = &offers_,
                                                                   .scratch = scratch_});
  if (!more.ok()) {
    EndConnection(peer, {more.status().code(), absl::StrCat(name, " ", more.status().message())});
  } else if (*more) {
    to_receive_.insert(peer);
  } else {
    to_receive_.erase(peer);
  }
}

void TcpTransport::HandleReady(uint64_t what, uint32_t events) {
  const bool hung_up = (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
  if (what == kTimer) return Tick();
  if (what == kWakeUp) return wake_up_->Drain();
  if (what == kOther) return;
  if (what >= kDoor) {
    if (std::unique_ptr<TcpHandshake> greeted = door_->Proceed(what, hung_up)) LetIn(std::move(greeted));
    if (door_->NeedsTicks()) timer_.Start();
    return;
  }
  const PeerId peer(what);
  if (dialer_->Has(peer)) return ProceedDialing(peer, hung_up);
  const auto found = connections_.find(peer);
  if (found == connections_.end()) return;
  if ((events & EPOLLOUT) != 0) Flush(*found->second.connection);
  if ((events & ~EPOLLOUT) != 0) Receive(peer);
}

std::span<const TransportEvent> TcpTransport::Poll() {
  ++poll_;
  FlushAll();
  again_.assign(to_receive_.begin(), to_receive_.end());
  if (ready_count_ == 0) Look();
  for (const epoll_event& ready : std::span(ready_).first(std::exchange(ready_count_, 0))) {
    if (pending_.size() >= options_.limits.max_events_per_poll) break;
    HandleReady(ready.data.u64, ready.events);
  }
  for (const PeerId peer : again_) {
    if (pending_.size() >= options_.limits.max_events_per_poll) break;
    // It may be gone.
    if (to_receive_.contains(peer)) Receive(peer);
  }
  FlushAll();
  returned_.Clear();
  returned_.Swap(pending_);
  return returned_.events();
}

// For a small message the question whether a socket has something costs as much as the answer, and whoever sleeps asks
// by that. So all are asked now and then where something is known to be there, and otherwise at once, but for the first
// time after a sleep, which is often the last before the next sleep.
void TcpTransport::Look() {
  const bool is_idle = again_.empty() && pending_.empty();
  if (is_idle && std::exchange(slept_, false)) return;
  if (!is_idle && ++polls_without_looking_ < kMaxPollsWithoutLooking) return;
  polls_without_looking_ = 0;
  const int count = epoll_wait(epoll_.get(), ready_.data(), ready_.size(), 0);
  ready_count_ = static_cast<size_t>(std::max(count, 0));
}

bool TcpTransport::Sleep(std::optional<int64_t> timeout_ns, int other_fd) {
  if (other_fd != other_fd_ && WatchBorrowed(other_fd, epoll_.get(), kOther).ok()) other_fd_ = other_fd;
  const std::optional<size_t> count =
      other_fd == other_fd_ ? WaitForEvents(epoll_.get(), ready_, timeout_ns) : std::nullopt;
  if (!count.has_value()) return Transport::Sleep(timeout_ns, other_fd);
  ready_count_ = *count;
  slept_ = ready_count_ > 0;
  if (slept_) polls_without_looking_ = 0;
  return std::ranges::any_of(std::span(ready_).first(ready_count_),
                             [](const epoll_event& ready) { return ready.data.u64 == kOther; });
}

bool TcpTransport::Arm() { return pending_.empty() && to_flush_.empty() && to_receive_.empty(); }

void TcpTransport::Tick() {
  timer_.Drain();
  const Clock::time_point now = Clock::now();
  if (door_ != nullptr) door_->Tick(now);
  for (auto& [peer, why] : dialer_->EndLate(now)) ReportDown(peer, std::move(why));
  const std::vector<std::pair<PeerId, Clock::time_point>> in_use(in_use_.begin(), in_use_.end());
  for (const auto& [peer, since] : in_use) {
    const TcpConnection& connection = *connections_.at(peer).connection;
    const auto in_use_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now - since).count();
    const PathState state = StateOfPath(connection.socket(), static_cast<uint64_t>(std::max<int64_t>(in_use_ns, 0)));
    if (state == PathState::kIdle) in_use_.erase(peer);
    if (state != PathState::kSilent) continue;
    EndConnection(peer, absl::UnavailableError(
                            absl::StrCat(connection.peer_name(), " is lost: the path to it has fallen silent")));
  }
  if (dialer_->size() > 0 || !in_use_.empty() || (door_ != nullptr && door_->NeedsTicks())) return;
  timer_.Stop();
}

TransportReport TcpTransport::Report(std::span<const PeerId> peers) const {
  std::set<std::string> used;
  bool seals = false;
  for (const auto& [peer, connected] : connections_) {
    used.insert(DeviceOf(connected.connection->socket()));
    seals = seals || connected.connection->seals();
  }
  TransportReport report;
  report.description = absl::StrCat(seals ? "sockets, encrypted: " : "sockets: ",
                                    used.empty() ? "tcp (not connected)" : absl::StrJoin(used, ","));
  if (door_ != nullptr) {
    report.strangers = door_->strangers();
    report.last_stranger = door_->last_stranger();
  }
  for (const PeerId peer : peers) {
    const auto found = connections_.find(peer);
    report.peer_transports.push_back(found == connections_.end() ? "" : DeviceOf(found->second.connection->socket()));
  }
  return report;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> MakeTcpTransport(const TcpTransportOptions& options) {
  auto transport = std::make_unique<TcpTransport>(options);
  if (absl::Status status = transport->Open(); !status.ok()) return status;
  return transport;
}

}  // namespace shoal
