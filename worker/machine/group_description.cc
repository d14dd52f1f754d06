#include "worker/machine/group_description.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace shoal {

std::string GroupDescription::Progress(const WorkerOp& op) {
  const std::string text = absl::StrCat(op.chunks_landed(), " of ", op.chunk_count(), " chunks are back");
  if (op.chunks_landed() == 0 || op.AllLanded()) return text;
  return absl::StrCat(text, ", chunk ", op.FirstMissing(), " is the first missing one");
}

std::string GroupDescription::MissingRanks(const Waiting& missing) const {
  return RanksOnNodes(flow_.info(), {missing.ranks.data(), missing.listed_count}, missing.missing_count);
}

std::string GroupDescription::WaitedFor(const WorkerOp* op, const Waiting& missing) const {
  if (missing.missing_count > 0) return MissingRanks(missing);
  if (op != nullptr && LacksTensor(*op)) return "this rank's own device (its stream has not come to the all-reduce)";
  if (op != nullptr && WaitsForCopies(*op)) return "this rank's own device (it does not end a copy)";
  if (flow_.links().map().empty()) return "a reduction server (none is left)";
  std::vector<std::string> whom;
  for (const ShardLink& link : flow_.links()) {
    const std::string server = connections_.Describe(link.connection());
    if (link.lost()) {
      whom.push_back(absl::StrCat("a new map from the scheduler (", server, " was lost: ", link.lost_because(), ")"));
    } else if (!link.welcomed()) {
      whom.push_back(absl::StrCat(server, " (", WhyNotOpen(link), ")"));
    } else if (op == nullptr || link.HoldsChunkOf(op->number())) {
      whom.push_back(absl::StrCat(server, " (no answer)"));
    }
  }
  return whom.empty() ? "the network" : absl::StrJoin(whom, ", ");
}

bool GroupDescription::WaitsForCopies(const WorkerOp& op) const {
  bool copies = false;
  for (const ShardLink& link : flow_.links()) {
    if (link.SendsChunkOf(op.number())) return false;
    copies = copies || link.CopiesChunkOf(op.number());
  }
  return copies;
}

std::string GroupDescription::Uncommitted() const {
  const uint64_t first = flow_.commit_watermark().value() + 1;
  const uint64_t last = flow_.newest_result().value();
  return first == last ? absl::StrCat("all-reduce ", last) : absl::StrCat("all-reduces ", first, " to ", last);
}

std::string GroupDescription::WhyNotOpen(const ShardLink& link) const {
  if (link.lost()) return link.lost_because();
  if (link.in_use()) return "connected, but no welcome";
  const std::string& error = connections_.last_error(link.connection());
  return error.empty() ? "no connection yet" : error;
}

std::string GroupDescription::MissingServers() const {
  if (flow_.links().map().empty()) {
    return absl::StrCat("group \"", name(), "\" is not open: no reduction server is left");
  }
  std::string text = absl::StrCat("group \"", name(), "\" is not open on");
  const char* separator = " ";
  for (const ShardLink& link : flow_.links()) {
    if (link.welcomed()) continue;
    absl::StrAppend(&text, separator, connections_.Describe(link.connection()), " (", WhyNotOpen(link), ")");
    separator = ", ";
  }
  return text;
}

std::string GroupDescription::Lacks(const WorkerOp& op) const {
  std::string text = absl::StrCat(op.chunks_landed(), " of ", op.chunk_count(), " chunks are back");
  if (flow_.links().map().empty()) absl::StrAppend(&text, "; no reduction server is left");
  // First, since there may be many servers, and who hears of this is told the beginning.
  if (op.missing_before_move().missing_count > 0) {
    absl::StrAppend(&text, "; before the group moved to its present servers, it waited for ",
                    MissingRanks(op.missing_before_move()));
  }
  std::vector<std::string> silent;
  for (const ShardLink& link : flow_.links()) {
    const std::string server = connections_.Describe(link.connection());
    if (link.lost()) {
      absl::StrAppend(&text, "; ", server, " was lost (", link.lost_because(), ") and the scheduler gave no new map");
    } else if (!link.welcomed()) {
      absl::StrAppend(&text, "; the group is not open on ", server, " (", WhyNotOpen(link), ")");
    }
    if (!link.lost() && link.HoldsChunkOf(op.number())) silent.push_back(server);
  }
  if (!silent.empty()) absl::StrAppend(&text, "; no answer from ", absl::StrJoin(silent, ", "));
  return text;
}

std::string GroupDescription::WhyNotDone(const WorkerOp& op, bool is_opening) const {
  if (is_opening) return MissingServers();
  if (LacksTensor(op)) {
    return "this rank's tensor is not ready: the work before the all-reduce in its device's stream has not ended";
  }
  if (WaitsForCopies(op)) {
    return "this rank's device does not end a copy between the tensor and host memory: it has failed, or has no room "
           "for "
           "the kernel that copies";
  }
  if (op.missing_ranks().missing_count == 0) return Lacks(op);
  const ShardLink& link = flow_.links()[op.missing_shard()];
  return absl::StrCat(connections_.Describe(link.connection()), " waits for ", MissingRanks(op.missing_ranks()),
                      ", which made fewer calls, stopped, or waits for another ",
                      flow_.info().is_rail() ? "rank of its node or server itself" : "server itself");
}

absl::Status GroupDescription::Timeout(const WorkerOp& op, bool is_opening, Now now) const {
  return absl::DeadlineExceededError(absl::StrCat(OpNotDone(flow_.info(), op, now), ": ", WhyNotDone(op, is_opening)));
}

}  // namespace shoal
