// The connections of a worker to servers: one for each address, shared by all groups.
//
// Who needs a connection holds a Use of it. One that nobody uses stays while it is up, because the next group may want
// it, and is forgotten when it goes down. So a worker knows its servers and no server of the past, however many it has
// seen.
//
// A connection that is wanted and down is tried again after a while. One that was up and went down is out of reach when
// it has not come up again within the options' patience. At the worker's end both sides say goodbye. One thread.
#ifndef SHOAL_WORKER_MACHINE_CONNECTIONS_H_
#define SHOAL_WORKER_MACHINE_CONNECTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
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

// A connection is named by its index, which stays as long as somebody uses it, and until it is down.
class Connections {
 public:
  class Use {
   public:
    Use() = default;
    // Connections::Find makes the first one of a connection.
    Use(Connections* connections, uint32_t index, bool wants);
    Use(Use&& other) noexcept
        : connections_(std::exchange(other.connections_, nullptr)), index_(other.index_), wants_(other.wants_) {}
    Use& operator=(Use&& other) noexcept;
    ~Use() { Release(); }

    uint32_t index() const { return index_; }
    bool is_up() const { return connections_->IsUp(index_); }
    PeerId peer() const { return connections_->peer(index_); }
    // From now on it is not connected again on this one's behalf.
    void StopWanting();
    // Another use, on whose behalf it is not connected.
    Use WithoutWanting() const;

   private:
    void Release();

    Connections* connections_ = nullptr;  // null: it uses nothing
    uint32_t index_ = 0;
    bool wants_ = false;
  };

  // `options` outlive it, and it outlives all uses.
  explicit Connections(const WorkerMachineOptions* options) : options_(*options) {}

  // Adds it where the address is new. A newer map may have another server there.
  Use Find(const std::string& address, const std::string& server_name);
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
  void TryDue(Now now, WorkerActions* actions);
  void OnStarted(const ConnectStarted& started, Now now);
  void ComeUp(uint32_t connection);
  // It has ended. True: it was up. A reason that was noted before stays its reason. Nobody uses it: it is forgotten.
  bool GoDown(uint32_t connection, const absl::Status& why, Now now);
  // Why it is about to end; a reason that was noted before stays.
  void NoteError(uint32_t connection, const std::string& what);
  // Why the server refuses it, or why it is closed; replaces what was noted before.
  void NoteRefusal(uint32_t connection, const std::string& what);
  // Calls `out_of_reach` for each that went down and did not come up again in time; once.
  void TakeOutOfReach(Now now, absl::FunctionRef<void(uint32_t)> out_of_reach);
  // How many connections TryDue and TakeOutOfReach have looked at so far.
  uint64_t visited() const { return visited_; }
  // When to call TakeOutOfReach and, if it `connects`, TryDue.
  uint64_t NextDeadlineNs(bool connects) const;

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
  // Of those that it knows.
  std::vector<ShardTraffic> Traffic() const;

 private:
  enum class State : uint8_t { kFree, kIdle, kConnecting, kUp, kDown };
  struct Connection {
    State state = State::kFree;
    uint32_t uses = 0;
    uint32_t wanted = 0;  // by so many of them
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

  bool IsIdle(const Connection& connection) const {
    return connection.state == State::kIdle || connection.state == State::kDown;
  }
  // Nobody uses it any more.
  void ForgetIfIdle(uint32_t connection);

  const WorkerMachineOptions& options_;
  std::vector<Connection> connections_;
  std::vector<uint32_t> free_;
  uint64_t visited_ = 0;
  absl::flat_hash_map<std::string, uint32_t> by_address_;  // looked up, never walked
  absl::flat_hash_map<PeerId, uint32_t> by_peer_;          // likewise
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_CONNECTIONS_H_
