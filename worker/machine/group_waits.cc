#include "worker/machine/group_waits.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace shoal {

GroupWaits::GroupWaits(uint64_t now_ns, uint64_t open_deadline_ns)
    : open_wait_(now_ns, open_deadline_ns), next_line_ns_(open_wait_.due_ns()) {}

void GroupWaits::NoteOpened() { opened_ = true; }

void GroupWaits::Watch(const WorkerOp& op) { next_line_ns_ = std::min(next_line_ns_, op.wait().due_ns()); }

void GroupWaits::NoteOpsEnded() { next_line_ns_ = opened_ ? leave_wait_.due_ns() : open_wait_.due_ns(); }

void GroupWaits::Leave(uint64_t now_ns, uint64_t until_ns) {
  if (leave_by_ns_ <= until_ns) return;
  leave_by_ns_ = until_ns;
  leave_wait_ = WaitReport(now_ns, until_ns);
  next_line_ns_ = leave_wait_.due_ns();
}

std::optional<std::string> GroupWaits::TakeLine(ChunkFlow* flow, const GroupDescription& description, Now now) {
  std::optional<std::string> line;
  if (now.monotonic_ns < next_line_ns_) return line;
  if (!opened_) {
    if (open_wait_.TakeDue(now.monotonic_ns)) {
      line = absl::StrCat(open_wait_.WaitedFor("servers", now.monotonic_ns), ": ", description.MissingServers());
    }
    next_line_ns_ = open_wait_.due_ns();
    return line;
  }
  // The oldest op stands for all that wait behind it.
  if (const WorkerOp* const oldest = flow->ops().OldestOpen(); oldest != nullptr) {
    if (flow->TakeWaitDueOfOldest(now.monotonic_ns)) {
      const std::string whom = description.WaitedFor(oldest, oldest->missing_ranks());
      line = absl::StrCat(oldest->wait().WaitedFor(whom, now.monotonic_ns), ": ", description.Op(*oldest), ", ",
                          GroupDescription::Progress(*oldest));
    }
    next_line_ns_ = oldest->wait().due_ns();
    return line;
  }
  const bool is_over = now.monotonic_ns >= leave_by_ns_;  // the end speaks for itself
  if (!is_over && leave_wait_.TakeDue(now.monotonic_ns)) {
    const std::string whom = description.WaitedFor(nullptr, leave_missing_);
    line =
        absl::StrCat(leave_wait_.WaitedFor(whom, now.monotonic_ns), ": group \"", description.name(),
                     "\" is closed here but stays until all ranks have their results of ", description.Uncommitted());
  }
  next_line_ns_ = is_over ? kNoDeadline : leave_wait_.due_ns();
  return line;
}

std::string GroupWaits::LeftWithoutTheOthers(const GroupDescription& description, Now now) const {
  const bool known = leave_missing_.missing_count > 0;
  const std::string whom = known ? std::string() : absl::StrCat(" for ", description.WaitedFor(nullptr, {}));
  return absl::StrCat("left group \"", description.name(), "\" after it waited ", leave_wait_.Elapsed(now.monotonic_ns),
                      whom, ", although ", known ? description.MissingRanks(leave_missing_) : "some rank",
                      " may lack results of ", description.Uncommitted());
}

}  // namespace shoal
