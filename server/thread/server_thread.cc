#include "server/thread/server_thread.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/small_op.h"
#include "process/clock.h"
#include "process/mutex.h"
#include "process/start_thread.h"
#include "server/loop/inline_reducer.h"

namespace shoal {
namespace {

constexpr uint64_t kPublishIntervalNs = 100 * kNsPerMs;

bool AnyNew(const std::vector<AbsentRank>& now, const std::vector<AbsentRank>& before) {
  return std::any_of(now.begin(), now.end(), [&](const AbsentRank& rank) {
    return std::find(before.begin(), before.end(), rank) == before.end();
  });
}

// For as long as the process lives: its thread is stuck, and works with it when it goes on.
void Keep(std::unique_ptr<ServerThread> stuck) {
  static auto& mutex = *new Mutex;
  static auto& kept = *new std::vector<std::unique_ptr<ServerThread>>;
  const MutexLock lock(mutex);
  kept.push_back(std::move(stuck));
}

}  // namespace

ServerThread::ServerThread(const ServerThreadOptions& options, std::unique_ptr<OwnedMemory> memory,
                           std::unique_ptr<WakeUp> wake_up)
    : options_(options), memory_(std::move(memory)), wake_up_(std::move(wake_up)) {}

absl::StatusOr<std::unique_ptr<ServerThread>> ServerThread::Start(const ServerThreadOptions& options) {
  absl::StatusOr<std::unique_ptr<OwnedMemory>> memory = OwnedMemory::Make("shoal-slots", options.slot_memory_bytes);
  if (!memory.ok()) {
    return absl::Status(memory.status().code(),
                        absl::StrCat("no memory for the slots of an I/O thread: ", memory.status().message(),
                                     absl::IsResourceExhausted(memory.status())
                                         ? "; give a smaller --slot-memory or raise the process's limits"
                                         : ""));
  }
  absl::StatusOr<std::unique_ptr<WakeUp>> wake_up = WakeUp::Make();
  if (!wake_up.ok()) return wake_up.status();
  std::unique_ptr<ServerThread> thread(new ServerThread(options, *std::move(memory), *std::move(wake_up)));
  if (options.place.has_value()) thread->placed_ = PreferNode(thread->memory_->bytes(), *options.place);
  // A std::function must be copyable, so the promise is shared.
  const auto promise = std::make_shared<std::promise<absl::StatusOr<Listening>>>();
  std::future<absl::StatusOr<Listening>> future = promise->get_future();
  absl::StatusOr<std::thread> started = StartThread(absl::StrCat("shoal-io-", options.index),
                                                    [self = thread.get(), promise] { self->Run(promise.get()); });
  if (!started.ok()) return started.status();
  thread->thread_ = *std::move(started);
  if (future.wait_for(std::chrono::nanoseconds(options.start_within_ns)) != std::future_status::ready) {
    thread->thread_.detach();
    Keep(std::move(thread));
    return absl::DeadlineExceededError(absl::StrCat(
        "I/O thread ", options.index, " does not listen after ", options.start_within_ns / kNsPerMs,
        " ms: the kernel, or UCX with RDMA, does not return from making its transport; see whether the network device "
        "works, and try again"));
  }
  absl::StatusOr<Listening> listening = future.get();
  if (!listening.ok()) return listening.status();
  thread->address_ = std::move(listening->address);
  thread->transport_name_ = std::move(listening->transport_name);
  thread->placed_.Update(listening->moved);
  return thread;
}

ServerThread::~ServerThread() { Stop(); }

template <typename Change>
void ServerThread::Order(Change change) {
  const MutexLock lock(mutex_);
  change(&orders_);
  has_orders_.store(true, std::memory_order_release);
  if (serving_ != nullptr) return serving_->Wake();
  wake_up_->Signal();
}

void ServerThread::Serve(const ServerMachineOptions& options) {
  Order([&](Orders* orders) { orders->serve = options; });
}

void ServerThread::SetTokenKey(const TokenKey& key) {
  Order([&](Orders* orders) { orders->token_key = key; });
}

void ServerThread::NoteScheduler(const SchedulerHeard& heard, uint64_t key_period) {
  Order([&](Orders* orders) {
    orders->scheduler_heard = heard;
    orders->key_period = key_period;
  });
}

void ServerThread::SetDraining(bool drain) {
  {
    const MutexLock lock(mutex_);
    drained_ = false;  // what was published is of an earlier order
  }
  Order([&](Orders* orders) { orders->drain = drain; });
}

void ServerThread::Stop() {
  if (!thread_.joinable()) return;
  Order([](Orders* orders) { orders->stop = true; });
  thread_.join();
}

ServerCounters ServerThread::counters() const {
  const MutexLock lock(mutex_);
  return counters_;
}

bool ServerThread::drained() const {
  const MutexLock lock(mutex_);
  return drained_;
}

OpenGroups ServerThread::open_groups() const {
  const MutexLock lock(mutex_);
  return open_groups_;
}

void ServerThread::Run(std::promise<absl::StatusOr<Listening>>* listening) {
  // Before anything is allocated here.
  const absl::Status moved = options_.place.has_value() ? MoveThisThread(*options_.place) : absl::OkStatus();
  recorder_.emplace();
  absl::StatusOr<std::unique_ptr<Transport>> made = options_.make_transport({.network = options_.transport,
                                                                             .keys = &keys_,
                                                                             .same_node = options_.same_node,
                                                                             .region = memory_.get(),
                                                                             .observed = {.recorder = &*recorder_}});
  if (!made.ok()) return listening->set_value(made.status());
  const std::unique_ptr<Transport> transport = *std::move(made);
  listening->set_value(Listening{
      .address = transport->listen_address(), .transport_name = transport->Report({}).description, .moved = moved});
  std::optional<ServerMachineOptions> machine_options = AwaitServe();
  if (!machine_options.has_value()) return;
  machine_options->slot_memory_bytes = memory_->bytes().size();
  keys_.SetClusterKey(machine_options->token_key);
  TimedReducer reducer(std::make_unique<InlineReducer>());
  const EventSink log = [this](const LogEvent& event) {
    if (options_.log) options_.log(event);
    if (event.kind == EventKind::kShardGroupFailed && options_.on_group_failed) {
      options_.on_group_failed(event, *recorder_);
    }
  };
  ServerLoop loop(*machine_options, transport.get(), &reducer, memory_->bytes(), log);
  SetServing(transport.get());
  RunLoop(transport.get(), reducer, &loop);
  SetServing(nullptr);
}

void ServerThread::SetServing(Transport* transport) {
  const MutexLock lock(mutex_);
  serving_ = transport;
}

// Peers that connect this early wait in the listener's backlog.
std::optional<ServerMachineOptions> ServerThread::AwaitServe() {
  while (true) {
    WaitReadable({wake_up_->fd()}, std::nullopt);
    wake_up_->Drain();
    const MutexLock lock(mutex_);
    if (orders_.stop) return std::nullopt;
    if (orders_.serve.has_value()) return orders_.serve;
  }
}

void ServerThread::RunLoop(Transport* transport, const TimedReducer& reducer, ServerLoop* loop) {
  uint64_t published_ns = 0;
  uint64_t absences_published = 0;
  bool changed = true;  // since the counters were published
  while (true) {
    if (has_orders_.exchange(false, std::memory_order_acquire)) {
      if (!TakeOrders(loop)) break;
      changed = true;
    }
    const Now now = ReadNowOfRound();
    changed |= loop->NextDeadlineNs() <= now.monotonic_ns;
    const bool progress = loop->RunOnce(now);
    changed |= progress || loop->took_something();
    if (progress) {
      if (now.monotonic_ns - published_ns < kPublishIntervalNs) continue;
    } else if (loop->last_small_op_ns() != 0 && now.monotonic_ns - loop->last_small_op_ns() < kSmallOpSpinNs) {
      sched_yield();
      continue;
    }
    // Counting looks at every slot. A rank that became absent, and the end of the last group, others wait for.
    const bool waited_for = draining_ || loop->absences_noted() != absences_published;
    const uint64_t publish_ns = waited_for ? 0 : published_ns + kPublishIntervalNs;
    if (changed && now.monotonic_ns >= publish_ns) {
      absences_published = loop->absences_noted();
      Publish(*loop, reducer);
      published_ns = now.monotonic_ns;
      changed = false;
    }
    if (progress || !transport->Arm()) continue;
    std::optional<int64_t> timeout_ns;
    const uint64_t deadline_ns = std::min(loop->NextDeadlineNs(), changed ? publish_ns : kNoDeadline);
    if (deadline_ns != kNoDeadline) {
      timeout_ns = static_cast<int64_t>(deadline_ns) - static_cast<int64_t>(now.monotonic_ns);
    }
    transport->Sleep(timeout_ns, /*other_fd=*/-1);
  }
}

bool ServerThread::TakeOrders(ServerLoop* loop) {
  Orders orders;
  {
    const MutexLock lock(mutex_);
    orders = std::exchange(orders_, {});
  }
  if (orders.token_key.has_value()) {
    keys_.SetClusterKey(*orders.token_key);
    loop->SetTokenKey(*orders.token_key);
  }
  if (orders.key_period.has_value()) keys_.SetPeriod(*orders.key_period);
  if (orders.scheduler_heard.has_value()) loop->NoteScheduler(*orders.scheduler_heard);
  if (orders.drain.has_value()) {
    draining_ = *orders.drain;
    loop->SetDraining(draining_);
  }
  return !orders.stop;
}

void ServerThread::Publish(const ServerLoop& loop, const TimedReducer& reducer) {
  ServerCounters counters = loop.counters();
  counters.reduce_ns_total = reducer.work_ns();
  OpenGroups open_groups = draining_ ? loop.open_groups() : OpenGroups();
  bool rank_became_absent = false;
  {
    const MutexLock lock(mutex_);
    rank_became_absent = AnyNew(counters.absent_ranks, counters_.absent_ranks);
    counters_ = counters;
    open_groups_ = std::move(open_groups);
    drained_ = draining_ && counters.groups_open == 0;
  }
  if (rank_became_absent) options_.on_rank_absent();
}

}  // namespace shoal
