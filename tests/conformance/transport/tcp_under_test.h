// The TCP transport that suites run on, over the loopback device, with keys of one cluster.
#ifndef SHOAL_TESTS_CONFORMANCE_TRANSPORT_TCP_UNDER_TEST_H_
#define SHOAL_TESTS_CONFORMANCE_TRANSPORT_TCP_UNDER_TEST_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "core/hmac_sha256.h"
#include "net/tcp/tcp_transport.h"
#include "tests/conformance/transport/transport_harness.h"

namespace shoal {

// All who know the secret belong to each other.
class SharedSecret final : public ConnectionKeys {
 public:
  // Tickets of these words seal.
  static constexpr char kSealed[] = "a sealed ticket";
  static constexpr char kBare[] = "a ticket";

  explicit SharedSecret(std::string secret, std::string ticket = kBare)
      : secret_(std::move(secret)), ticket_(std::move(ticket)) {}

  absl::StatusOr<ConnectionTicket> TicketFor(const std::string&) override {
    const auto bytes = AsBytes(ticket_);
    return ConnectionTicket{
        .bytes = {bytes.begin(), bytes.end()}, .key = HmacSha256(AsBytes(secret_), bytes), .seals = ticket_ == kSealed};
  }
  std::optional<TicketKey> KeyOf(std::span<const std::byte> ticket) override {
    ++asked_;
    if (AsText(ticket) == "over") return std::nullopt;
    return TicketKey{.key = HmacSha256(AsBytes(secret_), ticket), .seals = AsText(ticket) == kSealed};
  }

  int asked() const { return asked_; }

 private:
  const std::string secret_;
  const std::string ticket_;
  int asked_ = 0;
};

inline TcpTransportOptions TcpUnderTest(bool seals) {
  static SharedSecret bare("the cluster's");
  static SharedSecret sealed("the cluster's", SharedSecret::kSealed);
  TcpTransportOptions options;
  options.listen_ip = "127.0.0.1";
  options.net_device = "lo";
  options.keys = seals ? &sealed : &bare;
  return options;
}

inline std::unique_ptr<Transport> MakeTcpUnderTest(const TcpTransportOptions& options) {
  absl::StatusOr<std::unique_ptr<Transport>> transport = MakeTcpTransport(options);
  EXPECT_TRUE(transport.ok()) << transport.status();
  return transport.ok() ? *std::move(transport) : nullptr;
}

inline TransportKind TcpKind(const std::string& name, bool seals) {
  return {.name = name, .make = [seals](const TransportSetup& setup) {
            TcpTransportOptions options = TcpUnderTest(seals);
            if (!setup.listen) options.listen_ip.clear();
            options.limits = setup.limits;
            return MakeTcpUnderTest(options);
          }};
}

}  // namespace shoal

#endif  // SHOAL_TESTS_CONFORMANCE_TRANSPORT_TCP_UNDER_TEST_H_
