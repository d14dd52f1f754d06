// The settings that UCX gets before it starts, made from a transport's options and the environment: transports,
// devices, and how soon a silent peer counts as gone (docs/adr/0008).
//
// Connections are always made over TCP, also those that then carry payload by RDMA: RDMA's own way of connecting has no
// gate (docs/adr/0005). So TCP is always among UCX's transports; the list decides whether it may also carry
// payload.
//
// Pure except for the environment and the node's network devices. Any thread.
#ifndef SHOAL_NET_UCX_UCX_SETTINGS_H_
#define SHOAL_NET_UCX_UCX_SETTINGS_H_

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "net/ucx/ucx_transport.h"

namespace shoal {

struct UcxSetting {
  std::string name;  // without "UCX_"
  std::string value;
};

class UcxSettings {
 public:
  explicit UcxSettings(const UcxTransportOptions& options);

  const std::vector<UcxSetting>& settings() const { return settings_; }

  // The transports that were asked for, as in UCX_TLS; "" means all that UCX has.
  const std::string& transports() const { return transports_; }
  // As in UCX_NET_DEVICES; "" means any.
  const std::string& net_devices() const { return net_devices_; }
  // Where the two come from, if not from the options: "UCX_NET_DEVICES=eth0, UCX_TLS=rc"; "" otherwise. Whoever wonders
  // about them has not set them here.
  std::string FromEnvironment() const;
  // False: "tcp" is not in the list, so a connection that TCP would carry payload for must be refused.
  bool tcp_may_carry_payload() const { return tcp_may_carry_payload_; }
  // The list names other transports than TCP.
  bool wants_rdma() const { return wants_rdma_; }

  // From which size on a payload goes by rendezvous: it takes one more way there and back, and saves copies.
  size_t rendezvous_threshold_bytes() const;

  // What both ends of a connection must have in common, as text. UCX itself does not compare all of it.
  std::string Agreement() const;

 private:
  // Over TCP alone every chunk of a size that flow plans choose goes whole, in one segment of UCX's; see docs/adr/0017.
  static constexpr size_t kTcpEagerBytes = (size_t{512} << 10) + 1;
  static constexpr size_t kEagerBytes = size_t{128} << 10;

  void ChooseTransports(const UcxTransportOptions& options);
  void ChooseDevices(const UcxTransportOptions& options);
  static void AddIpDevices(const std::string& listens_on, std::vector<std::string>* devices);

  std::vector<UcxSetting> settings_;
  std::string transports_;
  std::string net_devices_;
  std::vector<std::string> from_environment_;
  bool tcp_may_carry_payload_ = true;
  bool wants_rdma_ = false;
  bool tcp_alone_ = false;
  bool chunks_fit_segments_ = false;  // of UCX's TCP, as long as nobody sets their size
};

// How soon a silent peer counts as gone, for those of `transports` ("rc_verbs/mlx5_0:1", as TransportsOf gives them)
// that UCX has settings for; UCX complains of settings for others. Not what the environment says already.
std::vector<UcxSetting> SilenceLimits(const std::set<std::string>& transports);

}  // namespace shoal

#endif  // SHOAL_NET_UCX_UCX_SETTINGS_H_
