// The conformance suite of net/transport.h. A test program includes this and instantiates it:
//
//   INSTANTIATE_TEST_SUITE_P(Name, TransportSuite, testing::Values(TransportKind{...}), TransportKindName);
//   INSTANTIATE_TEST_SUITE_P(Name, TransportWakeSuite, ...);   // not for simulated time
#ifndef SHOAL_TESTS_CONFORMANCE_TRANSPORT_TRANSPORT_SUITE_H_
#define SHOAL_TESTS_CONFORMANCE_TRANSPORT_TRANSPORT_SUITE_H_

#include "tests/conformance/transport/transport_clauses.h"
#include "tests/conformance/transport/transport_harness.h"
#include "tests/conformance/transport/transport_loans.h"
#include "tests/conformance/transport/transport_progress.h"
#include "tests/conformance/transport/transport_traffic.h"

namespace shoal {

// A program may leave out one of the two.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TransportSuite);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TransportWakeSuite);

}  // namespace shoal

#endif  // SHOAL_TESTS_CONFORMANCE_TRANSPORT_TRANSPORT_SUITE_H_
