// Who may call a scheduler that asks for certificates: the one place through which every call goes, before its message
// is read. A follower's doorkeeper asks as the leader's does; what it passes on says who called, which is believed from
// schedulers alone.
//
// Threads: any.
#ifndef SHOAL_SCHEDULER_RPC_DOORKEEPER_H_
#define SHOAL_SCHEDULER_RPC_DOORKEEPER_H_

#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "core/caller.h"
#include "core/log_event.h"
#include "process/mutex.h"
#include "proto/credentials.h"

namespace shoal::scheduler {

class Doorkeeper {
 public:
  using Metadata = std::multimap<grpc::string_ref, grpc::string_ref>;
  // What a follower adds to a call, with the caller's identity.
  static constexpr char kCallerKey[] = "shoal-caller";

  // `credentials` are not empty. `log` may be null.
  Doorkeeper(const Credentials& credentials, IdentityRules rules, EventSink log)
      : credentials_(credentials), rules_(std::move(rules)), log_(std::move(log)) {}

  const Credentials& credentials() const { return credentials_; }
  // Lets calls pass that the caller's role has; the others end with PermissionDenied, whose text says who called what.
  static std::shared_ptr<grpc::ServerCredentials> CredentialsOf(std::shared_ptr<Doorkeeper> doorkeeper);
  // PermissionDenied: no name in the certificate has a role, or who speaks for another is no scheduler.
  absl::StatusOr<Caller> CallerOf(const grpc::AuthContext& connection, const Metadata& metadata) const;

 private:
  class Processor;

  absl::Status Check(const grpc::AuthContext& connection, const Metadata& metadata);
  void LogRefusal(const std::string& key, const absl::Status& why);

  const Credentials credentials_;
  const IdentityRules rules_;
  const EventSink log_;
  Mutex mutex_;
  std::map<std::string, uint64_t> logged_ns_ SHOAL_GUARDED_BY(mutex_);  // by identity and call
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_RPC_DOORKEEPER_H_
