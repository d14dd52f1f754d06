// The connections of a worker to servers: one for each address that a map ever named, shared by all groups.
//
// A connection that is wanted and down is tried again after a while. One that was up and went down is out of reach when
// it has not come up again within the options' patience. At the worker's end both sides say goodbye. One thread.
#ifndef SHOAL_WORKER_MACHINE_CONNECTIONS_H_
#define SHOAL_WORKER_MACHINE_CONNECTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "core/now.h"
#include "worker/machine/worker_actions.h"
#include "worker/machine/worker_counters.h"
#include "worker/machine/worker_loop_events.h"
#include "worker/machine/worker_machine_options.h"

namespace shoal {

// Connections are named by their index, which stays.
class Connections {
 public:
  // `options` outlive it.
  explicit Connections(const WorkerMachineOptions* options) : options_(*options) {}

  // Adds it where the address is new. A newer map may have another server there.
  uint32_t Find(const std::string& address, const std::string& server_name);
  // nullopt: the peer is gone, or never was ours.
  std::optional<uint32_t> FindByPeer(PeerId peer) const;

  bool IsUp(uint32_t connection) const { return connections_[connection].state == State::kUp; }
  PeerId peer(uint32_t connection) const { return connections_[connection].peer; }
  const std::string& address(uint32_t connection) const { return connections_[connection].address; }
  // Why it is down, or is about to be; empty: not known.
  const std::string& last_error(uint32_t connection) const { return connections_[connection].last_error; }
  // "server NAME (ADDRESS)"
  std::string Describe(uint32_t connection) const;

  // ---- connecting ----

  // Where it is down it is tried at once, in the next TryDue.
  void Hasten(uint32_t connection, Now now);
  // Connects what is wanted, down and due.
  void TryDue(Now now, absl::FunctionRef<bool(uint32_t)> is_wanted, WorkerActions* actions);
  void OnStarted(const ConnectStarted& started, Now now);
  void ComeUp(uint32_t connection);
  // It has ended. True: it was up. A reason that was noted before stays its reason.
  bool GoDown(uint32_t connection, const absl::Status& why, Now now);
  // Why it is about to end; a reason that was noted before stays.
  void NoteError(uint32_t connection, const std::string& what);
  // Why the server refuses it, or why it is closed; replaces what was noted before.
  void NoteRefusal(uint32_t connection, const std::string& what);
  // Calls `out_of_reach` for each that went down and did not come up again in time; once.
  void TakeOutOfReach(Now now, absl::FunctionRef<void(uint32_t)> out_of_reach);
  // When to call TryDue and TakeOutOfReach.
  uint64_t NextDeadlineNs(absl::FunctionRef<bool(uint32_t)> is_wanted) const;

  // ---- the worker's end ----

  void NoteGoodbye(uint32_t connection) { connections_[connection].bye_received = true; }
  // Says goodbye to all servers, and closes the connections of those that have said so too; all of them if `late`.
  // True: some connection is left.
  bool SayGoodbyes(bool late, WorkerActions* actions);
  // "server A (..), server B (..)": servers that are up and have not said goodbye; empty: none.
  std::string DescribeMissingGoodbyes() const;

  // ---- traffic ----

  void CountPushed(uint32_t connection, uint64_t bytes) { connections_[connection].bytes_pushed += bytes; }
  void CountPulled(uint32_t connection, uint64_t bytes) { connections_[connection].bytes_pulled += bytes; }
  std::vector<ShardTraffic> Traffic() const;

 private:
  enum class State : uint8_t { kIdle, kConnecting, kUp, kDown };
  struct Connection {
    State state = State::kIdle;
    std::string server_name;
    std::string address;
    PeerId peer;
    uint64_t retry_at_ns = 0;
    uint64_t report_at_ns = kNoDeadline;  // lost, and what has become of it is not known yet
    std::string last_error;
    bool bye_sent = false;
    bool bye_received = false;
    uint64_t bytes_pushed = 0;
    uint64_t bytes_pulled = 0;
  };

  const WorkerMachineOptions& options_;
  std::vector<Connection> connections_;
  absl::flat_hash_map<std::string, uint32_t> by_address_;  // looked up, never walked
  absl::flat_hash_map<PeerId, uint32_t> by_peer_;          // likewise
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_CONNECTIONS_H_
