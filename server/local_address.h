// Whether workers can reach a server at an address: it must be a particular one, and of this machine.
#ifndef SHOAL_SERVER_LOCAL_ADDRESS_H_
#define SHOAL_SERVER_LOCAL_ADDRESS_H_

#include <string>

#include "absl/status/status.h"

namespace shoal {

// InvalidArgument: `ip` is no IP address, stands for all addresses (0.0.0.0), or is not of this machine (the text lists
// those that are).
absl::Status CheckLocalAddress(const std::string& ip);

}  // namespace shoal

#endif  // SHOAL_SERVER_LOCAL_ADDRESS_H_
