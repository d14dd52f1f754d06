// IP addresses of this node: the one at which other nodes reach it, whether it has a given one, on which device, and
// which devices have a link.
//
// Any thread. Nothing is sent except what is needed to look up a name.
#ifndef SHOAL_PROCESS_NODE_ADDRESS_H_
#define SHOAL_PROCESS_NODE_ADDRESS_H_

#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "process/socket_address.h"

namespace shoal {

// The address of the network device that is named ("eth0", "mlx5_0:1"; the first of a list), if the kernel knows a
// device of that name with an address. Otherwise the address from which this node talks to the peer ("host:port", the
// first of a list): every node on the same network as that peer can reach it. Unavailable: there is no route to the
// peer, or its name cannot be resolved; the text says which.
absl::StatusOr<std::string> OwnAddress(const std::string& net_device, const std::string& peers_list);

// The IP address at which workers reach a server of this node. `text` is the value of --advertise: an address of this
// node, which may not be in use yet ("10.0.0.11"); a network in which this node has one address ("10.20.0.0/16"); or a
// device that has an address ("net1"; IPv4 comes before IPv6). InvalidArgument: it is none of that, stands for all
// addresses (0.0.0.0), or this node has another number of addresses in that network than one. The text lists the
// addresses of this node.
absl::StatusOr<std::string> FindAdvertisedAddress(const std::string& text);

// "eth0", "lo". Empty: no device of this node has this address (or it is 0.0.0.0 or ::, which every device has).
std::string DeviceOfAddress(const SocketAddress& address);

// Whether the kernel knows this device and it has no link: its cable is pulled, or it is set down. Either leaves its
// addresses.
bool LacksLink(const std::string& device);

// The devices of this node that have a link, and an address that reaches beyond it.
std::set<std::string> DevicesWithLink();

}  // namespace shoal

#endif  // SHOAL_PROCESS_NODE_ADDRESS_H_
