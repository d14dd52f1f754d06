#include "net/shm/shm_transport.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "tests/conformance/transport_suite.h"

namespace shoal {
namespace {

// Every test process has its own addresses: their Unix sockets' names are shared with all processes of the host.
std::string NextAddress() {
  static int next = 0;
  const int pid = getpid();
  return absl::StrCat("127.", pid >> 16 & 255, ".", pid >> 8 & 255, ".", pid & 255, ":", 1 + next++ % 65535);
}

TransportKind ShmKind() {
  return {.name = "Shm",
          .make =
              [](const TransportSetup& setup) {
                ShmTransportOptions options;
                if (setup.listen) options.listen_address = NextAddress();
                if (setup.most_lent_bytes != 0) options.arena_bytes = setup.most_lent_bytes;
                options.limits = setup.limits;
                absl::StatusOr<std::unique_ptr<ShmTransport>> transport = MakeShmTransport(options);
                EXPECT_TRUE(transport.ok()) << transport.status();
                return transport.ok() ? *std::move(transport) : nullptr;
              },
          .lends = true};
}

INSTANTIATE_TEST_SUITE_P(Shm, TransportSuite, testing::Values(ShmKind()), TransportKindName);
INSTANTIATE_TEST_SUITE_P(Shm, TransportWakeSuite, testing::Values(ShmKind()), TransportKindName);

}  // namespace
}  // namespace shoal
