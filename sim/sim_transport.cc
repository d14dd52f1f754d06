#include "sim/sim_transport.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/frame.h"
#include "process/socket_address.h"

namespace shoal::sim {
namespace {

constexpr std::byte kScribble{0xa5};

}  // namespace

SimTransport::SimTransport(SimNetwork* network, std::string node, std::string address, bool listen,
                           std::function<void()> wake, const TransportLimits& limits)
    : network_(network),
      world_(network->world()),
      node_(std::move(node)),
      address_(std::move(address)),
      listen_(listen),
      wake_(std::move(wake)),
      limits_(limits) {}

SimTransport::~SimTransport() {
  if (!loans_.empty()) {
    network_->faults_.push_back(absl::StrCat(address_, " ended with ", loans_.size(), " loans not returned (loans)"));
    network_->loans_open_ -= loans_.size();
  }
  if (listen_) network_->listeners_.erase(address_);
  if (silent_) network_->dark_.insert(address_);
  wake_ = [] {};
  std::vector<PeerId> peers;
  peers.reserve(peers_.size());
  for (const auto& [id, peer] : peers_) peers.push_back(id);
  for (PeerId peer : peers) {
    PeerState* state = Find(peer);
    const std::shared_ptr<Connection> connection = state->connection;
    const int other = 1 - state->end;
    Drop(peer, absl::CancelledError("the transport was destroyed"));
    if (!silent_) {
      network_->TellOther(connection, other);
      continue;
    }
    world_->After(network_->SilencePatienceNs(other), [network = network_, connection, other] {
      network->Break(connection, other, "nothing is heard from there");
    });
  }
  // Events that were already asked for must not find this transport: its ends are null now.
}

SimTransport::PeerState* SimTransport::Find(PeerId peer) {
  const auto found = peers_.find(peer);
  return found == peers_.end() || found->second.closing ? nullptr : &found->second;
}

SimTransport::PeerState* SimTransport::FindUp(PeerId peer) {
  PeerState* state = Find(peer);
  return state == nullptr || !state->up ? nullptr : state;
}

void SimTransport::Push(TransportEvent event, std::span<const std::byte> bytes, bool changed) {
  world_->Trace({static_cast<uint64_t>(event.kind), event.peer.value(), event.token, event.payload_bytes});
  inbox_.push_back({std::move(event), changed, {bytes.begin(), bytes.end()}});
  wake_();
}

absl::StatusOr<PeerId> SimTransport::Connect(const std::string& address) {
  if (absl::Status status = ParseSocketAddress(address).status(); !status.ok()) return status;
  if (peers_.size() >= limits_.max_peers) return absl::ResourceExhaustedError("the limit of peers is reached");
  const PeerId peer(next_peer_++);
  auto connection = std::make_shared<Connection>();
  connection->number = network_->next_connection_++;
  connection->ends[0] = {.transport = this, .peer = peer, .name = address_, .node = node_};
  connection->ends[1].name = address;
  connection->audited = !stranger_;
  connection->checksums = checksums_;
  network_->connections_[connection->number] = connection;
  peers_[peer] = {.connection = connection, .end = 0};
  network_->TryToConnect(connection, world_->now_ns(), 0);
  return peer;
}

absl::Status SimTransport::SendNote(PeerId peer, std::span<const std::byte> note) {
  if (note.empty() || note.size() > kMaxNoteBytes) return absl::InvalidArgumentError("a note of a wrong size");
  PeerState* state = FindUp(peer);
  if (state == nullptr) return absl::NotFoundError("no such peer");
  if (state->notes_under_way >= limits_.max_notes_per_peer) {
    return absl::ResourceExhaustedError("the limit of notes under way is reached");
  }
  ++state->notes_under_way;
  const std::shared_ptr<Connection> connection = state->connection;
  SimNetwork::End& target = connection->ends[1 - state->end];
  // T5: notes keep their order.
  const uint64_t at = std::max(network_->ArrivalNs(*connection, state->end, 0), target.last_note_ns + 1);
  target.last_note_ns = at;
  const int to = 1 - state->end;
  if (WireAudit* audit = network_->AuditOf(*connection)) audit->NoteSent(address_, connection->number, note);
  world_->At(at, [this_network = network_, connection, to, bytes = std::vector<std::byte>(note.begin(), note.end())] {
    const SimNetwork::End& from = connection->ends[1 - to];
    if (from.transport != nullptr) --from.transport->peers_[from.peer].notes_under_way;
    const SimNetwork::End& end = connection->ends[to];
    if (end.transport == nullptr || end.transport->Find(end.peer) == nullptr) return;
    if (WireAudit* audit = this_network->AuditOf(*connection)) audit->Arrived(bytes);
    end.transport->Push({.kind = TransportEventKind::kNote, .peer = end.peer}, bytes);
  });
  return absl::OkStatus();
}

absl::Status SimTransport::Send(PeerId peer, std::span<const std::byte> header, std::span<const std::byte> payload,
                                uint64_t token) {
  if (header.size() > kMaxNoteBytes) return absl::InvalidArgumentError("the header is too long");
  if (payload.empty()) return absl::InvalidArgumentError("a payload has at least one byte");
  PeerState* state = FindUp(peer);
  if (state == nullptr) return absl::NotFoundError("no such peer");
  if (state->sending.size() >= limits_.max_sends_per_peer) {
    return absl::ResourceExhaustedError("the limit of sends under way is reached");
  }
  auto message = std::make_shared<Message>();
  message->connection = state->connection;
  message->from = state->end;
  message->header.assign(header.begin(), header.end());
  message->payload = payload;
  message->payload_bytes = payload.size();
  message->payload_digest = DigestOf(payload);
  message->token = token;
  message->changed = network_->DrawChange(*message->connection);
  state->sending.push_back(message);
  WireAudit* const audit = network_->AuditOf(*message->connection);
  if (audit != nullptr) audit->PayloadSent(address_, message->connection->number, header);
  Random& random = world_->random();
  const uint64_t arrival =
      network_->ArrivalNs(*message->connection, state->end, payload.size()) + network_->StraggleNs();
  const int to = 1 - state->end;
  if (random.Chance(network_->profile_.eager_per_million)) {
    world_->At(world_->now_ns() + random.Below(arrival - world_->now_ns()), [message] {
      SimTransport* sender = message->connection->ends[message->from].transport;
      if (message->dead || sender == nullptr || !message->at_sender) return;
      message->copy.assign(message->payload.begin(), message->payload.end());
      message->payload = message->copy;
      sender->Depart(message, absl::OkStatus());
    });
  }
  const auto arrive = [message, to] {
    const SimNetwork::End& end = message->connection->ends[to];
    if (message->dead || end.transport == nullptr || end.transport->Find(end.peer) == nullptr) return;
    end.transport->Arrive(end.peer, message);
  };
  world_->At(arrival, arrive);
  if (random.Chance(network_->profile_.duplicate_per_million)) {
    // A faulty peer says it again, with its own copy of the payload.
    auto again = std::make_shared<Message>(*message);
    again->copy.assign(payload.begin(), payload.end());
    again->payload = again->copy;
    again->at_sender = false;
    again->wants_token = false;
    world_->At(arrival + random.Below(network_->profile_.duplicate_delay_ns), [again, to] {
      const SimNetwork::End& end = again->connection->ends[to];
      if (end.transport == nullptr || end.transport->Find(end.peer) == nullptr) return;
      end.transport->Arrive(end.peer, again);
    });
  }
  return absl::OkStatus();
}

void SimTransport::Arrive(PeerId peer, std::shared_ptr<Message> message) {
  const OfferId offer(next_offer_++);
  const std::vector<std::byte> header = message->header;
  const uint64_t bytes = message->payload_bytes;
  if (WireAudit* audit = network_->AuditOf(*message->connection)) audit->Arrived(header);
  if (!message->wants_token) copies_.push_back(offer);
  offers_[offer] = {peer, std::move(message)};
  Push({.kind = TransportEventKind::kOffered, .peer = peer, .offer = offer, .payload_bytes = bytes}, header);
}

void SimTransport::CopyArrived(const Message& message, std::byte* to) {
  std::memcpy(to, message.payload.data(), message.payload.size());
  // Which bit does not matter to a checksum, and must be the same each time that the payload is looked at.
  if (message.changed) to[message.payload_digest % message.payload.size()] ^= std::byte{0x10};
}

void SimTransport::CheckUnchanged(const Message& message) {
  if (DigestOf(message.payload) == message.payload_digest) return;
  network_->faults_.push_back(absl::StrCat(address_, " wrote to what it was sending (ownership)"));
}

// The sender is done with a message: its memory is free.
void SimTransport::Depart(const std::shared_ptr<Message>& message, absl::Status status) {
  if (!message->at_sender) return;
  CheckUnchanged(*message);
  message->at_sender = false;
  const PeerId peer = message->connection->ends[message->from].peer;
  std::erase(peers_[peer].sending, message);
  Push({.kind = TransportEventKind::kSent, .peer = peer, .token = message->token, .status = std::move(status)});
}

void SimTransport::Release(const std::shared_ptr<Message>& message) {
  if (!message->at_sender) return;
  world_->After(network_->profile_.latency_ns + network_->StraggleNs(), [message] {
    SimTransport* sender = message->connection->ends[message->from].transport;
    if (sender != nullptr) sender->Depart(message, absl::OkStatus());
  });
}

absl::Status SimTransport::Accept(OfferId offer, std::span<std::byte> buffer, uint64_t token) {
  const auto found = offers_.find(offer);
  if (found == offers_.end()) return absl::NotFoundError("the offer is gone");
  const auto [peer, message] = found->second;
  if (buffer.size() != message->payload_bytes)
    return absl::InvalidArgumentError("the buffer is not of the offer's size");
  const bool at_once = AcceptsAtOnce(offer);
  offers_.erase(found);
  Landing accepted{.message = message, .buffer = buffer, .token = token};
  WireAudit* const audit = network_->AuditOf(*message->connection);
  if (audit != nullptr) {
    accepted.audit_ticket = audit->Accepted(address_, message->connection->number, message->header);
  }
  if (at_once) {
    CopyArrived(*message, buffer.data());
    EndLanding(peer, accepted, absl::OkStatus());
    if (network_->profile_.writes_late) {
      world_->After(kNsPerS, [buffer] { buffer.front() = ~buffer.front(); });
    }
    return absl::OkStatus();
  }
  std::memset(buffer.data(), static_cast<int>(kScribble), buffer.size());
  const uint64_t landing = next_landing_++;
  PeerState& state = peers_[peer];
  state.landings[landing] = std::move(accepted);
  const std::shared_ptr<Connection> connection = state.connection;
  const int end_index = state.end;
  const uint64_t delay = (message->at_sender ? 2 * network_->profile_.latency_ns : 1) + network_->StraggleNs();
  world_->At(network_->ArrivalNs(*connection, 1 - end_index, buffer.size()) + delay, [connection, end_index, landing] {
    const SimNetwork::End& end = connection->ends[end_index];
    if (end.transport != nullptr) end.transport->Land(end.peer, landing);
  });
  return absl::OkStatus();
}

void SimTransport::Land(PeerId peer, uint64_t landing_number) {
  PeerState* state = Find(peer);
  if (state == nullptr) return;
  const auto found = state->landings.find(landing_number);
  if (found == state->landings.end()) return;
  const Landing landing = found->second;
  state->landings.erase(found);
  const std::shared_ptr<Message> message = landing.message;
  CopyArrived(*message, landing.buffer.data());
  Release(message);
  EndLanding(peer, landing, absl::OkStatus());
}

void SimTransport::EndLanding(PeerId peer, const Landing& landing, absl::Status status) {
  const Message& message = *landing.message;
  if (WireAudit* audit = network_->AuditOf(*message.connection)) {
    const bool ok = status.ok() && !message.changed;
    audit->Landed(address_, message.connection->number, message.header, landing.audit_ticket, ok);
  }
  const bool changed = status.ok() && message.changed;
  Push({.kind = TransportEventKind::kLanded, .peer = peer, .token = landing.token, .status = std::move(status)}, {},
       changed);
}

// An eager payload is here already.
bool SimTransport::AcceptsAtOnce(OfferId offer) const {
  const auto found = offers_.find(offer);
  return found != offers_.end() && !found->second.second->at_sender;
}

const std::byte* SimTransport::Borrow(OfferId offer) {
  const auto found = offers_.find(offer);
  const uint32_t lend_per_million = network_->profile_.lend_per_million;
  if (found == offers_.end() || lend_per_million == 0 || !world_->random().Chance(lend_per_million)) return nullptr;
  const Message& message = *found->second.second;
  const std::span<const std::byte> payload = message.payload;
  if (WireAudit* audit = network_->AuditOf(*message.connection)) {
    const uint64_t ticket = audit->Accepted(address_, message.connection->number, message.header);
    audit->Landed(address_, message.connection->number, message.header, ticket, !message.changed);
  }
  Loan& loan = loans_[offer];
  loan.bytes.resize(payload.size());
  CopyArrived(message, loan.bytes.data());
  if (message.changed) changed_.insert(found->second.first);
  loan.as_lent = loan.bytes;
  ++network_->loans_taken_;
  ++network_->loans_open_;
  world_->Trace({offer.value(), loan.bytes.size()});
  Decline(offer);  // the sender's memory is free: the loan is of what it had lent
  return loan.bytes.data();
}

void SimTransport::Return(OfferId offer) {
  const auto found = loans_.find(offer);
  if (found == loans_.end()) {
    network_->faults_.push_back(absl::StrCat(address_, " returned an offer that it had not borrowed (loans)"));
    return;
  }
  Loan loan = std::move(found->second);
  loans_.erase(found);
  --network_->loans_open_;
  world_->Trace({offer.value()});
  if (loan.bytes != loan.as_lent) {
    network_->faults_.push_back(absl::StrCat(address_, " wrote to what it had borrowed (loans)"));
  }
  std::fill(loan.bytes.begin(), loan.bytes.end(), kScribble);
  // Kept for a while: a peer that reads it late reads what is wrong, not what is gone.
  world_->After(kNsPerS, [bytes = std::move(loan.bytes)] {});
}

void SimTransport::Decline(OfferId offer) {
  const auto found = offers_.find(offer);
  if (found == offers_.end()) return;
  const std::shared_ptr<Message> message = found->second.second;
  offers_.erase(found);
  Release(message);
}

void SimTransport::Close(PeerId peer) {
  PeerState* state = Find(peer);
  if (state == nullptr) return;
  if (changed_.erase(peer) > 0) ++network_->changes_caught_;
  const std::shared_ptr<Connection> connection = state->connection;
  const int other = 1 - state->end;
  Drop(peer, absl::OkStatus());
  network_->TellOther(connection, other);
}

void SimTransport::Drop(PeerId peer, absl::Status why) {
  PeerState* state = Find(peer);
  if (state == nullptr) return;
  state->closing = true;
  state->connection->ends[state->end].transport = nullptr;
  std::erase_if(offers_, [&](const auto& entry) { return entry.second.first == peer; });
  const absl::Status ended = why.ok() ? absl::CancelledError("the connection was closed") : why;
  // After our own Close all fails. When a connection breaks, any part of what was under way may just have ended well.
  const auto outcome = [&] { return why.ok() || world_->random().Chance(500'000) ? ended : absl::OkStatus(); };
  std::vector<TransportEvent> events;
  for (const std::shared_ptr<Message>& message : state->sending) {
    CheckUnchanged(*message);
    // What the other side has accepted may still land there: it has a copy of its own from here on.
    message->copy.assign(message->payload.begin(), message->payload.end());
    message->payload = message->copy;
    message->at_sender = false;
    message->dead = true;
    events.push_back({.kind = TransportEventKind::kSent, .peer = peer, .token = message->token, .status = outcome()});
  }
  for (const auto& [number, landing] : state->landings) {
    const absl::Status status = outcome();
    const Message& message = *landing.message;
    if (status.ok()) {
      CopyArrived(message, landing.buffer.data());
    } else {
      // T2: late bytes of a connection that ended.
      std::memset(landing.buffer.data(), static_cast<int>(world_->random().Next() & 0xff), landing.buffer.size());
    }
    if (WireAudit* audit = network_->AuditOf(*message.connection)) {
      const bool ok = status.ok() && !message.changed;
      audit->Landed(address_, message.connection->number, message.header, landing.audit_ticket, ok);
    }
    events.push_back({.kind = TransportEventKind::kLanded, .peer = peer, .token = landing.token, .status = status});
  }
  for (size_t i = events.size(); i > 1; --i) std::swap(events[i - 1], events[world_->random().Below(i)]);
  for (TransportEvent& event : events) Push(std::move(event));
  Push({.kind = TransportEventKind::kPeerDown, .peer = peer, .status = std::move(why)});
  peers_.erase(peer);
}

void SimTransport::CheckNoCopyIsHeld() {
  for (const OfferId copy : std::exchange(copies_seen_, std::exchange(copies_, {}))) {
    const auto held = offers_.find(copy);
    if (held == offers_.end()) continue;
    const Message& message = *held->second.second;
    WireAudit* const audit = network_->AuditOf(*message.connection);
    const bool is_twice = std::any_of(offers_.begin(), offers_.end(), [&](const auto& each) {
      return each.first != copy && each.second.first == held->second.first &&
             each.second.second->header == message.header;
    });
    if (audit != nullptr && is_twice) audit->HeldTwice(address_, message.header);
  }
}

void SimTransport::CheckNoChangeIsTaken() {
  for (const PeerId peer : std::exchange(changed_, {})) {
    if (Find(peer) == nullptr) continue;
    network_->faults_.push_back(
        absl::StrCat(address_, " keeps a connection over which a changed payload came (corruption)"));
  }
}

std::span<const TransportEvent> SimTransport::Poll() {
  CheckNoCopyIsHeld();
  CheckNoChangeIsTaken();
  polled_.clear();
  std::swap(polled_, inbox_);
  events_.clear();
  for (Stored& stored : polled_) {
    stored.event.bytes = stored.bytes;
    if (stored.changed && Find(stored.event.peer) != nullptr) changed_.insert(stored.event.peer);
    events_.push_back(stored.event);
  }
  return events_;
}

}  // namespace shoal::sim
