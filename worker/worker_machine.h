// What a worker decides: which chunk goes to which server when, where a result lands, and when an op is done or failed.
//
// Pure: commands, transport events and time in; actions and outcomes out. One thread.
//
// A group opens on every shard of its map (hello -> welcome), waiting for servers that are not there yet until the
// group's deadline. Chunks are pushed in one order that all ranks share, within each shard's credit. An op is done when
// all its results have landed. What can't be mended (a rank or server lost, ranks that disagree, a deadline) fails the
// group as a whole: every open op ends with the same reason, and the servers tell the other ranks. No op ends before
// the transport is done with its memory; a connection that holds memory back for too long is cut.
#ifndef SHOAL_WORKER_WORKER_MACHINE_H_
#define SHOAL_WORKER_WORKER_MACHINE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/now.h"
#include "worker/link_probe.h"
#include "worker/worker_events.h"
#include "worker/worker_group.h"

namespace shoal {

struct WorkerMachineOptions {
  uint64_t connect_retry_ns = 200 * kNsPerMs;
  uint64_t commit_note_delay_ns = 10 * kNsPerMs;  // a watermark that no push carried by then goes out alone
  uint64_t force_after_ns = kNsPerS;              // how long a failed op waits for the network to give its memory back
};

class WorkerMachine {
 public:
  explicit WorkerMachine(const WorkerMachineOptions& options);

  void OnCommand(const WorkerCommand& command, Now now, WorkerActions* actions, WorkerOutcomes* outcomes);
  // The outcome of a WorkerConnectAction: the peer, or why there is none.
  void OnConnecting(uint32_t connection, const absl::StatusOr<PeerId>& peer, Now now);
  void OnTransportEvent(const TransportEvent& event, Now now, WorkerActions* actions, WorkerOutcomes* outcomes);
  // Pushes what may be pushed and does what is due. Call it after events, and when NextDeadlineNs() has come.
  void Tick(Now now, WorkerActions* actions, WorkerOutcomes* outcomes);
  uint64_t NextDeadlineNs() const;

  const std::string& ConnectionAddress(uint32_t connection) const { return connections_[connection].address; }
  WorkerCounters counters() const;

 private:
  struct Connection {
    enum class State : uint8_t { kIdle, kConnecting, kUp, kDown };
    State state = State::kIdle;
    std::string server_name;
    std::string address;
    PeerId peer;
    uint64_t retry_at_ns = 0;
    std::string last_error;
    bool bye_sent = false;
    bool bye_received = false;
    uint64_t bytes_pushed = 0;
    uint64_t bytes_pulled = 0;
  };
  struct GroupCell {
    uint16_t generation = 0;
    std::unique_ptr<WorkerGroup> group;
  };
  struct OperationToken {
    uint16_t handle = 0;
    uint16_t generation = 0;
    uint16_t shard = 0;
    uint16_t cell = 0;
  };

  static uint64_t Pack(OperationToken token);
  static OperationToken Unpack(uint64_t packed);

  void Open(const OpenGroupCommand& command, Now now, WorkerActions* actions, WorkerOutcomes* outcomes);
  void Submit(const SubmitCommand& command, Now now, WorkerOutcomes* outcomes);
  void RankLost(const RankLostCommand& command, Now now, WorkerActions* actions, WorkerOutcomes* outcomes);
  void Shutdown(const ShutdownCommand& command, Now now, WorkerActions* actions, WorkerOutcomes* outcomes);

  void MeasureLink(const MeasureLinkCommand& command, Now now, WorkerActions* actions);
  void OnProbeEcho(uint32_t connection, const FrameHeader& header, Now now, WorkerActions* actions,
                   WorkerOutcomes* outcomes);
  void TickProbe(Now now, WorkerOutcomes* outcomes);

  uint32_t FindConnection(const std::string& address, const std::string& server_name);
  void Connect(uint32_t connection, WorkerActions* actions);
  void SendHellos(uint32_t connection, WorkerActions* actions);

  void OnPeerUp(uint32_t connection, Now now, WorkerActions* actions);
  void OnPeerDown(uint32_t connection, const absl::Status& why, Now now, WorkerActions* actions,
                  WorkerOutcomes* outcomes);
  void OnNote(uint32_t connection, const TransportEvent& event, Now now, WorkerActions* actions,
              WorkerOutcomes* outcomes);
  void OnWelcome(uint32_t connection, const FrameHeader& header, std::span<const std::byte> body, Now now,
                 WorkerActions* actions, WorkerOutcomes* outcomes);
  void OnRefuse(uint32_t connection, const FrameHeader& header, const std::string& text, Now now,
                WorkerActions* actions, WorkerOutcomes* outcomes);
  void OnWaiting(uint32_t connection, const FrameHeader& header, std::span<const std::byte> body);
  void OnOffered(uint32_t connection, const TransportEvent& event, Now now, WorkerActions* actions,
                 WorkerOutcomes* outcomes);
  void OnSent(const TransportEvent& event, Now now, WorkerActions* actions, WorkerOutcomes* outcomes);
  void OnLanded(const TransportEvent& event, Now now, WorkerActions* actions, WorkerOutcomes* outcomes);

  void Push(uint16_t handle, Now now, WorkerActions* actions);
  void AcceptResult(uint16_t handle, uint32_t shard, ChunkInFlight* cell, OfferId offer, WorkerActions* actions);
  void FinishCell(uint16_t handle, uint32_t shard, ChunkInFlight* cell, Now now, WorkerOutcomes* outcomes);
  void OpMemoryFree(uint16_t handle, WorkerOp* op, Now now, WorkerOutcomes* outcomes);
  void ReportOp(uint16_t handle, WorkerOp* op, const absl::Status& status, Now now, WorkerOutcomes* outcomes);
  void SendCommitNotes(WorkerGroup* group, WorkerActions* actions);

  // `told_by_server`: all servers of the group need not be told again by us. Any state but kFailed.
  void FailGroup(uint16_t handle, absl::Status why, Now now, WorkerActions* actions, WorkerOutcomes* outcomes);
  void CloseIfDone(uint16_t handle, WorkerActions* actions, WorkerOutcomes* outcomes);
  void TickGroup(uint16_t handle, Now now, WorkerActions* actions, WorkerOutcomes* outcomes);
  void TickConnections(Now now, WorkerActions* actions);
  void TickShutdown(Now now, WorkerActions* actions, WorkerOutcomes* outcomes);
  absl::Status DescribeTimeout(const WorkerGroup& group, const WorkerOp& op, Now now) const;
  std::string DescribeMissingServers(const WorkerGroup& group) const;
  std::string DescribeServer(uint32_t connection) const;

  WorkerGroup* FindGroup(GroupId id, uint16_t* handle);
  // The link of a group over a connection; nullptr if it has none.
  ShardLink* FindLink(WorkerGroup* group, uint32_t connection, uint32_t* shard);
  FrameHeader HeaderFor(const WorkerGroup& group, FrameType type) const;

  WorkerMachineOptions options_;
  std::vector<GroupCell> groups_;  // by handle
  std::vector<Connection> connections_;
  absl::flat_hash_map<std::string, uint32_t> connection_by_address_;  // looked up, never walked
  absl::flat_hash_map<PeerId, uint32_t> connection_by_peer_;          // likewise
  LinkProbe probe_;
  bool probing_ = false;
  uint32_t probe_connection_ = 0;
  uint64_t probe_deadline_ns_ = kNoDeadline;
  bool shutting_down_ = false;
  bool shutdown_reported_ = false;
  uint64_t shutdown_deadline_ns_ = kNoDeadline;
  WorkerCounters counters_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_WORKER_MACHINE_H_
