#include "server/machine/lateness_book.h"

#include <algorithm>
#include <utility>

namespace shoal {
namespace {

// Sorts partly; 0 if there are none.
uint64_t LowerMedian(std::vector<uint64_t>* values) {
  if (values->empty()) return 0;
  const auto middle = values->begin() + static_cast<std::ptrdiff_t>((values->size() - 1) / 2);
  std::nth_element(values->begin(), middle, values->end());
  return *middle;
}

}  // namespace

LatenessBook::LatenessBook(uint32_t group_size, uint32_t slot_count)
    : ranks_(group_size), ranks_in_epoch_(group_size), half_landed_ns_(slot_count) {
  for (uint32_t r = 0; r < group_size; ++r) {
    ranks_[r].window.rank = Rank(r);
    ranks_[r].apart_ns.reserve(kMostApart);
  }
  last_.late_ranks.reserve(group_size);
  values_.reserve(group_size);
}

bool LatenessBook::OnOffered(const PushedChunk& pushed, Now now) {
  const OpNumber op = pushed.op;
  RankState& state = ranks_[pushed.rank.value()];
  state.in_flight = pushed.in_flight;
  if (op == state.newest_begun && state.is_fresh && pushed.chunk != state.fresh_chunk) {
    state.is_fresh = pushed.in_one_go;
    state.fresh_chunk = pushed.chunk;
    // Two that land at a time tell nothing.
    if (state.fresh_chunk_lands) state.fresh_landed_ns = 0;
    state.fresh_chunk_lands = true;
  }
  if (op <= state.newest_begun) return false;
  state.newest_begun = op;
  state.is_fresh = false;
  state.fresh_landed_ns = 0;
  state.fresh_spacings = 0;
  Beginning& beginning = beginnings_[op.value() % kOpsRemembered];
  if (op < beginning.op) return true;  // so far ahead are others that this op is not remembered
  if (op > beginning.op) {
    CloseWindowIfOver(now);
    ++window_ops_;
    beginning = {.op = op};
  }
  ++beginning.ranks;
  if (beginning.ranks == Half()) beginning.half_ns = now.monotonic_ns;
  if (beginning.ranks <= Half() || state.landing > 0) return true;
  const uint64_t since_ns = std::max({beginning.half_ns, state.landed_ns, state.began_until_ns});
  if (now.monotonic_ns > since_ns) state.window.began_late_ns += now.monotonic_ns - since_ns;
  state.began_until_ns = now.monotonic_ns;
  return true;
}

void LatenessBook::OnGathering(uint32_t slot, OpNumber op, ChunkNumber chunk, uint32_t chunks_of_op) {
  if (half_landed_ns_[slot] != 0) --half_landed_;  // its chunk was given up
  half_landed_ns_[slot] = 0;
  if (op < gathered_op_ || (op == gathered_op_ && chunk <= gathered_chunk_)) return;
  if (gathered_op_ != OpNumber(0)) {
    ++gathered_since_;
    gathered_everywhere_ += op == gathered_op_ ? chunk.value() - gathered_chunk_.value()
                                               // An op that had no chunk here had one elsewhere at the least.
                                               : chunks_of_gathered_op_ - gathered_chunk_.value() +
                                                     (op.value() - gathered_op_.value() - 1) + chunk.value();
  }
  gathered_op_ = op;
  gathered_chunk_ = chunk;
  chunks_of_gathered_op_ = chunks_of_op;
}

void LatenessBook::OnGathered(uint32_t slot, Now now) {
  if (half_landed_ns_[slot] == 0) return;
  AddUse(now);
  half_landed_ns_[slot] = 0;
  --half_landed_;
}

double LatenessBook::UseOfLinks() const {
  if (in_flight_ == 0 || gathered_since_ == 0) return 0;
  const double share = static_cast<double>(gathered_since_) / static_cast<double>(gathered_everywhere_);
  return (in_flight_ - half_landed_ / share) / kBusyChunks;
}

void LatenessBook::AddUse(Now now) {
  use_.used_ns += UseOfLinks() * static_cast<double>(now.monotonic_ns - use_.ns);
  use_.ns = now.monotonic_ns;
}

double LatenessBook::IdleShare(const RankState& state) const {
  if (state.contributed.ns == 0 || use_.ns == state.contributed.ns) return 1;
  const double used = (use_.used_ns - state.contributed.used_ns) / static_cast<double>(use_.ns - state.contributed.ns);
  return 1 - std::clamp(used, 0.0, 1.0);
}

void LatenessBook::OnLandingEnded(Rank rank, bool came_with_last, Now now) {
  RankState& state = ranks_[rank.value()];
  --state.landing;
  state.landed_ns = now.monotonic_ns;
  if (!state.is_fresh || !std::exchange(state.fresh_chunk_lands, false)) return;
  if (state.fresh_landed_ns != 0) {
    state.spacing_sum_ns += now.monotonic_ns - state.fresh_landed_ns;
    ++state.spacings;
    if (came_with_last) ++state.spacings_of_reading;
    if (state.fresh_spacings++ == 0) ++state.spaced_ops;
  }
  state.fresh_landed_ns = now.monotonic_ns;
}

void LatenessBook::OnContribution(uint32_t slot, OpNumber op, Rank rank, uint32_t landed_count, Now now) {
  RankState& state = ranks_[rank.value()];
  AddUse(now);
  const double idle_share = IdleShare(state);
  if (std::exchange(state.contributed_op, op) == op && state.apart_ns.size() < kMostApart) {
    state.apart_ns.push_back(now.monotonic_ns - state.contributed.ns);
  }
  state.contributed = use_;
  if (landed_count == Half()) {
    half_landed_ns_[slot] = now.monotonic_ns;
    ++half_landed_;
    in_flight_ = state.in_flight;
  }
  if (landed_count <= Half() || half_landed_ns_[slot] == 0) return;
  const uint64_t since_ns = std::max({half_landed_ns_[slot], state.waited_until_ns, window_start_ns_});
  state.waited_until_ns = now.monotonic_ns;
  if (now.monotonic_ns <= since_ns) return;
  const auto waited_ns = static_cast<uint64_t>(static_cast<double>(now.monotonic_ns - since_ns) * idle_share);
  if (waited_ns == 0) return;
  state.window.waited_ns += waited_ns;
  if (op > state.waited_op) {
    state.waited_op = op;
    state.op_waited_ns = 0;
  }
  state.op_waited_ns += waited_ns;
  state.longest_op_ns = std::max(state.longest_op_ns, state.op_waited_ns);
  if (waited_ns >= kShortestWaitNs && op > state.newest_late) {
    state.newest_late = op;
    ++state.window.late_ops;
  }
}

void LatenessBook::Restart(const Roster& roster) {
  ranks_in_epoch_ = roster.count();
  beginnings_.fill({});
  std::ranges::fill(half_landed_ns_, 0);
  half_landed_ = 0;
  in_flight_ = 0;
  use_ = {};
  gathered_op_ = OpNumber();
  gathered_chunk_ = ChunkNumber();
  chunks_of_gathered_op_ = 0;
  gathered_since_ = 0;
  gathered_everywhere_ = 0;
  for (RankState& state : ranks_) {
    state.apart_ns.clear();
    state = {.in_epoch = roster.Has(state.window.rank),
             .landing = state.landing,
             .landed_ns = state.landed_ns,
             .apart_ns = std::move(state.apart_ns),
             .window = {.rank = state.window.rank}};
  }
  window_start_ns_ = 0;
  window_ops_ = 0;
  last_.late_ranks.clear();
}

void LatenessBook::RankState::CountSpacings() {
  // One op says little of a link: other traffic and the pauses of a busy processor come in between.
  const uint32_t kept = spaced_ops < kFewestOps ? std::min(ops_of_spacing, kFewestOps) : 0;
  if (spaced_ops > 0) {
    ops_of_spacing = kept + spaced_ops;
    spacing_ns = (spacing_ns * kept + spacing_sum_ns * spaced_ops / spacings) / ops_of_spacing;
    spacing_is_known = 2 * spacings_of_reading < spacings;
  }
  spacing_sum_ns = 0;
  spacings = 0;
  spacings_of_reading = 0;
  spaced_ops = 0;
}

bool LatenessBook::RankState::SpacingIsOfBurst() {
  return !apart_ns.empty() && spacing_ns * kBurst < LowerMedian(&apart_ns);
}

uint64_t LatenessBook::MedianSpacingNs() {
  values_.clear();
  for (RankState& state : ranks_) {
    const bool most_are_spaced = 2 * state.spaced_ops >= window_ops_;
    state.CountSpacings();
    if (state.spacing_ns == 0) continue;
    values_.push_back(state.spacing_ns);
    const bool is_of_burst = most_are_spaced && state.SpacingIsOfBurst();
    if (state.spacing_is_known && !is_of_burst) state.window.spacing_ns = state.spacing_ns;
  }
  return LowerMedian(&values_);
}

uint64_t LatenessBook::MedianWaitedNs() {
  values_.clear();
  for (const RankState& state : ranks_) {
    if (state.in_epoch) values_.push_back(state.WithoutLongestOpNs());
  }
  return LowerMedian(&values_);
}

void LatenessBook::CloseWindowIfOver(Now now) {
  if (window_start_ns_ == 0) window_start_ns_ = now.monotonic_ns;
  const uint64_t length_ns = now.monotonic_ns - window_start_ns_;
  if (window_ops_ < kFewestOps || length_ns < kShortestWindowNs) return;
  last_.number += 1;
  last_.end_ns = now.monotonic_ns;
  last_.length_ns = length_ns;
  last_.ops = window_ops_;
  last_.median_spacing_ns = MedianSpacingNs();
  last_.late_ranks.clear();
  uint64_t longest_ns = 0;
  for (const RankState& state : ranks_) longest_ns = std::max(longest_ns, state.WithoutLongestOpNs());
  const auto least_ns = std::max({static_cast<uint64_t>(kLeastShare * static_cast<double>(length_ns)),
                                  kStandsOut * MedianWaitedNs(), longest_ns / kHidden});
  for (RankState& state : ranks_) {
    if (state.WithoutLongestOpNs() >= least_ns) last_.late_ranks.push_back(state.window);
    state.window = {.rank = state.window.rank};
    state.apart_ns.clear();
    state.op_waited_ns = 0;
    state.longest_op_ns = 0;
  }
  const size_t listed = std::min(last_.late_ranks.size(), kMaxLateRanksListed);
  std::partial_sort(last_.late_ranks.begin(), last_.late_ranks.begin() + static_cast<std::ptrdiff_t>(listed),
                    last_.late_ranks.end(),
                    [](const LateRank& left, const LateRank& right) { return left.waited_ns > right.waited_ns; });
  last_.late_ranks.resize(listed);
  window_start_ns_ = now.monotonic_ns;
  window_ops_ = 0;
}

}  // namespace shoal
