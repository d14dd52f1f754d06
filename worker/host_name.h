// What this machine is called.
#ifndef SHOAL_WORKER_HOST_NAME_H_
#define SHOAL_WORKER_HOST_NAME_H_

#include <limits.h>
#include <unistd.h>

#include <string>

namespace shoal {

inline std::string HostName() {
  char name[HOST_NAME_MAX + 1] = {};
  return gethostname(name, HOST_NAME_MAX) == 0 && name[0] != '\0' ? name : "unknown-host";
}

}  // namespace shoal

#endif  // SHOAL_WORKER_HOST_NAME_H_
