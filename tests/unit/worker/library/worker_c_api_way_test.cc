// What the way to a server carries, through the C ABI.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/loopback_socket.h"
#include "tests/unit/worker/library/worker_cluster.h"

namespace shoal {
namespace {

using testing::HasSubstr;

// Whose scheduler hands out tickets.
const Cluster& TheCluster() {
  static const Cluster cluster(2);
  return cluster;
}

shoal_way_options To(const std::string& addresses) {
  shoal_way_options options = {.addresses = addresses.c_str(),
                               .scheduler = TheCluster().scheduler().c_str(),
                               .net_device = "lo",
                               .duration_ms = 100};
  return options;
}

Outcome Measure(const shoal_way_options& options, shoal_way* way = nullptr) {
  shoal_way unused = {};
  if (way == nullptr) way = &unused;
  shoal_error error = {};
  const shoal_code code = shoal_measure_way(&options, way, &error);
  return {code, error.message};
}

TEST(WayTest, IsMeasuredToOneOrSeveralAddresses) {
  const Cluster& cluster = TheCluster();
  for (const std::string& addresses :
       {cluster.server_address(0), cluster.server_address(0) + "," + cluster.server_address(1)}) {
    shoal_way way = {};
    const Outcome outcome = Measure(To(addresses), &way);
    ASSERT_EQ(outcome.code, SHOAL_OK) << outcome.message;
    EXPECT_GT(way.round_trip_ns, 1'000u);
    EXPECT_LT(way.round_trip_ns, 1'000'000'000u);
    // The slowest machine under a sanitizer moves more, and the fastest core does not copy so much.
    EXPECT_GT(way.bytes_per_s, 1'000'000u);
    EXPECT_LT(way.bytes_per_s, 100'000'000'000u);
    EXPECT_GT(way.processor_share, 0);
    EXPECT_LE(way.processor_share, 1.01);
    EXPECT_STREQ(way.transports, "tcp/lo");
  }
}

TEST(WayTest, ToNobodyIsRefusedWithTheAddress) {
  const Outcome outcome = Measure(To("127.0.0.1:1"));
  EXPECT_EQ(outcome.code, SHOAL_UNAVAILABLE) << outcome.message;
  EXPECT_THAT(outcome.message, HasSubstr("127.0.0.1:1"));
  EXPECT_THAT(outcome.message, HasSubstr("Connection refused"));
}

TEST(WayTest, ToOneThatNeverAnswersEndsInTime) {
  const LoopbackSocket silent(1);
  shoal_way_options options = To(silent.address());
  options.connect_timeout_ms = 200;
  const Outcome outcome = Measure(options);
  EXPECT_EQ(outcome.code, SHOAL_DEADLINE_EXCEEDED) << outcome.message;
  EXPECT_EQ(outcome.message, "the connection to the server at " + silent.address() + " was missing after 200 ms");
}

TEST(WayTest, WrongOptionsAreNamed) {
  EXPECT_THAT(Measure(To("")).message, HasSubstr("options->addresses is empty"));
  EXPECT_EQ(Measure(To("localhost")).code, SHOAL_INVALID_ARGUMENT);
  EXPECT_EQ(Measure(To("127.0.0.1:1,")).code, SHOAL_INVALID_ARGUMENT);
  shoal_way_options options = To("127.0.0.1:1");
  options.duration_ms = 100'000;
  EXPECT_THAT(Measure(options).message, HasSubstr("options->duration_ms is 100000"));
  options = To("127.0.0.1:1");
  options.transports = "carrierpigeon";
  EXPECT_THAT(Measure(options).message, HasSubstr("carrierpigeon"));
  options = To("127.0.0.1:1");
  options.scheduler = nullptr;
  EXPECT_THAT(Measure(options).message, HasSubstr("options->scheduler"));
  options.scheduler = "127.0.0.1:1";
  options.connect_timeout_ms = 300;
  EXPECT_THAT(Measure(options).message, HasSubstr("the scheduler at 127.0.0.1:1 gives no ticket"));
}

}  // namespace
}  // namespace shoal
