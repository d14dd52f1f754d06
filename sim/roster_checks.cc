#include "sim/roster_checks.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/token.h"

namespace shoal::sim {
namespace {

bool SaysTooFew(const absl::Status& status) {
  return absl::IsAborted(status) && absl::StrContains(status.message(), " left, and needs ");
}

// With rails: who is summed with the rank on its node, in the job.
std::vector<uint32_t> MembersOnNodeOf(const OpOfRoster& op) {
  std::vector<uint32_t> members;
  if (op.order.mode != NodeReduceMode::kRails) return members;
  for (const std::vector<uint32_t>& ranks : op.order.sums) {
    if (std::ranges::find(ranks, op.rank) == ranks.end()) continue;
    for (const uint32_t rank : ranks) members.push_back(op.members[rank]);
  }
  return members;
}

// How many ranks' contributions each of a roster brings.
uint32_t RanksEach(const OpOfRoster& op) {
  return op.order.mode == NodeReduceMode::kRails ? static_cast<uint32_t>(op.order.sums.front().size()) : 1;
}

// What the contributions of a roster make.
std::vector<std::byte> ResultOf(const OpOfRoster& op, const Roster& roster) {
  SumOrder order{.mode = op.order.mode, .sums = {}};
  if (order.mode != NodeReduceMode::kRails) order.sums.emplace_back();
  for (uint32_t rank = 0; rank < roster.size(); ++rank) {
    if (!roster.Has(Rank(rank))) continue;
    if (order.mode == NodeReduceMode::kRails) {
      order.sums.push_back(op.order.sums[rank]);
    } else {
      order.sums[0].push_back(rank);
    }
  }
  const bool scales = op.scales_sums && !roster.IsWhole() && op.plan.reduce_op == ReduceOp::kSum &&
                      CanReduce(op.plan.dtype, ReduceOp::kPremulSum);
  return scales ? ScaledResult(op.plan, order, roster.size()) : ExpectedResult(op.plan, order);
}

}  // namespace

void RosterChecks::SawRoster(GroupId group, Epoch epoch, uint32_t size, std::span<const std::byte> sealed) {
  const absl::StatusOr<Roster> roster = DecodeRoster(size, sealed);
  if (!roster.ok()) {
    return ports_.fail(absl::StrCat("group ", group.value(), ": ", roster.status().message(), " (one roster)"));
  }
  const auto [entry, is_new] = rosters_.try_emplace({group, epoch}, *roster);
  if (is_new || entry->second == *roster) return;
  ports_.fail(absl::StrCat("group ", group.value(), " has two rosters in epoch ", epoch.value(), " (one roster)"));
}

void RosterChecks::RankIsGone(uint32_t run, uint32_t member, uint64_t all_know_by_ns) {
  MayEnd(run, member);
  uint64_t& known_ns = all_know_by_ns_[{run, member}];
  known_ns = std::max(known_ns, all_know_by_ns);
}

void RosterChecks::OpCalled(const OpOfRoster& op) {
  truths_[{op.run, op.name, op.number}].called_ns = ports_.world->now_ns();
}

void RosterChecks::OpEnded(const OpOfRoster& op, const absl::Status& status, Contributors told,
                           const std::vector<std::byte>& memory) {
  const std::string where = absl::StrCat("run ", op.run, " group ", op.name, " op ", op.number, " rank ", op.rank);
  Truth& truth = truths_[{op.run, op.name, op.number}];
  if (!op.was_hit) CheckTime(op, truth, where);
  worked_ns_[{op.run, op.name, op.rank}] = ports_.world->now_ns();
  if (!status.ok()) return CheckFailure(op, status, where);
  const Told result = {.digest = DigestOf(memory), .contributors = told};
  const auto has_result = [&](const auto& entry) { return entry.second.digest == result.digest; };
  if (std::ranges::none_of(truth.told, has_result)) CheckResult(op, told, memory, where);
  // One that is lost may have had a result that nobody else has: it is kept out since.
  for (const auto& [rank, other] : truth.told) {
    if (other == result || !IsIn(op, rank) || !IsIn(op, op.rank)) continue;
    ports_.fail(absl::StrCat(where, ": has ", other.digest == result.digest ? "the same" : "another",
                             " result than rank ", rank, ", of ", told.least, " to ", told.most,
                             " contributions, and that one of ", other.contributors.least, " to ",
                             other.contributors.most, " (agreement)"));
  }
  truth.told.emplace(op.rank, result);
}

bool RosterChecks::IsIn(const OpOfRoster& op, uint32_t rank) const {
  uint32_t place = rank;
  for (uint32_t node = 0; op.order.mode == NodeReduceMode::kRails && node < op.order.sums.size(); ++node) {
    if (std::ranges::find(op.order.sums[node], rank) != op.order.sums[node].end()) place = node;
  }
  for (size_t rail = 0; rail < op.parts.size(); ++rail) {
    const auto group = rails_.find({op.group, rail});
    if (group == rails_.end()) continue;
    const auto after = rosters_.lower_bound({GroupId(group->second.value() + 1), Epoch(0)});
    const bool is_known = after != rosters_.begin() && std::prev(after)->first.first == group->second;
    if (is_known && !std::prev(after)->second.Has(Rank(place))) return false;
  }
  return true;
}

std::vector<Roster> RosterChecks::RostersOf(const OpOfRoster& op, size_t rail) const {
  const auto size = static_cast<uint32_t>(op.members.size() / RanksEach(op));
  std::vector<Roster> rosters = {Roster(size)};
  const auto group = rails_.find({op.group, rail});
  if (group == rails_.end()) return rosters;
  for (auto entry = rosters_.lower_bound({group->second, Epoch(0)});
       entry != rosters_.end() && entry->first.first == group->second; ++entry) {
    if (std::ranges::find(rosters, entry->second) == rosters.end()) rosters.push_back(entry->second);
  }
  return rosters;
}

bool RosterChecks::AnyMayEnd(uint32_t run, const std::vector<uint32_t>& members) const {
  return std::ranges::any_of(members, [&](uint32_t member) { return may_end_.contains({run, member}); });
}

void RosterChecks::CheckTime(const OpOfRoster& op, const Truth& truth, const std::string& where) {
  if (ports_.may_take_long(op.run)) return;
  uint64_t since_ns =
      std::max({truth.called_ns, ports_.last_fault_ended_ns(op.run), worked_ns_[{op.run, op.name, op.rank}]});
  for (const uint32_t member : op.members) {
    const auto known = all_know_by_ns_.find({op.run, member});
    if (known != all_know_by_ns_.end()) since_ns = std::max(since_ns, known->second);
  }
  if (ports_.world->now_ns() <= since_ns + healing_ns_) return;
  ports_.fail(absl::StrCat(where, ": ended ", (ports_.world->now_ns() - since_ns) / kNsPerMs,
                           " ms after it was called, and all knew of the ranks that are gone (healing)"));
}

void RosterChecks::CheckFailure(const OpOfRoster& op, const absl::Status& status, const std::string& where) {
  if (op.was_hit) return;
  if (op.goes_on && absl::IsAborted(status) && absl::StrContains(status.message(), kNodeIsOut) &&
      AnyMayEnd(op.run, MembersOnNodeOf(op))) {
    ++left_alone_;
    return;
  }
  if (op.goes_on && !SaysTooFew(status)) {
    return ports_.fail(absl::StrCat(where, ": failed in a group that goes on (goes on): ", status.ToString()));
  }
  if (!absl::IsAborted(status) || !ports_.may_say(op.run, std::string(status.message()))) {
    ports_.fail(absl::StrCat(where, ": the error does not name what is at fault (message): ", status.ToString()));
  }
}

void RosterChecks::SawPartialOps(const std::string& who, const std::vector<PartialOp>& ops) {
  for (const PartialOp& op : ops) {
    const auto truth = contributors_.find({op.group, op.op});
    if (truth == contributors_.end() || !written_down_.insert({who, op.group, op.op}).second) continue;
    const auto& by_chunk = truth->second;
    uint64_t told_until = 0;
    for (const ContributedRange& range : op.ranges) {
      bool fits = range.first == told_until;
      told_until += range.count;
      for (auto chunk = by_chunk.upper_bound(range.first); chunk != by_chunk.end(); ++chunk) {
        fits = fits && chunk->second.contains(range.contributors);
        if (chunk->first >= told_until) break;
      }
      if (fits) continue;
      ports_.fail(absl::StrCat(who, " has written down that elements ", range.first, " to ", told_until - 1, " of op ",
                               op.op.value(), " of group ", op.group.value(), " have the contributions of ",
                               range.contributors, " ranks (contributors)"));
    }
    if (op.is_cut || by_chunk.empty() || told_until == by_chunk.rbegin()->first) continue;
    ports_.fail(absl::StrCat(who, " has ", told_until, " elements of op ", op.op.value(), " of group ",
                             op.group.value(), " written down, which has ", by_chunk.rbegin()->first,
                             " (contributors)"));
  }
}

void RosterChecks::Refused(uint32_t run, const std::string& who, bool was_hit, const absl::Status& status) {
  if (was_hit || ports_.may_say(run, std::string(status.message()))) return;
  ports_.fail(absl::StrCat(who, ": refused without a fault that it names (message): ", status.ToString()));
}

void RosterChecks::CheckResult(const OpOfRoster& op, Contributors told, const std::vector<std::byte>& memory,
                               const std::string& where) {
  const auto size = static_cast<uint32_t>(op.members.size());
  if (op.plan.elements == 0) return;
  bool has_least = false;
  bool has_most = false;
  std::map<uint64_t, std::set<uint32_t>>& by_chunk = contributors_[{op.group, OpNumber(op.number)}];
  const uint64_t element_bytes = DataTypeSize(op.plan.dtype);
  for (size_t rail = 0; rail < op.parts.size(); ++rail) {
    const PartOfOp& part = op.parts[rail];
    const std::vector<Roster> candidates = RostersOf(op, rail);
    std::vector<std::vector<std::byte>> results;
    for (const Roster& roster : candidates) results.push_back(ResultOf(op, roster));
    for (uint32_t chunk = 0; part.elements.count > 0 && chunk < part.chunks.chunk_count; ++chunk) {
      const uint64_t first = part.elements.first + part.chunks.FirstElement(ChunkNumber(chunk));
      const uint64_t end = first + part.chunks.ElementCount(ChunkNumber(chunk));
      bool fits = false;
      for (size_t i = 0; i < candidates.size(); ++i) {
        const uint32_t count = candidates[i].count() * RanksEach(op);
        if (count < told.least || count > told.most) continue;
        const size_t begin = first * element_bytes;
        if (std::memcmp(&memory[begin], &results[i][begin], end * element_bytes - begin) != 0) continue;
        fits = true;
        by_chunk[end].insert(count);
        has_least = has_least || count == told.least;
        has_most = has_most || count == told.most;
      }
      if (fits) continue;
      return ports_.fail(absl::StrCat(where, ", part ", rail, ", chunk ", chunk,
                                      ": made of no roster's contributions, of which ", told.least, " to ", told.most,
                                      " are told, in ", candidates.size(), " rosters (contributors)"));
    }
  }
  if (!has_least || !has_most) {
    ports_.fail(absl::StrCat(where, ": no chunk has as few or as many contributors as ", told.least, " to ", told.most,
                             " (contributors)"));
  }
  ++(told.least == size ? whole_ : told.least < told.most ? mixed_ : fewer_);
  if (told.least < size && op.order.mode == NodeReduceMode::kRails) ++without_nodes_;
}

}  // namespace shoal::sim
