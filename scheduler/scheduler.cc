#include "scheduler/scheduler.h"

#include <openssl/rand.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <ctime>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "scheduler/file_store.h"
#include "scheduler/grpc_control_host.h"
#include "scheduler/memory_store.h"
#include "scheduler/scheduler_loop.h"
#include "scheduler/state_codec.h"

namespace shoal {
namespace {

using scheduler::EventRecord;
using scheduler::PersistedState;
using scheduler::Store;

Now ReadClocks() {
  using std::chrono::duration_cast;
  const auto monotonic = std::chrono::steady_clock::now().time_since_epoch();
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  return {.monotonic_ns = static_cast<uint64_t>(duration_cast<std::chrono::nanoseconds>(monotonic).count()),
          .unix_ms = static_cast<uint64_t>(duration_cast<std::chrono::milliseconds>(wall).count())};
}

// Lets the loop's thread sleep until something comes or time is up.
class Waker {
 public:
  void Wake() {
    {
      const std::lock_guard<std::mutex> guard(mutex_);
      woken_ = true;
    }
    changed_.notify_one();
  }

  void WaitUntil(uint64_t deadline_ns) {
    std::unique_lock<std::mutex> guard(mutex_);
    const auto is_woken = [this] { return woken_; };
    if (deadline_ns == scheduler::kNoDeadline) {
      changed_.wait(guard, is_woken);
    } else {
      const std::chrono::steady_clock::time_point deadline{std::chrono::nanoseconds(deadline_ns)};
      changed_.wait_until(guard, deadline, is_woken);
    }
    woken_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false;
};

absl::StatusOr<std::unique_ptr<Store>> OpenStore(const SchedulerConfig& config) {
  if (config.state_file.empty()) return std::make_unique<scheduler::MemoryStore>();
  return scheduler::FileStore::Open(config.state_file);
}

absl::StatusOr<PersistedState> NewCluster() {
  PersistedState state;
  unsigned char id[8];
  if (RAND_bytes(id, sizeof(id)) != 1 ||
      RAND_bytes(reinterpret_cast<unsigned char*>(state.token_key.data()), state.token_key.size()) != 1) {
    return absl::UnavailableError("the system gives no random numbers for the cluster's key");
  }
  for (const unsigned char byte : id) absl::StrAppend(&state.cluster_id, absl::Hex(byte, absl::kZeroPad2));
  return state;
}

void LogEvent(const EventRecord& event) {
  const std::time_t seconds = static_cast<std::time_t>(event.at_unix_ms / 1000);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char stamp[32];
  std::strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &utc);
  std::fprintf(stderr, "%s.%03dZ %s %s: %s\n", stamp, static_cast<int>(event.at_unix_ms % 1000), event.kind.c_str(),
               event.subject.c_str(), event.reason.c_str());
}

}  // namespace

class Scheduler::Parts {
 public:
  Parts(std::unique_ptr<Store> store, std::unique_ptr<scheduler::GrpcControlHost> host,
        std::unique_ptr<scheduler::SchedulerMachine> machine, bool log_events)
      : store_(std::move(store)),
        host_(std::move(host)),
        loop_(std::move(machine), host_.get(), store_.get(), log_events ? LogEvent : nullptr) {
    store_->SetWake([this] { waker_.Wake(); });
    host_->SetWake([this] { waker_.Wake(); });
    thread_ = std::thread([this] { Run(); });
  }

  ~Parts() { Stop(); }

  const std::string& address() const { return host_->address(); }

  void Stop() {
    {
      const std::lock_guard<std::mutex> guard(mutex_);
      if (stopping_) return;
      stopping_ = true;
    }
    host_->Stop();
    waker_.Wake();
    thread_.join();
  }

 private:
  bool IsStopping() {
    const std::lock_guard<std::mutex> guard(mutex_);
    return stopping_;
  }

  void Run() {
    while (!IsStopping()) waker_.WaitUntil(loop_.RunOnce(ReadClocks()));
  }

  Waker waker_;  // first: the store's and gRPC's threads use it to their end
  const std::unique_ptr<Store> store_;
  const std::unique_ptr<scheduler::GrpcControlHost> host_;
  scheduler::SchedulerLoop loop_;
  std::mutex mutex_;
  bool stopping_ = false;
  std::thread thread_;
};

absl::StatusOr<std::unique_ptr<Scheduler>> Scheduler::Start(const SchedulerConfig& config) {
  if (config.lease_ttl_ms < kMinLeaseTtlMs || config.lease_ttl_ms > kMaxLeaseTtlMs) {
    return absl::InvalidArgumentError(absl::StrCat("a lease of ", config.lease_ttl_ms, " ms is out of range; give ",
                                                   kMinLeaseTtlMs, " to ", kMaxLeaseTtlMs));
  }
  absl::StatusOr<std::unique_ptr<Store>> store = OpenStore(config);
  if (!store.ok()) return store.status();
  const absl::StatusOr<std::optional<std::string>> saved = (*store)->Load();
  if (!saved.ok()) return saved.status();
  const bool is_new = !saved->has_value();
  const absl::StatusOr<PersistedState> state = is_new ? NewCluster() : scheduler::DecodeState(**saved);
  if (!state.ok()) {
    return absl::Status(state.status().code(), absl::StrCat((*store)->Describe(), ": ", state.status().message()));
  }
  auto machine = scheduler::SchedulerMachine::Make({.lease_ttl_ms = config.lease_ttl_ms, .store = (*store)->Describe()},
                                                   *state, is_new, ReadClocks());
  if (!machine.ok()) {
    return absl::Status(machine.status().code(), absl::StrCat((*store)->Describe(), ": ", machine.status().message()));
  }
  auto host = scheduler::GrpcControlHost::Listen(config.listen, config.reflection);
  if (!host.ok()) return host.status();
  auto parts = std::make_unique<Parts>(*std::move(store), *std::move(host), *std::move(machine), config.log_events);
  return std::unique_ptr<Scheduler>(new Scheduler(std::move(parts)));
}

Scheduler::Scheduler(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Scheduler::~Scheduler() = default;
std::string Scheduler::address() const { return parts_->address(); }
void Scheduler::Stop() { parts_->Stop(); }

}  // namespace shoal
