#include "proto/credentials.h"

#include <fcntl.h>
#include <grpc/support/log.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <map>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/caller.h"
#include "process/file_descriptor.h"
#include "process/mutex.h"
#include "process/start_thread.h"
#include "process/write_all.h"
#include "proto/certificate_files.h"

namespace shoal {
namespace {

namespace tls = grpc::experimental;

constexpr unsigned kRefreshSeconds = 1;
constexpr std::chrono::seconds kLookPeriod{kRefreshSeconds};

// What has passed all checks, where gRPC's watcher of files finds it: gRPC takes a broken file in place of a good one,
// and would then connect to nobody. The text is in memory alone, and the path is good in this process alone. It is
// replaced as a whole.
class CheckedFile {
 public:
  absl::Status Set(const std::string& text) {
    FileDescriptor file(memfd_create("shoal-certificates", MFD_CLOEXEC));
    if (!file.valid() || WriteAll(file.get(), text) != 0) {
      return absl::ResourceExhaustedError("the process can't have memory for its certificates");
    }
    if (!file_.valid()) {
      file_ = std::move(file);
    } else if (dup3(file.get(), file_.get(), O_CLOEXEC) < 0) {
      return absl::ResourceExhaustedError("the process can't have memory for its certificates");
    }
    return absl::OkStatus();
  }
  std::string path() const { return absl::StrCat("/proc/self/fd/", file_.get()); }

 private:
  FileDescriptor file_;
};

// What shows that a file is another one than before.
using FileSign = std::tuple<dev_t, ino_t, off_t, int64_t, int64_t>;

FileSign SignOf(const std::string& path) {
  struct stat found = {};
  if (path.empty() || stat(path.c_str(), &found) != 0) return {};
  return {found.st_dev, found.st_ino, found.st_size, found.st_mtim.tv_sec, found.st_mtim.tv_nsec};
}

std::array<FileSign, 3> SignsOf(const CredentialFiles& files) {
  return {SignOf(files.certificate), SignOf(files.key), SignOf(files.authorities)};
}

std::vector<std::string> Texts(const std::vector<grpc::string_ref>& names) {
  std::vector<std::string> texts;
  for (const grpc::string_ref& name : names) texts.emplace_back(name.data(), name.size());
  return texts;
}

// Whom this end takes for a scheduler. gRPC has checked the signatures.
class SchedulerVerifier : public tls::ExternalCertificateVerifier {
 public:
  bool Verify(tls::TlsCustomVerificationCheckRequest* request, std::function<void(grpc::Status)>,
              grpc::Status* sync_status) override {
    if (const std::optional<Caller> peer = IdentityRules().FindFirst(Texts(request->uri_names()))) {
      if (peer->role == Role::kScheduler) return true;
      *sync_status = {grpc::StatusCode::UNAUTHENTICATED, absl::StrCat("who answers is ", CallerText(*peer))};
      return true;
    }
    const grpc::string_ref certificate = request->peer_cert();
    const grpc::string_ref host = request->target_name();
    if (CertificateIsFor({certificate.data(), certificate.size()}, {host.data(), host.size()})) return true;
    *sync_status = {grpc::StatusCode::UNAUTHENTICATED, "the certificate that was shown is not a scheduler's"};
    return true;
  }
  void Cancel(tls::TlsCustomVerificationCheckRequest*) override {}
};

// gRPC writes a line to standard error for each connection to an address instead of a name, and for each handshake that
// fails; who calls is told of those.
void KeepGrpcQuiet(gpr_log_func_args* line) {
  if (absl::EndsWith(line->file, "ssl_transport_security.cc") ||
      absl::EndsWith(line->file, "tls_security_connector.cc")) {
    return;
  }
  std::fprintf(stderr, "%s:%d] %s\n", line->file, line->line, line->message);
}

}  // namespace

// Never destroyed: gRPC reads the checked files until its last connection is gone, and that may be later than anything
// of ours.
class Credentials::Shared {
 public:
  Shared(const CredentialFiles& files, absl::string_view prefix) : files_(files), prefix_(prefix) {}

  absl::Status Start() {
    signs_ = SignsOf(files_);
    absl::StatusOr<CertificateTexts> texts = ReadCertificateFiles(files_, prefix_);
    if (!texts.ok()) return texts.status();
    if (files_.are_texts) {
      TakeForGood();
      return absl::OkStatus();
    }
    if (absl::Status status = Take(*std::move(texts)); !status.ok()) return status;
    provider_ = has_identity()
                    ? std::make_shared<tls::FileWatcherCertificateProvider>(identity_.path(), identity_.path(),
                                                                            authorities_.path(), kRefreshSeconds)
                    : std::make_shared<tls::FileWatcherCertificateProvider>(authorities_.path(), kRefreshSeconds);
    absl::StatusOr<std::thread> started = StartThread("shoal-certs", [this] { Run(); });
    if (!started.ok()) return started.status();
    started->detach();
    return absl::OkStatus();
  }

  bool has_identity() const { return !files_.certificate.empty(); }

  // Calls it until what is returned is gone, and not any more when that has returned.
  std::shared_ptr<const Report> Subscribe(Report report) {
    const auto* const added = new Report(report ? std::move(report) : [](const News&) {});
    const auto remove = [this](const Report* gone) {
      {
        const MutexLock lock(mutex_);
        std::erase(reports_, gone);
      }
      delete gone;
    };
    std::shared_ptr<const Report> subscribed(added, remove);
    const MutexLock lock(mutex_);
    reports_.push_back(added);
    return subscribed;
  }

  void Fill(tls::TlsCredentialsOptions* options) const {
    options->watch_root_certs();
    if (has_identity()) options->watch_identity_key_cert_pairs();
  }
  std::shared_ptr<tls::CertificateProviderInterface> provider() const { return provider_; }

 private:
  absl::Status Take(CertificateTexts texts) {
    if (has_identity()) {
      if (absl::Status status = identity_.Set(texts.identity); !status.ok()) return status;
    }
    if (absl::Status status = authorities_.Set(texts.authorities); !status.ok()) return status;
    texts_ = std::move(texts);
    told_of_expiry_ = false;
    return absl::OkStatus();
  }

  // What no file holds: nobody looks at it again.
  void TakeForGood() {
    std::vector<tls::IdentityKeyCertPair> identities;
    if (has_identity()) identities.push_back({files_.key, files_.certificate});
    provider_ = std::make_shared<tls::StaticDataCertificateProvider>(files_.authorities, identities);
  }

  void Run() {
    for (;;) {
      std::this_thread::sleep_for(kLookPeriod);
      Look();
      if (!told_of_expiry_ && has_identity() && std::time(nullptr) >= texts_.expires_unix_s) {
        told_of_expiry_ = true;
        Say(true, absl::StrCat("the certificate in ", files_.certificate,
                               " has expired, and no new one is there: nobody takes a new connection from this process "
                               "until the file holds a valid one"));
      }
    }
  }

  // Files are read when they have been the same for two looks: those who replace them may not be done before. Those
  // that can't be used are read again, since a certificate may become valid.
  void Look() {
    const std::array<FileSign, 3> signs = SignsOf(files_);
    const bool is_settled = signs == seen_;
    seen_ = signs;
    if (!is_settled || (signs == signs_ && failure_.empty())) return;
    signs_ = signs;
    absl::StatusOr<CertificateTexts> texts = ReadCertificateFiles(files_, prefix_);
    const bool is_same = texts.ok() && *texts == texts_;
    const absl::Status status = !texts.ok() || is_same ? texts.status() : Take(*std::move(texts));
    const std::string before = std::exchange(failure_, std::string(status.message()));
    if (is_same || (!status.ok() && failure_ == before)) return;
    if (!status.ok()) return Say(true, absl::StrCat("what was read before stays in use, since ", failure_));
    Say(false, absl::StrCat("new connections use the changed files (", files_.authorities,
                            has_identity() ? absl::StrCat(", ", files_.certificate) : "", ")"));
  }

  void Say(bool is_warning, const std::string& text) {
    const MutexLock lock(mutex_);
    for (const Report* const report : reports_) (*report)({is_warning, text});
  }

  const CredentialFiles files_;
  const std::string prefix_;  // of the options that named them first
  CheckedFile identity_;
  CheckedFile authorities_;
  std::shared_ptr<tls::CertificateProviderInterface> provider_;
  // Of the thread, once it runs.
  CertificateTexts texts_;
  std::array<FileSign, 3> signs_;  // of what was read last
  std::array<FileSign, 3> seen_;
  std::string failure_;  // why that can't be used; empty: it is in use
  bool told_of_expiry_ = false;
  Mutex mutex_;  // held while they are called
  std::vector<const Report*> reports_ SHOAL_GUARDED_BY(mutex_);
};

absl::StatusOr<Credentials> Credentials::LoadInto(const CredentialFiles& files, const char* prefix, Report report) {
  static Mutex mutex;
  static auto* const all = new std::map<std::tuple<std::string, std::string, std::string>, Shared*>;
  const MutexLock lock(mutex);
  Shared*& shared = (*all)[{files.certificate, files.key, files.authorities}];
  if (shared == nullptr) {
    auto started = std::make_unique<Shared>(files, prefix);
    gpr_set_log_function(KeepGrpcQuiet);
    if (absl::Status status = started->Start(); !status.ok()) return status;
    shared = started.release();
  } else if (const auto texts = ReadCertificateFiles(files, prefix); !texts.ok()) {
    return texts.status();
  }
  return Credentials(shared, shared->Subscribe(std::move(report)));
}

absl::StatusOr<Credentials> Credentials::Load(const CredentialFiles& files, Report report) {
  if (files.empty()) return Credentials();
  if (files.certificate.empty() || files.key.empty() || files.authorities.empty()) {
    return absl::InvalidArgumentError(
        "certificate, key and authorities are needed together: give --tls-cert, --tls-key and --tls-ca, or none");
  }
  return LoadInto(files, "--tls-", std::move(report));
}

absl::StatusOr<Credentials> Credentials::LoadForStore(const CredentialFiles& files, Report report) {
  if (files.empty()) return Credentials();
  if (files.certificate.empty() != files.key.empty() || files.authorities.empty()) {
    return absl::InvalidArgumentError(
        "etcd over TLS takes the authorities, and a certificate with its key or neither: give --etcd-ca, and perhaps "
        "--etcd-cert and --etcd-key");
  }
  return LoadInto(files, "--etcd-", std::move(report));
}

Credentials::Report ReportTo(EventSink log) {
  return [log = std::move(log)](const Credentials::News& news) {
    if (!log) return;
    log({.kind = news.is_warning ? EventKind::kCertificateNotTaken : EventKind::kCertificateRenewed,
         .text = news.text});
  };
}

std::shared_ptr<grpc::ChannelCredentials> Credentials::ForScheduler() const {
  if (empty()) return grpc::InsecureChannelCredentials();
  tls::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(shared_->provider());
  shared_->Fill(&options);
  options.set_verify_server_certs(true);
  options.set_certificate_verifier(tls::ExternalCertificateVerifier::Create<SchedulerVerifier>());
  options.set_check_call_host(false);  // of each call; the verifier has checked the connection
  return tls::TlsCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> Credentials::ForNamedHost() const {
  if (empty()) return grpc::InsecureChannelCredentials();
  tls::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(shared_->provider());
  shared_->Fill(&options);
  return tls::TlsCredentials(options);
}

std::shared_ptr<grpc::ServerCredentials> Credentials::ForListening() const {
  if (empty()) return grpc::InsecureServerCredentials();
  tls::TlsServerCredentialsOptions options(shared_->provider());
  shared_->Fill(&options);
  options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  return tls::TlsServerCredentials(options);
}

}  // namespace shoal
