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
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/failure_detection.h"
#include "core/now.h"
#include "core/token.h"
#include "server/machine/buffer_pool.h"
#include "server/machine/open_groups.h"
#include "server/machine/server_actions.h"
#include "server/machine/server_counters.h"
#include "server/machine/server_events.h"
#include "server/machine/server_group.h"

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

  size_t open_group_count() const { return group_index_.size(); }
  // When a small op last went on, by a push or a result, whatever large ones did since (core/small_op.h); 0: none did.
  uint64_t last_small_op_ns() const { return last_small_op_ns_; }

  // How many connections of ranks of open groups have broken. Cheap, which counters() is not: it looks at every slot.
  uint64_t absences_noted() const { return absences_noted_; }
  ServerCounters counters() const;
  OpenGroups open_groups() const;

 private:
  struct RankInGroup {
    uint32_t group_index;
    Rank rank;
  };
  struct Peer {
    bool said_bye = false;
    std::string closed_because;  // this server closed the connection; empty: it did not
    std::vector<RankInGroup> ranks;
  };
  struct GroupCell {
    uint16_t generation = 0;
    std::unique_ptr<ServerGroup> group;  // null: the cell is free
  };
  struct OperationToken {
    uint16_t group_index = 0;
    uint16_t generation = 0;
    uint16_t slot = 0;
    uint16_t rank = 0;
  };

  // A group that failed and was over before all of its ranks had said hello: ranks that come now are told so, unless
  // they come in an epoch that the failure does not bind. (Not a group whose ranks left in good order: a late rank may
  // have nothing to reduce either.)
  struct EndedGroup {
    GroupId id;
    Epoch epoch;
    ServerGroup::FailureOf failure_of;
    Refusal refusal;
    std::string why;

    bool Binds(Epoch newer) const { return ServerGroup::Binds(failure_of, epoch, newer); }
  };
  static constexpr size_t kMaxEndedGroups = 1024;
  static constexpr uint64_t kFailedGroupPatienceNs = kNsPerS;

  // A hello, which waits here if its token is of a key that this server does not know. A rank may hear of a server, and
  // greet it, before the scheduler's answer to that server's registration has brought a new key here: so it waits for
  // that.
  struct HeldHello {
    PeerId peer;
    FrameHeader header;
    GroupToken token;
    uint64_t refuse_at_ns = 0;
  };
  // Those beyond it are refused at once. A worker has no more groups; a stranger may send any number.
  static constexpr size_t kMaxHeldHellos = 1024;
  static constexpr size_t kMaxHeldHellosOfPeer = 256;
  static constexpr uint64_t kTokenKeyPatienceNs = kNsPerS;

  static uint64_t Pack(OperationToken token);
  static OperationToken Unpack(uint64_t packed);

  void OnPeerDown(const TransportEvent& event, Now now, ServerActions* actions);
  void OnNote(const TransportEvent& event, Now now, ServerActions* actions);
  void OnHello(PeerId peer, const FrameHeader& header, std::span<const std::byte> body, Now now,
               ServerActions* actions);
  void OnLeave(PeerId peer, const FrameHeader& header, ServerActions* actions);
  void OnBye(PeerId peer, ServerActions* actions);
  void OnProbe(PeerId peer, const FrameHeader& header, ServerActions* actions);
  void OnOffered(const TransportEvent& event, Now now, ServerActions* actions);
  void OnLanded(const TransportEvent& event, Now now, ServerActions* actions);
  void OnSent(const TransportEvent& event, Now now, ServerActions* actions);

  // Lets the rank in, keeps its hello while that may wait for a key, or refuses it.
  void Greet(const HeldHello& hello, Now now, ServerActions* actions);
  // False: there is no room.
  bool TryHold(const HeldHello& hello);
  // Those whose time is over.
  void RefuseHeldHellos(Now now, ServerActions* actions);
  // Of the peer in that group; in all its groups if none is given.
  void ForgetHeldHellos(PeerId peer, std::optional<GroupId> group);
  absl::Status CheckHello(const FrameHeader& header, const GroupToken& token, Now now, Refusal* refusal) const;
  // Index of the group's cell, opened if need be; -1 with a refusal and its text.
  int OpenGroup(const GroupToken& token, Epoch epoch, Refusal* refusal, std::string* text, ServerActions* actions);
  // Gives up what the group gathered, and starts the epoch.
  void MoveGroup(uint32_t group_index, Epoch epoch, ServerActions* actions);
  // A slot that will be neither reduced nor replied.
  static void AbandonSlot(ServerGroup* group, uint32_t slot, ServerActions* actions);
  // Asks a rank whether it has the result of the slot's chunk, if it may have.
  static void AskFor(const ServerGroup& group, uint32_t slot, Rank rank, ServerActions* actions);
  // Tells all ranks the commit watermark, when it is time to.
  void AnnounceCommit(ServerGroup* group, ServerActions* actions);
  // The rank that `peer` said hello as in the group of the header, checked; or a refusal.
  Refusal FindRank(PeerId peer, const FrameHeader& header, uint32_t* group_index, Rank* rank) const;

  // Puts a push into a slot. False: no slot is free now.
  bool TryAccept(uint32_t group_index, PeerId peer, const FrameHeader& header, OfferId offer, Now now,
                 ServerActions* actions);
  void RetryPending(uint32_t group_index, Now now, ServerActions* actions);
  // An older chunk takes the slot. The ranks that pushed are told to push again.
  void Preempt(ServerGroup* group, uint32_t slot, ServerActions* actions);
  // Sends a chunk's result, which lies at the place of `source`, to the ranks that contributed.
  void NoteSmallOp(const OpRecord& record, Now now);
  void SendResult(OperationToken token, Rank source, Now now, ServerActions* actions);
  void RefuseOffer(PeerId peer, OfferId offer, const FrameHeader& header, Refusal refusal, std::string_view text,
                   ServerActions* actions);
  void RefuseNote(PeerId peer, const FrameHeader& header, Refusal refusal, std::string_view text,
                  ServerActions* actions);
  // Counts the refusal and tells the peer.
  void Refuse(PeerId peer, const FrameHeader& header, Refusal refusal, std::string_view text, ServerActions* actions);
  void CloseMalformed(PeerId peer, OfferId offer, const absl::Status& why, ServerActions* actions);
  static std::string DescribeMismatch(const ServerGroup& group, const OpRecord& record, const FrameHeader& push);

  // `told`: its type, the rank that it is about, and kGroupLackedMemory if that is why; the ranks are told.
  void FailGroup(uint32_t group_index, FrameHeader told, ServerGroup::FailureOf of, std::string text,
                 ServerActions* actions);
  void RankGone(uint32_t group_index, Rank rank, ServerActions* actions);
  void ReleaseIfOver(uint32_t group_index, ServerActions* actions);
  // Takes the ranks of failed groups for gone when their time is over.
  void ReleaseFailed(Now now, ServerActions* actions);
  // The last resort, when no scheduler was heard for long.
  void GiveUpAbsent(Now now, ServerActions* actions);
  uint64_t GiveUpTimeNs(const ServerGroup& group, const ServerGroup::RankState& absent) const;
  std::vector<AbsentRank> AbsentRanks() const;
  // Of the last window of each group.
  std::vector<LateRankOfGroup> LateRanks() const;
  // Tells ranks that wait which ranks they wait for: those that contributed to a chunk, and those that want to leave
  // once all have their results.
  void ReportWaiting(Now now, ServerActions* actions);
  void ReportGathering(const ServerGroup& group, Now now, ServerActions* actions) const;
  void ReportUncommitted(const ServerGroup& group, Now now, ServerActions* actions) const;
  // Of a slot that will not be reduced.
  static void ForgetInputs(const ServerGroup& group, uint32_t slot, ServerActions* actions);
  // An event for the log about a group, and perhaps one rank of it.
  static void LogGroup(EventKind kind, const ServerGroup& group, std::optional<Rank> rank, std::string_view text,
                       ServerActions* actions);
  ServerGroup* Lookup(OperationToken token);

  ServerMachineOptions options_;
  BufferPool pool_;
  bool draining_ = false;
  std::vector<GroupCell> groups_;  // as many as were ever open at a time, for all of which there is room
  absl::flat_hash_map<GroupId, uint32_t> group_index_;  // looked up, never walked
  absl::flat_hash_map<PeerId, Peer> peers_;             // likewise
  std::deque<EndedGroup> ended_groups_;                 // the newest
  std::deque<HeldHello> held_hellos_;                   // the oldest first
  uint64_t next_report_ns_ = kNoDeadline;
  uint64_t scheduler_heard_ns_ = 0;
  bool scheduler_is_colocated_ = false;
  uint64_t absences_noted_ = 0;
  uint64_t next_give_up_ns_ = kNoDeadline;  // no absent rank is given up before; kNoDeadline: none is absent
  uint64_t next_release_ns_ = kNoDeadline;  // likewise, no failed group
  uint64_t last_small_op_ns_ = 0;
  std::vector<Rank> receivers_;  // scratch of SendResult
  ServerCounters counters_;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_MACHINE_SERVER_MACHINE_H_
