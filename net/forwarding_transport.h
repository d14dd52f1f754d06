// A transport that passes every call on to one below: the base of layers, which override what they are about. The
// clauses of net/transport.h hold as for the transport below.
#ifndef SHOAL_NET_FORWARDING_TRANSPORT_H_
#define SHOAL_NET_FORWARDING_TRANSPORT_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "net/transport.h"

namespace shoal {

class ForwardingTransport : public Transport {
 public:
  explicit ForwardingTransport(std::unique_ptr<Transport> below) : below_(std::move(below)) {}

  absl::StatusOr<PeerId> Connect(const std::string& address) override { return below_->Connect(address); }
  absl::Status SendNote(PeerId peer, std::span<const std::byte> note) override { return below_->SendNote(peer, note); }
  absl::Status Send(PeerId peer, std::span<const std::byte> header, std::span<const std::byte> payload,
                    uint64_t token) override {
    return below_->Send(peer, header, payload, token);
  }
  absl::Status Accept(OfferId offer, std::span<std::byte> buffer, uint64_t token) override {
    return below_->Accept(offer, buffer, token);
  }
  bool AcceptsAtOnce(OfferId offer) const override { return below_->AcceptsAtOnce(offer); }
  PayloadLender* lender() override { return below_->lender(); }
  void Decline(OfferId offer) override { below_->Decline(offer); }
  void Close(PeerId peer) override { below_->Close(peer); }
  std::span<const TransportEvent> Poll() override { return below_->Poll(); }
  bool Arm() override { return below_->Arm(); }
  int wake_fd() const override { return below_->wake_fd(); }
  bool Sleep(std::optional<int64_t> timeout_ns, int other_fd) override { return below_->Sleep(timeout_ns, other_fd); }
  void Wake() override { below_->Wake(); }
  std::string listen_address() const override { return below_->listen_address(); }
  TransportReport Report(std::span<const PeerId> peers) const override { return below_->Report(peers); }

 protected:
  Transport* below() const { return below_.get(); }

 private:
  const std::unique_ptr<Transport> below_;
};

}  // namespace shoal

#endif  // SHOAL_NET_FORWARDING_TRANSPORT_H_
