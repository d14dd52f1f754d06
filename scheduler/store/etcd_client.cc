#include "scheduler/store/etcd_client.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "process/read_small_file.h"

namespace shoal::scheduler {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr char kScheme[] = "etcd://";
constexpr char kTokenKey[] = "token";
// An endpoint that does not answer must leave time to ask the next one.
constexpr milliseconds kLongestAttempt{1000};

bool IsAddress(const std::string& address) {
  const size_t colon = address.rfind(':');
  uint32_t port = 0;
  return colon != std::string::npos && colon > 0 && absl::SimpleAtoi(address.substr(colon + 1), &port) && port >= 1 &&
         port <= 65535;
}

// Another endpoint may know better.
bool AskNext(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE ||
         status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
}

// The token has expired, or is another etcd's.
bool IsOfToken(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAUTHENTICATED ||
         absl::StrContains(status.error_message(), "auth token");
}

}  // namespace

absl::StatusOr<EtcdTarget> ParseEtcdTarget(const std::string& store) {
  const std::string form = "give etcd://HOST:PORT[,HOST:PORT...][/PREFIX]";
  if (!absl::StartsWith(store, kScheme)) {
    return absl::InvalidArgumentError(absl::StrCat("the store \"", store, "\" is not of a known kind; ", form));
  }
  const std::string rest = store.substr(sizeof(kScheme) - 1);
  const size_t slash = rest.find('/');
  EtcdTarget target;
  target.endpoints = absl::StrSplit(rest.substr(0, slash), ',');
  for (const std::string& endpoint : target.endpoints) {
    if (IsAddress(endpoint)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the store \"", store, "\" names \"", endpoint, "\", which is not HOST:PORT; ", form));
  }
  target.prefix = slash == std::string::npos ? "/shoal" : rest.substr(slash);
  while (!target.prefix.empty() && target.prefix.back() == '/') target.prefix.pop_back();
  target.prefix.push_back('/');
  return target;
}

EtcdClient::EtcdClient(const EtcdTarget& target, const Credentials& credentials, std::string login_file)
    : target_(target), login_file_(std::move(login_file)) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // The time that a connection may take: an etcd that is just starting accepts one and leaves it unanswered.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 500);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetMaxReceiveMessageSize(-1);
  for (const std::string& address : target_.endpoints) {
    const auto channel = grpc::CreateCustomChannel(address, credentials.ForNamedHost(), arguments);
    endpoints_.push_back({.address = address,
                          .kv = etcdserverpb::KV::NewStub(channel),
                          .lease = etcdserverpb::Lease::NewStub(channel),
                          .auth = etcdserverpb::Auth::NewStub(channel)});
  }
}

std::string EtcdClient::Describe() const {
  return absl::StrCat("etcd at ", absl::StrJoin(target_.endpoints, ", "), ", keys under ", target_.prefix);
}

absl::Status EtcdClient::Call(const std::string& what, uint64_t timeout_ms, const Attempt& attempt) {
  const steady_clock::time_point deadline = steady_clock::now() + milliseconds(timeout_ms);
  const milliseconds attempt_time = std::min(kLongestAttempt, milliseconds(timeout_ms / endpoints_.size() + 1));
  std::string last;
  for (;;) {
    size_t index = 0;
    {
      const MutexLock lock(mutex_);
      index = current_;
    }
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - steady_clock::now());
    if (left.count() <= 0) {
      return absl::UnavailableError(
          absl::StrCat("can't ", what, ": ", Describe(), " does not answer (", last.empty() ? "no time left" : last,
                       "); check that it is running and that a majority of its members is up"));
    }
    Endpoint& endpoint = endpoints_[index];
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::min(left, attempt_time));
    context.set_wait_for_ready(true);  // else gRPC makes no progress with a new connection until the next call
    std::string token;
    {
      const MutexLock lock(mutex_);
      token = token_;
    }
    grpc::Status status;
    if (!login_file_.empty() && token.empty()) {
      status = LogIn(&endpoint, std::min(left, attempt_time));
      if (status.ok()) continue;
    } else {
      if (!token.empty()) context.AddMetadata(kTokenKey, token);
      status = attempt(endpoint, &context);
      if (status.ok()) return absl::OkStatus();
      if (!token.empty() && IsOfToken(status)) {
        const MutexLock lock(mutex_);
        if (token_ == token) token_.clear();
        continue;
      }
    }
    if (!AskNext(status)) {
      return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                          absl::StrCat("can't ", what, ": etcd at ", endpoint.address, ": ", status.error_message()));
    }
    last = absl::StrCat(endpoint.address, ": ", status.error_message());
    const MutexLock lock(mutex_);
    if (current_ == index) current_ = (index + 1) % endpoints_.size();
  }
}

grpc::Status EtcdClient::LogIn(Endpoint* endpoint, milliseconds patience) {
  const absl::StatusOr<std::string> login = ReadSmallFile("--etcd-login", login_file_);
  if (!login.ok()) return {grpc::StatusCode::FAILED_PRECONDITION, std::string(login.status().message())};
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(absl::StripTrailingAsciiWhitespace(*login), absl::MaxSplits(':', 1));
  if (parts.first.empty() || parts.second.empty()) {
    return {grpc::StatusCode::FAILED_PRECONDITION,
            absl::StrCat("the file ", login_file_, " (--etcd-login) is not USER:PASSWORD")};
  }
  etcdserverpb::AuthenticateRequest request;
  request.set_name(parts.first);
  request.set_password(parts.second);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + patience);
  context.set_wait_for_ready(true);
  etcdserverpb::AuthenticateResponse response;
  const grpc::Status status = endpoint->auth->Authenticate(&context, request, &response);
  if (!status.ok()) return status;
  const MutexLock lock(mutex_);
  token_ = response.token();
  return grpc::Status::OK;
}

absl::StatusOr<etcdserverpb::TxnResponse> EtcdClient::Transact(const etcdserverpb::TxnRequest& request,
                                                               uint64_t timeout_ms) {
  etcdserverpb::TxnResponse response;
  const absl::Status status = Call("write to etcd", timeout_ms, [&](Endpoint& endpoint, grpc::ClientContext* context) {
    return endpoint.kv->Txn(context, request, &response);
  });
  if (!status.ok()) return status;
  return response;
}

absl::StatusOr<etcdserverpb::RangeResponse> EtcdClient::Read(const etcdserverpb::RangeRequest& request,
                                                             uint64_t timeout_ms) {
  etcdserverpb::RangeResponse response;
  const absl::Status status = Call("read from etcd", timeout_ms, [&](Endpoint& endpoint, grpc::ClientContext* context) {
    return endpoint.kv->Range(context, request, &response);
  });
  if (!status.ok()) return status;
  return response;
}

absl::Status EtcdClient::Compact(int64_t revision, uint64_t timeout_ms) {
  etcdserverpb::CompactionRequest request;
  request.set_revision(revision);
  etcdserverpb::CompactionResponse response;
  return Call("compact etcd", timeout_ms, [&](Endpoint& endpoint, grpc::ClientContext* context) {
    return endpoint.kv->Compact(context, request, &response);
  });
}

absl::StatusOr<EtcdClient::Lease> EtcdClient::GrantLease(uint64_t ttl_ms, uint64_t timeout_ms) {
  etcdserverpb::LeaseGrantRequest request;
  request.set_ttl(static_cast<int64_t>((ttl_ms + 999) / 1000));
  etcdserverpb::LeaseGrantResponse response;
  const absl::Status status = Call("get a lease", timeout_ms, [&](Endpoint& endpoint, grpc::ClientContext* context) {
    return endpoint.lease->LeaseGrant(context, request, &response);
  });
  if (!status.ok()) return status;
  if (!response.error().empty())
    return absl::UnavailableError(absl::StrCat("etcd granted no lease: ", response.error()));
  return Lease{.id = response.id(), .ttl_ms = static_cast<uint64_t>(response.ttl()) * 1000};
}

absl::Status EtcdClient::RenewLease(int64_t id, uint64_t timeout_ms) {
  etcdserverpb::LeaseKeepAliveRequest request;
  request.set_id(id);
  etcdserverpb::LeaseKeepAliveResponse response;
  const absl::Status status =
      Call("renew the lease", timeout_ms, [&](Endpoint& endpoint, grpc::ClientContext* context) {
        const auto stream = endpoint.lease->LeaseKeepAlive(context);
        const bool answered = stream->Write(request) && stream->Read(&response);
        if (answered) {
          context->TryCancel();  // one question a stream: the next may go to another endpoint
          stream->Finish();
          return grpc::Status::OK;
        }
        const grpc::Status ended = stream->Finish();
        return ended.ok() ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "the stream ended") : ended;
      });
  if (!status.ok()) return status;
  return response.ttl() > 0 ? absl::OkStatus() : absl::NotFoundError("the lease has ended");
}

absl::Status EtcdClient::RevokeLease(int64_t id, uint64_t timeout_ms) {
  etcdserverpb::LeaseRevokeRequest request;
  request.set_id(id);
  etcdserverpb::LeaseRevokeResponse response;
  return Call("give the lease back", timeout_ms, [&](Endpoint& endpoint, grpc::ClientContext* context) {
    return endpoint.lease->LeaseRevoke(context, request, &response);
  });
}

}  // namespace shoal::scheduler
