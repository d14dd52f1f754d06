// What a worker decides: which chunk goes to which server when, where a result lands, and when an op is done or failed.
//
// Pure: commands, transport events and time in; actions and outcomes out. One thread.
//
// A group opens on every shard of its map (hello -> welcome), waiting for servers that are not there yet until the
// group's deadline. Chunks are pushed in one order that all ranks share, within each shard's credit. An op is done when
// all its results have landed. A lost server is reported (ServerTrouble); its chunks wait until the group is given a
// new map, and are then pushed to their new owners with all that was not done (docs/adr/0009). What can't be mended (a
// rank lost, ranks that disagree, a deadline) fails the group as a whole: every open op ends with the same reason, and
// the servers tell the other ranks. No op ends before the transport is done with its memory; a connection that holds
// memory back for too long is cut.
#ifndef SHOAL_WORKER_MACHINE_WORKER_MACHINE_H_
#define SHOAL_WORKER_MACHINE_WORKER_MACHINE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "core/now.h"
#include "worker/machine/link_probe.h"
#include "worker/machine/worker_events.h"
#include "worker/machine/worker_group.h"

namespace shoal {

struct WorkerMachineOptions {
  uint64_t connect_retry_ns = 200 * kNsPerMs;
  // A server that was lost is reported as out of reach when an attempt to connect again has failed, or is not done by
  // then: over a cable that says nothing it would take minutes.
  uint64_t reach_patience_ns = 2 * kNsPerS;
  uint64_t commit_note_delay_ns = 10 * kNsPerMs;  // a watermark that no push carried by then goes out alone
  uint64_t force_after_ns = kNsPerS;              // how long a failed op waits for the network to give its memory back
  // How long the orderly end of a group waits until every rank has its results.
  uint64_t leave_patience_ns = 30 * kNsPerS;
  // False: nothing is kept for others, groups stay on their first map, and a lost server fails them.
  bool survive_server_loss = true;
};

class WorkerMachine {
 public:
  explicit WorkerMachine(const WorkerMachineOptions& options);

  void OnCommand(const WorkerCommand& command, Now now, WorkerActions* actions, WorkerOutcomes* outcomes);
  // The outcome of a WorkerConnectAction: the peer, or why there is none.
  void OnConnecting(uint32_t connection, const absl::StatusOr<PeerId>& peer, Now now);
  void OnTransportEvent(const TransportEvent& event, Now now, WorkerActions* actions, WorkerOutcomes* outcomes);
  // Of a WorkerAcceptAction, by its token, when it was carried out: whether its `data_at_once` was written.
  void OnAccepted(uint64_t token, bool at_once);
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
    uint64_t report_at_ns = kNoDeadline;  // lost, and what has become of it is not known yet
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
  using Handles = absl::InlinedVector<uint16_t, 16>;
  struct OperationToken {
    uint16_t handle = 0;
    uint16_t generation = 0;
    uint16_t shard = 0;
    uint16_t cell = 0;
  };

  // In place of a shard in the token of a HandOver, whose index is the cell.
  static constexpr uint16_t kHandOverShard = 0xffff;
  static constexpr size_t kMaxEarlyMoves = 1024;

  static uint64_t Pack(OperationToken token);
  static OperationToken Unpack(uint64_t packed);

  void Open(const OpenGroupCommand& command, Now now, WorkerActions* actions, WorkerOutcomes* outcomes);
  void Submit(const SubmitCommand& command, Now now, WorkerOutcomes* outcomes);
  void MoveGroup(const MoveGroupCommand& command, Now now, WorkerActions* actions);
  void RankLost(const RankLostCommand& command, Now now, WorkerActions* actions, WorkerOutcomes* outcomes);
  void Shutdown(const ShutdownCommand& command, Now now, WorkerActions* actions, WorkerOutcomes* outcomes);

  // ---- worker_connections.cc: to which servers there is a connection, and how good it is ----
  uint32_t FindConnection(const std::string& address, const std::string& server_name);
  void Connect(uint32_t connection, WorkerActions* actions);
  void SendHellos(uint32_t connection, WorkerActions* actions);
  void OnPeerUp(uint32_t connection, Now now, WorkerActions* actions, WorkerOutcomes* outcomes);
  void OnPeerDown(uint32_t connection, const absl::Status& why, Now now, WorkerActions* actions,
                  WorkerOutcomes* outcomes);
  void TickConnections(Now now, WorkerActions* actions);
  bool IsWanted(uint32_t connection) const;
  void MeasureLink(const MeasureLinkCommand& command, Now now, WorkerActions* actions);
  void OnProbeEcho(uint32_t connection, const FrameHeader& header, Now now, WorkerActions* actions,
                   WorkerOutcomes* outcomes);
  void TickProbe(Now now, WorkerOutcomes* outcomes);

  // ---- worker_messages.cc: what the servers say ----
  void OnNote(uint32_t connection, const TransportEvent& event, Now now, WorkerActions* actions,
              WorkerOutcomes* outcomes);
  void OnWelcome(uint32_t connection, const FrameHeader& header, std::span<const std::byte> body, Now now,
                 WorkerActions* actions, WorkerOutcomes* outcomes);
  void OnRefuse(uint32_t connection, const FrameHeader& header, const std::string& text, Now now,
                WorkerActions* actions, WorkerOutcomes* outcomes);
  void OnAsk(uint32_t connection, const FrameHeader& header, Now now, WorkerActions* actions, WorkerOutcomes* outcomes);
  void OnPreempted(uint32_t connection, const FrameHeader& header, Now now, WorkerActions* actions,
                   WorkerOutcomes* outcomes);
  void OnWaiting(uint32_t connection, const FrameHeader& header, std::span<const std::byte> body);
  void OnOffered(uint32_t connection, const TransportEvent& event, Now now, WorkerActions* actions,
                 WorkerOutcomes* outcomes);
  void OnSent(const TransportEvent& event, Now now, WorkerActions* actions, WorkerOutcomes* outcomes);
  void OnLanded(const TransportEvent& event, Now now, WorkerActions* actions, WorkerOutcomes* outcomes);
  void OperationFailed(uint16_t handle, uint32_t shard, const std::string& what, Now now, WorkerActions* actions,
                       WorkerOutcomes* outcomes);
  bool MayMove(const WorkerGroup& group, Refusal refusal) const;

  void Push(uint16_t handle, Now now, WorkerActions* actions);
  void PushChunk(uint16_t handle, uint32_t shard, uint16_t cell, WorkerActions* actions);
  // Takes the cell's result, if there is one and the network is done with all pushes of the chunk.
  void TakeHeldResult(uint16_t handle, uint32_t shard, ChunkInFlight* cell, WorkerActions* actions);
  void AcceptResult(uint16_t handle, uint32_t shard, ChunkInFlight* cell, WorkerActions* actions);
  void FinishCell(uint16_t handle, uint32_t shard, ChunkInFlight* cell, Now now, WorkerActions* actions,
                  WorkerOutcomes* outcomes);
  // The op's results are all in its tensor: it ends when the transport is done with that.
  void EndOpIfDone(uint16_t handle, WorkerOp* op, Now now, WorkerActions* actions, WorkerOutcomes* outcomes);

  // ---- worker_settling.cc: from map to map ----
  void StartLinks(uint16_t handle, Now now, WorkerActions* actions);
  // Goes over to group.next_map, unless a result is being written to a tensor just now.
  void MoveIfDue(uint16_t handle, Now now, WorkerActions* actions);
  void Retire(uint16_t handle, std::vector<ShardLink> links, Now now);
  void DropIdleRetired(WorkerGroup* group);
  // The link can't be used in this epoch. Whether its server can be reached at all is tried at once.
  void LoseLink(uint16_t handle, uint32_t shard, const std::string& why, Now now, WorkerActions* actions,
                WorkerOutcomes* outcomes);
  void ReportTrouble(const WorkerGroup& group, uint32_t shard, bool reachable, WorkerOutcomes* outcomes);
  // What an attempt to connect to a lost server came to.
  void ReportLostLinks(uint32_t connection, bool reachable, WorkerOutcomes* outcomes);
  void ReportOutOfReach(Now now, WorkerOutcomes* outcomes);
  void CutLink(ShardLink* link, WorkerActions* actions);
  // Copies of results that some rank may lack; false: there was no memory and the group has failed.
  bool KeepResults(uint16_t handle, const WorkerOp& op, Now now, WorkerActions* actions, WorkerOutcomes* outcomes);
  void StartHandOver(uint16_t handle, uint32_t shard, const FrameHeader& header, std::shared_ptr<StagingMemory> memory,
                     WorkerActions* actions);
  void CopyResult(const WorkerOp& op, ChunkNumber chunk, const std::shared_ptr<StagingMemory>& memory,
                  WorkerActions* actions);
  void OpMemoryFree(uint16_t handle, WorkerOp* op, Now now, WorkerOutcomes* outcomes);
  void ReportOp(uint16_t handle, WorkerOp* op, const absl::Status& status, Now now, WorkerOutcomes* outcomes);
  void SendCommitNotes(WorkerGroup* group, WorkerActions* actions);

  // In any state but kFailed.
  void FailGroup(uint16_t handle, absl::Status why, Now now, WorkerActions* actions, WorkerOutcomes* outcomes);
  void CloseIfDone(uint16_t handle, Now now, WorkerActions* actions, WorkerOutcomes* outcomes);
  bool MayLeave(WorkerGroup* group, Now now, WorkerActions* actions, WorkerOutcomes* outcomes);
  void TickGroup(uint16_t handle, Now now, WorkerActions* actions, WorkerOutcomes* outcomes);
  void TickShutdown(Now now, WorkerActions* actions, WorkerOutcomes* outcomes);

  // ---- worker_waiting.cc: who is waited for ----
  void ReportWaits(uint16_t handle, Now now, WorkerOutcomes* outcomes);
  void SayWait(std::string line, WorkerOutcomes* outcomes);
  std::string DescribeOp(const WorkerGroup& group, const WorkerOp& op) const;
  std::string DescribeProgress(const WorkerOp& op) const;
  // Of an op, or of a closed group's end (null).
  std::string WhomItWaitsFor(const WorkerGroup& group, const WorkerOp* op) const;
  static std::string DescribeMissingRanks(const WorkerGroup& group, const Waiting& waiting);
  static std::string DescribeUncommitted(const WorkerGroup& group);
  std::string DescribeLeavingAllTheSame(const WorkerGroup& group, Now now) const;
  void SayMissingGoodbyes(WorkerOutcomes* outcomes);
  absl::Status DescribeTimeout(const WorkerGroup& group, const WorkerOp& op, Now now) const;
  // How an op of a failed group ends: why the group failed, and what the op still lacked.
  absl::Status FailureOf(const WorkerGroup& group, const WorkerOp& op) const;
  std::string WhyNotOpen(const ShardLink& link) const;
  std::string DescribeMissingServers(const WorkerGroup& group) const;
  std::string DescribeServer(uint32_t connection) const;

  WorkerGroup* FindGroup(GroupId id, uint16_t* handle);
  // The link that an operation was started on, also of an earlier epoch. Its memory is in use, so it is there.
  ShardLink* FindLink(OperationToken token, bool* retired);
  // The link of a group over a connection; nullptr if it has none.
  ShardLink* FindLink(WorkerGroup* group, uint32_t connection, uint32_t* shard);
  FrameHeader HeaderFor(const WorkerGroup& group, FrameType type) const;
  FrameHeader PushHeader(const WorkerGroup& group, const WorkerOp& op, ChunkNumber chunk) const;

  WorkerMachineOptions options_;
  std::vector<GroupCell> groups_;  // by handle
  Handles open_groups_;            // whose cells hold a group, in order; who may end groups on his way walks a copy
  std::vector<Connection> connections_;
  absl::flat_hash_map<std::string, uint32_t> connection_by_address_;  // looked up, never walked
  absl::flat_hash_map<PeerId, uint32_t> connection_by_peer_;          // likewise
  std::deque<MoveGroupCommand> early_moves_;                          // of groups that are not open yet, the newest
  LinkProbe probe_;
  bool probing_ = false;
  uint32_t probe_connection_ = 0;
  uint64_t probe_deadline_ns_ = kNoDeadline;
  bool shutting_down_ = false;
  bool goodbyes_given_up_ = false;
  bool shutdown_reported_ = false;
  uint64_t shutdown_deadline_ns_ = kNoDeadline;
  WorkerCounters counters_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_WORKER_MACHINE_H_
