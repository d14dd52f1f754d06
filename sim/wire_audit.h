// Watches the messages of workers and servers in a simulation, and checks what the results alone don't show.
//
//   stale       no process accepts a payload of an epoch that it has left (I4)
//   twice       a server accepts a rank's contribution to a chunk once in an epoch, unless it gave the first back (I2)
//   too early   a result is sent when all contributions to it, or results in their place, have landed (I2)
//   wrong rank  a result goes to the rank that it names
//   credit      a worker has no more chunks in flight to a server than that granted, counted from the oldest; and no
//               server without a window of its own grants more than was planned for the group
//   held twice  no process keeps two copies of a payload waiting (I7)
//   watermark   no process reports an op as done, of itself or of others, where it is not (I3)
//
// Failures are given to the callback, with the name of the check in brackets. One thread (the world's).
#ifndef SHOAL_SIM_WIRE_AUDIT_H_
#define SHOAL_SIM_WIRE_AUDIT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/frame.h"
#include "core/ids.h"
#include "core/roster.h"

namespace shoal::sim {

class WireAudit {
 public:
  explicit WireAudit(std::function<void(const std::string&)> fail) : fail_(std::move(fail)) {}

  // ---- what the workload knows ----
  void GroupOpened(GroupId group, uint32_t ranks, uint32_t most_credit) {
    groups_.try_emplace(group, ranks, most_credit);
  }
  // One of them; 0 if there is none.
  GroupId AnyGroup(uint64_t random) const;
  // Whether a server gathers a chunk of the group in an epoch that is not its first; whether this server does of any.
  bool GathersAfterMove(GroupId group) const;
  bool GathersAfterMove(const std::string& server) const;
  // Of ranks, to servers where their group had ended in this epoch or an older one.
  uint64_t hellos_to_ended_groups() const { return hellos_to_ended_groups_; }

  // The rank got the op's result.
  void OpEnded(GroupId group, Rank rank, OpNumber op);
  // In place of OpEnded: the rank has called an op of a rail, whose result it has as soon as so many chunks have
  // landed.
  void RailOpCalled(GroupId group, Rank rank, OpNumber op, uint32_t chunks);

  // ---- what transports see; `who` is the transport's address, headers and notes are whole frames ----
  void NoteSent(const std::string& who, uint64_t connection, std::span<const std::byte> note);
  void PayloadSent(const std::string& who, uint64_t connection, std::span<const std::byte> header);
  // A user has two offers with this header, and has decided on neither of them.
  void HeldTwice(const std::string& who, std::span<const std::byte> header);
  // A note or an offer is there.
  void Arrived(std::span<const std::byte> frame);
  // An offer was accepted or borrowed; the ticket is given back when it has landed.
  uint64_t Accepted(const std::string& who, uint64_t connection, std::span<const std::byte> header);
  void Landed(const std::string& who, uint64_t connection, std::span<const std::byte> header, uint64_t ticket, bool ok);

 private:
  using ChunkKey = std::pair<OpNumber, ChunkNumber>;

  struct RailOp {
    uint32_t chunks = 0;
    std::set<ChunkNumber> landed;
  };
  struct RankProgress {
    std::map<OpNumber, RailOp> under_way;
    std::set<OpNumber> ended;  // after `done`
    OpNumber done;             // all ops up to it have ended
  };
  struct Group {
    Group(uint32_t size, uint32_t credit) : ranks(size), most_credit(credit) {}
    std::vector<RankProgress> ranks;
    uint32_t most_credit = 0;
  };
  // How many ranks the group has in the epoch, and whether this is one of them.
  uint32_t CountIn(GroupId group, Epoch epoch, uint32_t size) const;
  bool IsIn(GroupId group, Epoch epoch, Rank rank) const;

  // A chunk on a server, in one epoch.
  struct Gathered {
    std::map<Rank, uint64_t> tickets;  // of accepted payloads, by sender
    std::set<Rank> landed;             // contributions, or results in their place
  };
  // A group on a server.
  struct Shard {
    Epoch epoch;
    bool ended = false;  // in that epoch: its ranks were told
    std::set<Rank> welcomed;
    std::map<ChunkKey, Gathered> chunks;
  };
  // A group on a worker's connection.
  struct Link {
    Epoch epoch;
    Rank rank;
    uint32_t credit = 0;        // 0: not welcomed
    std::set<ChunkKey> open;    // chunks in flight
    std::set<ChunkKey> window;  // from the oldest of those on: what was pushed, in the order that all ranks share
  };

  void Welcomed(const std::string& server, uint64_t connection, const FrameHeader& header, uint32_t credit);
  void ResultSent(const std::string& server, uint64_t connection, const FrameHeader& header);
  void ResultLanded(const FrameHeader& header, Rank rank);
  void Pushed(const std::string& worker, uint64_t connection, const FrameHeader& header);
  bool GathersAfterMove(GroupId group, const Shard& shard) const;
  void Fail(const std::string& who, const FrameHeader& header, const std::string& what);

  std::function<void(const std::string&)> fail_;
  uint64_t next_ticket_ = 1;
  uint64_t hellos_to_ended_groups_ = 0;
  std::map<GroupId, Group> groups_;
  std::map<GroupId, Epoch> first_epochs_;
  std::map<std::pair<GroupId, Epoch>, Roster> rosters_;  // those without some ranks
  std::map<std::pair<std::string, GroupId>, Shard> shards_;
  std::map<std::pair<std::string, GroupId>, Epoch> worker_epochs_;
  std::map<std::pair<uint64_t, GroupId>, Link> links_;
};

}  // namespace shoal::sim

#endif  // SHOAL_SIM_WIRE_AUDIT_H_
