#include "sim/network_cuts.h"

#include <algorithm>
#include <utility>

namespace shoal::sim {
namespace {

// A cut that has ended may have been part of a silence that goes on.
constexpr uint64_t kKeptNs = 60'000'000'000;

bool IsAt(const std::string& side, const CutEnd& end) {
  return side.empty() || side == end.node || side == end.address;
}

}  // namespace

bool NetworkCut::Covers(const CutEnd& sender, const CutEnd& receiver) const {
  if (sender.node == receiver.node) return false;
  return (IsAt(from, sender) && IsAt(to, receiver)) || (!one_way && IsAt(from, receiver) && IsAt(to, sender));
}

void NetworkCuts::Add(NetworkCut cut) {
  std::erase_if(cuts_, [&](const NetworkCut& old) { return old.end_ns + kKeptNs <= cut.begin_ns; });
  cuts_.push_back(std::move(cut));
}

uint64_t NetworkCuts::OpenNs(const CutEnd& sender, const CutEnd& receiver, uint64_t now_ns) const {
  uint64_t open_ns = now_ns;
  for (const NetworkCut& cut : cuts_) {
    if (cut.end_ns > open_ns && cut.Covers(sender, receiver)) open_ns = cut.end_ns;
  }
  return open_ns;
}

uint64_t NetworkCuts::SilentSinceNs(const CutEnd& a, const CutEnd& b, uint64_t now_ns) const {
  uint64_t since_ns = now_ns;
  bool earlier = true;
  while (earlier) {
    earlier = false;
    for (const NetworkCut& cut : cuts_) {
      if (cut.begin_ns >= since_ns || cut.end_ns < since_ns || !(cut.Covers(a, b) || cut.Covers(b, a))) continue;
      since_ns = cut.begin_ns;
      earlier = true;
    }
  }
  return since_ns;
}

}  // namespace shoal::sim
