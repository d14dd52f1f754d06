#include "worker/local_reduce/node_peers.h"

#include <fcntl.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <new>
#include <span>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "core/hash.h"

namespace shoal {
namespace {

constexpr uint64_t kNodeMagic = 0x6c61636f6c686c73;
constexpr uint64_t kNodeLayoutVersion = 4;
constexpr uint64_t kListenerNumber = 0;
constexpr uint64_t kKnockAgainNumber = 1;
constexpr int64_t kKnockAgainNs = 10'000'000;
constexpr uint64_t kProcessBit = uint64_t{1} << 31;  // with a connection's number: its process, not its socket
// A socket's name has room for 107 bytes.
constexpr size_t kMaxPlainNameBytes = 64;
constexpr size_t kMaxGuests = 64;
constexpr int kMaxAcceptsPerCall = 64;
constexpr int kMaxMessagesPerCall = 64;
constexpr int kMaxMessagesInSocket = 4096;

struct NodeGreeting {
  uint64_t magic = kNodeMagic;
  uint64_t layout_version = kNodeLayoutVersion;
  uint32_t rank = 0;
  uint32_t size = 0;
};

constexpr uint32_t kLeaves = 1;
constexpr uint32_t kFailed = 2;
constexpr uint32_t kNoCulprit = UINT32_MAX;

// What a rank says after the greeting, beside bells of one byte.
struct News {
  uint32_t kind = kLeaves;
  uint32_t culprit = kNoCulprit;
  int32_t code = 0;
  uint32_t text_bytes = 0;
  std::array<char, 1008> text{};
};

template <typename Value>
std::span<const std::byte> BytesOf(const Value& value) {
  return std::as_bytes(std::span(&value, 1));
}

absl::Status NoDescriptor() {
  return absl::ResourceExhaustedError("there are no descriptors left (raise the limit of open files, ulimit -n)");
}

bool HasFailed(const std::byte* memory) {
  return reinterpret_cast<const NodeMemoryHeader*>(memory)->devices.failed.load() != 0;
}

class FailuresInMemory : public NodeFailures {
 public:
  FailuresInMemory(std::shared_ptr<const OwnedMemory> own, std::vector<std::shared_ptr<const PeerMemory>> others)
      : own_(std::move(own)), others_(std::move(others)) {}

  bool AnyRankHasFailed() const override {
    return HasFailed(own_->bytes().data()) ||
           std::ranges::any_of(others_, [](const auto& other) { return HasFailed(other->bytes().data()); });
  }

 private:
  const std::shared_ptr<const OwnedMemory> own_;
  const std::vector<std::shared_ptr<const PeerMemory>> others_;
};

// The first message of a connection.
struct Said {
  bool is_over = false;   // the connection, without one
  absl::Status shortage;  // not OK: it has come, and this process has no descriptor for the memory
  NodeGreeting greeting;
  ReceivedMessage message;  // of 0 bytes: it has not come

  bool IsWhole() const {
    return message.bytes == sizeof(greeting) && !message.is_cut && message.descriptors.size() == 1;
  }
};

Said Hear(int socket) {
  Said said;
  absl::StatusOr<std::optional<ReceivedMessage>> received =
      ReceiveOnThisNode(socket, std::as_writable_bytes(std::span(&said.greeting, 1)));
  if (absl::IsResourceExhausted(received.status())) {
    said.shortage = received.status();
  } else if (!received.ok()) {
    said.is_over = true;
  }
  if (!received.ok()) return said;
  std::optional<ReceivedMessage>& message = *received;
  if (message.has_value()) said.message = *std::move(message);
  return said;
}

}  // namespace

NodePeers::NodePeers(LocalGroup group, int epoll, uint64_t first_key)
    : group_(std::move(group)), epoll_(epoll), first_key_(first_key), peers_(group_.size) {}

std::string NodePeers::NameOf(uint32_t rank) const { return absl::StrCat("local rank ", rank, " of ", group_.size); }

std::string NodePeers::SocketName(uint32_t rank) const {
  const std::string& name = group_.meeting_name;
  if (name.size() <= kMaxPlainNameBytes) return absl::StrCat("local-", name, ".", rank);
  uint64_t hash = name.size();
  for (const char character : name) hash = StableHash({hash, static_cast<uint8_t>(character)});
  return absl::StrCat("local-", name.substr(0, kMaxPlainNameBytes), "-", absl::Hex(hash), ".", rank);
}

void NodePeers::Begin() {
  absl::StatusOr<std::unique_ptr<OwnedMemory>> memory =
      OwnedMemory::Make("shoal-local-reduce", NodePlaces(group_.size).MemoryBytes());
  if (!memory.ok()) return SetOwnFailure(memory.status());
  own_memory_ = *std::move(memory);
  new (own_memory()) NodeMemoryHeader{};
  if (group_.devices.has_value()) {
    own_header().devices.meeting = *group_.devices;
    own_header().devices.can_reduce = 1;
  }
  met_count_ = 1;
  if (met()) return;
  spare_ = FileDescriptor(fcntl(own_memory_->fd(), F_DUPFD_CLOEXEC, 0));
  if (!spare_.valid()) return SetOwnFailure(NoDescriptor());
  absl::StatusOr<FileDescriptor> listener = ListenOnThisNode(SocketName(self()));
  if (!listener.ok()) return SetOwnFailure(listener.status());
  const absl::Status status = listener_.Watch(*std::move(listener), epoll_, first_key_ + kListenerNumber);
  if (!status.ok()) return SetOwnFailure(status);
  // Also after a failure: whoever is there is to hear of it.
  for (uint32_t rank = 0; rank < group_.size; ++rank) {
    if (rank != self()) Knock(rank);
  }
}

void NodePeers::Knock(uint32_t rank) {
  absl::StatusOr<FileDescriptor> socket = ConnectOnThisNode(SocketName(rank));
  const absl::Status& status = socket.status();
  if (absl::IsNotFound(status)) return;  // it comes later, and knocks here
  if (absl::IsUnavailable(status)) return KnockAgainLater(rank);
  if (absl::IsResourceExhausted(status)) return SetOwnFailure(status);
  if (!status.ok()) {
    const char* const way_out =
        absl::IsPermissionDenied(status) ? "give the containers of this node's ranks one security profile, or " : "";
    // Nobody's fault, so that all ranks are told, as those that have not met this one are only then.
    return SetFailure(absl::Status(status.code(), absl::StrCat(NameOf(self()), " can't meet ", NameOf(rank), ": ",
                                                               status.message(), "; ", way_out,
                                                               "let ranks use servers instead: SHOAL_NODE_REDUCE=off "
                                                               "on all of them")),
                      std::nullopt);
  }
  Connection* const knock = Add(State::kKnocked, *std::move(socket), rank);
  // What can't be said to it any more, its end will tell.
  if (knock != nullptr) Greet(knock->socket.get()).IgnoreError();
}

void NodePeers::KnockAgainLater(uint32_t rank) {
  crowded_.push_back(rank);
  if (knock_again_.valid()) return;
  FileDescriptor timer(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!timer.valid()) return SetOwnFailure(NoDescriptor());
  const itimerspec times{.it_interval = {.tv_sec = 0, .tv_nsec = kKnockAgainNs},
                         .it_value = {.tv_sec = 0, .tv_nsec = kKnockAgainNs}};
  timerfd_settime(timer.get(), 0, &times, nullptr);
  const absl::Status status = knock_again_.Watch(std::move(timer), epoll_, first_key_ + kKnockAgainNumber);
  if (!status.ok()) SetOwnFailure(status);
}

void NodePeers::KnockAgain() {
  uint64_t expirations = 0;
  [[maybe_unused]] const ssize_t got = read(knock_again_.get(), &expirations, sizeof(expirations));
  for (const uint32_t rank : std::exchange(crowded_, {})) {
    if (!HasMet(rank)) Knock(rank);
  }
  if (crowded_.empty()) knock_again_.Reset();
}

NodePeers::Connection* NodePeers::Add(State state, FileDescriptor socket, uint32_t rank) {
  auto connection = std::make_unique<Connection>();
  connection->number = next_number_++;
  connection->state = state;
  connection->rank = rank;
  // A process that forked leaves its sockets open when it dies. Where its process can't be seen they must do.
  absl::StatusOr<FileDescriptor> process = OtherProcess(socket.get());
  const uint64_t key = first_key_ + connection->number;
  absl::Status status = connection->socket.Watch(std::move(socket), epoll_, key);
  if (status.ok()) status = process.status();
  if (status.ok() && process->valid()) {
    status = connection->process.Watch(*std::move(process), epoll_, key | kProcessBit);
  }
  // Whoever is there is to hear of a failure, too.
  connections_.push_back(std::move(connection));
  if (status.ok()) return connections_.back().get();
  SetOwnFailure(status);
  return nullptr;
}

void NodePeers::Forget(Connection& connection) {
  connection.socket.HangUp();
  std::erase_if(connections_, [&](const auto& other) { return other.get() == &connection; });
}

NodePeers::Connection* NodePeers::FindKnock(uint32_t rank) {
  for (const auto& connection : connections_) {
    if (connection->state == State::kKnocked && connection->rank == rank) return connection.get();
  }
  return nullptr;
}

absl::Status NodePeers::Greet(int socket) {
  const NodeGreeting greeting{.rank = self(), .size = group_.size};
  const int memory_fd = own_memory_->fd();
  return SendOnThisNode(socket, BytesOf(greeting), {&memory_fd, 1});
}

void NodePeers::OnReadable(uint64_t key) {
  const uint64_t number = key - first_key_;
  const bool process_has_ended = (number & kProcessBit) != 0;
  if (failure_.has_value()) return;
  if (number == kListenerNumber) return AcceptGuests();
  if (number == kKnockAgainNumber) return KnockAgain();
  for (const auto& owner : connections_) {
    Connection& connection = *owner;
    if (connection.number != (number & ~kProcessBit)) continue;
    switch (connection.state) {
      case State::kGuest:
        return OnGuest(connection, process_has_ended);
      case State::kKnocked:
        return OnAnswer(connection, process_has_ended);
      case State::kMet:
        return OnMessages(connection, process_has_ended);
    }
  }
}

void NodePeers::AcceptGuests() {
  for (int i = 0; i < kMaxAcceptsPerCall && listener_.valid(); ++i) {
    absl::StatusOr<FileDescriptor> socket = AcceptOnThisNode(listener_.get());
    if (!socket.ok()) return SetOwnFailure(socket.status());
    if (!socket->valid()) return;
    const auto is_guest = [](const auto& connection) { return connection->state == State::kGuest; };
    if (std::ranges::count_if(connections_, is_guest) >= static_cast<ptrdiff_t>(kMaxGuests)) {
      Forget(**std::ranges::find_if(connections_, is_guest));  // a stranger: ranks greet at once
    }
    Connection* const guest = Add(State::kGuest, *std::move(socket), 0);
    if (guest == nullptr) return;
    OnGuest(*guest, /*process_has_ended=*/false);
  }
}

void NodePeers::OnGuest(Connection& guest, bool process_has_ended) {
  Said said = Hear(guest.socket.get());
  const NodeGreeting& greeting = said.greeting;
  if (!said.shortage.ok()) return SetOwnFailure(said.shortage);
  if (said.message.bytes == 0 && !said.is_over && !process_has_ended) return;
  // Whoever says something else, or says nothing and goes, is none of us.
  if (said.message.bytes < 2 * sizeof(uint64_t) || greeting.magic != kNodeMagic) return Forget(guest);
  if (greeting.layout_version != kNodeLayoutVersion) {
    return SetFailure(absl::FailedPreconditionError(absl::StrCat(
                          "a local rank speaks version ", greeting.layout_version, " of the reduction within a node, ",
                          NameOf(self()), " version ", kNodeLayoutVersion, "; run the same release on all ranks")),
                      std::nullopt);
  }
  if (!said.IsWhole() || greeting.size != group_.size || greeting.rank >= group_.size || greeting.rank == self()) {
    return SetFailure(
        absl::InvalidArgumentError(absl::StrCat("a process came to the meeting ", group_.meeting_name, " as rank ",
                                                greeting.rank, " of ", greeting.size, ", and met ", NameOf(self()))),
        std::nullopt);
  }
  const uint32_t rank = greeting.rank;
  Connection* const knock = FindKnock(rank);
  if (peers_[rank] != nullptr || (knock != nullptr && self() > rank)) return Forget(guest);
  guest.rank = rank;
  // One that is gone again may have said why, and its end is to be heard.
  Greet(guest.socket.get()).IgnoreError();
  if (knock != nullptr) Forget(*knock);
  Meet(guest, said.message.descriptors[0].get());
}

void NodePeers::OnAnswer(Connection& knock, bool process_has_ended) {
  Said said = Hear(knock.socket.get());
  const NodeGreeting& greeting = said.greeting;
  const uint32_t rank = knock.rank;
  if (!said.shortage.ok()) return SetOwnFailure(said.shortage);
  if (said.message.bytes == 0) {
    if (!said.is_over && !process_has_ended) return;
    // It has kept its own knock instead of ours, and that one is waiting here. Or it has died.
    if (rank > self()) {
      Forget(knock);
      AcceptGuests();
      if (peers_[rank] != nullptr || failure_.has_value()) return;
    }
    return SetFailure(absl::UnavailableError(absl::StrCat(NameOf(rank), " died before all had met")), rank);
  }
  if (!said.IsWhole() || greeting.magic != kNodeMagic || greeting.layout_version != kNodeLayoutVersion ||
      greeting.rank != rank || greeting.size != group_.size) {
    return SetFailure(absl::InvalidArgumentError(absl::StrCat(
                          "what listens as ", NameOf(rank), " at the meeting ", group_.meeting_name,
                          " answered as another rank, size or release; run the same release on all ranks")),
                      rank);
  }
  Meet(knock, said.message.descriptors[0].get());
}

void NodePeers::Meet(Connection& connection, int memory_fd) {
  absl::StatusOr<std::unique_ptr<PeerMemory>> mapped =
      PeerMemory::Map(memory_fd, NodePlaces(group_.size).MemoryBytes());
  if (absl::IsResourceExhausted(mapped.status())) return SetOwnFailure(mapped.status());
  if (!mapped.ok()) {
    return SetFailure(
        absl::Status(mapped.status().code(), absl::StrCat(NameOf(connection.rank), ": ", mapped.status().message())),
        connection.rank);
  }
  connection.memory = *std::move(mapped);
  connection.state = State::kMet;
  peers_[connection.rank] = &connection;
  ++met_count_;
  if (!met()) return;
  knock_again_.Reset();
  listener_.Reset();
  spare_.Reset();
  std::erase_if(connections_, [](const auto& other) { return other->state != State::kMet; });
}

std::optional<DeviceMeeting> NodePeers::Devices() const {
  for (uint32_t rank = 0; rank < group_.size; ++rank) {
    if (header(rank).devices.can_reduce != 1) return std::nullopt;
  }
  return header(0).devices.meeting;
}

std::shared_ptr<const NodeFailures> NodePeers::Failures() const {
  std::vector<std::shared_ptr<const PeerMemory>> others;
  for (const Connection* const peer : peers_) {
    if (peer != nullptr) others.push_back(peer->memory);
  }
  return std::make_shared<FailuresInMemory>(own_memory_, std::move(others));
}

void NodePeers::OnMessages(Connection& peer, bool process_has_ended) {
  News news;
  // What an ended process has said is all there, and what its children say on its sockets does not count.
  const int most = process_has_ended ? kMaxMessagesInSocket : kMaxMessagesPerCall;
  for (int i = 0; i < most && !failure_.has_value() && !peer.has_left; ++i) {
    const absl::StatusOr<std::optional<ReceivedMessage>> received =
        ReceiveOnThisNode(peer.socket.get(), std::as_writable_bytes(std::span(&news, 1)));
    if (!received.ok()) {
      process_has_ended = true;
      break;
    }
    const std::optional<ReceivedMessage>& message = *received;
    if (!message.has_value()) break;
    OnMessage(peer, BytesOf(news).first(message->bytes));
  }
  if (process_has_ended && !peer.has_left) {
    SetFailure(absl::UnavailableError(absl::StrCat(NameOf(peer.rank), " died")), peer.rank);
  }
}

void NodePeers::OnMessage(Connection& peer, std::span<const std::byte> message) {
  if (message.size() == 1) return;  // a bell
  News news;
  std::memcpy(&news, message.data(), std::min(message.size(), sizeof(news)));
  if (message.size() == sizeof(news) && news.kind == kLeaves) {
    peer.has_left = true;
    ++left_count_;
    peer.process.Reset();
    peer.socket.Reset();
    return;
  }
  if (message.size() != sizeof(news) || news.kind != kFailed || news.text_bytes > news.text.size()) {
    return SetFailure(absl::InvalidArgumentError(absl::StrCat(NameOf(peer.rank), " sent an invalid message")),
                      peer.rank);
  }
  const auto code =
      news.code >= 1 && news.code <= 16 ? static_cast<absl::StatusCode>(news.code) : absl::StatusCode::kUnknown;
  std::optional<uint32_t> culprit;
  if (news.culprit < group_.size) culprit = news.culprit;
  std::string text(news.text.data(), news.text_bytes);
  std::ranges::replace_if(
      text, [](char letter) { return !absl::ascii_isprint(static_cast<unsigned char>(letter)); }, '?');
  SetFailure(absl::Status(code, text), culprit);
}

void NodePeers::SetOwnFailure(const absl::Status& status) {
  if (!absl::IsResourceExhausted(status)) return SetFailure(status, std::nullopt);
  SetFailure(
      absl::ResourceExhaustedError(absl::StrCat(
          status.message(), "; a group of ", group_.size, " ranks on one node takes ", 2 * group_.size - 1,
          " descriptors and ", NodePlaces(group_.size).MemoryBytes() >> 10, " KiB of shared memory of each of them")),
      self());
}

void NodePeers::SetFailure(absl::Status status, std::optional<uint32_t> culprit) {
  if (failure_.has_value()) return;
  failure_ = LocalFailure{.status = std::move(status)};
  if (culprit.has_value()) failure_->culprit = LocalRank(*culprit);
}

void NodePeers::WakeSleepers() {
  // A sleeper says that it sleeps and then looks at our counters; we move a counter and then look whether it sleeps.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (Connection* const peer : peers_) {
    if (peer == nullptr || peer->has_left) continue;
    const uint64_t sleeps = header(peer->rank).sleeps.rounds.load(std::memory_order_relaxed);
    if (sleeps % 2 == 0 || sleeps == peer->rung_for_sleep) continue;
    peer->rung_for_sleep = sleeps;
    RingBell(peer->socket.get());
  }
}

void NodePeers::FallAsleep() {
  if (sleeps_ % 2 == 0) own_header().sleeps.rounds.store(++sleeps_, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void NodePeers::WakeUp() {
  if (sleeps_ % 2 == 1) own_header().sleeps.rounds.store(++sleeps_, std::memory_order_relaxed);
}

void NodePeers::Fail(const LocalFailure& failure) {
  if (own_memory_ != nullptr) own_header().devices.failed.store(1);
  News news{.kind = kFailed, .code = static_cast<int32_t>(failure.status.code())};
  if (failure.culprit.has_value()) news.culprit = failure.culprit->value();
  news.text_bytes = static_cast<uint32_t>(std::min(failure.status.message().size(), news.text.size()));
  std::memcpy(news.text.data(), failure.status.message().data(), news.text_bytes);
  End(BytesOf(news));
}

void NodePeers::Leave() { End(BytesOf(News{})); }

void NodePeers::End(std::span<const std::byte> news) {
  AcceptGuests();  // those that have just knocked are to know as well
  for (const auto& connection : connections_) {
    if (!connection->has_left) Tell(connection->socket.get(), /*is_guest=*/connection->state == State::kGuest, news);
    connection->socket.HangUp();
    connection->process.Reset();
  }
  knock_again_.Reset();
  // Those for whom there was no descriptor: now there is one.
  spare_.Reset();
  for (int i = 0; i < kMaxAcceptsPerCall && listener_.valid(); ++i) {
    const absl::StatusOr<FileDescriptor> guest = AcceptOnThisNode(listener_.get());
    if (!guest.ok() || !guest->valid()) break;
    Tell(guest->get(), /*is_guest=*/true, news);
  }
  listener_.Reset();
}

// Where the news finds no room, the socket's end says enough.
void NodePeers::Tell(int socket, bool is_guest, std::span<const std::byte> news) {
  if (is_guest) Greet(socket).IgnoreError();
  SendOnThisNode(socket, news, {}).IgnoreError();
}

}  // namespace shoal
