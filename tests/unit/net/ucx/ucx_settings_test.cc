// What UCX is told, and what is refused where there is no RDMA device. With one: tests/rdma.
#include "net/ucx/ucx_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

namespace shoal {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;

std::map<std::string, std::string> AsMap(const std::vector<UcxSetting>& settings) {
  std::map<std::string, std::string> map;
  for (const UcxSetting& setting : settings) map[setting.name] = setting.value;
  return map;
}

UcxTransportOptions Options(const std::string& transports, const std::string& net_device = "") {
  UcxTransportOptions options;
  options.transports = transports;
  options.net_device = net_device;
  return options;
}

UcxSettings For(const std::string& transports, const std::string& net_device = "") {
  return *UcxSettings::Make(Options(transports, net_device));
}

TEST(UcxSettingsTest, OnlyRdmaIsForUcx) {
  for (const char* list : {"rc", "rc,ud", "rc_verbs,ud_verbs", "dc_x", "rc_mlx5,ud"}) {
    EXPECT_THAT(AsMap(For(list).settings()), Contains(Pair("TLS", list)));
  }
  for (const char* list : {"", ",", "rc,tcp", "tcp,rc", "all", "^ud", "shm", "carrierpigeon", "rcx"}) {
    const absl::Status refused = UcxSettings::Make(Options(list)).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << list << refused;
    EXPECT_THAT(refused.ToString(), HasSubstr("tcp alone, for sockets"));
  }
}

TEST(UcxSettingsTest, UcxGetsTheRdmaDevicesAlone) {
  EXPECT_THAT(AsMap(For("rc", "mlx5_9:1,eth0,mlx5_8:1").settings()),
              Contains(Pair("NET_DEVICES", "mlx5_9:1,mlx5_8:1")));
  EXPECT_FALSE(AsMap(For("rc", "eth0").settings()).contains("NET_DEVICES"));
  EXPECT_EQ(For("rc", "mlx5_9:1,eth0,mlx5_8:1").socket_device(), "eth0");
}

TEST(UcxSettingsTest, DevicesOfTheEnvironmentAreNamed) {
  setenv("UCX_NET_DEVICES", "mlx5_7:1,eth7", 1);
  EXPECT_EQ(For("rc").from_environment(), "UCX_NET_DEVICES=mlx5_7:1,eth7");
  EXPECT_EQ(For("rc").devices(), "mlx5_7:1");
  EXPECT_EQ(For("rc", "mlx5_1:1").from_environment(), "") << "the option goes before";
  EXPECT_EQ(For("rc", "mlx5_1:1").devices(), "mlx5_1:1");
  unsetenv("UCX_NET_DEVICES");
  EXPECT_EQ(For("rc").from_environment(), "");
}

TEST(UcxSettingsTest, UcxAsksNobodyWhetherHeIsStillThereUnlessItIsTold) {
  EXPECT_THAT(AsMap(For("rc").settings()), Contains(Pair("KEEPALIVE_INTERVAL", "inf")));
  setenv("UCX_KEEPALIVE_INTERVAL", "3s", 1);
  EXPECT_FALSE(AsMap(For("rc").settings()).contains("KEEPALIVE_INTERVAL"));
  unsetenv("UCX_KEEPALIVE_INTERVAL");
}

TEST(UcxSettingsTest, BothSidesMustAgreeOnReleaseAndTransports) {
  EXPECT_EQ(For("ud,rc").Agreement("1.13.1"), For("rc,ud").Agreement("1.18.0"));
  EXPECT_NE(For("rc").Agreement("1.18.0"), For("rc").Agreement("1.22.0"));
  EXPECT_NE(For("rc").Agreement("1.13.1"), For("rc,ud").Agreement("1.13.1"));
}

TEST(UcxSettingsTest, SilenceIsLimitedUnlessTheEnvironmentSaysHow) {
  const auto limits = AsMap(SilenceLimits({"rc_verbs/mlx5_9:1"}, "1.18.0"));
  EXPECT_THAT(limits, Contains(Pair("RC_VERBS_RETRY_COUNT", "6")));
  EXPECT_THAT(limits, Contains(Pair("RC_VERBS_TIMEOUT", "500ms")));
  EXPECT_THAT(AsMap(SilenceLimits({"rc_verbs/mlx5_9:1"}, "1.13.1")), Contains(Pair("RC_RETRY_COUNT", "6")));
  EXPECT_THAT(AsMap(SilenceLimits({"ud_verbs/mlx5_9:1"}, "1.18.0")), Contains(Pair("UD_VERBS_TIMEOUT", "5s")));
  EXPECT_THAT(SilenceLimits({}, "1.13.1"), IsEmpty());
  setenv("UCX_RC_VERBS_RETRY_COUNT", "3", 1);
  EXPECT_THAT(AsMap(SilenceLimits({"rc_verbs/mlx5_9:1"}, "1.18.0")), Not(Contains(Pair("RC_VERBS_RETRY_COUNT", "6"))));
  unsetenv("UCX_RC_VERBS_RETRY_COUNT");
}

TEST(UcxSettingsTest, RdmaWithoutADeviceIsRefused) {
  if (std::filesystem::exists("/sys/class/infiniband")) GTEST_SKIP() << "this machine has RDMA devices";
  UcxTransportOptions options = Options("rc");
  options.listen_ip = "127.0.0.1";
  const absl::Status refused = MakeUcxTransport(options).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(refused.ToString(), HasSubstr("transports=\"rc\""));
  EXPECT_THAT(refused.ToString(), HasSubstr("without RDMA use transports=tcp"));
}

}  // namespace
}  // namespace shoal
