#include "worker/machine/group_waits.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace shoal {

GroupWaits::GroupWaits(uint64_t now_ns, uint64_t open_deadline_ns)
    : open_wait_(now_ns, open_deadline_ns), next_line_ns_(open_wait_.due_ns()) {}

void GroupWaits::NoteOpened() { opened_ = true; }

void GroupWaits::NoteSubmitted(WorkerOp* op) { next_line_ns_ = std::min(next_line_ns_, op->wait().due_ns()); }

void GroupWaits::NoteOpsEnded() { next_line_ns_ = opened_ ? leave_wait_.due_ns() : open_wait_.due_ns(); }

void GroupWaits::Leave(uint64_t now_ns, uint64_t until_ns) {
  if (leave_by_ns_ <= until_ns) return;
  leave_by_ns_ = until_ns;
  leave_wait_ = WaitReport(now_ns, until_ns);
  next_line_ns_ = leave_wait_.due_ns();
}

std::optional<std::string> GroupWaits::TakeLine(OpQueue* ops, const GroupDescription& description, Now now) {
  std::optional<std::string> line;
  if (now.monotonic_ns < next_line_ns_) return line;
  if (!opened_) {
    if (open_wait_.TakeDue(now.monotonic_ns)) {
      line = absl::StrCat("waiting for servers since ", open_wait_.Text(now.monotonic_ns), ": ",
                          description.MissingServers());
    }
    next_line_ns_ = open_wait_.due_ns();
    return line;
  }
  // The oldest op stands for all that wait behind it.
  if (WorkerOp* const oldest = ops->OldestOpen(); oldest != nullptr) {
    if (oldest->wait().TakeDue(now.monotonic_ns)) {
      line = absl::StrCat("waiting for ", description.WaitedFor(oldest, oldest->missing_ranks()), " since ",
                          oldest->wait().Text(now.monotonic_ns), ": ", description.Op(*oldest), ", ",
                          GroupDescription::Progress(*oldest));
    }
    next_line_ns_ = oldest->wait().due_ns();
    return line;
  }
  const bool is_over = now.monotonic_ns >= leave_by_ns_;  // the end speaks for itself
  if (!is_over && leave_wait_.TakeDue(now.monotonic_ns)) {
    line =
        absl::StrCat("waiting for ", description.WaitedFor(nullptr, leave_missing_), " since ",
                     leave_wait_.Text(now.monotonic_ns), ": group '", description.name(),
                     "' is closed here, and stays until all ranks have their results of ", description.Uncommitted());
  }
  next_line_ns_ = is_over ? kNoDeadline : leave_wait_.due_ns();
  return line;
}

std::string GroupWaits::LeftAllTheSame(const GroupDescription& description, Now now) const {
  const bool known = leave_missing_.missing_count > 0;
  return absl::StrCat("group '", description.name(), "' is left here after ", leave_wait_.Elapsed(now.monotonic_ns),
                      " all the same, although ", known ? description.MissingRanks(leave_missing_) : "some rank",
                      " may lack results of ", description.Uncommitted(),
                      known ? "" : absl::StrCat("; in vain it waited for ", description.WaitedFor(nullptr, {})));
}

}  // namespace shoal
