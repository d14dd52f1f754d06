#include "net/ucx/ucx_settings.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "net/ucx/ucx_release.h"

namespace shoal {
namespace {

// UCX's names of RDMA transports begin so: "rc", "rc_verbs", "ud_mlx5", "dc_x".
bool IsRdma(const std::string& transport) {
  const std::string family = transport.substr(0, transport.find('_'));
  return family == "rc" || family == "ud" || family == "dc" || family == "ib" || family == "srd";
}

bool IsInEnvironment(const std::string& name) { return getenv(absl::StrCat("UCX_", name).c_str()) != nullptr; }

// An RDMA device has a port in its name ("mlx5_0:1"); a network device beside it is for sockets.
std::string DevicesOf(absl::string_view devices, bool of_rdma) {
  std::vector<absl::string_view> found;
  for (const absl::string_view device : absl::StrSplit(devices, ',', absl::SkipEmpty())) {
    if ((device.find(':') != absl::string_view::npos) == of_rdma) found.push_back(device);
  }
  return absl::StrJoin(found, ",");
}

}  // namespace

absl::StatusOr<UcxSettings> UcxSettings::Make(const UcxTransportOptions& options) {
  UcxSettings made;
  made.transports_ = options.transports;
  const std::vector<std::string> transports = absl::StrSplit(options.transports, ',', absl::SkipEmpty());
  if (transports.empty() || !std::ranges::all_of(transports, IsRdma)) {
    return absl::InvalidArgumentError(
        absl::StrCat("transports=\"", options.transports,
                     "\": give tcp alone, for sockets, or transports of UCX over RDMA alone, such as rc"));
  }
  made.settings_.push_back({"TLS", options.transports});
  made.socket_device_ = DevicesOf(options.net_device, /*of_rdma=*/false);
  made.devices_ = DevicesOf(options.net_device, /*of_rdma=*/true);
  if (const char* value = getenv("UCX_NET_DEVICES"); made.devices_.empty() && value != nullptr) {
    made.devices_ = DevicesOf(value, /*of_rdma=*/true);
    made.from_environment_ = absl::StrCat("UCX_NET_DEVICES=", value);
  }
  if (!made.devices_.empty()) made.settings_.push_back({"NET_DEVICES", made.devices_});
  // Sockets tell that a peer has gone. UCX's own questions go over UD, and where RC gets through but UD does not, they
  // end a healthy connection.
  if (!IsInEnvironment("KEEPALIVE_INTERVAL")) made.settings_.push_back({"KEEPALIVE_INTERVAL", "inf"});
  return made;
}

std::string UcxSettings::Agreement(const std::string& version) const {
  const std::optional<UcxRelease> release = ParseUcxRelease(version);
  const std::set<std::string> sorted = absl::StrSplit(transports_, ',', absl::SkipEmpty());
  return absl::StrCat("ucx=", release.has_value() ? ReleasesThatAgree(*release) : version,
                      " transports=", absl::StrJoin(sorted, ","));
}

std::vector<UcxSetting> SilenceLimits(const std::set<std::string>& transports, const std::string& version) {
  std::set<std::string> names;
  for (const std::string& transport : transports) {
    names.insert(absl::AsciiStrToUpper(transport.substr(0, transport.find('/'))));
  }
  const std::optional<UcxRelease> release = ParseUcxRelease(version);
  // Up to 1.13 UCX takes a setting's name with that of the transport's family alone.
  const bool by_family = release.has_value() && release->IsAtMost1Point(13);
  std::vector<UcxSetting> settings;
  const auto add = [&](const std::string& transport, const std::string& name, const std::string& value) {
    const std::string full_name = absl::StrCat(transport, "_", name);
    if (IsInEnvironment(full_name)) return;
    const char* const family = transport.starts_with("UD_") ? "UD_" : "RC_";
    settings.push_back({by_family ? absl::StrCat(family, name) : full_name, value});
  };
  for (const std::string& name : names) {
    if (name.starts_with("RC_") || name.starts_with("DC_")) {
      // By itself UCX has an RDMA connection repeat a packet 7 times with a second between, and some drivers take 7 for
      // "for ever" (Linux's rdma_rxe does). This makes it about 4 s, less than a lease.
      add(name, "RETRY_COUNT", "6");
      add(name, "TIMEOUT", "500ms");
    } else if (name.starts_with("UD_")) {
      add(name, "TIMEOUT", "5s");
    }
  }
  return settings;
}

}  // namespace shoal
