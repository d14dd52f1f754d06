#include "metrics/http_server.h"

#include <gtest/gtest.h>

namespace shoal {
namespace {

TEST(HttpServerTest, EveryAddressIsThatOfBothFamiliesWhereThereAreTwo) {
  EXPECT_EQ(ListeningPorts("0.0.0.0:9470", true), "+9470");
  EXPECT_EQ(ListeningPorts("[::]:9470", true), "+9470");
  EXPECT_EQ(ListeningPorts("0.0.0.0:0", true), "+0");
  EXPECT_EQ(ListeningPorts("0.0.0.0:9470", false), "0.0.0.0:9470");
}

TEST(HttpServerTest, OneAddressStaysOne) {
  for (const char* const listen : {"127.0.0.1:9470", "[::1]:9470", "10.0.0.0:9470", "[fd00::]:9470"}) {
    EXPECT_EQ(ListeningPorts(listen, true), listen);
    EXPECT_EQ(ListeningPorts(listen, false), listen);
  }
}

}  // namespace
}  // namespace shoal
