#include "net/data_plane/combined_transport.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "net/shm/same_node_socket.h"

namespace shoal {
namespace {

// Where shared memory is in use the network is looked at only now and then: that costs system calls. (Arm looks, too.)
constexpr int kMaxPollsWithoutNetwork = 16;
// More rarely where nothing has come from it in so many looks: no peer that works on the same ops is there.
constexpr int kLooksUntilQuiet = 64;
constexpr int kMaxPollsWithoutQuietNetwork = 128;

class CombinedTransport final : public Transport, private PayloadLender {
 public:
  CombinedTransport(std::unique_ptr<ShmTransport> same_node, std::unique_ptr<Transport> network, FileDescriptor epoll)
      : same_node_(std::move(same_node)), network_(std::move(network)), epoll_(std::move(epoll)) {}

  absl::StatusOr<PeerId> Connect(const std::string& address) override {
    absl::StatusOr<PeerId> peer = same_node_->ConnectIfOnThisNode(address);
    return absl::IsNotFound(peer.status()) ? network_->Connect(address) : peer;
  }
  absl::Status SendNote(PeerId peer, std::span<const std::byte> note) override {
    return Of(peer.value()).SendNote(peer, note);
  }
  absl::Status Send(PeerId peer, std::span<const std::byte> header, std::span<const std::byte> payload,
                    uint64_t token) override {
    return Of(peer.value()).Send(peer, header, payload, token);
  }
  absl::Status Accept(OfferId offer, std::span<std::byte> buffer, uint64_t token) override {
    return Of(offer.value()).Accept(offer, buffer, token);
  }
  bool AcceptsAtOnce(OfferId offer) const override { return Of(offer.value()).AcceptsAtOnce(offer); }
  PayloadLender* lender() override { return this; }
  void Decline(OfferId offer) override { Of(offer.value()).Decline(offer); }
  void Close(PeerId peer) override { Of(peer.value()).Close(peer); }
  std::span<const TransportEvent> Poll() override;
  bool Arm() override {
    polls_without_network_ = kMaxPollsWithoutQuietNetwork;  // what wakes us, or keeps us awake, may be the network
    return same_node_->Arm() && network_->Arm();
  }
  int wake_fd() const override { return epoll_.get(); }
  bool Sleep(std::optional<int64_t> timeout_ns, int other_fd) override;
  void Wake() override { network_->Wake(); }
  std::string listen_address() const override { return network_->listen_address(); }
  TransportReport Report(std::span<const PeerId> peers) const override;

 private:
  const std::byte* Borrow(OfferId offer) override {
    PayloadLender* const lender = Of(offer.value()).lender();
    return lender == nullptr ? nullptr : lender->Borrow(offer);
  }
  void Return(OfferId offer) override {
    if (PayloadLender* const lender = Of(offer.value()).lender(); lender != nullptr) lender->Return(offer);
  }
  static bool IsOfSameNode(uint64_t id) { return id >= kSameNodeFirstId; }
  Transport& Of(uint64_t id) const { return IsOfSameNode(id) ? static_cast<Transport&>(*same_node_) : *network_; }

  const std::unique_ptr<ShmTransport> same_node_;
  const std::unique_ptr<Transport> network_;
  const FileDescriptor epoll_;
  bool same_node_slept_on_ = false;  // by the network's Sleep, which nothing of this node has ended
  int polls_without_network_ = 0;
  int looks_in_vain_ = 0;  // at the network, in a row
  std::vector<TransportEvent> both_;
};

bool CombinedTransport::Sleep(std::optional<int64_t> timeout_ns, int other_fd) {
  if (other_fd >= 0) return Transport::Sleep(timeout_ns, other_fd);
  same_node_slept_on_ = !network_->Sleep(timeout_ns, same_node_->wake_fd());
  return false;
}

std::span<const TransportEvent> CombinedTransport::Poll() {
  const std::span<const TransportEvent> from_same_node =
      std::exchange(same_node_slept_on_, false) ? same_node_->PollUncalled() : same_node_->Poll();
  const bool may_wait = !from_same_node.empty() || same_node_->peer_count() > 0;
  const int max_polls = looks_in_vain_ < kLooksUntilQuiet ? kMaxPollsWithoutNetwork : kMaxPollsWithoutQuietNetwork;
  if (may_wait && ++polls_without_network_ < max_polls) return from_same_node;
  polls_without_network_ = 0;
  const std::span<const TransportEvent> from_network = network_->Poll();
  if (from_network.empty()) {
    looks_in_vain_ = std::min(looks_in_vain_ + 1, kLooksUntilQuiet);
    return from_same_node;
  }
  looks_in_vain_ = 0;
  if (from_same_node.empty()) return from_network;
  both_.assign(from_same_node.begin(), from_same_node.end());
  both_.insert(both_.end(), from_network.begin(), from_network.end());
  return both_;
}

TransportReport CombinedTransport::Report(std::span<const PeerId> peers) const {
  std::vector<PeerId> of_side[2];  // of the network, of this node
  for (const PeerId peer : peers) of_side[IsOfSameNode(peer.value())].push_back(peer);
  TransportReport network = network_->Report(of_side[0]);
  TransportReport same_node = same_node_->Report(of_side[1]);
  TransportReport both = {
      .description = absl::StrCat(network.description, ", ", same_node.description, " on the same node"),
      .shared_memory_peers = same_node.shared_memory_peers,
      .corrupted_payloads = network.corrupted_payloads + same_node.corrupted_payloads,
      .strangers = network.strangers + same_node.strangers,
      .last_stranger = std::move(network.last_stranger)};
  auto from_network = network.peer_transports.begin();
  auto from_same_node = same_node.peer_transports.begin();
  for (const PeerId peer : peers) {
    both.peer_transports.push_back(std::move(IsOfSameNode(peer.value()) ? *from_same_node++ : *from_network++));
  }
  return both;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> MakeCombinedTransport(std::unique_ptr<ShmTransport> same_node,
                                                                 std::unique_ptr<Transport> network) {
  absl::StatusOr<FileDescriptor> epoll = MakeEpoll();
  if (!epoll.ok()) return epoll.status();
  for (const int fd : {same_node->wake_fd(), network->wake_fd()}) {
    if (absl::Status status = WatchBorrowed(fd, epoll->get(), /*key=*/0); !status.ok()) return status;
  }
  return std::make_unique<CombinedTransport>(std::move(same_node), std::move(network), *std::move(epoll));
}

}  // namespace shoal
