// The groups that are open on one shard: their cells, their numbers in operations, and the memory of their slots.
//
// A cell is used again when its group is over, with another generation. So the end of an operation that belongs to an
// earlier group of the cell is known as such.
//
// One thread. The table owns the groups. What the memory at an offset holds is the loop's business.
#ifndef SHOAL_SERVER_MACHINE_GROUP_TABLE_H_
#define SHOAL_SERVER_MACHINE_GROUP_TABLE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "server/machine/buffer_pool.h"
#include "server/machine/open_groups.h"
#include "server/machine/server_actions.h"
#include "server/machine/server_counters.h"
#include "server/machine/server_group.h"

namespace shoal {

// What an operation of the network or of the reducer is for. It travels as the operation's token.
struct SlotOperation {
  uint16_t group_index = 0;
  uint16_t generation = 0;
  uint16_t slot = 0;
  uint16_t rank = 0;

  uint64_t Pack() const {
    return uint64_t{group_index} << 48 | uint64_t{generation} << 32 | uint64_t{slot} << 16 | rank;
  }
  static SlotOperation Unpack(uint64_t packed) {
    return {static_cast<uint16_t>(packed >> 48), static_cast<uint16_t>(packed >> 32),
            static_cast<uint16_t>(packed >> 16), static_cast<uint16_t>(packed)};
  }
};

class GroupTable {
 public:
  // A group that failed and was over before all of its ranks had said hello: ranks that come now are told so, unless
  // they come in an epoch that the failure does not bind. (Not a group whose ranks left in good order: a late rank may
  // have nothing to reduce either.)
  struct EndedGroup {
    GroupId id;
    Epoch epoch;
    ServerGroup::FailureOf failure_of;
    Refusal refusal;
    std::string why;
  };

  // A group that was over before all of its ranks had left for good: those that come yet may call ops that these do
  // not.
  struct LeftGroup {
    GroupId id;
    std::vector<std::pair<Rank, OpNumber>> leavers;
  };

  struct Limits {
    uint64_t slot_memory_bytes = 0;
    uint32_t window_bytes = 0;  // in flight per worker, as far as slot memory allows; 0: as the group's token says
    uint32_t max_groups = 0;    // open at a time
  };

  GroupTable(std::string server_name, const Limits& limits);

  size_t open_count() const { return index_.size(); }
  // So many cells there are: indices are below.
  uint32_t cell_count() const { return static_cast<uint32_t>(cells_.size()); }
  // nullptr: the cell is free.
  ServerGroup* at(uint32_t index) { return cells_[index].group.get(); }
  const ServerGroup* at(uint32_t index) const { return cells_[index].group.get(); }
  std::optional<uint32_t> IndexOf(GroupId id) const {
    const auto found = index_.find(id);
    return found == index_.end() ? std::nullopt : std::optional(found->second);
  }
  // JobId(): the group is not open.
  JobId JobOf(GroupId id) const;

  // The group of an operation that has ended; nullptr: it is over.
  ServerGroup* Find(SlotOperation operation) {
    const Cell& cell = cells_[operation.group_index];
    return cell.generation == operation.generation ? cell.group.get() : nullptr;
  }
  SlotOperation Operation(uint32_t index, uint32_t slot, Rank rank) const {
    return {static_cast<uint16_t>(index), cells_[index].generation, static_cast<uint16_t>(slot),
            static_cast<uint16_t>(rank.value())};
  }

  // The failed group of that id which binds a hello of `epoch`; nullptr: there is none.
  const EndedGroup* FindEnded(GroupId id, Epoch epoch) const;

  // The index of the token's group, which is opened if it is not open. ResourceExhausted: there is no room for it; the
  // text says what to do.
  absl::StatusOr<uint32_t> Open(const GroupToken& token, Epoch epoch, const Roster& roster, ServerActions* actions);
  // A group is over when no rank is in it and the network is done with its memory. Ranks whose connection broke are not
  // waited for: nobody here waits for them, and they can give again whatever this server had from them (invariant I3).
  void CloseIfOver(uint32_t index, ServerActions* actions);

  // Adds what is open to gauges.
  void AddTo(ServerCounters* counters) const;
  OpenGroups open_groups() const;

 private:
  struct Cell {
    uint16_t generation = 0;
    std::unique_ptr<ServerGroup> group;  // null: the cell is free
  };
  static constexpr size_t kMaxEndedGroups = 1024;  // of each kind

  // Of the slots of a group; nullopt: there is no memory even for the smallest credit.
  struct Region {
    uint64_t offset = 0;
    uint32_t credit_chunks = 0;
  };
  std::optional<Region> Allocate(const GroupToken& token);

  const std::string server_name_;
  const Limits limits_;
  BufferPool pool_;
  std::vector<Cell> cells_;                       // as many as were ever open at a time, for all of which there is room
  absl::flat_hash_map<GroupId, uint32_t> index_;  // looked up, never walked
  std::deque<EndedGroup> ended_;                  // the newest
  std::deque<LeftGroup> left_;                    // likewise
};

}  // namespace shoal

#endif  // SHOAL_SERVER_MACHINE_GROUP_TABLE_H_
