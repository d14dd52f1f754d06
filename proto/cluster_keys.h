// Keys for a cluster that lives no longer than its processes: an authority of its own, and a certificate of each role.
//
// Threads: any.
#ifndef SHOAL_PROTO_CLUSTER_KEYS_H_
#define SHOAL_PROTO_CLUSTER_KEYS_H_

#include <string>

#include "absl/status/statusor.h"

namespace shoal {

struct KeyPair {
  std::string certificate;  // both as PEM
  std::string key;
};

// Each is valid for more years than a cluster lives. The authority's own key is gone, so nobody can sign another one.
struct ClusterKeys {
  std::string authorities;  // as PEM
  KeyPair scheduler;
  KeyPair server;
  KeyPair worker;
  KeyPair operators;
};

// Internal: OpenSSL refused, for want of memory or random numbers.
absl::StatusOr<ClusterKeys> DrawClusterKeys();

}  // namespace shoal

#endif  // SHOAL_PROTO_CLUSTER_KEYS_H_
