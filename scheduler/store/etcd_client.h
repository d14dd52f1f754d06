// Calls to an etcd cluster: transactions and leases, each with a deadline.
//
// Endpoints take turns: a call goes to the endpoint that answered last and, where that can't be reached or has no
// leader, to the next ones until the deadline. So a transaction may have been done although its answer was lost:
// callers write their transactions so that repeating one is harmless.
//
// Threads: any. Blocks, for `timeout_ms` at most.
#ifndef SHOAL_SCHEDULER_STORE_ETCD_CLIENT_H_
#define SHOAL_SCHEDULER_STORE_ETCD_CLIENT_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "etcd/v3.grpc.pb.h"
#include "process/mutex.h"
#include "proto/credentials.h"

namespace shoal::scheduler {

// "etcd://10.0.0.1:2379,10.0.0.2:2379/shoal/prod"
struct EtcdTarget {
  std::vector<std::string> endpoints;  // "host:port"
  std::string prefix;                  // of every key, begins and ends with '/'
};

// InvalidArgument says what is wrong with `store`. No path: prefix "/shoal/".
absl::StatusOr<EtcdTarget> ParseEtcdTarget(const std::string& store);

class EtcdClient {
 public:
  // `login_file` holds "USER:PASSWORD", and is read again at each login; empty: etcd asks for none.
  explicit EtcdClient(const EtcdTarget& target, const Credentials& credentials = {}, std::string login_file = "");
  EtcdClient(const EtcdClient&) = delete;
  EtcdClient& operator=(const EtcdClient&) = delete;

  const EtcdTarget& target() const { return target_; }
  std::string Describe() const;  // "etcd at 10.0.0.1:2379, 10.0.0.2:2379, keys under /shoal/prod/"

  // Errors of all: those of etcd, with its text. Unavailable, DeadlineExceeded: no endpoint answered in time.
  absl::StatusOr<etcdserverpb::TxnResponse> Transact(const etcdserverpb::TxnRequest& request, uint64_t timeout_ms);
  absl::StatusOr<etcdserverpb::RangeResponse> Read(const etcdserverpb::RangeRequest& request, uint64_t timeout_ms);
  // Forgets what was before that revision. OutOfRange: that was done already.
  absl::Status Compact(int64_t revision, uint64_t timeout_ms);
  struct Lease {
    int64_t id = 0;
    uint64_t ttl_ms = 0;  // etcd may give more than was asked for
  };
  absl::StatusOr<Lease> GrantLease(uint64_t ttl_ms, uint64_t timeout_ms);
  // NotFound: the lease has ended.
  absl::Status RenewLease(int64_t id, uint64_t timeout_ms);
  absl::Status RevokeLease(int64_t id, uint64_t timeout_ms);

 private:
  struct Endpoint {
    std::string address;
    std::unique_ptr<etcdserverpb::KV::Stub> kv;
    std::unique_ptr<etcdserverpb::Lease::Stub> lease;
    std::unique_ptr<etcdserverpb::Auth::Stub> auth;
  };
  using Attempt = std::function<grpc::Status(Endpoint& endpoint, grpc::ClientContext* context)>;

  absl::Status Call(const std::string& what, uint64_t timeout_ms, const Attempt& attempt);

  // Asks for a token that shows later calls who this is. Unauthenticated, FailedPrecondition: the login or its file.
  grpc::Status LogIn(Endpoint* endpoint, std::chrono::milliseconds patience);

  const EtcdTarget target_;
  const std::string login_file_;
  std::vector<Endpoint> endpoints_;
  Mutex mutex_;
  size_t current_ SHOAL_GUARDED_BY(mutex_) = 0;  // the endpoint that answered last
  std::string token_ SHOAL_GUARDED_BY(mutex_);   // of the newest login; empty: none is known
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_STORE_ETCD_CLIENT_H_
