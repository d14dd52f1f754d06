#include "server/machine/server_group.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/rank_text.h"

namespace shoal {
namespace {

uint64_t StrideBytes(uint32_t max_chunk_bytes) {
  return (uint64_t{max_chunk_bytes} + kChunkAlignmentBytes - 1) / kChunkAlignmentBytes * kChunkAlignmentBytes;
}

void AddRank(Rank rank, Waiting* waiting) {
  ++waiting->missing_count;
  if (waiting->listed_count < kMaxMissingRanks) waiting->ranks[waiting->listed_count++] = rank;
}

}  // namespace

ServerGroup::ServerGroup(const GroupToken& first_token, Epoch epoch, const Roster& roster, uint32_t credit_chunks,
                         uint64_t slot_region)
    : id_(first_token.group),
      job_(first_token.job),
      first_epoch_(first_token.epoch),
      epoch_(epoch),
      roster_(roster),
      ranks_per_contribution_(first_token.ranks_per_contribution),
      max_chunk_bytes_(first_token.max_chunk_bytes),
      credit_chunks_(credit_chunks),
      slot_region_(slot_region),
      stride_bytes_(StrideBytes(first_token.max_chunk_bytes)),
      ranks_(first_token.group_size),
      slots_(SlotCount(credit_chunks)),
      ledger_(first_token.max_chunk_bytes),
      lateness_(first_token.group_size, SlotCount(credit_chunks)) {
  for (ChunkSlot& slot : slots_) slot.Size(first_token.group_size);
  Expect();
  lateness_.Restart(roster_);
}

void ServerGroup::Expect() {
  for (ChunkSlot& slot : slots_) slot.Expect(roster_.count());
  for (const Rank rank : roster_.lost()) ranks_[rank.value()].presence = Presence::kGone;
}

uint64_t ServerGroup::RegionBytes(uint32_t credit_chunks, uint32_t group_size, uint32_t max_chunk_bytes) {
  return uint64_t{SlotCount(credit_chunks)} * group_size * StrideBytes(max_chunk_bytes);
}

void ServerGroup::MoveTo(Epoch epoch, const Roster& roster) {
  epoch_ = epoch;
  roster_ = roster;
  newest_result_ = OpNumber(0);
  any_waits_for_commit_ = false;
  failed_ = false;
  failure_.clear();
  release_at_ns_ = kNoDeadline;
  ledger_.Restart();
  lateness_.Restart(roster_);
  may_have_absent_ = false;
  for (uint32_t r = 0; r < size(); ++r) {
    RankState next{.landed_watermark = ranks_[r].landed_watermark, .calls_none_from = ranks_[r].calls_none_from};
    if (IsAbsent(Rank(r)) && roster_.Has(Rank(r))) {
      next.absent_since_ns = ranks_[r].absent_since_ns;
      next.absent_because = std::move(ranks_[r].absent_because);
      may_have_absent_ = true;
    }
    ranks_[r] = std::move(next);
  }
  Expect();
}

bool ServerGroup::IsAbsent(Rank rank) const {
  const RankState& state = ranks_[rank.value()];
  return (state.presence == Presence::kAbsent || state.presence == Presence::kExpected) &&
         !state.absent_because.empty();
}

bool ServerGroup::Agrees(const GroupToken& token) const {
  return token.group == id_ && token.job == job_ && token.epoch == first_epoch_ && token.group_size == size() &&
         token.ranks_per_contribution == ranks_per_contribution_ && token.max_chunk_bytes == max_chunk_bytes_;
}

std::string ServerGroup::NameOf(Rank rank) const {
  return ranks_per_contribution_ > 1 ? MarkedRank(rank) : absl::StrCat("rank ", rank.value());
}

bool ServerGroup::HasPeer(PeerId peer) const {
  return std::any_of(ranks_.begin(), ranks_.end(), [peer](const RankState& state) {
    return state.presence == Presence::kPresent && state.peer == peer;
  });
}

void ServerGroup::Enter(Rank rank, PeerId peer, Incarnation incarnation, OpNumber newest_result) {
  RankState& state = ranks_[rank.value()];
  state.presence = Presence::kPresent;
  state.peer = peer;
  state.incarnation = incarnation;
  state.newest_result = newest_result;
  state.absent_because.clear();
  newest_result_ = std::max(newest_result_, newest_result);
}

void ServerGroup::MarkAbsent(Rank rank, Now now, std::string because) {
  RankState& state = ranks_[rank.value()];
  state.presence = Presence::kAbsent;
  state.absent_since_ns = now.monotonic_ns;
  state.absent_because = std::move(because);
  may_have_absent_ = true;
}

std::vector<OfferId> ServerGroup::Leave(Rank rank) {
  ranks_[rank.value()].presence = Presence::kGone;
  std::vector<OfferId> offers;
  std::erase_if(pending_, [&](const PendingPush& push) {
    if (push.header.rank != rank) return false;
    offers.push_back(push.offer);
    return true;
  });
  return offers;
}

void ServerGroup::NoteCallsNoneFrom(OpNumber first, Rank rank) {
  ranks_[rank.value()].calls_none_from = first;
  any_left_ = any_left_ || first != OpNumber(0);
}

std::vector<std::pair<Rank, OpNumber>> ServerGroup::Leavers() const {
  std::vector<std::pair<Rank, OpNumber>> leavers;
  for (uint32_t r = 0; any_left_ && r < size(); ++r) {
    const OpNumber first = ranks_[r].calls_none_from;
    if (first != OpNumber(0) && roster_.Has(Rank(r))) leavers.emplace_back(Rank(r), first);
  }
  if (leavers.size() == roster_.count()) leavers.clear();
  return leavers;
}

std::optional<Rank> ServerGroup::FindLeaver(OpNumber op) const {
  if (!any_left_) return std::nullopt;
  for (uint32_t r = 0; r < size(); ++r) {
    const OpNumber first = ranks_[r].calls_none_from;
    if (first != OpNumber(0) && first <= op && roster_.Has(Rank(r))) return Rank(r);
  }
  return std::nullopt;
}

bool ServerGroup::TakeLeaverNews(Rank rank) {
  return IsPresent(rank) && !std::exchange(ranks_[rank.value()].told_of_leaver, true);
}

std::string ServerGroup::GiveUp(Rank rank) {
  RankState& state = ranks_[rank.value()];
  state.presence = Presence::kGone;
  return state.absent_because;
}

int ServerGroup::FindSlot(OpNumber op, ChunkNumber chunk) const {
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].state() != ChunkSlot::State::kFree && !slots_[i].abandoned() && slots_[i].op() == op &&
        slots_[i].chunk() == chunk) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

int ServerGroup::FindFreeSlot() const {
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].state() == ChunkSlot::State::kFree) return static_cast<int>(i);
  }
  return -1;
}

int ServerGroup::FindSlotToPreempt(OpNumber op, ChunkNumber chunk) const {
  int youngest = -1;
  std::pair<OpNumber, ChunkNumber> last(op, chunk);
  for (size_t i = 0; i < slots_.size(); ++i) {
    const std::pair<OpNumber, ChunkNumber> place(slots_[i].op(), slots_[i].chunk());
    if (slots_[i].state() != ChunkSlot::State::kGathering || slots_[i].abandoned() || place <= last) continue;
    youngest = static_cast<int>(i);
    last = place;
  }
  return youngest;
}

bool ServerGroup::IsPending(const FrameHeader& push) const {
  return std::any_of(pending_.begin(), pending_.end(), [&](const PendingPush& held) {
    return held.header.rank == push.rank && held.header.op == push.op && held.header.chunk == push.chunk;
  });
}

std::optional<ServerGroup::PendingPush> ServerGroup::TakeOldestPending() {
  if (pending_.empty()) return std::nullopt;
  const auto oldest =
      std::min_element(pending_.begin(), pending_.end(), [](const PendingPush& a, const PendingPush& b) {
        return std::pair(a.header.op, a.header.chunk) < std::pair(b.header.op, b.header.chunk);
      });
  const PendingPush push = *oldest;
  pending_.erase(oldest);
  return push;
}

uint64_t ServerGroup::BufferOffset(uint32_t slot, Rank rank) const {
  return slot_region_ + (uint64_t{slot} * size() + roster_.PlaceOf(rank)) * stride_bytes_;
}

Refusal ServerGroup::Admit(const FrameHeader& push, const OpRecord** op) {
  const Refusal refusal = ledger_.Admit(push, op);
  if (refusal != Refusal::kNone) return refusal;
  return (*op)->summed[push.chunk.value()] ? Refusal::kDuplicate : Refusal::kNone;
}

void ServerGroup::NoteWatermarks(Rank rank, const FrameHeader& header) {
  RankState& state = ranks_[rank.value()];
  state.landed_watermark = std::max(state.landed_watermark, header.landed_watermark);
  OpNumber landed_everywhere = state.landed_watermark;
  for (uint32_t r = 0; r < size(); ++r) {
    if (roster_.Has(Rank(r))) landed_everywhere = std::min(landed_everywhere, ranks_[r].landed_watermark);
  }
  ledger_.Commit(std::max(landed_everywhere, header.commit_watermark));
}

void ServerGroup::WaitForCommit(Rank rank, OpNumber op, Now now) {
  ranks_[rank.value()].waits_for_commit = op;
  ranks_[rank.value()].waits_since_ns = now.monotonic_ns;
  if (op != OpNumber(0)) any_waits_for_commit_ = true;
}

bool ServerGroup::TakeAnnouncement() {
  const bool waited_for = any_waits_for_commit_ && TakeCommitsWaitedFor();
  return ledger_.TakeAnnouncement() || waited_for;
}

Waiting ServerGroup::RanksMissing(const ChunkSlot& slot) const {
  Waiting waiting;
  for (uint32_t r = 0; r < size(); ++r) {
    if (roster_.Has(Rank(r)) && !slot.Has(Rank(r))) AddRank(Rank(r), &waiting);
  }
  return waiting;
}

Waiting ServerGroup::RanksBehind(OpNumber op) const {
  Waiting waiting;
  for (uint32_t r = 0; r < size(); ++r) {
    if (roster_.Has(Rank(r)) && ranks_[r].landed_watermark < op) AddRank(Rank(r), &waiting);
  }
  return waiting;
}

bool ServerGroup::TakeCommitsWaitedFor() {
  bool any = false;
  any_waits_for_commit_ = false;
  for (RankState& state : ranks_) {
    if (state.waits_for_commit == OpNumber(0)) continue;
    if (state.waits_for_commit > ledger_.watermark()) {
      any_waits_for_commit_ = true;
      continue;
    }
    state.waits_for_commit = OpNumber(0);
    any = true;
  }
  return any;
}

void ServerGroup::Fail(FailureOf of, Refusal refusal, std::string why) {
  if (failed_ && (failure_of_ == FailureOf::kGroup || of == FailureOf::kConnections)) return;
  failed_ = true;
  failure_of_ = of;
  failure_refusal_ = refusal;
  failure_ = std::move(why);
}

uint64_t ServerGroup::ReleaseTimeNs(Now now, uint64_t patience_ns) {
  if (release_at_ns_ == kNoDeadline) release_at_ns_ = now.monotonic_ns + patience_ns;
  return release_at_ns_;
}

void ServerGroup::ListLateRanks(std::vector<LateRankOfGroup>* late) const {
  const LatenessWindow& window = lateness_.last_window();
  for (const LateRank& rank : window.late_ranks) {
    if (late->size() == kMaxLateRanksOfServer) return;
    late->push_back({.job = job_,
                     .group = id_,
                     .epoch = epoch_,
                     .window = window.number,
                     .window_end_ns = window.end_ns,
                     .window_ns = window.length_ns,
                     .ops = window.ops,
                     .median_spacing_ns = window.median_spacing_ns,
                     .late = rank});
  }
}

bool ServerGroup::Any(Presence presence) const {
  return std::any_of(ranks_.begin(), ranks_.end(),
                     [presence](const RankState& state) { return state.presence == presence; });
}

bool ServerGroup::AllSlotsIdle() const {
  return std::all_of(slots_.begin(), slots_.end(), [](const ChunkSlot& slot) { return slot.busy() == 0; });
}

bool ServerGroup::WaitsForResult(Rank rank, OpNumber from) const {
  const auto waits = [&](const ChunkSlot& slot) {
    const bool is_open = slot.state() == ChunkSlot::State::kGathering || slot.state() == ChunkSlot::State::kReducing;
    return is_open && !slot.abandoned() && slot.op() >= from && slot.Offered(rank);
  };
  const auto is_meant = [&](const PendingPush& push) { return push.header.rank == rank && push.header.op >= from; };
  return std::ranges::any_of(slots_, waits) || std::ranges::any_of(pending_, is_meant);
}

uint32_t ServerGroup::SlotsInUse() const {
  return static_cast<uint32_t>(std::count_if(
      slots_.begin(), slots_.end(), [](const ChunkSlot& slot) { return slot.state() != ChunkSlot::State::kFree; }));
}

}  // namespace shoal
