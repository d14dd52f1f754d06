// The settings that UCX gets before it starts, made from a transport's options and the environment: transports,
// devices, and how soon a silent peer counts as gone (docs/adr/0008).
//
// Pure except for the environment and the node's network devices. Any thread.
#ifndef SHOAL_NET_UCX_UCX_SETTINGS_H_
#define SHOAL_NET_UCX_UCX_SETTINGS_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "net/ucx/ucx_transport.h"

namespace shoal {

struct UcxSetting {
  std::string name;  // without "UCX_"
  std::string value;
};

class UcxSettings {
 public:
  // InvalidArgument: the transports are not RDMA, or not only.
  static absl::StatusOr<UcxSettings> Make(const UcxTransportOptions& options);

  const std::vector<UcxSetting>& settings() const { return settings_; }
  // The transports that were asked for, as in UCX_TLS.
  const std::string& transports() const { return transports_; }
  // The RDMA devices, as in UCX_NET_DEVICES; "" means any.
  const std::string& devices() const { return devices_; }
  // The network devices that were named beside them, for the sockets.
  const std::string& socket_device() const { return socket_device_; }
  // "UCX_NET_DEVICES=mlx5_0:1" if the devices come from there; "" otherwise. Whoever wonders about them has not set
  // them here.
  const std::string& from_environment() const { return from_environment_; }

  // What both ends of a connection must have in common, as text (TcpTransportOptions::carries), with UCX of this
  // version. UCX does not compare it.
  std::string Agreement(const std::string& version) const;

 private:
  std::vector<UcxSetting> settings_;
  std::string transports_;
  std::string devices_;
  std::string socket_device_;
  std::string from_environment_;
};

// How soon a silent peer counts as gone, for those of `transports` ("rc_verbs/mlx5_0:1", as TransportsOf gives them)
// that UCX has settings for; UCX complains of settings for others. Not what the environment says already. `version` is
// UCX's.
std::vector<UcxSetting> SilenceLimits(const std::set<std::string>& transports, const std::string& version);

}  // namespace shoal

#endif  // SHOAL_NET_UCX_UCX_SETTINGS_H_
