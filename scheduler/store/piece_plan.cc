#include "scheduler/store/piece_plan.h"

#include <openssl/sha.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <unordered_map>
#include <utility>

#include "scheduler/store/content_pieces.h"

namespace shoal::scheduler {
namespace {

// No piece has one of these.
constexpr uint64_t kBeforeAll = 0;
constexpr uint64_t kAfterAll = std::numeric_limits<uint64_t>::max();
// The first pieces lie about the middle, with as much room before and behind them. There is room for 2^23 of them, of
// 32 GiB on average, and forty times in a row for one more right behind the same piece.
constexpr uint64_t kMiddle = uint64_t{1} << 63;
constexpr uint64_t kMostSpacing = uint64_t{1} << 40;

// A piece that stays: indices into what is kept and what is wanted.
struct Stay {
  size_t kept = 0;
  size_t wanted = 0;
};

// The longest run of pieces that are in both in the same order. To take for each wanted piece the next one that is the
// same would be simpler, but a single piece that has moved to the front would let all before its old place be written
// again. Of a piece that repeats, the first one there is taken for the first one wanted, and so on. That is not always
// the best choice, but it takes n log n steps for n equal pieces instead of n squared.
std::vector<Stay> LongestRun(const std::vector<KeptPiece>& kept, const std::vector<StatePiece>& wanted) {
  std::unordered_map<std::string_view, std::vector<size_t>> places;  // in `kept`, the last one first
  for (size_t i = kept.size(); i-- > 0;) places[kept[i].digest].push_back(i);

  // Longest increasing subsequence: of all runs of the same length that were seen so far, the one whose last piece has
  // the lowest place in `kept` can be continued by most.
  constexpr size_t kNone = std::numeric_limits<size_t>::max();
  struct Link {
    Stay stay;
    size_t before = kNone;  // in the run that ends with this one
  };
  std::vector<Link> links;
  std::vector<size_t> ends;  // of the best run of each length, from 1
  for (size_t i = 0; i < wanted.size(); ++i) {
    const auto found = places.find(wanted[i].digest);
    if (found == places.end() || found->second.empty()) continue;
    const size_t place = found->second.back();
    found->second.pop_back();
    const auto longer = std::lower_bound(ends.begin(), ends.end(), place,
                                         [&](size_t end, size_t at) { return links[end].stay.kept < at; });
    links.push_back(
        {.stay = {.kept = place, .wanted = i}, .before = longer == ends.begin() ? kNone : *std::prev(longer)});
    if (longer == ends.end()) {
      ends.push_back(links.size() - 1);
    } else {
      *longer = links.size() - 1;
    }
  }
  std::vector<Stay> run;
  for (size_t at = ends.empty() ? kNone : ends.back(); at != kNone; at = links[at].before) {
    run.push_back(links[at].stay);
  }
  std::reverse(run.begin(), run.end());
  return run;
}

// Rising numbers: first, first + step, first + 2 step...
struct Numbers {
  uint64_t first = 0;
  uint64_t step = 0;
};

// `count` of them, all between the two, as far from each other as is of use. nullopt: there are not so many.
std::optional<Numbers> NumbersBetween(uint64_t below, uint64_t above, size_t count) {
  if (above - below <= count) return std::nullopt;
  const uint64_t step = std::min<uint64_t>((above - below) / (count + 1), kMostSpacing);
  if (below != kBeforeAll) return Numbers{.first = below + step, .step = step};
  if (above != kAfterAll) return Numbers{.first = above - step * count, .step = step};
  return Numbers{.first = kMiddle - step * (count / 2), .step = step};
}

// nullopt: somewhere there is no room between two numbers.
std::optional<PiecePlan> Plan(const std::vector<KeptPiece>& kept, const std::vector<StatePiece>& wanted) {
  PiecePlan plan;
  plan.kept.reserve(wanted.size());
  const auto put = [&plan](uint64_t number, const StatePiece& piece) {
    plan.puts.push_back({.number = number, .bytes = piece.bytes});
    plan.kept.push_back({.number = number, .digest = piece.digest});
  };
  std::vector<Stay> stays = LongestRun(kept, wanted);
  stays.push_back({.kept = kept.size(), .wanted = wanted.size()});
  size_t old = 0;
  size_t next = 0;
  uint64_t below = kBeforeAll;
  // What lies between two pieces that stay: new ones take the numbers of those that go, and then others behind them.
  for (const Stay& stay : stays) {
    const bool is_end = stay.kept == kept.size();
    const uint64_t above = is_end ? kAfterAll : kept[stay.kept].number;
    for (; old < stay.kept && next < stay.wanted; ++old, ++next) {
      below = kept[old].number;
      put(below, wanted[next]);
    }
    for (; old < stay.kept; ++old) plan.removed.push_back(kept[old].number);
    if (next < stay.wanted) {
      const std::optional<Numbers> numbers = NumbersBetween(below, above, stay.wanted - next);
      if (!numbers.has_value()) return std::nullopt;
      for (uint64_t number = numbers->first; next < stay.wanted; ++next, number += numbers->step) {
        put(number, wanted[next]);
      }
    }
    if (is_end) break;
    plan.kept.push_back(kept[stay.kept]);
    below = above;
    ++old;
    ++next;
  }
  return plan;
}

bool FitsOneTransaction(const PiecePlan& plan) {
  size_t put_bytes = 0;
  for (const PiecePlan::Put& put : plan.puts) put_bytes += put.bytes.size();
  return plan.puts.size() + plan.removed.size() + 1 <= kMostOperations && put_bytes <= kMostPutBytes;
}

}  // namespace

std::string Sha256Of(std::string_view bytes) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

std::vector<StatePiece> CutState(std::string_view state) {
  std::vector<StatePiece> pieces;
  for (const std::string_view bytes : CutByContent(state)) {
    pieces.push_back({.bytes = bytes, .digest = Sha256Of(bytes)});
  }
  return pieces;
}

std::optional<PiecePlan> PlanChange(const std::vector<KeptPiece>& kept, const std::vector<StatePiece>& wanted) {
  std::optional<PiecePlan> plan = Plan(kept, wanted);
  if (plan.has_value() && !FitsOneTransaction(*plan)) plan.reset();
  return plan;
}

PiecePlan PlanAnew(const std::vector<StatePiece>& wanted) {
  return *Plan({}, wanted);  // there is room for any number of pieces that memory can hold
}

}  // namespace shoal::scheduler
