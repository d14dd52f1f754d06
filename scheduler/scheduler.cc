#include "scheduler/scheduler.h"

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/failure_detection.h"
#include "core/now.h"
#include "scheduler/leading/scheduler_roles.h"
#include "scheduler/leading/scheduler_term.h"
#include "scheduler/store/file_store.h"
#include "scheduler/store/memory_store.h"

namespace shoal {
namespace {

using scheduler::SchedulerRoles;
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
  return CheckLeases(config.lease_ttl_ms * kNsPerMs, config.store.empty() ? 0 : config.leader_lease_ms * kNsPerMs);
}

absl::StatusOr<std::unique_ptr<Store>> OpenStore(const SchedulerConfig& config) {
  if (config.state_file.empty()) return std::make_unique<scheduler::MemoryStore>();
  return scheduler::FileStore::Open(config.state_file);
}

}  // namespace

// A scheduler that is alone, and always leads; or one of several.
class Scheduler::Parts {
 public:
  explicit Parts(std::unique_ptr<SchedulerTerm> term) : address_(term->address()), term_(std::move(term)) {
    thread_ = std::thread([this] { term_->Run([] { return kNoDeadline; }); });
  }
  explicit Parts(std::unique_ptr<SchedulerRoles> roles) : address_(roles->address()), roles_(std::move(roles)) {}

  ~Parts() { Stop(); }

  const std::string& address() const { return address_; }

  void Stop() {
    roles_.reset();
    if (term_ == nullptr) return;
    term_->Stop();
    thread_.join();
    term_.reset();
  }

 private:
  const std::string address_;
  std::unique_ptr<SchedulerTerm> term_;
  std::unique_ptr<SchedulerRoles> roles_;
  std::thread thread_;
};

absl::StatusOr<std::unique_ptr<Scheduler>> Scheduler::Start(const SchedulerConfig& config, EventSink log) {
  if (!config.log_events) log = nullptr;
  if (absl::Status status = CheckConfig(config); !status.ok()) return status;
  if (!config.store.empty()) {
    auto roles = SchedulerRoles::Start(config, std::move(log));
    if (!roles.ok()) return roles.status();
    return std::unique_ptr<Scheduler>(new Scheduler(std::make_unique<Parts>(*std::move(roles))));
  }
  absl::StatusOr<std::unique_ptr<Store>> store = OpenStore(config);
  if (!store.ok()) return store.status();
  auto term = SchedulerTerm::Start(config, config.listen, *std::move(store), std::move(log));
  if (!term.ok()) return term.status();
  return std::unique_ptr<Scheduler>(new Scheduler(std::make_unique<Parts>(*std::move(term))));
}

Scheduler::Scheduler(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Scheduler::~Scheduler() = default;
std::string Scheduler::address() const { return parts_->address(); }
void Scheduler::Stop() { parts_->Stop(); }

}  // namespace shoal
