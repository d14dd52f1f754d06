#include "worker/machine/group_words.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "core/duration_text.h"
#include "core/rank_text.h"

namespace shoal {
namespace {

constexpr absl::string_view kOfTheJobOn = " of the job on ";

}  // namespace

std::string RankOnNode(const GroupInfo& group, Rank rank) {
  // Callers know nothing of a rail and its ranks.
  if (group.is_rail() && rank.value() < group.size()) {
    return JobRankOnNode(group.job_ranks[rank.value()], group.nodes[rank.value()]);
  }
  return RankOnNode(rank, group.job_ranks, group.nodes);
}

std::string WithRanksNamed(const GroupInfo& group, absl::string_view text) {
  return NameMarkedRanks(text, [&group](Rank rank) { return RankOnNode(group, rank); });
}

std::string RanksOnNodes(const GroupInfo& group, std::span<const Rank> listed, uint32_t count) {
  std::vector<std::string> ranks;
  for (const Rank rank : listed) ranks.push_back(RankOnNode(group, rank));
  std::string text = absl::StrJoin(ranks, ", ");
  if (count > listed.size()) absl::StrAppend(&text, " and ", count - listed.size(), " more");
  return text;
}

std::string JobRankOnNode(JobRank rank, absl::string_view node) {
  return absl::StrCat("rank ", rank.value(), kOfTheJobOn, node);
}

bool BeginsWithARank(const GroupInfo& group, absl::string_view text) {
  for (uint32_t r = 0; r < group.size(); ++r) {
    if (absl::StartsWith(text, RankOnNode(group, Rank(r)))) return true;
  }
  // A rail does not know the ranks of the other rails.
  if (!absl::ConsumePrefix(&text, "rank ")) return false;
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  return digits > 0 && absl::StartsWith(text.substr(digits), kOfTheJobOn);
}

std::string OpOfGroup(const GroupInfo& group, const WorkerOp& op) {
  return absl::StrCat("all-reduce ", op.number().value(), " of group \"", group.name, "\" (",
                      op.layout().element_count(), " ", std::string(DataTypeName(op.layout().dtype())), ")");
}

std::string OpNotDone(const GroupInfo& group, const WorkerOp& op, Now now) {
  return absl::StrCat(OpOfGroup(group, op), " is not done after ", Seconds(op.command().DurationNs(now.monotonic_ns)));
}

bool LacksMemory(const absl::Status& why) { return absl::IsResourceExhausted(why); }

GroupFailure FailureToTell(GroupId group, const absl::Status& why) {
  return {.group = group, .reason = std::string(why.message()), .lacks_memory = LacksMemory(why)};
}

absl::Status RankLostError(JobRank rank, absl::string_view node, absl::string_view reason) {
  return absl::AbortedError(absl::StrCat(JobRankOnNode(rank, node), " was lost: ", reason));
}

// A deadline's text is about the op that had it, an abort's about the caller.
absl::Status FailureOfOp(const absl::Status& failure, absl::string_view what) {
  if (absl::IsDeadlineExceeded(failure) || absl::IsCancelled(failure)) return failure;
  return absl::Status(failure.code(), absl::StrCat(failure.message(), "; ", what));
}

absl::Status CheckLayout(const GroupInfo& group, const SubmitCommand& command) {
  if (command.layout.IsFor(group)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the op was cut into chunks for another group than \"", group.name,
                                                 "\"; make its layout with the information of this one"));
}

absl::Status CheckTakesDevices(const GroupInfo& group, bool devices_meet) {
  if (IsInBlocks(group.wire)) {
    return absl::UnimplementedError(
        absl::StrCat("group \"", group.name, "\" has wire ", std::string(WireFormatName(group.wire)),
                     ", which is for tensors in host memory: devices can't convert to it. Copy the tensor to host "
                     "memory, or make the group with wire bf16"));
  }
  if (group.whole_op) {
    return absl::UnimplementedError(
        absl::StrCat("group \"", group.name,
                     "\" repeats ops whose chunks have different contributors (whole_op), which is for tensors in host "
                     "memory. Copy the tensor to host memory, or make the group without whole_op"));
  }
  if (group.node_reduce == NodeReduceMode::kFlat || devices_meet) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("group \"", group.name,
                   "\" is reduced within nodes, and not all of its ranks on this node can reduce among their devices: "
                   "they need devices and NCCL (libnccl.so.2). Copy the tensor to host memory, or make the group with "
                   "SHOAL_NODE_REDUCE_OFF"));
}

absl::Status NoDevicesError() {
  return absl::FailedPreconditionError(
      "the tensor is on a device, and this worker was connected without devices: set shoal_worker_options.devices");
}

}  // namespace shoal
