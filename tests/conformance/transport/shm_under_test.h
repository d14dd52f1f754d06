// Addresses and transports for the tests of net/shm.
#ifndef SHOAL_TESTS_CONFORMANCE_TRANSPORT_SHM_UNDER_TEST_H_
#define SHOAL_TESTS_CONFORMANCE_TRANSPORT_SHM_UNDER_TEST_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "net/shm/shm_transport.h"

namespace shoal {

// Every test process has its own addresses: their Unix sockets' names are shared with all processes of the node.
inline std::string NextAddress() {
  static int next = 0;
  const int pid = getpid();
  return absl::StrCat("127.", pid >> 16 & 255, ".", pid >> 8 & 255, ".", pid & 255, ":", 1 + next++ % 65535);
}

inline std::unique_ptr<ShmTransport> MakeShmUnderTest(const ShmTransportOptions& options) {
  absl::StatusOr<std::unique_ptr<ShmTransport>> transport = MakeShmTransport(options);
  EXPECT_TRUE(transport.ok()) << transport.status();
  return transport.ok() ? *std::move(transport) : nullptr;
}

}  // namespace shoal

#endif  // SHOAL_TESTS_CONFORMANCE_TRANSPORT_SHM_UNDER_TEST_H_
