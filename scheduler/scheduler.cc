#include "scheduler/scheduler.h"

#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/failure_detection.h"
#include "core/now.h"
#include "process/listen_address.h"
#include "process/mutex.h"
#include "process/open_files.h"
#include "process/read_small_file.h"
#include "process/start_thread.h"
#include "proto/credentials.h"
#include "scheduler/leading/scheduler_roles.h"
#include "scheduler/leading/scheduler_term.h"
#include "scheduler/rpc/doorkeeper.h"
#include "scheduler/store/file_store.h"
#include "scheduler/store/memory_store.h"

namespace shoal {
namespace {

using scheduler::Doorkeeper;
using scheduler::SchedulerNumbers;
using scheduler::SchedulerRoles;
using scheduler::SchedulerSinks;
using scheduler::SchedulerTerm;
using scheduler::Store;

absl::Status CheckConfig(const SchedulerConfig& config) {
  if (config.lease_ttl_ms < kMinLeaseTtlMs || config.lease_ttl_ms > kMaxLeaseTtlMs) {
    return absl::InvalidArgumentError(absl::StrCat("a lease of ", config.lease_ttl_ms, " ms is out of range; give ",
                                                   kMinLeaseTtlMs, " to ", kMaxLeaseTtlMs));
  }
  if (!config.store.empty() && !config.state_file.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("the state can't be kept both in ", config.store,
                                                   " and in the file ", config.state_file,
                                                   "; give --store or --state-file, not both"));
  }
  if (config.credentials.empty()) {
    const absl::Status reach = CheckWhoReaches(
        config.listen, config.insecure_network,
        "everybody could read and end this cluster; give --tls-cert, --tls-key and --tls-ca (docs/security.md)");
    if (!reach.ok()) return reach;
  }
  return CheckLeases(config.lease_ttl_ms * kNsPerMs, config.store.empty() ? 0 : config.leader_lease_ms * kNsPerMs);
}

absl::StatusOr<std::unique_ptr<Store>> OpenStore(const SchedulerConfig& config) {
  if (config.state_file.empty()) return std::make_unique<scheduler::MemoryStore>();
  return scheduler::FileStore::Open(config.state_file);
}

// Null: callers are not asked for their identity.
absl::StatusOr<std::shared_ptr<Doorkeeper>> HireDoorkeeper(const SchedulerConfig& config, const EventSink& log) {
  if (config.credentials.empty() && !config.identities.empty()) {
    return absl::InvalidArgumentError("--identities needs --tls-cert, --tls-key and --tls-ca: nobody proves who he is");
  }
  const absl::StatusOr<Credentials> credentials = Credentials::Load(config.credentials, ReportTo(log));
  if (!credentials.ok()) return credentials.status();
  if (credentials->empty()) return nullptr;
  IdentityRules rules;
  if (!config.identities.empty()) {
    const absl::StatusOr<std::string> text = ReadSmallFile("--identities", config.identities);
    if (!text.ok()) return text.status();
    absl::StatusOr<IdentityRules> parsed = IdentityRules::Parse(*text);
    if (!parsed.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(config.identities, ": ", parsed.status().message()));
    }
    rules = *std::move(parsed);
  }
  return std::make_shared<Doorkeeper>(*credentials, std::move(rules), log);
}

}  // namespace

// What the loop has published last.
class PublishedNumbers {
 public:
  void Set(std::shared_ptr<const SchedulerNumbers> numbers) {
    const MutexLock lock(mutex_);
    numbers_ = std::move(numbers);
  }
  std::shared_ptr<const SchedulerNumbers> Get() const {
    const MutexLock lock(mutex_);
    return numbers_;
  }

 private:
  mutable Mutex mutex_;
  std::shared_ptr<const SchedulerNumbers> numbers_ SHOAL_GUARDED_BY(mutex_);
};

// A scheduler that is alone, and always leads; or one of several.
class Scheduler::Parts {
 public:
  Parts(std::unique_ptr<SchedulerTerm> term, std::shared_ptr<const PublishedNumbers> numbers)
      : address_(term->address()), numbers_(std::move(numbers)), term_(std::move(term)) {}
  Parts(std::unique_ptr<SchedulerRoles> roles, std::shared_ptr<const PublishedNumbers> numbers)
      : address_(roles->address()), numbers_(std::move(numbers)), roles_(std::move(roles)) {}

  ~Parts() { Stop(); }

  // Of the one that is alone. ResourceExhausted: StartThread.
  absl::Status Lead() {
    absl::StatusOr<std::thread> started =
        StartThread("shoal-scheduler", [this] { term_->Run([] { return kNoDeadline; }); });
    if (!started.ok()) return started.status();
    thread_ = *std::move(started);
    return absl::OkStatus();
  }

  const std::string& address() const { return address_; }
  std::shared_ptr<const SchedulerNumbers> numbers() const { return numbers_->Get(); }

  void Stop() {
    roles_.reset();
    if (term_ == nullptr) return;
    term_->Stop();
    if (thread_.joinable()) thread_.join();
    term_.reset();
  }

 private:
  const std::string address_;
  const std::shared_ptr<const PublishedNumbers> numbers_;
  std::unique_ptr<SchedulerTerm> term_;
  std::unique_ptr<SchedulerRoles> roles_;
  std::thread thread_;
};

absl::StatusOr<std::unique_ptr<Scheduler>> Scheduler::Start(const SchedulerConfig& config, EventSink log) {
  if (absl::Status status = CheckConfig(config); !status.ok()) return status;
  if (absl::Status status = CheckFilesLeft(kFilesToStart); !status.ok()) return status;
  const auto numbers = std::make_shared<PublishedNumbers>();
  SchedulerSinks sinks;
  if (config.log_events) {
    sinks.log = std::move(log);
  } else if (log) {
    sinks.log = [log = std::move(log), audits = !config.audit_log.empty()](const LogEvent& event) {
      if (LevelOf(event.kind) != EventLevel::kInfo || (audits && event.call != nullptr)) log(event);
    };
  }
  absl::StatusOr<std::shared_ptr<Doorkeeper>> doorkeeper = HireDoorkeeper(config, sinks.log);
  if (!doorkeeper.ok()) return doorkeeper.status();
  if (!config.http.empty() || config.is_colocated) {
    sinks.numbers = [numbers](std::shared_ptr<const SchedulerNumbers> newest) { numbers->Set(std::move(newest)); };
  }
  if (!config.store.empty()) {
    auto roles = SchedulerRoles::Start(config, *std::move(doorkeeper), std::move(sinks));
    if (!roles.ok()) return roles.status();
    return std::unique_ptr<Scheduler>(new Scheduler(std::make_unique<Parts>(*std::move(roles), numbers)));
  }
  absl::StatusOr<std::unique_ptr<Store>> store = OpenStore(config);
  if (!store.ok()) return store.status();
  auto term = SchedulerTerm::Start(config, config.listen, *std::move(store), *std::move(doorkeeper), std::move(sinks));
  if (!term.ok()) return term.status();
  auto parts = std::make_unique<Parts>(*std::move(term), numbers);
  if (absl::Status status = parts->Lead(); !status.ok()) return status;
  return std::unique_ptr<Scheduler>(new Scheduler(std::move(parts)));
}

Scheduler::Scheduler(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Scheduler::~Scheduler() = default;
std::string Scheduler::address() const { return parts_->address(); }
std::shared_ptr<const SchedulerNumbers> Scheduler::numbers() const { return parts_->numbers(); }
void Scheduler::Stop() { parts_->Stop(); }

}  // namespace shoal
