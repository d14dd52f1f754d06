#include "net/loopback/loopback_transport.h"

#include "tests/conformance/transport/loopback_under_test.h"
#include "tests/conformance/transport/transport_suite.h"

namespace shoal {
namespace {

TransportKind LoopbackKind(const std::string& name, size_t rendezvous_threshold_bytes) {
  auto network = std::make_shared<LoopbackNetwork>();
  return {.name = name, .make = [=](const TransportSetup& setup) {
            LoopbackOptions options;
            options.rendezvous_threshold_bytes = rendezvous_threshold_bytes;
            return MakeLoopbackUnderTest(network.get(), setup, options);
          }};
}

const auto kKinds = testing::Values(LoopbackKind("Mixed", 128 << 10), LoopbackKind("RendezvousOnly", 0),
                                    LoopbackKind("EagerOnly", SIZE_MAX));

INSTANTIATE_TEST_SUITE_P(Loopback, TransportSuite, kKinds, TransportKindName);
INSTANTIATE_TEST_SUITE_P(Loopback, TransportWakeSuite, kKinds, TransportKindName);

}  // namespace
}  // namespace shoal
