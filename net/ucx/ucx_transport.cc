#include "net/ucx/ucx_transport.h"

#include <sys/epoll.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/little_endian.h"
#include "net/payload_copy.h"
#include "net/tcp/tcp_transport.h"
#include "net/ucx/ucx_connections.h"
#include "net/ucx/ucx_status.h"

namespace shoal {
namespace {

// Of ucp_worker_progress in one Poll; a call that finds nothing ends the round.
constexpr int kMaxProgressCallsPerPoll = 64;
// Closing an endpoint by force only takes what is local. This is for the case that UCX is wrong about that.
constexpr auto kMaxShutdownTime = std::chrono::seconds(5);
// UCX ends what belonged to closed connections a little later, and complains if its worker goes before.
constexpr int kMostFinishingCalls = 1000;
// A Poll that finds UCX busy looks after the sockets only now and then: they cost a system call and change rarely.
constexpr int kMaxPollsWithoutSockets = 16;

// "rc_verbs,ud_verbs" of "rc_verbs/mlx5_0:1" and "ud_verbs/mlx5_0:1".
std::string WithoutDevices(const std::set<std::string>& transports) {
  std::set<std::string> names;
  for (const std::string& transport : transports) names.insert(transport.substr(0, transport.find('/')));
  return absl::StrJoin(names, ",");
}

}  // namespace

absl::Status UcxTransport::Start() {
  absl::StatusOr<FileDescriptor> epoll = MakeEpoll();
  if (!epoll.ok()) return epoll.status();
  epoll_ = *std::move(epoll);
  if (absl::Status status = timer_.Open(epoll_.get(), /*key=*/0); !status.ok()) return status;
  absl::StatusOr<std::unique_ptr<Transport>> sockets = MakeTcpTransport({.listen_ip = options_.listen_ip,
                                                                         .port = options_.port,
                                                                         .net_device = settings_.socket_device(),
                                                                         .carries = settings_.Agreement(api_.Version()),
                                                                         .keys = options_.keys,
                                                                         .limits = options_.limits});
  if (!sockets.ok()) return sockets.status();
  sockets_ = *std::move(sockets);
  absl::StatusOr<std::unique_ptr<UcxWorker>> ucx =
      UcxWorker::Make(api_, options_, settings_, kNumberBytes + kMaxNoteBytes);
  if (!ucx.ok()) return ucx.status();
  ucx_ = *std::move(ucx);
  if (absl::Status status = RegisterHandlers(); !status.ok()) return status;
  for (const int fd : {sockets_->wake_fd(), ucx_->event_fd()}) {
    if (absl::Status status = WatchBorrowed(fd, epoll_.get(), /*key=*/0); !status.ok()) return status;
  }
  return absl::OkStatus();
}

UcxTransport::~UcxTransport() {
  if (ucx_ == nullptr) return;
  for (const auto& [id, peer] : peers_) EndPeer(*peer, absl::OkStatus());
  const auto is_over = [this] {
    return std::ranges::none_of(
        peers_, [](const auto& entry) { return entry.second->operations > 0 || entry.second->close_in_progress; });
  };
  for (const auto deadline = Clock::now() + kMaxShutdownTime; !is_over() && Clock::now() < deadline;) {
    api_.ucp_worker_progress(ucx_->worker());
  }
  for (const auto& [id, loan] : loans_) api_.ucp_am_data_release(ucx_->worker(), loan.descriptor);
  for (int i = 0; i < kMostFinishingCalls && api_.ucp_worker_progress(ucx_->worker()) != 0; ++i) {
  }
}

absl::StatusOr<UcxTransport::Peer*> UcxTransport::FindReadyPeer(PeerId peer_id) {
  const auto found = peers_.find(peer_id);
  if (dialed_.contains(peer_id) || (found != peers_.end() && !found->second->known_to_user)) {
    return absl::FailedPreconditionError(absl::StrCat("the connection ", peer_id.value(), " is not up yet"));
  }
  if (found == peers_.end() || found->second->state != PeerState::kUp) {
    return absl::NotFoundError(absl::StrCat("there is no connection ", peer_id.value(), " (any more)"));
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
  if (kind == OperationKind::kSend) ++peer.sends;
  return operation;
}

void UcxTransport::FinishOperation(Operation* operation, ucs_status_t status) {
  Peer& peer = *operation->peer;
  --peer.operations;
  if (operation->kind == OperationKind::kSend) {
    --peer.sends;
    pending_.Add({.kind = TransportEventKind::kSent,
                  .peer = peer.id,
                  .token = operation->token,
                  .status = StatusFromUcs(api_, status, absl::StrCat("sending to ", peer.name))});
  }
  if (operation->kind == OperationKind::kAccept) {
    pending_.Add({.kind = TransportEventKind::kLanded,
                  .peer = peer.id,
                  .offer = operation->offer,
                  .token = operation->token,
                  .payload_bytes = operation->payload_bytes,
                  .status = StatusFromUcs(api_, status, absl::StrCat("receiving from ", peer.name))});
  }
  free_operations_.push_back(operation);
}

void UcxTransport::NameRegion(std::span<const std::byte> payload, ucp_request_param_t* param) const {
  const ucp_mem_h handle = payload.empty() ? nullptr : ucx_->HandleOf(payload);
  if (handle == nullptr) return;
  param->op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
  param->memh = handle;
}

void UcxTransport::Post(Operation* operation, MessageType type, std::span<const std::byte> header,
                        std::span<const std::byte> payload, unsigned protocol_flag) {
  Peer& peer = *operation->peer;
  WriteLittleEndian(operation->header.data(), peer.its_number);
  std::ranges::copy(header, operation->header.begin() + kNumberBytes);
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS |
                       UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.cb.send = &OnSent;
  param.user_data = operation;
  param.flags = protocol_flag;
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  NameRegion(payload, &param);
  void* request = api_.ucp_am_send_nbx(peer.endpoint, type, operation->header.data(), kNumberBytes + header.size(),
                                       payload.data(), payload.size(), &param);
  if (request == nullptr) {
    FinishOperation(operation, UCS_OK);
  } else if (UCS_PTR_IS_ERR(request)) {
    const ucs_status_t status = UCS_PTR_STATUS(request);
    // The endpoint is broken, whether UCX has told us already or not: the operation ends like all others of this peer.
    Fail(peer, StatusFromUcs(api_, status, absl::StrCat("sending to ", peer.name)));
    FinishOperation(operation, status);
  }
}

absl::Status UcxTransport::SendNote(PeerId peer_id, std::span<const std::byte> note) {
  const absl::StatusOr<Peer*> peer = FindReadyPeer(peer_id);
  if (!peer.ok()) return peer.status();
  return sockets_->SendNote(peer_id, note);
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
        absl::StrCat((*peer)->sends, " payloads to ", (*peer)->name, " wait for the network already"));
  }
  const unsigned protocol =
      payload.size() >= options_.rendezvous_threshold_bytes ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER;
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
    return absl::InvalidArgumentError(absl::StrCat("the offer from ", offer.peer->name, " has ", offer.payload_bytes,
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
  NameRegion(buffer, &param);
  // The descriptor is UCX's from here on, also when this fails.
  void* request = api_.ucp_am_recv_data_nbx(ucx_->worker(), offer.descriptor, buffer.data(), buffer.size(), &param);
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
  loans_.emplace(offer_id,
                 Loan{.peer = offer.peer->id, .descriptor = offer.descriptor, .payload_bytes = offer.payload_bytes});
  return static_cast<const std::byte*>(offer.descriptor);
}

void UcxTransport::Return(OfferId offer_id) {
  const auto found = loans_.find(offer_id);
  if (found == loans_.end()) return;
  const Loan loan = found->second;
  loans_.erase(found);
  api_.ucp_am_data_release(ucx_->worker(), loan.descriptor);
  if (const auto peer = peers_.find(loan.peer); peer != peers_.end()) peer->second->held_bytes -= loan.payload_bytes;
}

void UcxTransport::Decline(OfferId offer_id) {
  if (offers_.contains(offer_id)) ReleaseOffer(offer_id);
}

void UcxTransport::ReleaseOffer(OfferId offer_id) {
  const auto found = offers_.find(offer_id);
  const Offer& offer = found->second;
  api_.ucp_am_data_release(ucx_->worker(), offer.descriptor);
  offer.peer->offers.erase(offer_id);
  if (!offer.rendezvous) offer.peer->held_bytes -= offer.payload_bytes;
  offers_.erase(found);
}

bool UcxTransport::Progress() {
  bool found = false;
  for (int i = 0; i < kMaxProgressCallsPerPoll && pending_.size() < options_.limits.max_events_per_poll; ++i) {
    if (api_.ucp_worker_progress(ucx_->worker()) == 0) break;
    found = true;
  }
  return found;
}

std::span<const TransportEvent> UcxTransport::Poll() {
  const bool busy = Progress();
  if (!busy || ++polls_without_sockets_ >= kMaxPollsWithoutSockets) {
    polls_without_sockets_ = 0;
    TakeSocketEvents();
  }
  AnswerGreetings();
  EndFailedPeers();
  ReportEndedPeers();
  returned_.Clear();
  returned_.Swap(pending_);
  return returned_.events();
}

bool UcxTransport::Arm() {
  // Whether UCX would wake us for the end of a forced close is not written anywhere.
  if (!pending_.empty() || !failed_.empty() || !ending_.empty() || !to_answer_.empty() || !strays_.empty() ||
      !sockets_->Arm()) {
    return false;
  }
  if (api_.ucp_worker_arm(ucx_->worker()) != UCS_OK) return false;
  // Verbs tell only of what completes after the arming, and UCX doesn't look again at what completed just before it
  // (many network cards do by themselves; Soft-RoCE does not): without this look we might sleep over it.
  return !Progress();
}

std::string UcxTransport::Describe() const {
  std::set<std::string> used;
  for (const auto& [id, peer] : peers_) used.insert(peer->transports.begin(), peer->transports.end());
  std::string what = absl::StrJoin(used, ",");
  if (used.empty()) what = absl::StrCat(WithoutDevices(ucx_->transports()), " (not connected)");
  if (ucx_->RegistersEachPayload()) {
    absl::StrAppend(
        &what, ", registering each payload by itself (could this process lock all its memory, it need not: ulimit -l)");
  }
  if (!settings_.from_environment().empty()) {
    absl::StrAppend(&what, ", as the environment says: ", settings_.from_environment());
  }
  return absl::StrCat("ucx ", api_.Version(), ": ", what);
}

TransportReport UcxTransport::Report(std::span<const PeerId> peers) const {
  TransportReport report = sockets_->Report({});
  report.description = Describe();
  for (const PeerId peer : peers) {
    const auto found = peers_.find(peer);
    report.peer_transports.push_back(found == peers_.end() ? "" : absl::StrJoin(found->second->transports, ","));
  }
  return report;
}

absl::StatusOr<std::unique_ptr<Transport>> MakeUcxTransport(const UcxTransportOptions& options) {
  absl::StatusOr<UcxSettings> settings = UcxSettings::Make(options);
  if (!settings.ok()) return settings.status();
  const absl::StatusOr<const UcxApi*> api = UcxApi::Load();
  if (!api.ok()) return api.status();
  auto transport = std::make_unique<UcxTransport>(**api, options, *std::move(settings));
  if (absl::Status status = transport->Start(); !status.ok()) return status;
  return transport;
}

}  // namespace shoal
