// The inside of the UCX transport. Nothing outside net/ucx/ includes this header.
//
// One class in three files: ucx_transport.cc is the port's calls, ucx_peers.cc the life of a connection,
// ucx_receive.cc what arrives. UCX calls back from ucp_worker_progress and from ucp_ep_close_nbx; a callback only notes
// what happened (pending_, failed_). Endpoints are closed from Poll, Close and the destructor alone.
//
// How two transports come together:
//   1. They connect over net/tcp, where both prove that they belong to the cluster, and who dials says what UCX must
//   have
//      in common on both sides.
//   2. Each introduces itself over that connection, once: the number that it wants to see in payloads from the other,
//   and
//      the address of its UCX worker.
//   3. The side whose address is the lesser one makes an endpoint of the other's address and sends a greeting over it.
//      UCX gives the other side an endpoint to answer over. A side that has heard the other's greeting is up.
//      (Did both make one, a connection that ends too early would leave half of it to be taken for the next one's.)
//   4. The connection over net/tcp stays open and carries the notes. Its end is the peer's end.
#ifndef SHOAL_NET_UCX_UCX_CONNECTIONS_H_
#define SHOAL_NET_UCX_UCX_CONNECTIONS_H_

#include <array>
#include <chrono>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/frame.h"
#include "net/event_list.h"
#include "net/tick_timer.h"
#include "net/ucx/ucx_api.h"
#include "net/ucx/ucx_transport.h"
#include "net/ucx/ucx_worker.h"
#include "process/file_descriptor.h"

namespace shoal {

class UcxTransport final : public Transport, private PayloadLender {
 public:
  UcxTransport(const UcxApi& api, const UcxTransportOptions& options, UcxSettings settings)
      : api_(api), options_(options), settings_(std::move(settings)) {}
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
  int wake_fd() const override { return epoll_.get(); }
  void Wake() override { sockets_->Wake(); }
  std::string listen_address() const override { return sockets_->listen_address(); }
  TransportReport Report(std::span<const PeerId> peers) const override;

 private:
  using Clock = std::chrono::steady_clock;

  const std::byte* Borrow(OfferId offer) override;
  void Return(OfferId offer) override;
  // What moves the payloads of all connections, with UCX's release.
  std::string Describe() const;

  // Numbers of UCX's active messages. The header of each begins with the number that its receiver has given.
  enum MessageType : unsigned { kPayloadMessage = 1, kGreetingMessage = 2 };
  static constexpr size_t kNumberBytes = sizeof(uint64_t);

  enum class PeerState {
    kIntroducing,  // its introduction is missing
    kGreeting,     // the peer's greeting is missing
    kUp,
    kEnding,  // failed or closed; kPeerDown comes when nothing is in flight any more
  };

  // Known to net/tcp by the same id, since the connection over it is up.
  struct Peer {
    UcxTransport* transport = nullptr;
    PeerId id;
    std::string name;  // for messages
    Clock::time_point since;
    PeerState state = PeerState::kIntroducing;
    uint64_t own_number = 0;  // in payloads from the peer
    uint64_t its_number = 0;  // in payloads to the peer
    std::vector<std::byte> its_address;
    bool introduced = false;      // by the peer: its_address is on its way, or there
    ucp_ep_h endpoint = nullptr;  // null: there was never one, or it is closed
    bool known_to_user = false;
    std::set<std::string> transports;  // kUp: what carries its payload, each "transport/device"
    absl::Status why_ended;
    bool ending_listed = false;  // in ending_
    bool close_in_progress = false;
    bool socket_ended = false;  // net/tcp has said its last word of this peer
    size_t operations = 0;      // in flight, of any kind
    size_t sends = 0;           // of these
    size_t held_bytes = 0;      // of eager payloads, lent ones included
    absl::flat_hash_set<OfferId> offers;
  };

  enum class OperationKind : uint8_t { kGreeting, kSend, kAccept };

  // A request that UCX works on. UCX 1.13 reads the header until the request completes, so it lives here.
  struct Operation {
    Peer* peer = nullptr;
    OperationKind kind = OperationKind::kSend;
    uint64_t token = 0;
    OfferId offer;                                               // kAccept
    size_t payload_bytes = 0;                                    // kAccept
    std::array<std::byte, kNumberBytes + kMaxNoteBytes> header;  // the others
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
    void* descriptor = nullptr;
    size_t payload_bytes = 0;
  };

  // ucx_transport.cc
  Operation* StartOperation(Peer& peer, OperationKind kind, uint64_t token);
  void FinishOperation(Operation* operation, ucs_status_t status);
  void Post(Operation* operation, MessageType type, std::span<const std::byte> header,
            std::span<const std::byte> payload, unsigned protocol_flag);
  absl::StatusOr<Peer*> FindReadyPeer(PeerId peer_id);
  void ReleaseOffer(OfferId offer_id);
  void NameRegion(std::span<const std::byte> payload, ucp_request_param_t* param) const;
  bool Progress();

  // ucx_peers.cc
  void TakeSocketEvents();
  void TakeSocketEvent(const TransportEvent& event);
  void Introduce(PeerId peer_id);
  void TakeIntroduction(Peer& peer, const TransportEvent& offered);
  void BeginGreeting(Peer& peer);
  void MakeEndpoint(Peer& peer);
  void SendGreeting(Peer& peer);
  // Takes the endpoint by which the peer's greeting can be answered.
  void TakeGreeting(std::span<const std::byte> header, ucp_ep_h answer);
  void AnswerGreetings();
  bool CloseEndpoint(ucp_ep_h endpoint, Peer* peer);
  void MarkUp(Peer& peer);
  void EndLatePeers();
  void Fail(Peer& peer, absl::Status why);
  void EndPeer(Peer& peer, absl::Status why);
  void EndFailedPeers();
  void ReportEndedPeers();
  static void OnEndpointError(void* argument, ucp_ep_h endpoint, ucs_status_t status);
  static void OnEndpointClosed(void* request, ucs_status_t status, void* user_data);

  // ucx_receive.cc
  absl::Status RegisterHandlers();
  // nullptr: of nobody that is, or may now be, up.
  Peer* SenderOf(std::span<const std::byte> header);
  ucs_status_t TakePayload(Peer& peer, std::span<const std::byte> header, void* data, size_t length, bool rendezvous);
  static ucs_status_t OnPayload(void* argument, const void* header, size_t header_length, void* data, size_t length,
                                const ucp_am_recv_param_t* param);
  static ucs_status_t OnGreeting(void* argument, const void* header, size_t header_length, void* data, size_t length,
                                 const ucp_am_recv_param_t* param);
  static void OnSent(void* request, ucs_status_t status, void* user_data);
  static void OnReceived(void* request, ucs_status_t status, size_t length, void* user_data);

  const UcxApi& api_;
  const UcxTransportOptions options_;
  const UcxSettings settings_;
  FileDescriptor epoll_;  // of sockets_, ucx_ and timer_
  TickTimer timer_;       // runs while a peer is not up yet
  std::unique_ptr<Transport> sockets_;
  std::unique_ptr<UcxWorker> ucx_;
  int polls_without_sockets_ = 0;
  uint64_t next_offer_ = 1;
  absl::flat_hash_map<PeerId, std::string> dialed_;  // addresses, until the peer is up or down
  absl::flat_hash_map<PeerId, std::unique_ptr<Peer>> peers_;
  absl::flat_hash_map<uint64_t, Peer*> peer_by_number_;
  std::vector<PeerId> to_answer_;  // those whose greeting has come
  std::vector<ucp_ep_h> strays_;   // endpoints of peers that had ended when they greeted
  std::vector<Peer*> failed_;      // endpoints that are to be closed
  std::vector<Peer*> ending_;      // endpoints that are closed or being closed
  absl::flat_hash_map<OfferId, Offer> offers_;
  absl::flat_hash_map<OfferId, Loan> loans_;
  std::deque<Operation> operations_;  // grows with the peers, each of which has its limits
  std::vector<Operation*> free_operations_;
  EventList pending_;
  EventList returned_;
};

}  // namespace shoal

#endif  // SHOAL_NET_UCX_UCX_CONNECTIONS_H_
