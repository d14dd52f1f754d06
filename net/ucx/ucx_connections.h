// The inside of the UCX transport. Nothing outside net/ucx/ includes this header.
//
// One class in six files: ucx_transport.cc is the port's calls, ucx_workers.cc what they stand on, ucx_handshakes.cc
// what comes before UCX, ucx_peers.cc the life of a connection, ucx_receive.cc what arrives, ucx_description.cc what
// carries the bytes. UCX calls back from ucp_worker_progress and from ucp_ep_close_nbx; a callback only notes what
// happened (pending_, failed_). Endpoints are closed from Poll, Close and the destructor alone.
//
// How two transports come together:
//   1. The client reserves a port and dials the server's own socket. Its greeting names the port (handshake_message.h).
//   2. The server lets that port in at UCX's listener (listener_gate.h) and answers with the listener's port.
//   3. The client has UCX connect from the one port to the other; the server knows by them which peer it is.
//      Where the way leads over a device that had no link when the newest UcxWorker was made, a new one is made first:
//      that takes some milliseconds, in which nothing else moves, once for each time that a device comes up.
//   4. Both send a greeting over UCX, and are up when they have received the other's, unless TCP would carry payload
//      where it must not. The handshake's socket stays open: its end is the peer's end.
#ifndef SHOAL_NET_UCX_UCX_CONNECTIONS_H_
#define SHOAL_NET_UCX_UCX_CONNECTIONS_H_

#include <ucp/api/ucp.h>

#include <array>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/frame.h"
#include "net/event_list.h"
#include "net/ucx/handshake_sockets.h"
#include "net/ucx/listener_gate.h"
#include "net/ucx/reserved_port.h"
#include "net/ucx/ucx_transport.h"
#include "net/ucx/ucx_worker.h"

namespace shoal {

class UcxTransport final : public Transport, private PayloadLender {
 public:
  explicit UcxTransport(const UcxTransportOptions& options) : options_(options), ucx_settings_(options) {}
  ~UcxTransport() override;

  // Errors as of MakeUcxTransport. Once, before everything else.
  absl::Status Start();

  absl::StatusOr<PeerId> Connect(const std::string& address) override;
  absl::Status SendNote(PeerId peer_id, std::span<const std::byte> note) override;
  absl::Status Send(PeerId peer_id, std::span<const std::byte> header, std::span<const std::byte> payload,
                    uint64_t token) override;
  absl::Status Accept(OfferId offer_id, std::span<std::byte> buffer, uint64_t token) override;
  bool AcceptsAtOnce(OfferId offer_id) const override;
  PayloadLender* lender() override { return this; }
  void Decline(OfferId offer_id) override;
  void Close(PeerId peer_id) override;
  std::span<const TransportEvent> Poll() override;
  bool Arm() override;
  int wake_fd() const override { return sockets_->fd(); }
  void Wake() override { sockets_->Wake(); }
  std::string listen_address() const override { return sockets_->listen_address(); }
  TransportReport Report(std::span<const PeerId> peers) const override;

 private:
  const std::byte* Borrow(OfferId offer) override;
  void Return(OfferId offer) override;
  // What moves the bytes of all connections, with UCX's release.
  std::string Describe() const;

  // Numbers of UCX's active messages.
  enum MessageType : unsigned { kNoteMessage = 1, kPayloadMessage = 2, kGreetingMessage = 3 };

  enum class PeerState {
    kDialing,     // by us; UCX doesn't know of it yet
    kConnecting,  // by us over UCX; the peer's greeting is missing
    kAccepted,    // by us; the peer's greeting is missing, and the user doesn't know of it
    kAbandoned,   // ended while it was kConnecting; the endpoint is closed when that is over
    kUp,
    kEnding,  // failed or closed; kPeerDown comes when nothing is in flight any more
  };

  struct Peer {
    UcxTransport* transport = nullptr;
    UcxWorker* ucx = nullptr;  // null: there was never an endpoint
    PeerId id;
    ConnectionId connection;      // of the handshake; 0: has ended
    ReservedPort reserved_port;   // kDialing
    ucp_ep_h endpoint = nullptr;  // null: there was never one, or it is closed
    PeerState state = PeerState::kDialing;
    bool known_to_user = false;
    std::string address;               // for messages
    std::set<std::string> transports;  // kUp: what carries its payload, each "transport/device"
    absl::Status why_ended;
    bool ending_listed = false;  // in ending_
    bool close_in_progress = false;
    size_t operations = 0;  // in flight, of any kind
    size_t notes = 0;       // of these
    size_t sends = 0;       // of these
    size_t held_bytes = 0;  // of eager payloads, lent ones included
    absl::flat_hash_set<OfferId> offers;
  };

  enum class OperationKind : uint8_t { kGreeting, kNote, kSend, kAccept };

  // A request that UCX works on. UCX 1.13 reads the header until the request completes, so it lives here.
  struct Operation {
    Peer* peer = nullptr;
    OperationKind kind = OperationKind::kNote;
    uint64_t token = 0;
    OfferId offer;                                // kAccept
    size_t payload_bytes = 0;                     // kAccept
    std::array<std::byte, kMaxNoteBytes> header;  // the others
  };

  struct Offer {
    Peer* peer = nullptr;
    void* descriptor = nullptr;  // UCX's: the payload (eager) or the handle of a rendezvous
    size_t payload_bytes = 0;
    bool rendezvous = false;
  };

  // An eager payload that was lent.
  struct Loan {
    PeerId peer;  // may be gone
    UcxWorker* ucx = nullptr;
    void* descriptor = nullptr;
    size_t payload_bytes = 0;
  };

  // A peer that has sent a greeting and is expected at UCX's listener.
  struct Guest {
    SocketAddress address;
    bool let_in = false;
  };

  // ucx_transport.cc
  Operation* StartOperation(Peer& peer, OperationKind kind, uint64_t token);
  void FinishOperation(Operation* operation, ucs_status_t status);
  void Post(Operation* operation, MessageType type, std::span<const std::byte> header,
            std::span<const std::byte> payload, unsigned protocol_flag);
  absl::StatusOr<Peer*> FindReadyPeer(PeerId peer_id);
  void ReleaseOffer(OfferId offer_id);
  bool Progress();

  // ucx_workers.cc
  absl::Status AddWorker();
  // What can use the device of this address of the node: the newest one, or a new one.
  absl::StatusOr<UcxWorker*> WorkerFor(const SocketAddress& own_address);
  void DropUnusedWorkers();
  static void FinishClosing(const UcxWorker& ucx);
  bool ProgressWorkers();

  // ucx_handshakes.cc
  absl::Status StartListening();
  void StartDialing(Peer& peer, const SocketAddress& to);
  void PollSockets();
  void Receive(const HandshakeEvent& event);
  void ReceiveGuest(const HandshakeEvent& event);
  void LetGuestsIn();
  void ForgetGuest(ConnectionId connection);
  void BindConnection(Peer& peer, ConnectionId connection);
  void LoseConnection(Peer& peer, absl::Status why);
  void AcceptConnection(ucp_conn_request_h request);
  static void OnConnectionRequest(ucp_conn_request_h request, void* argument);

  // ucx_peers.cc
  Peer& AddPeer(PeerState state, std::string address);
  absl::Status MakeEndpoint(Peer& peer, ucp_ep_params_t params);
  void ConnectEndpoint(Peer& peer, const SocketAddress& to);
  static std::span<const std::byte> Greeting();
  void SendGreeting(Peer& peer);
  void MarkUp(Peer& peer);
  // Finds out what carries payload to this peer. FailedPrecondition: what may not.
  absl::Status NoteTransports(Peer& peer);
  void Fail(Peer& peer, absl::Status why);
  void Abandon(Peer& peer, absl::Status why);
  void EndPeer(Peer& peer, absl::Status why);
  void EndFailedPeers();
  bool AnyConnecting() const;
  void ReportEndedPeers();
  static void OnEndpointError(void* argument, ucp_ep_h endpoint, ucs_status_t status);
  static void OnEndpointClosed(void* request, ucs_status_t status, void* user_data);

  // ucx_receive.cc
  absl::Status RegisterHandlers(const UcxWorker& ucx);
  Peer* SenderOf(const ucp_am_recv_param_t* param, MessageType type);
  ucs_status_t TakePayload(Peer& peer, std::span<const std::byte> header, void* data, size_t length, bool rendezvous);
  static ucs_status_t OnNote(void* argument, const void* header, size_t header_length, void* data, size_t length,
                             const ucp_am_recv_param_t* param);
  static ucs_status_t OnPayload(void* argument, const void* header, size_t header_length, void* data, size_t length,
                                const ucp_am_recv_param_t* param);
  static ucs_status_t OnGreeting(void* argument, const void* header, size_t header_length, void* data, size_t length,
                                 const ucp_am_recv_param_t* param);
  static void OnSent(void* request, ucs_status_t status, void* user_data);
  static void OnReceived(void* request, ucs_status_t status, size_t length, void* user_data);

  const UcxTransportOptions options_;
  const UcxSettings ucx_settings_;
  size_t rendezvous_threshold_bytes_ = 0;
  std::string settings_;  // UcxSettings::Agreement, as far as a greeting takes it
  std::unique_ptr<HandshakeSockets> sockets_;
  std::vector<std::unique_ptr<UcxWorker>> workers_;  // the newest one comes last
  UcxWorker* listening_ = nullptr;                   // one of workers_
  bool workers_may_be_unused_ = false;               // since a connection or a loan ended
  uint16_t ucx_port_ = 0;                            // of UCX's listener
  std::unique_ptr<ListenerGate> gate_;               // before it
  bool stopping_ = false;
  int polls_without_sockets_ = 0;
  uint64_t next_peer_ = 1;
  uint64_t next_offer_ = 1;
  absl::flat_hash_map<PeerId, std::unique_ptr<Peer>> peers_;
  absl::flat_hash_map<ucp_ep_h, Peer*> peer_by_endpoint_;
  absl::flat_hash_map<ConnectionId, Peer*> peer_by_connection_;
  absl::flat_hash_map<ConnectionId, Guest> guests_;
  absl::flat_hash_map<std::string, ConnectionId> guest_by_address_;
  std::deque<ConnectionId> waiting_guests_;  // not let in yet
  std::vector<Peer*> failed_;                // endpoints that are to be closed
  std::vector<Peer*> ending_;                // endpoints that are closed or being closed
  absl::flat_hash_map<OfferId, Offer> offers_;
  absl::flat_hash_map<OfferId, Loan> loans_;
  std::deque<Operation> operations_;  // grows with the peers, each of which has its limits
  std::vector<Operation*> free_operations_;
  EventList pending_;
  EventList returned_;
};

}  // namespace shoal

#endif  // SHOAL_NET_UCX_UCX_CONNECTIONS_H_
