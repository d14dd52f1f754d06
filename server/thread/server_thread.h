// One I/O thread of a server with all that it owns: transport, slot memory, reducer and loop.
//
// Threads: the thread makes and destroys its transport itself and is the only one that touches what it owns; the
// functions below may be called from any other thread, one at a time. They hand over orders and read what was published
// last.
#ifndef SHOAL_SERVER_THREAD_SERVER_THREAD_H_
#define SHOAL_SERVER_THREAD_SERVER_THREAD_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "core/log_event.h"
#include "core/now.h"
#include "core/token.h"
#include "net/data_plane/data_plane.h"
#include "net/transport.h"
#include "net/wake_up.h"
#include "process/mutex.h"
#include "server/loop/server_loop.h"
#include "server/thread/memory_nodes.h"
#include "server/thread/ticket_keys.h"
#include "server/thread/timed_reducer.h"

namespace shoal {

struct ServerThreadOptions {
  // Locking many GiB of slots takes longest.
  static constexpr uint64_t kStartWithinNs = 300 * kNsPerS;

  uint32_t index = 0;
  NetworkOptions transport;
  bool same_node = true;
  uint64_t slot_memory_bytes = 0;
  std::optional<MemoryNode> place;  // of thread and slots; none: the kernel chooses
  uint64_t start_within_ns = kStartWithinNs;
  // Called on the thread.
  std::function<absl::StatusOr<std::unique_ptr<Transport>>(const DataPlaneOptions& options)> make_transport =
      MakeDataPlaneTransport;
  // Called on the thread when counters() names another absent rank.
  std::function<void()> on_rank_absent = [] {};
  // Called on the thread; it must not block. May be empty.
  EventSink log;
  // Likewise, when a group has failed here; `recorder` has what the transport last did.
  std::function<void(const LogEvent& failure, const FlightRecorder& recorder)> on_group_failed;
};

class ServerThread {
 public:
  // Listens when it returns, and answers from Serve on. Errors of MakeDataPlaneTransport, OwnedMemory and WakeUp.
  // DeadlineExceeded: it does not listen in time. Then the thread and its memory stay as long as the process.
  static absl::StatusOr<std::unique_ptr<ServerThread>> Start(const ServerThreadOptions& options);
  ~ServerThread();  // stops
  ServerThread(const ServerThread&) = delete;
  ServerThread& operator=(const ServerThread&) = delete;

  const std::string& address() const { return address_; }                // "ip:port"
  const std::string& transport_name() const { return transport_name_; }  // human-readable
  // Whether thread and slots are at the place that was given; an error costs speed only.
  const absl::Status& placed() const { return placed_; }
  // What the transport does; its traces are for any thread.
  FlightRecorder& recorder() { return *recorder_; }

  // Starts the loop. options.slot_memory_bytes is set by this thread. Once.
  void Serve(const ServerMachineOptions& options);
  void SetTokenKey(const TokenKey& key);
  // `key_period`: which tickets of ranks are good from now on.
  void NoteScheduler(const SchedulerHeard& heard, uint64_t key_period);
  // True: no new group is opened from now on. False: groups are opened again.
  void SetDraining(bool drain);
  // Ends the thread: connections are cut, memory is given back. Waits for it. Idempotent.
  void Stop();

  // Of any thread. As of at most kPublishIntervalNs ago.
  ServerCounters counters() const;
  // True once the thread has taken SetDraining(true) in and no group is open.
  bool drained() const;
  // After SetDraining(true); as of at most kPublishIntervalNs ago.
  OpenGroups open_groups() const;

 private:
  struct Listening {
    std::string address;
    std::string transport_name;
    absl::Status moved;  // to its place
  };
  struct Orders {
    std::optional<ServerMachineOptions> serve;
    std::optional<TokenKey> token_key;
    std::optional<SchedulerHeard> scheduler_heard;
    std::optional<uint64_t> key_period;
    std::optional<bool> drain;
    bool stop = false;
  };

  ServerThread(const ServerThreadOptions& options, std::unique_ptr<OwnedMemory> memory,
               std::unique_ptr<WakeUp> wake_up);

  template <typename Change>
  void Order(Change change);

  // The rest runs on the thread.
  void Run(std::promise<absl::StatusOr<Listening>>* listening);
  std::optional<ServerMachineOptions> AwaitServe();
  void SetServing(Transport* transport);
  void RunLoop(Transport* transport, const TimedReducer& reducer, ServerLoop* loop);
  // False: stop.
  bool TakeOrders(ServerLoop* loop);
  void Publish(const ServerLoop& loop, const TimedReducer& reducer);

  const ServerThreadOptions options_;
  TicketKeys keys_;  // of the thread
  const std::unique_ptr<OwnedMemory> memory_;
  const std::unique_ptr<WakeUp> wake_up_;
  std::optional<FlightRecorder> recorder_;  // of the thread, which makes it where it runs; but for traces
  std::string address_;
  std::string transport_name_;
  absl::Status placed_;

  std::atomic<bool> has_orders_ = false;
  mutable Mutex mutex_;
  Orders orders_ SHOAL_GUARDED_BY(mutex_);
  Transport* serving_ SHOAL_GUARDED_BY(mutex_) = nullptr;  // null: the thread sleeps on wake_up_, or does not run
  ServerCounters counters_ SHOAL_GUARDED_BY(mutex_);
  bool drained_ SHOAL_GUARDED_BY(mutex_) = false;
  OpenGroups open_groups_ SHOAL_GUARDED_BY(mutex_);

  bool draining_ = false;  // of the thread alone
  std::thread thread_;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_THREAD_SERVER_THREAD_H_
