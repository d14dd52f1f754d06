// How many calls of one caller an audit tells: whoever makes too many fills neither log nor disk, and what was left out
// is counted. Pure; one thread.
//
// A caller's calls of one kind share a key. Of each key so many are told in a minute; what is left out is added to the
// next one of that key that is told, or told by itself once its minute is over and any call comes.
#ifndef SHOAL_CORE_CALL_PACE_H_
#define SHOAL_CORE_CALL_PACE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/log_event.h"
#include "core/now.h"

namespace shoal {

// Calls that ended well: more than any job's ranks on one node make.
inline constexpr uint32_t kMostGoodCallsAMinute = 6000;
inline constexpr uint32_t kMostRefusedCallsAMinute = 10;

class CallPace {
 public:
  // True: the call is to be told, and its left_out is set. False: it was counted.
  bool Admit(uint64_t now_ns, CallFacts* call);
  // The last ones of those that were left out a minute ago and more. Ask before Admit.
  std::vector<CallFacts> TakeOverdue(uint64_t now_ns);

 private:
  static constexpr uint64_t kWindowNs = 60 * kNsPerS;
  static constexpr size_t kMostKeys = 1024;

  struct Window {
    uint64_t began_ns = 0;
    uint32_t told = 0;
    CallFacts last;  // that was left out; its left_out counts all of them
  };

  std::map<std::string, Window> windows_;
  uint64_t next_look_ns_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_CORE_CALL_PACE_H_
