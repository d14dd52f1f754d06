// What UCX is told, and what is refused where there is no RDMA device. With one: tests/rdma.
#include "net/ucx/ucx_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ucp/api/ucp.h>

#include <cstdlib>
#include <filesystem>
#include <map>

namespace shoal {
namespace {

using testing::Contains;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;

std::map<std::string, std::string> AsMap(const std::vector<UcxSetting>& settings) {
  std::map<std::string, std::string> map;
  for (const UcxSetting& setting : settings) map[setting.name] = setting.value;
  return map;
}

UcxSettings For(const std::string& transports, const std::string& net_device = "") {
  UcxTransportOptions options;
  options.transports = transports;
  options.net_device = net_device;
  return UcxSettings(options);
}

TEST(UcxSettingsTest, WhatComesFromTheEnvironmentIsNamed) {
  EXPECT_EQ(For("tcp").FromEnvironment(), "");
  setenv("UCX_NET_DEVICES", "eth7", 1);
  setenv("UCX_TLS", "tcp", 1);
  EXPECT_EQ(For("").FromEnvironment(), "UCX_TLS=tcp, UCX_NET_DEVICES=eth7");
  EXPECT_EQ(For("tcp").FromEnvironment(), "UCX_NET_DEVICES=eth7");
  EXPECT_EQ(For("tcp", "lo").FromEnvironment(), "") << "the option goes before";
  unsetenv("UCX_NET_DEVICES");
  unsetenv("UCX_TLS");
}

TEST(UcxSettingsTest, AListWithoutTcpHasItForConnectionsAlone) {
  const UcxSettings settings = For("rc_verbs");
  EXPECT_FALSE(settings.tcp_may_carry_payload());
  EXPECT_TRUE(settings.wants_rdma());
  const auto told = AsMap(settings.settings());
  EXPECT_THAT(told, Contains(Pair("TLS", "rc_verbs,tcp")));
  EXPECT_THAT(told, Contains(Pair(EndsWith("PUT_ENABLE"), "n")));
  EXPECT_THAT(told, Contains(Pair("SOCKADDR_TLS_PRIORITY", "tcp")));
}

TEST(UcxSettingsTest, AListWithTcpMayUseIt) {
  for (const char* list : {"tcp", "rc_verbs,tcp", "all", "^ud", ""}) {
    const UcxSettings settings = For(list);
    EXPECT_TRUE(settings.tcp_may_carry_payload()) << list;
    EXPECT_THAT(AsMap(settings.settings()), Not(Contains(Pair(EndsWith("PUT_ENABLE"), "n")))) << list;
  }
}

TEST(UcxSettingsTest, OverTcpAloneAChunkIsOneSegment) {
  EXPECT_THAT(AsMap(For("tcp").settings()), Contains(Pair(EndsWith("RX_SEG_SIZE"), "576k")));
  EXPECT_GT(For("tcp").rendezvous_threshold_bytes(), size_t{512} << 10);
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  ucp_get_version(&major, &minor, &release);
  const bool cuts_and_copies_by_itself = major > 1 || minor > 13;
  EXPECT_EQ(AsMap(For("tcp").settings()).contains("ZCOPY_THRESH"), cuts_and_copies_by_itself);
  EXPECT_THAT(For("tcp").Agreement(), HasSubstr("tcp-segment=576k"));
  for (const char* list : {"rc_verbs,tcp", "all", ""}) {
    EXPECT_THAT(AsMap(For(list).settings()), Not(Contains(Pair(EndsWith("RX_SEG_SIZE"), "576k")))) << list;
    EXPECT_EQ(For(list).rendezvous_threshold_bytes(), size_t{128} << 10) << list;
    EXPECT_THAT(For(list).Agreement(), Not(HasSubstr("tcp-segment"))) << list;
  }
}

TEST(UcxSettingsTest, RcComesWithoutUd) {
  EXPECT_THAT(AsMap(For("rc,tcp").settings()), Contains(Pair("TLS", "rc_verbs,rc_mlx5,tcp")));
}

TEST(UcxSettingsTest, AnRdmaDeviceHasIpDevicesBesideItForConnections) {
  EXPECT_THAT(AsMap(For("rc", "mlx5_9:1").settings()), Contains(Pair("NET_DEVICES", HasSubstr("mlx5_9:1,"))));
  EXPECT_THAT(AsMap(For("rc", "mlx5_9:1,lo").settings()), Contains(Pair("NET_DEVICES", "mlx5_9:1,lo")));
  EXPECT_THAT(AsMap(For("tcp", "lo").settings()), Contains(Pair("NET_DEVICES", "lo")));
}

TEST(UcxSettingsTest, SilenceIsLimitedUnlessTheEnvironmentSaysHow) {
  const auto limits = AsMap(SilenceLimits({"rc_verbs/mlx5_9:1", "tcp/lo"}));
  EXPECT_THAT(limits, Contains(Pair(EndsWith("RETRY_COUNT"), "6")));
  EXPECT_THAT(limits, Contains(Pair(EndsWith("_TIMEOUT"), "500ms")));
  EXPECT_THAT(SilenceLimits({"tcp/lo"}), IsEmpty());
  setenv("UCX_RC_VERBS_RETRY_COUNT", "3", 1);
  EXPECT_THAT(AsMap(SilenceLimits({"rc_verbs/mlx5_9:1"})), Not(Contains(Pair(EndsWith("RETRY_COUNT"), "6"))));
  unsetenv("UCX_RC_VERBS_RETRY_COUNT");
}

TEST(UcxSettingsTest, RdmaWithoutADeviceIsRefusedOrOwnedUpTo) {
  if (std::filesystem::exists("/sys/class/infiniband")) GTEST_SKIP() << "this machine has RDMA devices";
  UcxTransportOptions options;
  options.listen_ip = "127.0.0.1";
  options.transports = "rc";
  const absl::Status refused = MakeUcxTransport(options).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(refused.ToString(), HasSubstr("transports=\"rc\""));
  EXPECT_THAT(refused.ToString(), HasSubstr("add tcp to the list"));
  options.transports = "rc,tcp";
  const absl::StatusOr<std::unique_ptr<Transport>> instead = MakeUcxTransport(options);
  ASSERT_TRUE(instead.ok()) << instead.status();
  EXPECT_THAT((*instead)->Report({}).description, HasSubstr("not what was asked for: rc,tcp"));
}

}  // namespace
}  // namespace shoal
