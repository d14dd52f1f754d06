// What a program proves its identity with over gRPC, and by what it knows the others: TLS 1.3 with certificates on both
// ends, from files that are read again when they change.
//
// A value that is copied. Whoever names the same files in a process shares what was read of them, and one thread
// (shoal-certs) that looks at them each second until the process ends. Files that can't be used are told of once, and
// what was read before stays in use, so that a half-written replacement does no harm. Private keys are in files and in
// this process's memory alone.
//
// Threads: any.
#ifndef SHOAL_PROTO_CREDENTIALS_H_
#define SHOAL_PROTO_CREDENTIALS_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "core/log_event.h"
#include "process/credential_files.h"

namespace shoal {

class Credentials {
 public:
  // What `shoal-certs` reports, in a sentence, until the last copy is gone. Called by that thread.
  struct News {
    bool is_warning = false;  // what changed can't be used, or what is in use has expired
    std::string text;
  };
  using Report = std::function<void(const News&)>;

  // None: connections are in plain text.
  Credentials() = default;
  // None, if no file is named. InvalidArgument: a certificate without a key, a key without a certificate, or no
  // authorities. FailedPrecondition names the file, and says what is wrong with it: it can't be read, is no PEM of
  // its kind, has expired, or certificate and key are not of one pair. ResourceExhausted: no thread, no memory.
  static absl::StatusOr<Credentials> Load(const CredentialFiles& files, Report report);
  // As Load, but certificate and key may be missing together: this end then shows none.
  static absl::StatusOr<Credentials> LoadForStore(const CredentialFiles& files, Report report);

  bool empty() const { return shared_ == nullptr; }

  // To a scheduler. Its certificate has to have an identity with the role scheduler in the default form of
  // core/caller.h, or else no identity of that form, and the name or the address that was connected to.
  std::shared_ptr<grpc::ChannelCredentials> ForScheduler() const;
  // To another service, whose certificate has to have the name or the address that was connected to.
  std::shared_ptr<grpc::ChannelCredentials> ForNamedHost() const;
  // Of a scheduler that listens: who connects has to show a certificate of an authority.
  std::shared_ptr<grpc::ServerCredentials> ForListening() const;

 private:
  class Shared;
  Credentials(const Shared* shared, std::shared_ptr<const Report> report)
      : shared_(shared), report_(std::move(report)) {}
  static absl::StatusOr<Credentials> LoadInto(const CredentialFiles& files, const char* prefix, Report report);

  const Shared* shared_ = nullptr;  // of this process, until it ends
  std::shared_ptr<const Report> report_;
};

// Tells the log of a program. `log` may be null.
Credentials::Report ReportTo(EventSink log);

}  // namespace shoal

#endif  // SHOAL_PROTO_CREDENTIALS_H_
