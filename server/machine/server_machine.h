// What one I/O thread of a reduction server decides: which peers may contribute, where a payload is accepted, when a
// chunk is summed, which ranks get the result, and what is refused.
//
// Pure: events and time in, actions out; no clock, memory or network. One thread. Nothing a peer sends can abort it or
// make it grow: sizes are checked against the op's registered layout, tables are bounded, a refusal is a note with a
// reason.
//
// Protocol, per connection: hello (token) -> welcome (credit) or refuse; then pushes and results; leave-group; bye ->
// bye. A hello of a newer epoch starts that epoch: what was gathered is given up, and ranks that hold results from
// before are asked for them (docs/adr/0009). A group that can't go on (ranks disagree on an op, a rank says so) is
// failed as a whole: every rank is told once, with the reason. A rank whose connection broke is waited for, and named
// in the counters, which go to the scheduler: that one decides who is lost (core/failure_detection.h).
#ifndef SHOAL_SERVER_MACHINE_SERVER_MACHINE_H_
#define SHOAL_SERVER_MACHINE_SERVER_MACHINE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/failure_detection.h"
#include "core/now.h"
#include "core/token.h"
#include "server/machine/absent_ranks.h"
#include "server/machine/admission.h"
#include "server/machine/chunk_exchange.h"
#include "server/machine/group_table.h"
#include "server/machine/open_groups.h"
#include "server/machine/refusals.h"
#include "server/machine/server_actions.h"
#include "server/machine/server_counters.h"
#include "server/machine/server_events.h"
#include "server/machine/server_group.h"
#include "server/machine/waiting_reports.h"

namespace shoal {

struct ServerMachineOptions {
  std::string server_name;
  Incarnation incarnation;
  TokenKey token_key{};
  uint64_t slot_memory_bytes = 0;  // of this I/O thread
  uint32_t window_bytes = 0;       // in flight per worker, as far as slot memory allows; 0: as the group's token says
  uint32_t max_groups = 4096;      // open at a time; each rail of a group counts
  uint64_t waiting_report_ns = kNsPerS / 4;    // then a chunk's contributors are told which ranks are missing
  uint64_t lease_ttl_ns = kDefaultLeaseTtlNs;  // of the cluster, until SchedulerHeard says another
};

class ServerMachine {
 public:
  explicit ServerMachine(const ServerMachineOptions& options);
  ServerMachine(const ServerMachine&) = delete;  // its objects know each other's places
  ServerMachine& operator=(const ServerMachine&) = delete;

  // Takes in one thing that happened, and appends what is to be done now to `actions`.
  void OnEvent(const TransportEvent& event, Now now, ServerActions* actions);
  void OnEvent(const ReduceDone& event, Now now, ServerActions* actions);
  void OnEvent(const DrainRequested& event, Now now, ServerActions* actions);
  void OnEvent(const TokenKeyChanged& event, Now now, ServerActions* actions);
  void OnEvent(const SchedulerHeard& event, Now now, ServerActions* actions);
  // Does what time asks for. Call it after events and when NextDeadlineNs() has come; earlier is harmless.
  void Tick(Now now, ServerActions* actions);
  // On the monotonic clock; kNoDeadline: nothing is due.
  uint64_t NextDeadlineNs() const;

  size_t open_group_count() const { return groups_.open_count(); }
  // When a small op last went on, by a push or a result, whatever large ones did since (core/small_op.h); 0: none did.
  uint64_t last_small_op_ns() const { return exchange_.last_small_op_ns(); }

  // How many connections of ranks of open groups have broken. Cheap, which counters() is not: it looks at every slot.
  uint64_t absences_noted() const { return absent_ranks_.noted(); }
  ServerCounters counters() const;
  OpenGroups open_groups() const { return groups_.open_groups(); }

 private:
  struct RankInGroup {
    uint32_t group_index;
    Rank rank;

    friend bool operator==(const RankInGroup&, const RankInGroup&) = default;
  };
  struct Peer {
    bool said_bye = false;
    std::string closed_because;  // this server closed the connection; empty: it did not
    std::vector<RankInGroup> ranks;
  };
  static constexpr uint64_t kFailedGroupPatienceNs = kNsPerS;

  void OnPeerDown(const TransportEvent& event, Now now, ServerActions* actions);
  void OnNote(const TransportEvent& event, Now now, ServerActions* actions);
  void OnHello(PeerId peer, const FrameHeader& header, std::span<const std::byte> body, Now now,
               ServerActions* actions);
  void OnOffered(const TransportEvent& event, Now now, ServerActions* actions);
  void OnPush(const RankInGroup& from, const ServerGroup::PendingPush& push, Now now, ServerActions* actions);
  // A note of a rank that has said hello in the group of the header.
  void OnNoteOfRank(PeerId peer, const FrameHeader& header, std::span<const std::byte> body, Now now,
                    ServerActions* actions);
  void OnBye(PeerId peer, ServerActions* actions);

  // Lets the rank in, keeps its hello while that may wait for a key, or refuses it.
  void Greet(const Hello& hello, Now now, ServerActions* actions);
  // Gives up what the group gathered, and starts the epoch.
  void MoveGroup(uint32_t group_index, Epoch epoch, const Roster& roster, ServerActions* actions);
  // The rank that `peer` said hello as in the group of the header, checked; or a refusal.
  Refusal FindRank(PeerId peer, const FrameHeader& header, RankInGroup* found) const;
  void CloseMalformed(PeerId peer, OfferId offer, const absl::Status& why, ServerActions* actions);

  // `told`: its type, the rank that it is about, and kGroupLackedMemory if that is why; the ranks are told.
  void FailGroup(uint32_t group_index, FrameHeader told, ServerGroup::FailureOf of, std::string text,
                 ServerActions* actions);
  // The rank's connection is not the group's any more.
  void Disconnect(uint32_t group_index, Rank rank);
  void RankGone(const RankInGroup& gone, ServerActions* actions);
  // Takes the ranks of failed groups for gone when their time is over.
  void ReleaseFailed(Now now, ServerActions* actions);
  // The last resort, when no scheduler was heard for long.
  void GiveUpAbsent(Now now, ServerActions* actions);

  const std::string server_name_;
  const Incarnation incarnation_;
  GroupTable groups_;
  Refusals refusals_{&groups_};
  ChunkExchange exchange_{&groups_, &refusals_};
  Admission admission_;
  HeldHellos held_hellos_;
  AbsentRanks absent_ranks_;
  WaitingReports waiting_reports_;
  absl::flat_hash_map<PeerId, Peer> peers_;  // looked up, never walked
  uint64_t groups_failed_ = 0;
  uint64_t next_release_ns_ = kNoDeadline;  // no failed group is released before; kNoDeadline: there is none
};

}  // namespace shoal

#endif  // SHOAL_SERVER_MACHINE_SERVER_MACHINE_H_
