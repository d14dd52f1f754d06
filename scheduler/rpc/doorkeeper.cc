#include "scheduler/rpc/doorkeeper.h"

#include <grpcpp/security/auth_metadata_processor.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "core/call_facts.h"
#include "core/name.h"
#include "core/permissions.h"
#include "core/utf8.h"
#include "process/clock.h"

namespace shoal::scheduler {
namespace {

constexpr char kMethodKey[] = ":path";
constexpr size_t kMostFromBytes = 200;

std::string TextOf(const Doorkeeper::Metadata& metadata, const char* key) {
  const auto found = metadata.find(key);
  return found == metadata.end() ? "" : std::string(found->second.data(), found->second.size());
}

std::vector<std::string> NamesOf(const grpc::AuthContext& connection) {
  std::vector<std::string> names;
  for (const char* const kind : {GRPC_PEER_URI_PROPERTY_NAME, GRPC_PEER_DNS_PROPERTY_NAME}) {
    for (const grpc::string_ref& name : connection.FindPropertyValues(kind)) {
      names.emplace_back(name.data(), name.size());
    }
  }
  return names;
}

// What the peer's certificate says, in a text that may be shown.
std::string NamesText(const std::vector<std::string>& names) {
  return names.empty() ? "a certificate without a URI or a DNS name" : EscapeUnprintable(absl::StrJoin(names, ", "));
}

// What a scheduler says where a call came from. Whoever says so where nobody is asked for certificates can't make a
// follower pass on what gRPC does not take. What is cut off is furthest from here.
std::string SaidFrom(const Doorkeeper::Metadata& metadata) {
  std::string said = TextOf(metadata, Doorkeeper::kFromKey);
  if (!std::ranges::all_of(said, [](char c) { return c >= ' ' && c <= '~'; })) return "somewhere";
  return said.size() <= kMostFromBytes ? said : said.substr(said.size() - kMostFromBytes);
}

// gRPC's "ipv4:10.0.0.7:51234" and "ipv6:%5B::1%5D:51234" as people write addresses.
std::string FromText(const std::string& peer, const std::string& said) {
  const std::string address = absl::StrReplaceAll(peer.substr(peer.find(':') + 1), {{"%5B", "["}, {"%5D", "]"}});
  return said.empty() ? address : absl::StrCat(said, " by way of ", address);
}

}  // namespace

class Doorkeeper::Processor : public grpc::AuthMetadataProcessor {
 public:
  explicit Processor(std::shared_ptr<Doorkeeper> doorkeeper) : doorkeeper_(std::move(doorkeeper)) {}

  bool IsBlocking() const override { return false; }
  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext* connection, OutputMetadata*,
                       OutputMetadata*) override {
    const std::string method = TextOf(metadata, kMethodKey);
    const Permission* const permission = FindPermission(method);
    if (permission != nullptr && permission->method == method) return grpc::Status::OK;  // its handler asks
    const absl::Status status = doorkeeper_->Check(*connection, metadata, "", method).status();
    if (status.ok()) return grpc::Status::OK;
    return {grpc::StatusCode::PERMISSION_DENIED, std::string(status.message())};
  }

 private:
  const std::shared_ptr<Doorkeeper> doorkeeper_;
};

std::shared_ptr<grpc::ServerCredentials> Doorkeeper::CredentialsOf(std::shared_ptr<Doorkeeper> doorkeeper) {
  if (doorkeeper == nullptr) return grpc::InsecureServerCredentials();
  std::shared_ptr<grpc::ServerCredentials> credentials = doorkeeper->credentials_.ForListening();
  credentials->SetAuthMetadataProcessor(std::make_shared<Processor>(std::move(doorkeeper)));
  return credentials;
}

absl::StatusOr<Caller> Doorkeeper::CallerOf(const grpc::AuthContext& connection, const Metadata& metadata) const {
  const std::vector<std::string> names = NamesOf(connection);
  std::optional<Caller> peer = rules_.FindFirst(names);
  if (!peer.has_value()) {
    std::string why =
        " has no role in this cluster; see --identities of its schedulers, or the names in the certificate";
    for (const std::string& name : names) {
      const absl::Status status = CheckName("identity", name);
      if (!status.ok()) absl::StrAppend(&why, "; ", status.message());
    }
    return absl::PermissionDeniedError(absl::StrCat(NamesText(names), why));
  }
  const std::string named = TextOf(metadata, kCallerKey);
  if (named.empty()) return *std::move(peer);
  if (peer->role != Role::kScheduler) {
    return absl::PermissionDeniedError(absl::StrCat(CallerText(*peer), " may not speak for ", EscapeUnprintable(named),
                                                    "; it takes the role scheduler"));
  }
  std::optional<Caller> caller = rules_.Find(named);
  if (caller.has_value()) return *std::move(caller);
  return absl::PermissionDeniedError(
      absl::StrCat(EscapeUnprintable(named),
                   " has no role at the scheduler that leads; give all schedulers of a cluster the same --identities"));
}

bool Doorkeeper::IsScheduler(const grpc::AuthContext& connection) const {
  const std::optional<Caller> peer = rules_.FindFirst(NamesOf(connection));
  return peer.has_value() && peer->role == Role::kScheduler;
}

absl::StatusOr<Caller> Doorkeeper::Check(const grpc::AuthContext& connection, const Metadata& metadata,
                                         const std::string& from, absl::string_view method) {
  absl::StatusOr<Caller> caller = CallerOf(connection, metadata);
  const absl::Status status = caller.ok() ? CheckPermission(*caller, method) : caller.status();
  if (status.ok()) return caller;
  CallFacts call = FactsOf(caller.ok() ? *caller : Caller(), from, method);
  if (!caller.ok()) call.who = NamesText(NamesOf(connection));
  SetOutcome(status, &call);
  TellRefusal(std::move(call));
  return status;
}

absl::StatusOr<CallOrigin> Doorkeeper::Admit(Doorkeeper* doorkeeper, const grpc::ServerContextBase& context,
                                             absl::string_view method) {
  const Metadata& metadata = context.client_metadata();
  const std::string said = SaidFrom(metadata);
  if (doorkeeper == nullptr) return CallOrigin{Caller(), FromText(context.peer(), said)};
  const std::shared_ptr<const grpc::AuthContext> connection = context.auth_context();
  std::string from = FromText(context.peer(), !said.empty() && doorkeeper->IsScheduler(*connection) ? said : "");
  absl::StatusOr<Caller> caller = doorkeeper->Check(*connection, metadata, from, method);
  if (!caller.ok()) return caller.status();
  return CallOrigin{*std::move(caller), std::move(from)};
}

void Doorkeeper::TellRefusalsTo(RefusalTaker taker) {
  const MutexLock lock(mutex_);
  taker_ = std::move(taker);
}

void Doorkeeper::TellRefusal(CallFacts call) {
  std::vector<CallFacts> for_log;
  {
    const MutexLock lock(mutex_);
    const uint64_t now_ns = MonotonicNs();
    std::vector<CallFacts> told = pace_.TakeOverdue(now_ns);
    if (pace_.Admit(now_ns, &call)) told.push_back(std::move(call));
    for (CallFacts& each : told) {
      if (!taker_ || !taker_(each)) for_log.push_back(std::move(each));
    }
  }
  for (CallFacts& each : for_log) {
    if (!log_) return;
    log_({.kind = KindOf(each),
          .subject = WhoText(each),
          .text = CallText(each),
          .call = std::make_shared<const CallFacts>(std::move(each))});
  }
}

}  // namespace shoal::scheduler
