#include "scheduler/leading/scheduler_term.h"

#include <openssl/rand.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "process/clock.h"
#include "scheduler/store/state_codec.h"

namespace shoal::scheduler {
namespace {

absl::StatusOr<PersistedState> NewCluster() {
  PersistedState state;
  unsigned char id[8];
  uint64_t first_ids[3];
  if (RAND_bytes(id, sizeof(id)) != 1 ||
      RAND_bytes(reinterpret_cast<unsigned char*>(first_ids), sizeof(first_ids)) != 1 ||
      RAND_bytes(reinterpret_cast<unsigned char*>(state.token_key.data()), state.token_key.size()) != 1) {
    return absl::UnavailableError("the system returned no random numbers for the cluster's key");
  }
  for (const unsigned char byte : id) absl::StrAppend(&state.cluster_id, absl::Hex(byte, absl::kZeroPad2));
  state.next_server_id = FirstIdOfNewCluster(first_ids[0]);
  state.next_job_id = FirstIdOfNewCluster(first_ids[1]);
  state.next_group_id = FirstIdOfNewCluster(first_ids[2]);
  return state;
}

SchedulerLoop::EventLog LogTo(EventSink log) {
  if (!log) return nullptr;
  return [log = std::move(log)](const EventRecord& event) {
    // It waited until what it tells was saved.
    log({.kind = event.kind,
         .subject = event.subject,
         .text = event.reason,
         .ids = event.ids,
         .at_unix_ms = event.at_unix_ms,
         .call = event.call});
  };
}

}  // namespace

void Waker::Wake() {
  {
    const MutexLock guard(mutex_);
    woken_ = true;
  }
  changed_.notify_one();
}

void Waker::WaitUntil(uint64_t deadline_ns) {
  MutexLock guard(mutex_);
  const auto is_woken = [this]() SHOAL_REQUIRES(mutex_) { return woken_; };
  if (deadline_ns == kNoDeadline) {
    changed_.wait(guard, is_woken);
  } else {
    changed_.wait_until(guard, AsTimePoint(deadline_ns), is_woken);
  }
  woken_ = false;
}

absl::StatusOr<std::unique_ptr<SchedulerTerm>> SchedulerTerm::Start(const SchedulerConfig& config,
                                                                    const std::string& listen,
                                                                    std::unique_ptr<Store> store,
                                                                    std::shared_ptr<Doorkeeper> doorkeeper,
                                                                    SchedulerSinks sinks) {
  const absl::StatusOr<std::optional<std::string>> saved = store->Load();
  if (!saved.ok()) return saved.status();
  const bool is_new = !saved->has_value();
  const absl::StatusOr<PersistedState> state = is_new ? NewCluster() : DecodeState(**saved);
  if (!state.ok()) {
    return absl::Status(state.status().code(), absl::StrCat(store->Describe(), ": ", state.status().message()));
  }
  const std::string& own_address = config.advertise.empty() ? listen : config.advertise;
  auto machine = ObservedScheduler::Make({.lease_ttl_ms = config.lease_ttl_ms,
                                          .port_buffer_bytes = config.port_buffer_bytes,
                                          .store = store->Describe(),
                                          .open_to_network = OpenToNetwork(config),
                                          .is_colocated = config.is_colocated,
                                          .leader = config.store.empty() ? "" : own_address,
                                          .encrypt = config.encrypt},
                                         *state, is_new, ReadNow());
  if (!machine.ok()) {
    return absl::Status(machine.status().code(), absl::StrCat(store->Describe(), ": ", machine.status().message()));
  }
  auto host = GrpcControlHost::Listen(listen, config.reflection, std::move(doorkeeper));
  if (!host.ok()) return host.status();
  return std::unique_ptr<SchedulerTerm>(
      new SchedulerTerm(std::move(store), *std::move(host), *std::move(machine), std::move(sinks)));
}

SchedulerTerm::SchedulerTerm(std::unique_ptr<Store> store, std::unique_ptr<GrpcControlHost> host,
                             std::unique_ptr<ObservedScheduler> machine, SchedulerSinks sinks)
    : store_(std::move(store)),
      host_(std::move(host)),
      loop_(std::move(machine), host_.get(), store_.get(), EncodeState, LogTo(std::move(sinks.log))) {
  if (sinks.numbers) loop_.PublishNumbersTo(std::move(sinks.numbers));
  store_->SetWake([this] { waker_.Wake(); });
  host_->SetWake([this] { waker_.Wake(); });
}

SchedulerTerm::~SchedulerTerm() { host_->Stop(); }

void SchedulerTerm::Run(const std::function<uint64_t()>& ends_ns) {
  while (!stopping_.load(std::memory_order_acquire)) {
    const uint64_t end_ns = ends_ns();
    const Now now = ReadNow();
    if (now.monotonic_ns >= end_ns) return;
    waker_.WaitUntil(std::min(loop_.RunOnce(now), end_ns));
  }
}

void SchedulerTerm::Stop() {
  stopping_.store(true, std::memory_order_release);
  waker_.Wake();
}

}  // namespace shoal::scheduler
