// The TCP transport that suites run on, over the loopback device, with keys of one cluster.
#ifndef SHOAL_TESTS_CONFORMANCE_TRANSPORT_TCP_UNDER_TEST_H_
#define SHOAL_TESTS_CONFORMANCE_TRANSPORT_TCP_UNDER_TEST_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "net/tcp/tcp_transport.h"
#include "tests/conformance/transport/transport_harness.h"

namespace shoal {

// All who know the secret belong to each other.
class SharedSecret final : public ConnectionKeys {
 public:
  explicit SharedSecret(std::string secret, std::string ticket = "a ticket")
      : secret_(std::move(secret)), ticket_(std::move(ticket)) {}

  absl::StatusOr<ConnectionTicket> TicketFor(const std::string&) override {
    const auto bytes = AsBytes(ticket_);
    return ConnectionTicket{.bytes = {bytes.begin(), bytes.end()}, .key = DeriveConnectionKey(AsBytes(secret_), bytes)};
  }
  std::optional<ConnectionKey> KeyOf(std::span<const std::byte> ticket) override {
    ++asked_;
    if (AsText(ticket) == "over") return std::nullopt;
    return DeriveConnectionKey(AsBytes(secret_), ticket);
  }

  int asked() const { return asked_; }

 private:
  const std::string secret_;
  const std::string ticket_;
  int asked_ = 0;
};

inline TcpTransportOptions TcpUnderTest(bool seals) {
  static SharedSecret keys("the cluster's");
  TcpTransportOptions options;
  options.listen_ip = "127.0.0.1";
  options.net_device = "lo";
  options.keys = &keys;
  options.seals = seals;
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
