// The address that a scheduler listens on, checked before gRPC gets it: gRPC itself says why it can't only on stderr.
// Any thread.
#ifndef SHOAL_PROCESS_LISTEN_ADDRESS_H_
#define SHOAL_PROCESS_LISTEN_ADDRESS_H_

#include <string>

#include "absl/status/status.h"

namespace shoal {

// InvalidArgument: not "ip:port". Unavailable: it can't be listened on (in use, or not an address of this machine).
absl::Status CheckListenAddress(const std::string& listen);

// For when gRPC can't all the same.
absl::Status CannotListen(const std::string& listen);

// `listen` with the port that was really taken.
std::string WithPort(const std::string& listen, int port);

}  // namespace shoal

#endif  // SHOAL_PROCESS_LISTEN_ADDRESS_H_
