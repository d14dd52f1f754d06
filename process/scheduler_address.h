// Where a cluster's scheduler is reached: "HOST:PORT", or "IP:PORT,IP:PORT" for several, any of which may be used.
#ifndef SHOAL_PROCESS_SCHEDULER_ADDRESS_H_
#define SHOAL_PROCESS_SCHEDULER_ADDRESS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace shoal {

// What gRPC is given to connect to. InvalidArgument says what is wrong with `address`. gRPC takes a list of IP
// addresses of one kind, but not of names; one name may have several addresses.
absl::StatusOr<std::string> SchedulerTarget(const std::string& address);

// "HOST:PORT" of one scheduler, as `option` says where the others reach it. An IPv6 address gets the brackets that it
// lacks: Kubernetes gives a pod its address without, and what follows the last colon is the port. InvalidArgument: it
// is no HOST:PORT.
absl::StatusOr<std::string> OneSchedulerAddress(const std::string& address, const std::string& option);

// "HOST:PORT" of each scheduler that is reached there: a list's addresses, or those that one name has, IPv4 if it has
// any. One that has none is returned as it is. Asks the name service, which may take seconds.
std::vector<std::string> EachSchedulerAddress(const std::string& address);

}  // namespace shoal

#endif  // SHOAL_PROCESS_SCHEDULER_ADDRESS_H_
