#include "server/machine/group_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/flow_plan.h"
#include "server/machine/group_notes.h"

namespace shoal {
namespace {

// The credit of a group whose token names none.
constexpr uint32_t kDefaultWindowBytes = 1 << 20;

}  // namespace

GroupTable::GroupTable(std::string server_name, const Limits& limits)
    : server_name_(std::move(server_name)), limits_(limits), pool_(limits.slot_memory_bytes) {
  cells_.reserve(limits.max_groups);
}

JobId GroupTable::JobOf(GroupId id) const {
  const std::optional<uint32_t> index = IndexOf(id);
  return index.has_value() ? at(*index)->job() : JobId();
}

const GroupTable::EndedGroup* GroupTable::FindEnded(GroupId id, Epoch epoch) const {
  const auto found = std::ranges::find_if(ended_, [&](const EndedGroup& group) {
    return group.id == id && ServerGroup::Binds(group.failure_of, group.epoch, epoch);
  });
  return found == ended_.end() ? nullptr : &*found;
}

std::optional<GroupTable::Region> GroupTable::Allocate(const GroupToken& token) {
  uint32_t credit = token.credit_chunks;
  if (limits_.window_bytes != 0 || credit == 0) {
    credit = (limits_.window_bytes == 0 ? kDefaultWindowBytes : limits_.window_bytes) / token.max_chunk_bytes;
  }
  credit = std::clamp<uint32_t>(credit, 2, kMaxCreditChunks);
  for (; credit >= 1; credit /= 2) {
    const std::optional<uint64_t> offset =
        pool_.Allocate(ServerGroup::RegionBytes(credit, token.group_size, token.max_chunk_bytes));
    if (offset.has_value()) return Region{*offset, credit};
  }
  return std::nullopt;
}

absl::StatusOr<uint32_t> GroupTable::Open(const GroupToken& token, Epoch epoch, const Roster& roster,
                                          ServerActions* actions) {
  if (const std::optional<uint32_t> index = IndexOf(token.group)) return *index;
  if (index_.size() >= limits_.max_groups) {
    return absl::ResourceExhaustedError(
        absl::StrCat("server ", server_name_, " has its limit of ", limits_.max_groups, " groups open"));
  }
  const std::optional<Region> region = Allocate(token);
  if (!region.has_value()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("server ", server_name_, " has no memory for the slots of a group of ", token.group_size,
                     " ranks with ", token.max_chunk_bytes, "-byte chunks: it needs ",
                     ServerGroup::RegionBytes(1, token.group_size, token.max_chunk_bytes), " bytes, ",
                     pool_.capacity_bytes() - pool_.used_bytes(), " of ", pool_.capacity_bytes(),
                     " are free; start the server with more --slot-memory or use smaller chunks"));
  }
  auto cell = std::ranges::find_if(cells_, [](const Cell& each) { return each.group == nullptr; });
  if (cell == cells_.end()) cell = cells_.emplace(cells_.end());
  const auto index = static_cast<uint32_t>(cell - cells_.begin());
  ++cell->generation;
  cell->group = std::make_unique<ServerGroup>(token, epoch, roster, region->credit_chunks, region->offset);
  index_[token.group] = index;
  const auto left = std::ranges::find(left_, token.group, &LeftGroup::id);
  if (left != left_.end()) {
    for (const auto& [rank, first] : left->leavers) cell->group->NoteCallsNoneFrom(first, rank);
    left_.erase(left);
  }
  LogGroup(EventKind::kShardGroupOpened, *cell->group, std::nullopt,
           absl::StrCat(token.group_size, " ranks with ", region->credit_chunks, " chunks of ", token.max_chunk_bytes,
                        " bytes in flight each; the slots take ", cell->group->region_bytes(), " bytes"),
           actions);
  return index;
}

void GroupTable::CloseIfOver(uint32_t index, ServerActions* actions) {
  std::unique_ptr<ServerGroup>& group = cells_[index].group;
  if (group == nullptr || group->AnyPresent() || !group->AllSlotsIdle()) return;
  if (group->failed()) {
    if (ended_.size() >= kMaxEndedGroups) ended_.pop_front();
    ended_.push_back({group->id(), group->epoch(), group->failure_of(), group->failure_refusal(), group->failure()});
  } else if (std::vector<std::pair<Rank, OpNumber>> leavers = group->Leavers(); !leavers.empty()) {
    if (left_.size() >= kMaxEndedGroups) left_.pop_front();
    left_.push_back({group->id(), std::move(leavers)});
  }
  LogGroup(EventKind::kShardGroupClosed, *group, std::nullopt,
           group->failed() ? "it had failed" : "no rank is in it any more", actions);
  actions->push_back(ForgetInputsAction{.offset = group->slot_region(), .bytes = group->region_bytes()});
  pool_.Free(group->slot_region());
  index_.erase(group->id());
  group.reset();
}

void GroupTable::AddTo(ServerCounters* counters) const {
  counters->groups_open = static_cast<uint32_t>(index_.size());
  counters->slot_memory_used_bytes = pool_.used_bytes();
  for (const Cell& cell : cells_) {
    if (cell.group == nullptr) continue;
    counters->slots += cell.group->slot_count();
    counters->slots_in_use += cell.group->SlotsInUse();
    counters->pending_pushes += cell.group->pending_count();
    counters->memory_by_job[cell.group->job()] += cell.group->region_bytes();
    if (!cell.group->failed()) cell.group->ListLateRanks(&counters->late_ranks);
  }
}

OpenGroups GroupTable::open_groups() const {
  OpenGroups open;
  for (const Cell& cell : cells_) {
    if (cell.group == nullptr) continue;
    ServedGroup& group = open[cell.group->id()];
    group.job = cell.group->job();
    for (uint32_t r = 0; r < cell.group->size(); ++r) {
      const ServerGroup::Presence presence = cell.group->rank_state(Rank(r)).presence;
      if (presence == ServerGroup::Presence::kPresent || presence == ServerGroup::Presence::kAbsent) {
        group.ranks.insert(Rank(r));
      }
    }
  }
  return open;
}

}  // namespace shoal
