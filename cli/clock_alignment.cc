#include "cli/clock_alignment.h"

#include <algorithm>
#include <limits>
#include <map>
#include <queue>
#include <tuple>
#include <utility>

namespace shoal::cli {
namespace {

constexpr int64_t kFarNs = std::numeric_limits<int64_t>::max();

struct Comparison {
  size_t other = 0;
  int64_t ahead_ns = 0;  // the other's clock, of this one's
  int64_t error_ns = 0;
};

// Two clocks may run apart so fast: what processors' and nodes' clocks keep (RFC 5905 takes 15 ppm for one of them).
constexpr int64_t kMostDriftPpm = 30;

// In which a member saw frames, by its own clock.
struct Span {
  int64_t first_ns = kFarNs;
  int64_t last_ns = -kFarNs;

  void Add(int64_t at_ns) {
    first_ns = std::min(first_ns, at_ns);
    last_ns = std::max(last_ns, at_ns);
  }
  int64_t length_ns() const { return last_ns - first_ns; }
};

// By member, of those that sent it something and were sent something by it.
std::vector<std::vector<Comparison>> Compare(size_t members, const std::vector<SeenFrame>& frames) {
  std::map<std::pair<size_t, size_t>, int64_t> fastest_ns;  // from, to: arrival less departure
  std::vector<Span> spans(members);
  for (const SeenFrame& frame : frames) {
    spans[frame.from].Add(frame.sent_ns);
    spans[frame.to].Add(frame.arrived_ns);
    int64_t& of_way_ns = fastest_ns.try_emplace({frame.from, frame.to}, kFarNs).first->second;
    of_way_ns = std::min(of_way_ns, frame.arrived_ns - frame.sent_ns);
  }
  std::vector<std::vector<Comparison>> compared(members);
  for (const auto& [way, there_ns] : fastest_ns) {
    const auto back = fastest_ns.find({way.second, way.first});
    if (way.first >= way.second || back == fastest_ns.end()) continue;
    // `there_ns` is the delay there plus what the other clock is ahead, and `back_ns` the delay back less that.
    const int64_t back_ns = back->second;
    const int64_t ahead_ns = (there_ns - back_ns) / 2;
    // The fastest frames there and back may be from the two ends of the time, in which the clocks have moved apart.
    const int64_t span_ns = std::max(spans[way.first].length_ns(), spans[way.second].length_ns());
    const int64_t drift_ns = span_ns / 1000 * kMostDriftPpm / 1000;
    const int64_t error_ns = std::max<int64_t>(0, (there_ns + back_ns) / 2) + drift_ns;
    compared[way.first].push_back({way.second, ahead_ns, error_ns});
    compared[way.second].push_back({way.first, -ahead_ns, error_ns});
  }
  return compared;
}

}  // namespace

std::vector<AlignedClock> AlignClocks(size_t members, const std::vector<SeenFrame>& frames) {
  const std::vector<std::vector<Comparison>> compared = Compare(members, frames);
  std::vector<size_t> by_connections(members);
  for (size_t i = 0; i < members; ++i) by_connections[i] = i;
  std::stable_sort(by_connections.begin(), by_connections.end(),
                   [&](size_t left, size_t right) { return compared[left].size() > compared[right].size(); });
  std::vector<AlignedClock> clocks(members);
  std::vector<bool> is_done(members);
  for (const size_t reference : by_connections) {
    if (is_done[reference]) continue;
    // The shortest ways from here, by their errors (Dijkstra).
    std::priority_queue<std::tuple<int64_t, size_t, int64_t>, std::vector<std::tuple<int64_t, size_t, int64_t>>,
                        std::greater<>>
        next;
    next.emplace(0, reference, 0);
    while (!next.empty()) {
      const auto [error_ns, member, offset_ns] = next.top();
      next.pop();
      if (is_done[member]) continue;
      is_done[member] = true;
      clocks[member] = {reference, offset_ns, error_ns};
      for (const Comparison& each : compared[member]) {
        if (!is_done[each.other]) next.emplace(error_ns + each.error_ns, each.other, offset_ns - each.ahead_ns);
      }
    }
  }
  return clocks;
}

}  // namespace shoal::cli
