// Where this process is, as far as it matters for meeting others through the kernel of the node: processes that give
// the same text can. Any thread.
#ifndef SHOAL_PROCESS_NODE_IDENTITY_H_
#define SHOAL_PROCESS_NODE_IDENTITY_H_

#include <string>

namespace shoal {

// One boot of one kernel, one network namespace (to which abstract Unix sockets belong) and one user (a number that
// means the same within one user namespace alone). Not the node's name, which people choose. To be compared for
// equality alone; under 200 printable bytes. Empty: it is not known, so that nobody is on the same node for sure.
std::string NodeIdentity();

// The same, read from this file and this folder (with `net` and `user`) instead of those in /proc.
std::string NodeIdentityFrom(const std::string& boot_id_path, const std::string& namespaces_path);

}  // namespace shoal

#endif  // SHOAL_PROCESS_NODE_IDENTITY_H_
