// The part of WorkerMachine that says whom it waits for: lines while a wait lasts, and the errors at its end.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "worker/machine/worker_machine.h"

namespace shoal {

void WorkerMachine::ReportWaits(uint16_t handle, Now now, WorkerOutcomes* outcomes) {
  WorkerGroup& group = *groups_[handle].group;
  if (group.state == WorkerGroup::State::kOpening) {
    if (group.open_wait.TakeDue(now.monotonic_ns)) {
      SayWait(absl::StrCat("waiting for servers since ", group.open_wait.Text(now.monotonic_ns), ": ",
                           DescribeMissingServers(group)),
              outcomes);
    }
    group.next_wait_report_ns = group.open_wait.due_ns();
    return;
  }
  // The oldest op stands for all that wait behind it.
  const auto oldest = std::find_if(group.ops.begin(), group.ops.end(), [](const WorkerOp& op) { return !op.reported; });
  if (oldest == group.ops.end()) {
    const bool is_over = now.monotonic_ns >= group.leave_by_ns;  // the end speaks for itself
    if (!is_over && group.leave_wait.TakeDue(now.monotonic_ns)) {
      SayWait(absl::StrCat("waiting for ", WhomItWaitsFor(group, nullptr), " since ",
                           group.leave_wait.Text(now.monotonic_ns), ": group '", group.info().name,
                           "' is closed here, and stays until all ranks have their results of ",
                           DescribeUncommitted(group)),
              outcomes);
    }
    group.next_wait_report_ns = is_over ? kNoDeadline : group.leave_wait.due_ns();
    return;
  }
  if (oldest->wait.TakeDue(now.monotonic_ns)) {
    SayWait(
        absl::StrCat("waiting for ", WhomItWaitsFor(group, &*oldest), " since ", oldest->wait.Text(now.monotonic_ns),
                     ": ", DescribeOp(group, *oldest), ", ", DescribeProgress(*oldest)),
        outcomes);
  }
  group.next_wait_report_ns = oldest->wait.due_ns();
}

void WorkerMachine::SayWait(std::string line, WorkerOutcomes* outcomes) {
  ++counters_.waits_reported;
  outcomes->push_back(StillWaiting{std::move(line)});
}

std::string WorkerMachine::DescribeOp(const WorkerGroup& group, const WorkerOp& op) const {
  return absl::StrCat("all-reduce ", op.number.value(), " of group '", group.info().name, "' (", op.plan.element_count,
                      " ", std::string(DataTypeName(op.dtype)), ")");
}

std::string WorkerMachine::DescribeProgress(const WorkerOp& op) const {
  const std::string text = absl::StrCat(op.chunks_landed, " of ", op.plan.chunk_count, " chunks are back");
  const auto missing = std::find(op.landed.begin(), op.landed.end(), false);
  if (op.chunks_landed == 0 || missing == op.landed.end()) return text;
  return absl::StrCat(text, ", the first that is not: chunk ", missing - op.landed.begin());
}

std::string WorkerMachine::WhomItWaitsFor(const WorkerGroup& group, const WorkerOp* op) const {
  const Waiting& waiting = op == nullptr ? group.leave_waiting : op->waiting;
  if (waiting.missing_count > 0) return DescribeMissingRanks(group, waiting);
  if (group.map().empty()) return "a reduction server (none is left)";
  std::vector<std::string> whom;
  for (const ShardLink& link : group.links) {
    const std::string server = DescribeServer(link.connection);
    const bool was_asked =
        op == nullptr || std::any_of(link.cells.begin(), link.cells.end(),
                                     [&](const ChunkInFlight& cell) { return cell.open && cell.op == op->number; });
    if (link.lost) {
      whom.push_back(absl::StrCat("a new map from the scheduler (", server, " was lost: ", link.lost_because, ")"));
    } else if (!link.welcomed) {
      whom.push_back(absl::StrCat(server, " (", WhyNotOpen(link), ")"));
    } else if (was_asked) {
      whom.push_back(absl::StrCat(server, " (no answer)"));
    }
  }
  return whom.empty() ? "the network" : absl::StrJoin(whom, ", ");
}

std::string WorkerMachine::DescribeMissingRanks(const WorkerGroup& group, const Waiting& waiting) {
  std::vector<std::string> ranks;
  for (uint32_t i = 0; i < waiting.listed_count; ++i) ranks.push_back(group.DescribeRank(waiting.ranks[i]));
  std::string text = absl::StrJoin(ranks, ", ");
  if (waiting.missing_count > waiting.listed_count) {
    absl::StrAppend(&text, " and ", waiting.missing_count - waiting.listed_count, " more");
  }
  return text;
}

std::string WorkerMachine::DescribeUncommitted(const WorkerGroup& group) {
  const uint64_t first = group.commit_watermark.value() + 1;
  const uint64_t last = group.landed_watermark().value();
  return first == last ? absl::StrCat("all-reduce ", last) : absl::StrCat("all-reduces ", first, " to ", last);
}

std::string WorkerMachine::DescribeLeavingAllTheSame(const WorkerGroup& group, Now now) const {
  const bool known = group.leave_waiting.missing_count > 0;
  return absl::StrCat("group '", group.info().name, "' is left here after ", group.leave_wait.Elapsed(now.monotonic_ns),
                      " all the same, although ",
                      known ? DescribeMissingRanks(group, group.leave_waiting) : "some rank", " may lack results of ",
                      DescribeUncommitted(group),
                      known ? "" : absl::StrCat("; in vain it waited for ", WhomItWaitsFor(group, nullptr)));
}

void WorkerMachine::SayMissingGoodbyes(WorkerOutcomes* outcomes) {
  std::vector<std::string> silent;
  for (uint32_t index = 0; index < connections_.size(); ++index) {
    const Connection& connection = connections_[index];
    if (connection.state != Connection::State::kUp || connection.bye_received) continue;
    silent.push_back(DescribeServer(index));
  }
  if (silent.empty()) return;
  SayWait(absl::StrCat("closing without waiting any longer for the goodbye of ", absl::StrJoin(silent, ", ")),
          outcomes);
}

absl::Status WorkerMachine::DescribeTimeout(const WorkerGroup& group, const WorkerOp& op, Now now) const {
  std::string text = absl::StrCat(DescribeOp(group, op), " is not done after ",
                                  WaitReport::Seconds(now.monotonic_ns - op.submitted_ns), ": ");
  if (group.state == WorkerGroup::State::kOpening) {
    absl::StrAppend(&text, DescribeMissingServers(group));
  } else if (op.waiting.missing_count > 0) {
    absl::StrAppend(&text, DescribeServer(group.links[op.waiting_shard].connection), " waits for ",
                    DescribeMissingRanks(group, op.waiting),
                    ", which made fewer calls, stands still, or itself waits for another server");
  } else {
    absl::StrAppend(&text, op.chunks_landed, " of ", op.plan.chunk_count, " chunks are back");
    if (group.map().empty()) absl::StrAppend(&text, "; no reduction server is left");
    for (const ShardLink& link : group.links) {
      if (link.lost) {
        absl::StrAppend(&text, "; ", DescribeServer(link.connection), " was lost (", link.lost_because,
                        ") and the scheduler gave no new map");
      } else if (!link.welcomed) {
        absl::StrAppend(&text, "; the group is not open on ", DescribeServer(link.connection), " (", WhyNotOpen(link),
                        ")");
      }
    }
    const char* separator = "; no answer from ";
    for (const ShardLink& link : group.links) {
      if (link.lost) continue;
      const bool waits = std::any_of(link.cells.begin(), link.cells.end(),
                                     [&](const ChunkInFlight& cell) { return cell.open && cell.op == op.number; });
      if (!waits) continue;
      absl::StrAppend(&text, separator, DescribeServer(link.connection));
      separator = ", ";
    }
  }
  return absl::DeadlineExceededError(text);
}

// A deadline's text is about the op that had it, an abort's about the caller.
absl::Status WorkerMachine::FailureOf(const WorkerGroup& group, const WorkerOp& op) const {
  const absl::Status& why = group.failure;
  if (absl::IsDeadlineExceeded(why) || absl::IsCancelled(why)) return why;
  return absl::Status(why.code(), absl::StrCat(why.message(), "; ", DescribeOp(group, op), ": ", DescribeProgress(op)));
}

std::string WorkerMachine::WhyNotOpen(const ShardLink& link) const {
  if (link.lost) return link.lost_because;
  if (link.hello_sent) return "connected, but no welcome";
  const std::string& error = connections_[link.connection].last_error;
  return error.empty() ? "no connection yet" : error;
}

std::string WorkerMachine::DescribeMissingServers(const WorkerGroup& group) const {
  if (group.map().empty()) {
    return absl::StrCat("group '", group.info().name, "' is not open: no reduction server is left");
  }
  std::string text = absl::StrCat("group '", group.info().name, "' is not open on");
  for (const ShardLink& link : group.links) {
    if (link.welcomed) continue;
    absl::StrAppend(&text, " ", DescribeServer(link.connection), " (", WhyNotOpen(link), ")");
  }
  return text;
}

std::string WorkerMachine::DescribeServer(uint32_t index) const {
  return absl::StrCat("server ", connections_[index].server_name, " (", connections_[index].address, ")");
}

}  // namespace shoal
