// The waits of a group that may last: for its servers when it opens, for its oldest op, and for the other ranks when it
// is closed. Says when a line about one is due (core/wait_report.h), and what it says.
//
// One thread.
#ifndef SHOAL_WORKER_MACHINE_GROUP_WAITS_H_
#define SHOAL_WORKER_MACHINE_GROUP_WAITS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "core/frame.h"
#include "core/now.h"
#include "core/wait_report.h"
#include "worker/machine/chunk_flow.h"
#include "worker/machine/group_description.h"

namespace shoal {

class GroupWaits {
 public:
  // Knows of no wait but that for the other ranks at the end.
  GroupWaits() = default;
  // The group waits for its servers, from now on until the deadline.
  GroupWaits(uint64_t now_ns, uint64_t open_deadline_ns);

  // ---- what happened ----

  void NoteOpened();
  // The op was submitted, or went on: a line about it may be due earlier than was thought.
  void Watch(const WorkerOp& op);
  // No op is left to wait for.
  void NoteOpsEnded();
  // The group has failed: it waits for nothing any more.
  void Silence() { next_line_ns_ = kNoDeadline; }
  // The group is closed and all its ops are done: from now on it waits for the other ranks, at the latest until then.
  // An earlier end that was named before stays.
  void Leave(uint64_t now_ns, uint64_t until_ns);
  // What a server said last of the ranks that lack results of a group that is being left; none missing: nothing.
  void NoteMissingRanks(const Waiting& missing) { leave_missing_ = missing; }

  bool leaving() const { return leave_by_ns_ != kNoDeadline; }
  // kNoDeadline: it is not being left.
  uint64_t leave_by_ns() const { return leave_by_ns_; }

  // ---- lines ----

  // When to call TakeLine.
  uint64_t next_line_ns() const { return next_line_ns_; }
  // The line that is due; nullopt: none. `flow` is told when it is about its oldest op.
  std::optional<std::string> TakeLine(ChunkFlow* flow, const GroupDescription& description, Now now);
  // The line about a group that is left although some rank may lack results.
  std::string LeftWithoutTheOthers(const GroupDescription& description, Now now) const;

 private:
  bool opened_ = false;
  WaitReport open_wait_;
  WaitReport leave_wait_;  // never due: it is not being left
  uint64_t leave_by_ns_ = kNoDeadline;
  Waiting leave_missing_;
  uint64_t next_line_ns_ = kNoDeadline;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_GROUP_WAITS_H_
