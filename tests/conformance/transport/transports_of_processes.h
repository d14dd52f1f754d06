// The transports of transport_process_test.cc and of its peer program, which must be made alike in both.
#ifndef SHOAL_TESTS_CONFORMANCE_TRANSPORT_TRANSPORTS_OF_PROCESSES_H_
#define SHOAL_TESTS_CONFORMANCE_TRANSPORT_TRANSPORTS_OF_PROCESSES_H_

#include <cstdint>
#include <vector>

#include "tests/conformance/transport/tcp_under_test.h"
#include "tests/conformance/transport/transport_harness.h"
#include "tests/conformance/transport/ucx_under_test.h"

namespace shoal {

inline std::vector<TransportKind> UcxOfProcesses() {
  if (!ThereIsUcxToTest()) return {};
  return {UcxKind("Rendezvous", 0), UcxKind("Eager", SIZE_MAX)};
}
inline std::vector<TransportKind> TcpOfProcesses() { return {TcpKind("Bare", false), TcpKind("Sealed", true)}; }

}  // namespace shoal

#endif  // SHOAL_TESTS_CONFORMANCE_TRANSPORT_TRANSPORTS_OF_PROCESSES_H_
