// The transport that the UCX suites run on, over the RDMA devices that the environment names (tests/rdma). Without
// SHOAL_TEST_TRANSPORTS there is none.
#ifndef SHOAL_TESTS_CONFORMANCE_TRANSPORT_UCX_UNDER_TEST_H_
#define SHOAL_TESTS_CONFORMANCE_TRANSPORT_UCX_UNDER_TEST_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "net/ucx/ucx_transport.h"
#include "tests/conformance/transport/tcp_under_test.h"
#include "tests/conformance/transport/transport_harness.h"

namespace shoal {

inline std::string FromEnvironment(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

inline UcxTransportOptions UcxUnderTest() {
  UcxTransportOptions options;
  options.listen_ip = FromEnvironment("SHOAL_TEST_LISTEN_IP", "");
  options.net_device = FromEnvironment("SHOAL_TEST_NET_DEVICE", "");
  options.transports = FromEnvironment("SHOAL_TEST_TRANSPORTS", "");
  options.keys = TcpUnderTest(/*seals=*/false).keys;
  return options;
}

inline bool ThereIsUcxToTest() { return !UcxUnderTest().transports.empty(); }

// An emulated machine has neither the memory for so many RDMA devices' buffers as the suite would like, nor the time.
inline size_t ManyPeersUnderTest() { return std::stoul(FromEnvironment("SHOAL_TEST_MANY_PEERS", "64")); }
inline int ManyRoundsUnderTest() { return std::stoi(FromEnvironment("SHOAL_TEST_MANY_ROUNDS", "3000")); }

inline TransportKind UcxKind(const std::string& name, size_t rendezvous_threshold_bytes) {
  return {.name = name,
          .make =
              [=](const TransportSetup& setup) {
                UcxTransportOptions options = UcxUnderTest();
                if (!setup.listen) options.listen_ip.clear();
                options.rendezvous_threshold_bytes = rendezvous_threshold_bytes;
                options.limits = setup.limits;
                absl::StatusOr<std::unique_ptr<Transport>> transport = MakeUcxTransport(options);
                EXPECT_TRUE(transport.ok()) << transport.status();
                return transport.ok() ? *std::move(transport) : nullptr;
              },
          .many = ManyPeersUnderTest(),
          .many_rounds = ManyRoundsUnderTest(),
          .lends = rendezvous_threshold_bytes > 0,
          .accepts_at_once = rendezvous_threshold_bytes > 0,
          .keeps_unanswered = rendezvous_threshold_bytes > 0};
}

}  // namespace shoal

#endif  // SHOAL_TESTS_CONFORMANCE_TRANSPORT_UCX_UNDER_TEST_H_
