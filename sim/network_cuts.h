// Which ways of the simulated network are cut, since when, and until when.
//
// A side of a cut is a node, an address on one, or "" (everybody). What happens inside a node is never cut. What is
// sent over a way that is cut is not lost for good: TCP repeats it, so it arrives after the end of the cut, unless an
// end of its connection has given up by then (SimNetwork). Pure.
#ifndef SHOAL_SIM_NETWORK_CUTS_H_
#define SHOAL_SIM_NETWORK_CUTS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace shoal::sim {

// One end of a way.
struct CutEnd {
  std::string node;
  std::string address;
};

struct NetworkCut {
  std::string from;
  std::string to;
  bool one_way = false;  // only what goes from `from` to `to`
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;

  bool Covers(const CutEnd& sender, const CutEnd& receiver) const;
};

class NetworkCuts {
 public:
  // Forgets cuts that ended before this one begins. `cut` begins now.
  void Add(NetworkCut cut);
  // When something that starts now gets through: now, or when the last cut of the way ends.
  uint64_t OpenNs(const CutEnd& sender, const CutEnd& receiver, uint64_t now_ns) const;
  // Since when nothing comes back of what either side asks the other, without a break; now: the way is open.
  uint64_t SilentSinceNs(const CutEnd& a, const CutEnd& b, uint64_t now_ns) const;

 private:
  std::vector<NetworkCut> cuts_;
};

}  // namespace shoal::sim

#endif  // SHOAL_SIM_NETWORK_CUTS_H_
