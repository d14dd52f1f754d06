// When a wait has lasted long enough for a line in the log, and how the line begins: the first is due after a quarter
// of the time that the wait may last, ten seconds at most; each next one after as long again, a minute at most. Pure.
#ifndef SHOAL_CORE_WAIT_REPORT_H_
#define SHOAL_CORE_WAIT_REPORT_H_

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/duration_text.h"
#include "core/now.h"

namespace shoal {

class WaitReport {
 public:
  WaitReport() = default;  // never due
  // kNoDeadline: there is none.
  WaitReport(uint64_t since_ns, uint64_t deadline_ns) : deadline_ns_(deadline_ns) { BeginAt(since_ns); }

  // What is waited for went on at that time: the wait counts from there, if that is later.
  void NoteProgress(uint64_t at_ns) {
    if (at_ns > since_ns_) BeginAt(at_ns);
  }
  // The start of the wait, or the last progress.
  uint64_t since_ns() const { return since_ns_; }

  uint64_t due_ns() const { return due_ns_; }

  // True: a line is due now.
  bool TakeDue(uint64_t now_ns) {
    if (now_ns < due_ns_) return false;
    reported_ = true;
    due_ns_ = now_ns + std::clamp(now_ns - std::min(since_ns_, now_ns), kMinIntervalNs, kMaxIntervalNs);
    return true;
  }

  bool reported() const { return reported_; }

  // "12 s".
  std::string Elapsed(uint64_t now_ns) const { return Seconds(now_ns - std::min(since_ns_, now_ns)); }

  // "waited 12 s for rank 2 (18 s left)", or without a deadline "waited 12 s for rank 2". The way to begin a line.
  std::string WaitedFor(absl::string_view whom, uint64_t now_ns) const {
    const std::string text = absl::StrCat("waited ", Elapsed(now_ns), " for ", whom);
    if (deadline_ns_ == kNoDeadline) return text;
    return absl::StrCat(text, " (", Seconds(deadline_ns_ - std::min(now_ns, deadline_ns_)), " left)");
  }

 private:
  void BeginAt(uint64_t since_ns) {
    since_ns_ = since_ns;
    const uint64_t may_last_ns =
        deadline_ns_ == kNoDeadline ? kNoDeadline : deadline_ns_ - std::min(since_ns, deadline_ns_);
    due_ns_ = since_ns + std::min(may_last_ns / 4, kMaxFirstNs);
  }

  static constexpr uint64_t kMaxFirstNs = 10 * kNsPerS;
  static constexpr uint64_t kMinIntervalNs = kNsPerS / 4;
  static constexpr uint64_t kMaxIntervalNs = 60 * kNsPerS;

  uint64_t since_ns_ = 0;
  uint64_t deadline_ns_ = kNoDeadline;
  uint64_t due_ns_ = kNoDeadline;
  bool reported_ = false;
};

}  // namespace shoal

#endif  // SHOAL_CORE_WAIT_REPORT_H_
