#include "net/ucx/ucx_transport.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "net/payload_copy.h"
#include "net/ucx/ucx_connections.h"
#include "net/ucx/ucx_status.h"

namespace shoal {
namespace {

// Of ucp_worker_progress in one Poll; a call that finds nothing ends the round.
constexpr int kMaxProgressCallsPerPoll = 64;
// Closing an endpoint by force only takes what is local. This is for the case that UCX is wrong about that.
constexpr auto kMaxShutdownTime = std::chrono::seconds(5);

// Time for connections that are being made to get past the point where closing them is dangerous (see
// UcxTransport::Close).
constexpr auto kMaxSettleTime = std::chrono::milliseconds(100);

// A Poll that finds UCX busy looks after the sockets only now and then: they cost a system call and change rarely.
constexpr int kMaxPollsWithoutSockets = 64;

void NameRegion(const UcxWorker& ucx, std::span<const std::byte> payload, ucp_request_param_t* param) {
  const ucp_mem_h handle = payload.empty() ? nullptr : ucx.HandleOf(payload);
  if (handle == nullptr) return;
  param->op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
  param->memh = handle;
}

}  // namespace

absl::Status UcxTransport::Start() {
  absl::StatusOr<std::unique_ptr<HandshakeSockets>> sockets = HandshakeSockets::Make();
  if (!sockets.ok()) return sockets.status();
  sockets_ = *std::move(sockets);
  settings_ = ucx_settings_.Agreement().substr(0, kMaxSettingsBytes);
  rendezvous_threshold_bytes_ =
      options_.rendezvous_threshold_bytes.value_or(ucx_settings_.rendezvous_threshold_bytes());
  if (!options_.listen_ip.empty()) return StartListening();
  const absl::Status added = AddWorker();
  // Whoever only connects can wait until there is a way.
  return absl::IsUnavailable(added) ? absl::OkStatus() : added;
}

UcxTransport::~UcxTransport() {
  stopping_ = true;
  const auto settled = std::chrono::steady_clock::now() + kMaxSettleTime;
  while (AnyConnecting() && std::chrono::steady_clock::now() < settled) {
    ProgressWorkers();
    EndFailedPeers();
  }
  for (const auto& [id, peer] : peers_) EndPeer(*peer, absl::OkStatus());
  const auto deadline = std::chrono::steady_clock::now() + kMaxShutdownTime;
  ReportEndedPeers();
  while (!peers_.empty() && std::chrono::steady_clock::now() < deadline) {
    ProgressWorkers();
    ReportEndedPeers();
  }
  for (const std::unique_ptr<UcxWorker>& ucx : workers_) FinishClosing(*ucx);
}

absl::StatusOr<UcxTransport::Peer*> UcxTransport::FindReadyPeer(PeerId peer_id) {
  const auto found = peers_.find(peer_id);
  if (found == peers_.end() || found->second->state == PeerState::kEnding ||
      found->second->state == PeerState::kAbandoned) {
    return absl::NotFoundError(absl::StrCat("there is no connection ", peer_id.value(), " (any more)"));
  }
  if (found->second->state != PeerState::kUp) {
    return absl::FailedPreconditionError(absl::StrCat("the connection to ", found->second->address, " is not up yet"));
  }
  return found->second.get();
}

UcxTransport::Operation* UcxTransport::StartOperation(Peer& peer, OperationKind kind, uint64_t token) {
  Operation* operation = nullptr;
  if (free_operations_.empty()) {
    operation = &operations_.emplace_back();
  } else {
    operation = free_operations_.back();
    free_operations_.pop_back();
  }
  operation->peer = &peer;
  operation->kind = kind;
  operation->token = token;
  ++peer.operations;
  if (kind == OperationKind::kNote) ++peer.notes;
  if (kind == OperationKind::kSend) ++peer.sends;
  return operation;
}

void UcxTransport::FinishOperation(Operation* operation, ucs_status_t status) {
  Peer& peer = *operation->peer;
  --peer.operations;
  if (operation->kind == OperationKind::kNote) --peer.notes;
  if (operation->kind == OperationKind::kSend) {
    --peer.sends;
    pending_.Add({.kind = TransportEventKind::kSent,
                  .peer = peer.id,
                  .token = operation->token,
                  .status = StatusFromUcs(status, absl::StrCat("sending to ", peer.address))});
  }
  if (operation->kind == OperationKind::kAccept) {
    pending_.Add({.kind = TransportEventKind::kLanded,
                  .peer = peer.id,
                  .offer = operation->offer,
                  .token = operation->token,
                  .payload_bytes = operation->payload_bytes,
                  .status = StatusFromUcs(status, absl::StrCat("receiving from ", peer.address))});
  }
  free_operations_.push_back(operation);
}

void UcxTransport::Post(Operation* operation, MessageType type, std::span<const std::byte> header,
                        std::span<const std::byte> payload, unsigned protocol_flag) {
  Peer& peer = *operation->peer;
  std::copy(header.begin(), header.end(), operation->header.begin());
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS |
                       UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.cb.send = &OnSent;
  param.user_data = operation;
  param.flags = UCP_AM_SEND_FLAG_REPLY | protocol_flag;
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  NameRegion(*peer.ucx, payload, &param);
  void* request = ucp_am_send_nbx(peer.endpoint, type, operation->header.data(), header.size(), payload.data(),
                                  payload.size(), &param);
  if (request == nullptr) {
    FinishOperation(operation, UCS_OK);
  } else if (UCS_PTR_IS_ERR(request)) {
    const ucs_status_t status = UCS_PTR_STATUS(request);
    // The endpoint is broken, whether UCX has told us already or not: the operation ends like all others of this peer.
    Fail(peer, StatusFromUcs(status, absl::StrCat("sending to ", peer.address)));
    FinishOperation(operation, status);
  }
}

absl::Status UcxTransport::SendNote(PeerId peer_id, std::span<const std::byte> note) {
  if (note.empty() || note.size() > kMaxNoteBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a note has 1 to ", kMaxNoteBytes, " bytes, not ", note.size()));
  }
  const absl::StatusOr<Peer*> peer = FindReadyPeer(peer_id);
  if (!peer.ok()) return peer.status();
  if ((*peer)->notes >= options_.limits.max_notes_per_peer) {
    return absl::ResourceExhaustedError(
        absl::StrCat((*peer)->notes, " notes to ", (*peer)->address, " wait for the network already"));
  }
  Post(StartOperation(**peer, OperationKind::kNote, 0), kNoteMessage, note, {}, UCP_AM_SEND_FLAG_EAGER);
  return absl::OkStatus();
}

absl::Status UcxTransport::Send(PeerId peer_id, std::span<const std::byte> header, std::span<const std::byte> payload,
                                uint64_t token) {
  if (header.size() > kMaxNoteBytes || payload.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a header has at most ", kMaxNoteBytes, " bytes and a payload at least one"));
  }
  const absl::StatusOr<Peer*> peer = FindReadyPeer(peer_id);
  if (!peer.ok()) return peer.status();
  if ((*peer)->sends >= options_.limits.max_sends_per_peer) {
    return absl::ResourceExhaustedError(
        absl::StrCat((*peer)->sends, " payloads to ", (*peer)->address, " wait for the network already"));
  }
  const unsigned protocol =
      payload.size() >= rendezvous_threshold_bytes_ ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER;
  Post(StartOperation(**peer, OperationKind::kSend, token), kPayloadMessage, header, payload, protocol);
  return absl::OkStatus();
}

absl::Status UcxTransport::Accept(OfferId offer_id, std::span<std::byte> buffer, uint64_t token) {
  const auto found = offers_.find(offer_id);
  if (found == offers_.end() || found->second.peer->state == PeerState::kEnding) {
    return absl::NotFoundError(absl::StrCat("there is no offer ", offer_id.value(), " (any more)"));
  }
  const Offer offer = found->second;
  // UCX 1.13 does not refuse a buffer of another size.
  if (buffer.size() != offer.payload_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("the offer from ", offer.peer->address, " has ", offer.payload_bytes,
                                                   " bytes, the buffer ", buffer.size()));
  }
  Operation* operation = StartOperation(*offer.peer, OperationKind::kAccept, token);
  operation->offer = offer_id;
  operation->payload_bytes = offer.payload_bytes;
  if (!offer.rendezvous) {
    CopyPayload(buffer.data(), static_cast<const std::byte*>(offer.descriptor), buffer.size());
    ReleaseOffer(offer_id);
    FinishOperation(operation, UCS_OK);
    return absl::OkStatus();
  }
  offer.peer->offers.erase(offer_id);
  offers_.erase(found);
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.cb.recv_am = &OnReceived;
  param.user_data = operation;
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  NameRegion(*offer.peer->ucx, buffer, &param);
  // The descriptor is UCX's from here on, also when this fails.
  void* request =
      ucp_am_recv_data_nbx(offer.peer->ucx->worker(), offer.descriptor, buffer.data(), buffer.size(), &param);
  if (!UCS_PTR_IS_PTR(request)) FinishOperation(operation, UCS_PTR_STATUS(request));
  return absl::OkStatus();
}

bool UcxTransport::AcceptsAtOnce(OfferId offer_id) const {
  const auto found = offers_.find(offer_id);
  return found != offers_.end() && !found->second.rendezvous && found->second.peer->state != PeerState::kEnding;
}

const std::byte* UcxTransport::Borrow(OfferId offer_id) {
  if (!AcceptsAtOnce(offer_id)) return nullptr;
  const auto found = offers_.find(offer_id);
  const Offer offer = found->second;
  offer.peer->offers.erase(offer_id);
  offers_.erase(found);
  const Loan loan = {.peer = offer.peer->id,
                     .ucx = offer.peer->ucx,
                     .descriptor = offer.descriptor,
                     .payload_bytes = offer.payload_bytes};
  loans_.emplace(offer_id, loan);
  return static_cast<const std::byte*>(offer.descriptor);
}

void UcxTransport::Return(OfferId offer_id) {
  const auto found = loans_.find(offer_id);
  if (found == loans_.end()) return;
  const Loan loan = found->second;
  loans_.erase(found);
  ucp_am_data_release(loan.ucx->worker(), loan.descriptor);
  workers_may_be_unused_ = true;
  if (const auto peer = peers_.find(loan.peer); peer != peers_.end()) peer->second->held_bytes -= loan.payload_bytes;
}

void UcxTransport::Decline(OfferId offer_id) {
  if (offers_.contains(offer_id)) ReleaseOffer(offer_id);
}

void UcxTransport::ReleaseOffer(OfferId offer_id) {
  const auto found = offers_.find(offer_id);
  const Offer& offer = found->second;
  ucp_am_data_release(offer.peer->ucx->worker(), offer.descriptor);
  offer.peer->offers.erase(offer_id);
  if (!offer.rendezvous) offer.peer->held_bytes -= offer.payload_bytes;
  offers_.erase(found);
}

bool UcxTransport::Progress() {
  bool found = false;
  for (int i = 0; i < kMaxProgressCallsPerPoll && pending_.size() < options_.limits.max_events_per_poll; ++i) {
    if (!ProgressWorkers()) break;
    found = true;
  }
  return found;
}

std::span<const TransportEvent> UcxTransport::Poll() {
  const bool busy = Progress();
  if (!busy || ++polls_without_sockets_ >= kMaxPollsWithoutSockets) {
    polls_without_sockets_ = 0;
    PollSockets();
  }
  EndFailedPeers();
  ReportEndedPeers();
  if (!busy) DropUnusedWorkers();
  returned_.Clear();
  returned_.Swap(pending_);
  return returned_.events();
}

bool UcxTransport::Arm() {
  // Whether UCX would wake us for the end of a forced close is not written anywhere.
  if (!pending_.empty() || !failed_.empty() || !ending_.empty() || sockets_->HasWork()) return false;
  const auto is_armed = [](const auto& ucx) { return ucp_worker_arm(ucx->worker()) == UCS_OK; };
  if (!std::ranges::all_of(workers_, is_armed)) return false;
  // Verbs tell only of what completes after the arming, and UCX doesn't look again at what completed just before it
  // (many network cards do by themselves; Soft-RoCE does not): without this look we might sleep over it.
  return !Progress();
}

absl::StatusOr<std::unique_ptr<Transport>> MakeUcxTransport(const UcxTransportOptions& options) {
  auto transport = std::make_unique<UcxTransport>(options);
  if (absl::Status status = transport->Start(); !status.ok()) return status;
  return transport;
}

}  // namespace shoal
