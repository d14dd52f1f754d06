#include "net/ucx/ucx_settings.h"

#include <ifaddrs.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/ucx_release.h"
#include "process/node_address.h"
#include "process/socket_address.h"

namespace shoal {
namespace {

// A chunk and all headers before it. Memory of a segment that is never filled is never used.
constexpr char kTcpSegment[] = "576k";
// What UCX copies before it sends it over TCP: it has room for one message of that size and its headers. All else it
// sends whole, from where it lies.
constexpr char kLargestTcpCopy[] = "4k";

UcxRelease UsedRelease() { return *ParseUcxRelease(UcxVersion()); }

bool IsAtMost1Point(uint32_t minor) { return UsedRelease().IsAtMost1Point(minor); }

// `option`, unless it is empty and the environment has a value, which is noted.
std::string OrFromEnvironment(const std::string& option, const char* name, std::vector<std::string>* noted) {
  const char* value = getenv(name);
  if (!option.empty() || value == nullptr || *value == '\0') return option;
  noted->push_back(absl::StrCat(name, "=", value));
  return value;
}

std::vector<std::string> Split(const std::string& list) { return absl::StrSplit(list, ',', absl::SkipEmpty()); }

// UCX's "rc" brings UD with it, for set-up and for keepalives. Set up we do over TCP; and where RC gets through but UD
// does not, keepalives over UD end a healthy connection (Soft-RoCE with IPv4 addresses: after 50 s without traffic).
std::vector<std::string> WithoutCompanions(const std::vector<std::string>& transports) {
  std::vector<std::string> alone;
  for (const std::string& transport : transports) {
    if (transport == "rc" || transport == "rc_v") alone.push_back("rc_verbs");
    if (transport == "rc" || transport == "rc_x") alone.push_back("rc_mlx5");
    if (transport != "rc" && transport != "rc_v" && transport != "rc_x") alone.push_back(transport);
  }
  return alone;
}

bool NamesEverything(const std::vector<std::string>& transports) {
  return transports.empty() || transports.front().starts_with('^') || std::ranges::count(transports, "all") > 0;
}

// As the kernel names them: "lo", "eth0".
std::set<std::string> IpDevices() {
  std::set<std::string> devices;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return devices;
  for (const ifaddrs* entry = all; entry != nullptr; entry = entry->ifa_next) devices.insert(entry->ifa_name);
  freeifaddrs(all);
  return devices;
}

// Every port of every RDMA device, as UCX names them: "mlx5_0:1".
std::vector<std::string> RdmaDevices() {
  std::vector<std::string> devices;
  std::error_code error;
  for (const auto& device : std::filesystem::directory_iterator("/sys/class/infiniband", error)) {
    for (const auto& port : std::filesystem::directory_iterator(device.path() / "ports", error)) {
      devices.push_back(absl::StrCat(device.path().filename().string(), ":", port.path().filename().string()));
    }
  }
  return devices;
}

// A setting of one transport, unless the environment has it. Up to 1.13 UCX takes the name without the transport's,
// with that of its family at most.
void AddUnlessInEnvironment(const std::string& transport, const std::string& name, const std::string& value,
                            std::vector<UcxSetting>* settings) {
  const std::string full_name = absl::StrCat(transport, "_", name);
  if (getenv(absl::StrCat("UCX_", full_name).c_str()) != nullptr) return;
  const char* const family = transport == "TCP" ? "" : transport.starts_with("UD_") ? "UD_" : "RC_";
  settings->push_back({IsAtMost1Point(13) ? absl::StrCat(family, name) : full_name, value});
}

std::string DeviceToListenOn(const UcxTransportOptions& options) {
  const absl::StatusOr<SocketAddress> address = MakeSocketAddress(options.listen_ip, options.port);
  return address.ok() ? DeviceOfAddress(*address) : "";
}

}  // namespace

UcxSettings::UcxSettings(const UcxTransportOptions& options) {
  ChooseTransports(options);
  ChooseDevices(options);
  settings_.push_back({"SOCKADDR_TLS_PRIORITY", "tcp"});
  // With UCX's own 64 KiB a chunk of that size comes in two parts, each of which the receiver copies once more.
  chunks_fit_segments_ = tcp_alone_ && getenv("UCX_TCP_RX_SEG_SIZE") == nullptr;
  if (chunks_fit_segments_) AddUnlessInEnvironment("TCP", "RX_SEG_SIZE", kTcpSegment, &settings_);
  // By themselves newer releases copy a chunk into pieces of 8 KiB, and 25 MiB take three times as long.
  if (tcp_alone_ && !IsAtMost1Point(13) && getenv("UCX_ZCOPY_THRESH") == nullptr) {
    settings_.push_back({"ZCOPY_THRESH", kLargestTcpCopy});
  }
  // UCX's TCP listens for data on an IPv4 address if it can, whatever the address that it was connected to.
  if (options.listen_ip.find(':') != std::string::npos) AddUnlessInEnvironment("TCP", "AF_PRIO", "inet6", &settings_);
}

std::string UcxSettings::FromEnvironment() const { return absl::StrJoin(from_environment_, ", "); }

void UcxSettings::ChooseTransports(const UcxTransportOptions& options) {
  transports_ = OrFromEnvironment(options.transports, "UCX_TLS", &from_environment_);
  const std::vector<std::string> asked = Split(transports_);
  if (NamesEverything(asked)) {
    if (!transports_.empty()) settings_.push_back({"TLS", transports_});
    return;
  }
  std::vector<std::string> told = WithoutCompanions(asked);
  tcp_alone_ = told == std::vector<std::string>{"tcp"};
  tcp_may_carry_payload_ = std::ranges::count(told, "tcp") > 0;
  wants_rdma_ = std::ranges::any_of(told, [](const std::string& name) { return name != "tcp"; });
  if (!tcp_may_carry_payload_) {
    told.push_back("tcp");
    // UD can't write into a peer's memory, TCP can: UCX would have TCP carry all large payloads.
    AddUnlessInEnvironment("TCP", "PUT_ENABLE", "n", &settings_);
  }
  settings_.push_back({"TLS", absl::StrJoin(told, ",")});
}

void UcxSettings::ChooseDevices(const UcxTransportOptions& options) {
  net_devices_ = OrFromEnvironment(options.net_device, "UCX_NET_DEVICES", &from_environment_);
  if (transports_ == "tcp") {
    // The route leads to the device, unless one is named.
    if (net_devices_.empty()) net_devices_ = DeviceToListenOn(options);
    // A connection stays on the device of its route: others (of containers or virtual machines) may not lead to the
    // peer. Both sides must say the same, so it does not depend on the device.
    settings_.push_back({"CM_USE_ALL_DEVICES", "n"});
  }
  std::vector<std::string> devices = Split(net_devices_);
  if (wants_rdma_) AddIpDevices(DeviceToListenOn(options), &devices);
  if (!devices.empty()) settings_.push_back({"NET_DEVICES", absl::StrJoin(devices, ",")});
}

// UCX makes connections only over devices that it may use, and an RDMA device alone makes none. A listener offers the
// one of its address: offered several, UCX 1.13 may have a peer come to one that doesn't lead there.
void UcxSettings::AddIpDevices(const std::string& listens_on, std::vector<std::string>* devices) {
  const std::set<std::string> ip_devices = IpDevices();
  if (std::ranges::any_of(*devices, [&](const std::string& d) { return ip_devices.contains(d); })) return;
  if (!listens_on.empty()) {
    if (devices->empty()) *devices = RdmaDevices();
    if (!devices->empty()) devices->push_back(listens_on);
  } else if (!devices->empty()) {
    devices->insert(devices->end(), ip_devices.begin(), ip_devices.end());
  }
}

size_t UcxSettings::rendezvous_threshold_bytes() const { return chunks_fit_segments_ ? kTcpEagerBytes : kEagerBytes; }

std::string UcxSettings::Agreement() const {
  const std::vector<std::string> transports = Split(transports_.empty() ? "all" : transports_);
  const std::set<std::string> sorted(transports.begin(), transports.end());
  std::string agreement =
      absl::StrCat("ucx=", ReleasesThatAgree(UsedRelease()), " transports=", absl::StrJoin(sorted, ","));
  if (chunks_fit_segments_) absl::StrAppend(&agreement, " tcp-segment=", kTcpSegment);
  for (const char* name : {"UCX_TCP_RX_SEG_SIZE", "UCX_TCP_TX_SEG_SIZE", "UCX_CM_USE_ALL_DEVICES"}) {
    if (const char* value = getenv(name); value != nullptr) absl::StrAppend(&agreement, " ", name, "=", value);
  }
  return agreement;
}

std::vector<UcxSetting> SilenceLimits(const std::set<std::string>& transports) {
  std::set<std::string> names;
  for (const std::string& transport : transports) {
    names.insert(absl::AsciiStrToUpper(transport.substr(0, transport.find('/'))));
  }
  std::vector<UcxSetting> settings;
  for (const std::string& name : names) {
    if (name.starts_with("RC_") || name.starts_with("DC_")) {
      // By itself UCX has an RDMA connection repeat a packet 7 times with a second between, and some drivers take 7 for
      // "for ever" (Linux's rdma_rxe does). This makes it about 4 s, less than a lease.
      AddUnlessInEnvironment(name, "RETRY_COUNT", "6", &settings);
      AddUnlessInEnvironment(name, "TIMEOUT", "500ms", &settings);
    } else if (name.starts_with("UD_")) {
      AddUnlessInEnvironment(name, "TIMEOUT", "5s", &settings);
    }
  }
  return settings;
}

}  // namespace shoal
