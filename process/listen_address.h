// The address that a program listens on, checked before a library gets it that gives the reason only on stderr.
// Any thread.
#ifndef SHOAL_PROCESS_LISTEN_ADDRESS_H_
#define SHOAL_PROCESS_LISTEN_ADDRESS_H_

#include <string>

#include "absl/status/status.h"

namespace shoal {

// InvalidArgument: not "ip:port". Unavailable: it can't be listened on (in use, or not an address of this node).
// The texts name the `option` that it came from.
absl::Status CheckListenAddress(const std::string& listen, const std::string& option = "--listen");

// For the case that the library cannot listen nevertheless.
absl::Status CannotListen(const std::string& listen, const std::string& option = "--listen");

// `listen` with the port that is really used.
std::string WithPort(const std::string& listen, int port);

}  // namespace shoal

#endif  // SHOAL_PROCESS_LISTEN_ADDRESS_H_
