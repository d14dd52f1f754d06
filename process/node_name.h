// The name of this node. Any thread.
#ifndef SHOAL_PROCESS_NODE_NAME_H_
#define SHOAL_PROCESS_NODE_NAME_H_

#include <limits.h>
#include <unistd.h>

#include <string>

namespace shoal {

inline std::string NodeName() {
  char name[HOST_NAME_MAX + 1] = {};
  return gethostname(name, HOST_NAME_MAX) == 0 && name[0] != '\0' ? name : "unknown-node";
}

}  // namespace shoal

#endif  // SHOAL_PROCESS_NODE_NAME_H_
