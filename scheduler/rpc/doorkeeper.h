// Who may call a scheduler that asks for certificates: the one place through which every call goes, before its message
// is parsed. A follower's doorkeeper asks as the leader's does; what it passes on says who called and from where, which
// is believed from schedulers alone.
//
// Threads: any.
#ifndef SHOAL_SCHEDULER_RPC_DOORKEEPER_H_
#define SHOAL_SCHEDULER_RPC_DOORKEEPER_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/call_pace.h"
#include "core/caller.h"
#include "core/log_event.h"
#include "process/mutex.h"
#include "proto/credentials.h"

namespace shoal::scheduler {

// Who calls, and from where: "10.0.0.7:51234", or "10.0.0.7:51234 by way of 10.0.0.9:4000", which is a scheduler that
// follows.
struct CallOrigin {
  Caller caller;
  std::string from;
};

class Doorkeeper {
 public:
  using Metadata = std::multimap<grpc::string_ref, grpc::string_ref>;
  // Takes a refusal, to tell it; false: it can't. Must not call the doorkeeper.
  using RefusalTaker = std::function<bool(const CallFacts& call)>;
  // What a follower adds to a call: the caller's identity and address.
  static constexpr char kCallerKey[] = "shoal-caller";
  static constexpr char kFromKey[] = "shoal-from";

  // `credentials` are not empty. `log` may be null.
  Doorkeeper(const Credentials& credentials, IdentityRules rules, EventSink log)
      : credentials_(credentials), rules_(std::move(rules)), log_(std::move(log)) {}

  const Credentials& credentials() const { return credentials_; }
  // For a port whose handlers ask Admit about each call that core/permissions.h has by its full name. Others
  // (health, reflection, what nobody serves) end here with PermissionDenied if the caller's role does not have them.
  static std::shared_ptr<grpc::ServerCredentials> CredentialsOf(std::shared_ptr<Doorkeeper> doorkeeper);

  // PermissionDenied: no name in the certificate has a role, who speaks for another is no scheduler, or the role does
  // not have this call. Its text says who called what, and it is told. `doorkeeper`: null lets everybody in, and
  // believes everybody where a call came from.
  static absl::StatusOr<CallOrigin> Admit(Doorkeeper* doorkeeper, const grpc::ServerContextBase& context,
                                          absl::string_view method);

  // Whom refusals are told to from now on, instead of the log; null: to the log. Returns when the taker before is not
  // called any more.
  void TellRefusalsTo(RefusalTaker taker);

 private:
  class Processor;

  absl::StatusOr<Caller> CallerOf(const grpc::AuthContext& connection, const Metadata& metadata) const;
  absl::StatusOr<Caller> Check(const grpc::AuthContext& connection, const Metadata& metadata, const std::string& from,
                               absl::string_view method);
  bool IsScheduler(const grpc::AuthContext& connection) const;
  void TellRefusal(CallFacts call);

  const Credentials credentials_;
  const IdentityRules rules_;
  const EventSink log_;
  Mutex mutex_;
  CallPace pace_ SHOAL_GUARDED_BY(mutex_);
  RefusalTaker taker_ SHOAL_GUARDED_BY(mutex_);
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_RPC_DOORKEEPER_H_
