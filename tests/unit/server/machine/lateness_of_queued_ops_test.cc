// Who is waited for where ops are queued, so that links are full all the time: arrivals as a small model of ranks,
// links and servers makes them.
#include <algorithm>
#include <cstdint>
#include <map>
#include <queue>
#include <string>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/machine/lateness_book.h"

namespace shoal {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr uint64_t kChunkNs = 1'300'000;  // 32 KiB at 200 Mbit/s

struct ModelRank {
  uint64_t push_ns = kChunkNs;    // a chunk takes on its way to any server
  uint64_t result_ns = kChunkNs;  // and on its way back
  uint64_t pause_ns = 0;          // between an op's end, for which the rank has waited, and its next call
  uint64_t first_push_ns = 0;     // it can't send before
};

struct ModelOptions {
  std::vector<ModelRank> ranks = std::vector<ModelRank>(4);
  uint32_t servers = 4;
  uint32_t credit = 2;
  uint32_t chunks_of_op = 32;
  uint32_t ops_queued = 4;
};

// The book of the first one of some servers. Ranks have a link each way, which carries one chunk after the other.
class QueuedOps {
 public:
  explicit QueuedOps(ModelOptions options)
      : options_(std::move(options)),
        book_(static_cast<uint32_t>(options_.ranks.size()), options_.credit + 1),
        ranks_(options_.ranks.size()) {
    for (uint32_t r = 0; r < ranks_.size(); ++r) {
      ranks_[r].next.resize(options_.servers);
      for (uint32_t s = 0; s < options_.servers; ++s) ranks_[r].next[s] = s;
      ranks_[r].in_flight.resize(options_.servers);
      ranks_[r].up_free_ns = options_.ranks[r].first_push_ns;
      for (uint32_t op = 0; op < options_.ops_queued; ++op) At(0, Kind::kCall, r, 0);
    }
  }

  // The shares of the time for which ranks were waited for, by rank, in each window; those that the window lists.
  std::vector<std::map<uint32_t, double>> Run(uint64_t until_ns) {
    std::vector<std::map<uint32_t, double>> windows;
    while (!events_.empty()) {
      const auto [ns, sequence, kind, rank, chunk] = events_.top();
      if (ns > until_ns) break;
      events_.pop();
      if (kind == Kind::kCall) {
        ++ranks_[rank].called;
        Push(rank, ns);
      } else if (kind == Kind::kLanded) {
        OnLanded(rank, chunk, ns);
      } else {
        OnResult(rank, chunk, ns);
      }
      const LatenessWindow& window = book_.last_window();
      if (window.number == windows.size()) continue;
      windows.emplace_back();
      for (const LateRank& late : window.late_ranks) {
        windows.back()[late.rank.value()] = static_cast<double>(late.waited_ns) / static_cast<double>(window.length_ns);
      }
    }
    return windows;
  }

 private:
  enum class Kind : uint8_t { kCall, kLanded, kResult };
  struct State {
    std::vector<uint64_t> next;  // by server; chunks of all ops are numbered through
    std::vector<uint32_t> in_flight;
    std::map<uint64_t, uint8_t> told;  // by chunk to the first server: what its push says is in flight
    uint64_t called = 0;               // ops
    std::map<uint64_t, uint32_t> results;
    uint64_t up_free_ns = 0;
    uint64_t down_free_ns = 0;
  };

  static Now AtNs(uint64_t ns) { return {.monotonic_ns = kNsPerS + ns, .unix_ms = 0}; }
  void At(uint64_t ns, Kind kind, uint32_t rank, uint64_t chunk) { events_.push({ns, sequence_++, kind, rank, chunk}); }
  bool HasNext(const State& state, uint32_t server) const {
    return state.next[server] / options_.chunks_of_op < state.called;
  }

  void Push(uint32_t rank, uint64_t ns) {
    State& state = ranks_[rank];
    while (true) {
      int best = -1;
      for (uint32_t s = 0; s < options_.servers; ++s) {
        if (state.in_flight[s] == options_.credit || !HasNext(state, s)) continue;
        if (best < 0 || state.next[s] < state.next[static_cast<size_t>(best)]) best = static_cast<int>(s);
      }
      if (best < 0) return;
      const auto server = static_cast<uint32_t>(best);
      const uint64_t chunk = state.next[server];
      state.next[server] += options_.servers;
      ++state.in_flight[server];
      uint32_t in_flight = 0;
      for (const uint32_t each : state.in_flight) in_flight += each;
      if (server == 0) state.told[chunk] = HasNext(state, 0) ? static_cast<uint8_t>(in_flight) : uint8_t{0};
      state.up_free_ns = std::max(ns, state.up_free_ns) + options_.ranks[rank].push_ns;
      At(state.up_free_ns, Kind::kLanded, rank, chunk);
    }
  }

  void OnLanded(uint32_t rank, uint64_t chunk, uint64_t ns) {
    const uint32_t landed = ++landed_[chunk];
    if (chunk % options_.servers == 0) {
      const OpNumber op(1 + chunk / options_.chunks_of_op);
      const ChunkNumber of_op(static_cast<uint32_t>(chunk % options_.chunks_of_op));
      const auto slot = static_cast<uint32_t>(chunk / options_.servers % (options_.credit + 1));
      book_.OnOffered({.op = op, .chunk = of_op, .rank = Rank(rank), .in_flight = ranks_[rank].told[chunk]}, AtNs(ns));
      ranks_[rank].told.erase(chunk);
      if (landed == 1) book_.OnGathering(slot, op, of_op, options_.chunks_of_op);
      book_.OnLanding(Rank(rank));
      book_.OnLandingEnded(Rank(rank), false, AtNs(ns));
      book_.OnContribution(slot, op, Rank(rank), landed, AtNs(ns));
      if (landed == ranks_.size()) book_.OnGathered(slot, AtNs(ns));
    }
    if (landed < ranks_.size()) return;
    landed_.erase(chunk);
    for (uint32_t r = 0; r < ranks_.size(); ++r) {
      ranks_[r].down_free_ns = std::max(ns, ranks_[r].down_free_ns) + options_.ranks[r].result_ns;
      At(ranks_[r].down_free_ns, Kind::kResult, r, chunk);
    }
  }

  void OnResult(uint32_t rank, uint64_t chunk, uint64_t ns) {
    State& state = ranks_[rank];
    --state.in_flight[chunk % options_.servers];
    if (++state.results[chunk / options_.chunks_of_op] == options_.chunks_of_op) {
      state.results.erase(chunk / options_.chunks_of_op);
      At(ns + options_.ranks[rank].pause_ns, Kind::kCall, rank, 0);
    }
    Push(rank, ns);
  }

  const ModelOptions options_;
  LatenessBook book_;
  std::vector<State> ranks_;
  std::map<uint64_t, uint32_t> landed_;  // ranks, by chunk
  std::priority_queue<std::tuple<uint64_t, uint64_t, Kind, uint32_t, uint64_t>,
                      std::vector<std::tuple<uint64_t, uint64_t, Kind, uint32_t, uint64_t>>, std::greater<>>
      events_;
  uint64_t sequence_ = 0;
};

constexpr uint64_t kRunNs = 6 * kNsPerS;

// The ranks that every window but the first one lists for a twentieth of the time or more, with the share of the last.
std::map<uint32_t, double> AlwaysLate(const ModelOptions& options) {
  const std::vector<std::map<uint32_t, double>> windows = QueuedOps(options).Run(kRunNs);
  EXPECT_GE(windows.size(), 3u);
  std::map<uint32_t, double> late = windows.back();
  for (size_t i = 1; i < windows.size(); ++i) {
    std::erase_if(late, [&](const auto& each) {
      const auto found = windows[i].find(each.first);
      return found == windows[i].end() || found->second < 0.05;
    });
  }
  return late;
}

std::vector<uint32_t> RanksOf(const std::map<uint32_t, double>& late) {
  std::vector<uint32_t> ranks;
  for (const auto& [rank, share] : late) ranks.push_back(rank);
  return ranks;
}

// Rank 2 was away for a tenth of a second once, and is behind ever since: all others are ahead of it by all that they
// may have in flight, and all links are full.
TEST(LatenessOfQueuedOps, ARankThatIsBehindWhileAllLinksAreFullIsNotWaitedFor) {
  for (const uint32_t servers : {2u, 3u, 4u, 8u, 16u}) {
    for (const uint32_t credit : {2u, 3u, 8u}) {
      for (const uint32_t chunks_of_op : {1u, servers, 8 * servers}) {
        ModelOptions options = {.servers = servers, .credit = credit, .chunks_of_op = chunks_of_op};
        options.ops_queued = 4 * servers * credit / chunks_of_op + 2;
        options.ranks[2].first_push_ns = 100 * kNsPerMs;
        EXPECT_THAT(AlwaysLate(options), IsEmpty())
            << servers << " servers, credit of " << credit << ", ops of " << chunks_of_op;
      }
    }
  }
}

TEST(LatenessOfQueuedOps, ASlowLinkIsWaitedFor) {
  for (const uint32_t servers : {2u, 4u, 8u, 16u}) {
    for (const uint32_t credit : {2u, 3u}) {
      ModelOptions options = {.servers = servers, .credit = credit};
      options.ranks[2].push_ns = 2 * kChunkNs;
      const std::map<uint32_t, double> late = AlwaysLate(options);
      ASSERT_THAT(RanksOf(late), ElementsAre(2)) << servers << " servers, credit of " << credit;
      EXPECT_GT(late.at(2), 0.2);
      EXPECT_LT(late.at(2), 0.8) << "the others could be twice as fast";
    }
  }
}

TEST(LatenessOfQueuedOps, ASlowWayBackIsWaitedFor) {
  ModelOptions options;
  options.ranks[1].result_ns = 4 * kChunkNs;
  EXPECT_THAT(RanksOf(AlwaysLate(options)), ElementsAre(1));
}

TEST(LatenessOfQueuedOps, TwoSlowLinksAreBothWaitedFor) {
  ModelOptions options;
  options.ranks[0].push_ns = 2 * kChunkNs;
  options.ranks[3].push_ns = 2 * kChunkNs + 10'000;
  const std::vector<std::map<uint32_t, double>> windows = QueuedOps(options).Run(kRunNs);
  for (size_t i = 1; i < windows.size(); ++i) {
    EXPECT_FALSE(windows[i].empty());
    EXPECT_FALSE(windows[i].contains(1));
    EXPECT_FALSE(windows[i].contains(2));
  }
}

TEST(LatenessOfQueuedOps, ARankThatComputesForLongerIsWaitedFor) {
  for (const uint32_t ops_queued : {1u, 2u}) {
    ModelOptions options = {.chunks_of_op = 8, .ops_queued = ops_queued};
    options.ranks[2].pause_ns = 20 * kNsPerMs;
    const std::map<uint32_t, double> late = AlwaysLate(options);
    ASSERT_THAT(RanksOf(late), ElementsAre(2)) << ops_queued;
    EXPECT_GT(late.at(2), 0.1);
  }
}

// A step of many chunks, of which all but the first ones go as fast as the links: the wait at its beginning counts.
TEST(LatenessOfQueuedOps, ARankThatComputesForLongerBeforeALongOpIsWaitedForByAsMuch) {
  ModelOptions options = {.chunks_of_op = 64, .ops_queued = 1};
  options.ranks[2].pause_ns = 20 * kNsPerMs;
  const std::map<uint32_t, double> late = AlwaysLate(options);
  ASSERT_THAT(RanksOf(late), ElementsAre(2));
  EXPECT_GT(late.at(2), 0.1) << "20 ms of some 107";
  EXPECT_LT(late.at(2), 0.35);
}

// Its chunks are there at once, and those of all others late.
TEST(LatenessOfQueuedOps, ARankOnTheServersNodeMakesNobodyLate) {
  ModelOptions options;
  options.ranks[0] = {.push_ns = 50'000, .result_ns = 50'000};
  options.ranks[2].first_push_ns = 100 * kNsPerMs;
  EXPECT_THAT(AlwaysLate(options), IsEmpty());
  options.ranks[2].push_ns = 2 * kChunkNs;
  EXPECT_THAT(RanksOf(AlwaysLate(options)), ElementsAre(2));
}

}  // namespace
}  // namespace shoal
