// Where this process is, in texts to be compared for equality alone: under which kernel, and whether it can meet others
// through that kernel. Not the node's name, which people choose, and which cloned nodes have alike. Any thread.
#ifndef SHOAL_PROCESS_NODE_IDENTITY_H_
#define SHOAL_PROCESS_NODE_IDENTITY_H_

#include <string>

namespace shoal {

// Processes that give the same text reach each other at 127.0.0.1, and no other process reaches them there: one boot of
// one kernel and one network namespace. Under 200 printable bytes. Empty: it is not known.
std::string NetworkIdentity();

// Processes that give the same text can meet: those of one NetworkIdentity (abstract Unix sockets belong to the network
// namespace) and one user (a number that means the same within one user namespace alone). Under 200 printable bytes.
// Empty: it is not known, so that nobody is on the same node for sure.
std::string NodeIdentity();

// The same, read from this file and this folder (with `net` and `user`) instead of those in /proc.
std::string NodeIdentityFrom(const std::string& boot_id_path, const std::string& namespaces_path);

// Of the kernel: processes that give the same text share the node's network cards, also if they can't meet. At most 64
// printable bytes. Empty: it is not known.
std::string BootId();

// The same, read from this file.
std::string BootIdFrom(const std::string& path);

}  // namespace shoal

#endif  // SHOAL_PROCESS_NODE_IDENTITY_H_
