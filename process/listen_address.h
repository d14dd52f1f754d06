// The address that a scheduler listens on, checked before gRPC gets it: gRPC itself gives the reason only on stderr.
// Any thread.
#ifndef SHOAL_PROCESS_LISTEN_ADDRESS_H_
#define SHOAL_PROCESS_LISTEN_ADDRESS_H_

#include <string>

#include "absl/status/status.h"

namespace shoal {

// InvalidArgument: not "ip:port". Unavailable: it can't be listened on (in use, or not an address of this node).
absl::Status CheckListenAddress(const std::string& listen);

// For the case that gRPC can't listen all the same.
absl::Status CannotListen(const std::string& listen);

// `listen` with the port that is really used.
std::string WithPort(const std::string& listen, int port);

}  // namespace shoal

#endif  // SHOAL_PROCESS_LISTEN_ADDRESS_H_
