#include "core/call_pace.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

// Without the port, which each connection draws anew.
std::string HostOf(const std::string& from) { return from.substr(0, from.rfind(':')); }

std::string KeyOf(bool has_ended_well, const CallFacts& call) {
  return absl::StrCat(has_ended_well ? "1 " : "0 ", call.who, " ", HostOf(call.from), " ", call.call);
}

}  // namespace

bool CallPace::Admit(uint64_t now_ns, CallFacts* call) {
  const bool has_ended_well = call->outcome == "ok";
  std::string key = KeyOf(has_ended_well, *call);
  // Callers beyond those that can be told apart share one window.
  if (windows_.size() >= kMostKeys && !windows_.contains(key)) key.resize(1);
  Window& window = windows_[key];
  if (now_ns - window.began_ns >= kWindowNs) {
    window.began_ns = now_ns;
    window.told = 0;
  }
  const uint32_t most = has_ended_well ? kMostGoodCallsAMinute : kMostRefusedCallsAMinute;
  if (window.told == most) {
    const uint64_t left_out = window.last.left_out + 1;
    window.last = *call;
    window.last.left_out = left_out;
    return false;
  }
  ++window.told;
  call->left_out = std::exchange(window.last.left_out, 0);
  return true;
}

std::vector<CallFacts> CallPace::TakeOverdue(uint64_t now_ns) {
  std::vector<CallFacts> overdue;
  if (now_ns < next_look_ns_) return overdue;
  next_look_ns_ = now_ns + kNsPerS;
  for (auto at = windows_.begin(); at != windows_.end();) {
    Window& window = at->second;
    if (now_ns - window.began_ns < kWindowNs) {
      ++at;
      continue;
    }
    if (window.last.left_out > 0) {
      --window.last.left_out;
      overdue.push_back(std::move(window.last));
    }
    at = windows_.erase(at);
  }
  return overdue;
}

}  // namespace shoal
