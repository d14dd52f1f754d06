// What a worker decides: which chunk goes to which server when, where a result lands, and when an op is done or failed.
//
// Pure: commands, transport events and time in; actions out, outcomes for callers among them. One thread.
//
// It finds the group, connection or probe that an event is about and hands the event in; they own their state:
//   WorkerGroup   a group's opening, moves and end     Connections  to servers, shared by all groups
//   ChunkFlow     its ops and their chunks             LinkProbe    measures the way to a server
//   GroupWaits    the lines about waits that last      NodeGroup    a group that is reduced within its nodes
// No op ends before the transport, or the reduction within the node, is done with its memory.
#ifndef SHOAL_WORKER_MACHINE_WORKER_MACHINE_H_
#define SHOAL_WORKER_MACHINE_WORKER_MACHINE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "core/now.h"
#include "core/transport_event.h"
#include "worker/machine/any_group.h"
#include "worker/machine/connections.h"
#include "worker/machine/link_probe.h"
#include "worker/machine/local_reduce_event.h"
#include "worker/machine/node_group.h"
#include "worker/machine/worker_actions.h"
#include "worker/machine/worker_commands.h"
#include "worker/machine/worker_counters.h"
#include "worker/machine/worker_group.h"
#include "worker/machine/worker_loop_events.h"
#include "worker/machine/worker_machine_options.h"

namespace shoal {

class WorkerMachine {
 public:
  explicit WorkerMachine(const WorkerMachineOptions& options);
  WorkerMachine(const WorkerMachine&) = delete;
  WorkerMachine& operator=(const WorkerMachine&) = delete;

  // Takes in one thing that happened. Commands of callers and the scheduler:
  void OnEvent(const OpenGroupCommand& command, Now now, WorkerActions* actions);
  void OnEvent(const SubmitCommand& command, Now now, WorkerActions* actions);
  void OnEvent(const TensorReadyCommand& command, Now now, WorkerActions* actions);
  void OnEvent(const DeviceDoneCommand& command, Now now, WorkerActions* actions);
  void OnEvent(const MoveGroupCommand& command, Now now, WorkerActions* actions);
  void OnEvent(const GiveGroupUpCommand& command, Now now, WorkerActions* actions);
  void OnEvent(const NoMoreMapsCommand& command, Now now, WorkerActions* actions);
  void OnEvent(const AbortGroupCommand& command, Now now, WorkerActions* actions);
  void OnEvent(const GiveUpCommand& command, Now now, WorkerActions* actions);
  void OnEvent(const CloseGroupCommand& command, Now now, WorkerActions* actions);
  void OnEvent(const RankLostCommand& command, Now now, WorkerActions* actions);
  void OnEvent(const MeasureLinkCommand& command, Now now, WorkerActions* actions);
  void OnEvent(const ShutdownCommand& command, Now now, WorkerActions* actions);
  // What happened on the network:
  void OnEvent(const TransportEvent& event, Now now, WorkerActions* actions);
  // What happened within the node:
  void OnEvent(const LocalGroupMet& event, Now now, WorkerActions* actions);
  void OnEvent(const LocalPartReduced& event, Now now, WorkerActions* actions);
  void OnEvent(const LocalOpEnded& event, Now now, WorkerActions* actions);
  void OnEvent(const LocalGroupFailed& event, Now now, WorkerActions* actions);
  // What happened between tensors on devices and host memory:
  void OnEvent(const DeviceCopyEnded& event, Now now, WorkerActions* actions);
  // How actions were carried out, before the next events of the network and the node:
  void OnEvent(const ConnectStarted& started, Now now, WorkerActions* actions);
  void OnEvent(const AcceptStarted& started, Now now, WorkerActions* actions);
  void OnEvent(const LocalRanksMissing& missing, Now now, WorkerActions* actions);

  // Pushes what may be pushed and does what time asks for. Call it after events and when NextDeadlineNs() has come;
  // earlier is harmless.
  void Tick(Now now, WorkerActions* actions);
  // On the monotonic clock; kNoDeadline: nothing is due.
  uint64_t NextDeadlineNs() const;

  WorkerCounters counters() const;

 private:
  struct GroupCell {
    uint16_t generation = 0;          // the last one of a group that is gone
    std::unique_ptr<AnyGroup> group;  // null: the handle is free
    // What happens to it on the network and on the node is handed in there; null: nothing does.
    WorkerGroup* on_servers = nullptr;
    NodeGroup* on_node = nullptr;
  };
  using Handles = absl::InlinedVector<uint16_t, 16>;

  static constexpr size_t kMaxEarlyNews = 1024;  // of each kind

  void OnUp(uint32_t connection, Now now, WorkerActions* actions);
  void OnDown(uint32_t connection, const absl::Status& why, Now now, WorkerActions* actions);
  void OnNote(uint32_t connection, const TransportEvent& event, Now now, WorkerActions* actions);
  // A note that concerns one group.
  void OnGroupNote(uint32_t connection, const FrameHeader& header, std::span<const std::byte> body, Now now,
                   WorkerActions* actions);
  void OnRefuse(uint32_t connection, const FrameHeader& header, const std::string& text, Now now,
                WorkerActions* actions);
  void OnOffered(uint32_t connection, const TransportEvent& event, Now now, WorkerActions* actions);

  void TryConnections(Now now, WorkerActions* actions);
  void ReportLostLinks(uint32_t connection, bool reachable, WorkerActions* actions);
  void TickShutdown(Now now, WorkerActions* actions);

  // OK, or why the group can't be opened here.
  absl::Status CheckOpening(const GroupInfo& info) const;
  // nullptr: no such group is open.
  AnyGroup* Group(GroupHandle handle) { return groups_[handle.value()].group.get(); }
  NodeGroup* NodeGroupOf(GroupHandle handle) { return groups_[handle.value()].on_node; }
  // By the id that scheduler and servers know; nullptr: no such group is open, or it uses no servers.
  AnyGroup* FindGroup(GroupId id, GroupHandle* handle);
  WorkerGroup* FindGroupOnServers(GroupId id, GroupHandle* handle);
  // The newest map that the scheduler told before the group was open.
  void TakeEarlyMove(GroupId id, WorkerGroup* group, Now now, WorkerActions* actions);
  static void GiveGroupUp(const GiveGroupUpCommand& command, AnyGroup* group, Now now, WorkerActions* actions);
  // The group fails if the rank is one of its own.
  static void LoseRank(const RankLostCommand& lost, GroupCell* cell, Now now, WorkerActions* actions);
  template <typename Visit>
  void ForEachOnServers(Visit visit) const {
    for (const uint16_t handle : open_groups_) {
      if (WorkerGroup* const group = groups_[handle].on_servers; group != nullptr) visit(*group);
    }
  }
  // Drops the group if it has come to its end.
  void DropClosed(GroupHandle handle);
  void DropClosed();

  const WorkerMachineOptions options_;
  WorkerTally tally_;
  ServerWaitBook server_waits_;
  PartialOpBook partial_ops_;
  Connections connections_;
  LinkProbe probe_;
  std::vector<GroupCell> groups_;  // by handle
  Handles open_groups_;            // whose cells hold a group, in order
  // Of groups that are not open yet, the newest.
  std::deque<MoveGroupCommand> early_moves_;
  std::deque<GiveGroupUpCommand> early_failures_;
  // A group that was made just before may be opened here after the loss was told. Others with these ranks are refused
  // by the scheduler.
  std::deque<RankLostCommand> lost_ranks_;
  absl::Status no_more_maps_;  // OK: the scheduler may move groups
  bool shutting_down_ = false;
  bool goodbyes_given_up_ = false;
  bool shutdown_reported_ = false;
  uint64_t shutdown_deadline_ns_ = kNoDeadline;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_WORKER_MACHINE_H_
