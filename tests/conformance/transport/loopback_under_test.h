// Loopback transports as the suite asks for them, for the layers that are tested over them.
#ifndef SHOAL_TESTS_CONFORMANCE_TRANSPORT_LOOPBACK_UNDER_TEST_H_
#define SHOAL_TESTS_CONFORMANCE_TRANSPORT_LOOPBACK_UNDER_TEST_H_

#include <memory>

#include "net/loopback/loopback_transport.h"
#include "tests/conformance/transport/transport_suite.h"

namespace shoal {

inline std::unique_ptr<Transport> MakeLoopbackUnderTest(LoopbackNetwork* network, const TransportSetup& setup,
                                                        LoopbackOptions options = {}) {
  options.listen = setup.listen;
  options.limits = setup.limits;
  return network->MakeTransport(options).value();
}

}  // namespace shoal

#endif  // SHOAL_TESTS_CONFORMANCE_TRANSPORT_LOOPBACK_UNDER_TEST_H_
