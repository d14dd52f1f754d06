// One I/O thread of a server: Poll -> Step -> Execute around a ServerMachine, its transport and its reducer.
//
// Thread: one thread calls everything. RunOnce never blocks and reads no clock; between calls that thread may sleep
// until NextDeadlineNs() or the transport's wake_fd. Everything is sized at construction. Executing an action never
// calls the machine: what ends there comes back as an event in the next step of the same RunOnce.
#ifndef SHOAL_SERVER_LOOP_SERVER_LOOP_H_
#define SHOAL_SERVER_LOOP_SERVER_LOOP_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/log_event.h"
#include "core/now.h"
#include "net/transport.h"
#include "server/loop/loans.h"
#include "server/loop/reducer.h"
#include "server/machine/server_machine.h"

namespace shoal {

// Of contributions that are summed between two looks at the network while several groups are open, so that none with
// large tensors keeps another one waiting: five to twenty microseconds' worth. A busy thread sums a tenth less with it,
// a fifth with half of it; a small op waits for half of it on average (bench/server_thread). Results do not depend on
// it.
inline constexpr uint64_t kReduceBytesPerRound = 256 << 10;

class ServerLoop {
 public:
  // `slot_memory` has options.slot_memory_bytes bytes and, like transport and reducer, outlives the loop. `log` takes
  // its events; may be empty.
  ServerLoop(const ServerMachineOptions& options, Transport* transport, Reducer* reducer,
             std::span<std::byte> slot_memory, EventSink log = nullptr);

  // Takes in what happened and does what follows. True: more may have happened meanwhile, so call again before
  // sleeping. False: Transport::Arm knows of all that is left.
  bool RunOnce(Now now);
  // The last RunOnce took something in.
  bool took_something() const { return took_something_; }

  uint64_t NextDeadlineNs() const { return machine_.NextDeadlineNs(); }
  uint64_t last_small_op_ns() const { return machine_.last_small_op_ns(); }
  uint64_t absences_noted() const { return machine_.absences_noted(); }
  // Orders for the machine, taken in by the next RunOnce (server_events.h says what they mean).
  void SetDraining(bool drain) { drain_requested_ = DrainRequested{drain}; }
  void SetTokenKey(const TokenKey& key) { new_token_key_ = key; }
  void NoteScheduler(const SchedulerHeard& heard) { scheduler_heard_ = heard; }
  ServerCounters counters() const;
  OpenGroups open_groups() const { return machine_.open_groups(); }

 private:
  // The events at hand, handed to the machine.
  void TakeInOrders(Now now);
  bool TakeInTransportEvents(Now now);
  // What has ended since the last step: reductions, and operations that ended when they were executed.
  bool TakeInResults(Now now);
  void Execute();

  ServerMachine machine_;
  Transport* transport_;
  Reducer* reducer_;
  bool took_something_ = false;
  std::span<std::byte> slot_memory_;
  Loans loans_;
  const EventSink log_;
  ServerActions actions_;
  std::vector<TransportEvent> ended_;  // operations that ended here: borrowed, or not taken by the transport
  std::optional<DrainRequested> drain_requested_;
  std::optional<TokenKey> new_token_key_;
  std::optional<SchedulerHeard> scheduler_heard_;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_LOOP_SERVER_LOOP_H_
