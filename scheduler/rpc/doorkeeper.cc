#include "scheduler/rpc/doorkeeper.h"

#include <grpcpp/security/auth_metadata_processor.h>

#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/now.h"
#include "core/permissions.h"
#include "process/clock.h"

namespace shoal::scheduler {
namespace {

constexpr char kMethodKey[] = ":path";
constexpr uint64_t kQuietNs = 60 * kNsPerS;
constexpr size_t kMostRemembered = 1024;

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

}  // namespace

class Doorkeeper::Processor : public grpc::AuthMetadataProcessor {
 public:
  explicit Processor(std::shared_ptr<Doorkeeper> doorkeeper) : doorkeeper_(std::move(doorkeeper)) {}

  bool IsBlocking() const override { return false; }
  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext* connection, OutputMetadata*,
                       OutputMetadata*) override {
    const absl::Status status = doorkeeper_->Check(*connection, metadata);
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
    return absl::PermissionDeniedError(absl::StrCat(
        names.empty() ? "a certificate without a URI or a DNS name" : absl::StrJoin(names, ", "),
        " has no role in this cluster; see --identities of its schedulers, or the names in the certificate"));
  }
  const std::string named = TextOf(metadata, kCallerKey);
  if (named.empty()) return *std::move(peer);
  if (peer->role != Role::kScheduler) {
    return absl::PermissionDeniedError(
        absl::StrCat(CallerText(*peer), " may not speak for ", named, "; it takes the role scheduler"));
  }
  std::optional<Caller> caller = rules_.Find(named);
  if (caller.has_value()) return *std::move(caller);
  return absl::PermissionDeniedError(absl::StrCat(
      named, " has no role at the scheduler that leads; give all schedulers of a cluster the same --identities"));
}

absl::Status Doorkeeper::Check(const grpc::AuthContext& connection, const Metadata& metadata) {
  const std::string method = TextOf(metadata, kMethodKey);
  const absl::StatusOr<Caller> caller = CallerOf(connection, metadata);
  const absl::Status status = caller.ok() ? CheckPermission(*caller, method) : caller.status();
  if (!status.ok()) {
    LogRefusal(absl::StrCat(caller.ok() ? caller->identity : absl::StrJoin(NamesOf(connection), ","), " ", method),
               status);
  }
  return status;
}

void Doorkeeper::LogRefusal(const std::string& key, const absl::Status& why) {
  if (!log_) return;
  const uint64_t now_ns = MonotonicNs();
  {
    const MutexLock lock(mutex_);
    if (logged_ns_.size() >= kMostRemembered) {
      std::erase_if(logged_ns_, [&](const auto& logged) { return now_ns - logged.second >= kQuietNs; });
    }
    const auto logged = logged_ns_.find(key);
    const bool is_known = logged != logged_ns_.end();
    if (is_known ? now_ns - logged->second < kQuietNs : logged_ns_.size() >= kMostRemembered) return;
    logged_ns_[key] = now_ns;
  }
  log_({.kind = EventKind::kCallRefused, .text = std::string(why.message())});
}

}  // namespace shoal::scheduler
