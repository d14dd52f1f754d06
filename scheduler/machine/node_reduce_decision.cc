#include "scheduler/machine/node_reduce_decision.h"

#include "absl/strings/str_cat.h"

namespace shoal::scheduler {
namespace {

std::string WhereApart(const NodeReduceMember& first, const NodeReduceMember& other) {
  const std::string node(other.node);
  if (first.node == other.node) {
    return absl::StrCat("ranks ", first.rank.value(), " and ", other.rank.value(), " are both on node ", node,
                        " but can't meet there: they differ in network namespace, user or kernel");
  }
  return absl::StrCat("rank ", other.rank.value(), " is on another node (", node, ") than rank ", first.rank.value(),
                      " (", std::string(first.node), ")");
}

// "": the rank can reduce with the first one on their node.
std::string WhatHinders(const NodeReduceMember& first, const NodeReduceMember& member) {
  const std::string rank = absl::StrCat("rank ", member.rank.value());
  if (member.request == nullptr) return absl::StrCat(rank, "'s process is older than that");
  if (member.request->choice == static_cast<uint32_t>(NodeReduceChoice::kOff)) return "node_reduce is off";
  if (!member.request->possible) return absl::StrCat(rank, "'s process can't");
  if (member.request->node_identity.empty()) {
    return absl::StrCat(rank, "'s process (on node ", std::string(member.node), ") does not know for sure where it is");
  }
  return member.request->node_identity == first.request->node_identity ? "" : WhereApart(first, member);
}

}  // namespace

NodeReduceDecision DecideNodeReduce(size_t group_size, const std::vector<NodeReduceMember>& members) {
  if (group_size < 2) return {NodeReduceMode::kFlat, "it has one rank"};
  if (members.empty()) return {NodeReduceMode::kFlat, "none of its ranks is known"};
  for (const NodeReduceMember& member : members) {
    if (std::string hindrance = WhatHinders(members.front(), member); !hindrance.empty()) {
      return {NodeReduceMode::kFlat, std::move(hindrance)};
    }
  }
  return {NodeReduceMode::kNodeAlone, ""};
}

}  // namespace shoal::scheduler
