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

// The IP address at which other processes reach this one. It is, in this order:
// - that of the network device that is named ("eth0", "mlx5_0:1"; the first of a list), if the kernel knows a device of
//   that name with an address;
// - the one from which this node talks to the peer ("host:port", the first of a list; empty: there is none). Every node
//   on the same network as the peer can reach it. It may be of the loopback device where the peer is given as such an
//   address or as localhost, but not where a name stands for one: a node's own name often does, on that node alone;
// - the one from which this node talks to the rest of the world;
// - the only one that this node has, beside those of loopback;
// - 127.0.0.1 if it has no other: then no other node can reach it.
// Unavailable: there is no route to the peer, its name cannot be resolved, or the node has several addresses of which
// nothing says which one it is. The text says which, and what to do.
absl::StatusOr<std::string> OwnAddress(const std::string& net_device, const std::string& peers_list);

// Whether only this node, or this network namespace of it, can reach the IP address.
bool IsLoopback(const std::string& ip);

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

}  // namespace shoal

#endif  // SHOAL_PROCESS_NODE_ADDRESS_H_
