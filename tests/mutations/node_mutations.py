"""Deliberate bugs in the reduction within nodes and over rails; as those of mutations.py."""

from mutation import mutation

NODE_MUTATIONS = [
    mutation(
        "rail-divides-by-its-members",
        "I1: an average over rails is divided by the number of all ranks",
        (
            "server/machine/chunk_exchange.cc",
            ".ranks_per_input = group.ranks_per_contribution()};",
            ".ranks_per_input = 1};",
        ),
    ),
    mutation(
        "factor-counts-on-the-node-and-on-the-server",
        "I1: with rails the factor of a premul-sum is in the node's sum",
        (
            "server/machine/chunk_exchange.cc",
            "op.reduce_op == ReduceOp::kPremulSum && group.ranks_per_contribution() > 1)",
            "op.reduce_op == ReduceOp::kPremulSum && group.ranks_per_contribution() == 0)",
        ),
    ),
    mutation(
        "nodes-in-another-order",
        "I1: nodes are summed in the order of their first ranks",
        (
            "scheduler/machine/node_reduce_decision.cc",
            "decision.rails.by_node.insert(decision.rails.by_node.end(), node.begin(), node.end());",
            "decision.rails.by_node.insert(decision.rails.by_node.begin(), node.begin(), node.end());",
        ),
    ),
    mutation(
        "local-ranks-in-order-of-arrival",
        "I1: the ranks of a node are summed in group order (L3)",
        (
            "sim/sim_local_reduce.cc",
            "  for (const SimMember& member : meeting.members) {\n    std::vector<std::byte>& contribution",
            "  std::vector<const SimMember*> arrived;\n"
            "  for (const SimMember& member : meeting.members) arrived.push_back(&member);\n"
            "  std::ranges::stable_sort(arrived, std::greater(),\n"
            "                           [](const SimMember* each) { return each->ops.size(); });\n"
            "  for (const SimMember* const each : arrived) {\n"
            "    const SimMember& member = *each;\n"
            "    std::vector<std::byte>& contribution",
        ),
    ),
    mutation(
        "rails-of-unequal-nodes",
        "a group has rails only where all its nodes have as many ranks",
        (
            "scheduler/machine/node_reduce_decision.cc",
            "  if (unequal != nodes.end()) {",
            "  if (unequal != nodes.end() && first.empty()) {",
        ),
    ),
    mutation(
        "node-reduce-off-is-not-heard",
        "SHOAL_NODE_REDUCE=off: the group is flat",
        (
            "scheduler/machine/node_reduce_decision.cc",
            "static_cast<uint32_t>(NodeReduceChoice::kOff)) return",
            "static_cast<uint32_t>(NodeReduceChoice::kOff) + 100) return",
        ),
    ),
    mutation(
        "part-is-cut-by-the-chunk",
        "I1: who reduces which part follows from the tensor and the ranks alone",
        (
            "worker/machine/node_group.cc",
            "  const ElementRange elements = NodePart(whole.layout.element_count(), info_->local_size(),"
            " info_->local_rank());\n",
            "  ElementRange elements = NodePart(whole.layout.element_count(), info_->local_size(),"
            " info_->local_rank());\n"
            "  if (elements.count > 0) {\n"
            "    const uint64_t chunk = whole.layout.plan().elements_per_chunk;\n"
            "    elements.count += elements.first - elements.first / chunk * chunk;\n"
            "    elements.first = elements.first / chunk * chunk;\n"
            "  }\n",
        ),
    ),
    mutation(
        "push-does-not-wait-for-its-node",
        "a part is pushed as far as the node's sum of it is there",
        (
            "worker/machine/node_group.cc",
            "rail_->SetReadyElements(op.number(), 0);",
            "rail_->SetReadyElements(op.number(), op.layout().element_count());",
        ),
    ),
    mutation(
        "chunk-is-pushed-when-the-node-has-begun-it",
        "a part is pushed as far as the node's sum of it is there",
        (
            "worker/machine/worker_op.h",
            "return layout().plan().FirstElement(chunk) + layout().plan().ElementCount(chunk) <= ready_elements_;",
            "return layout().plan().FirstElement(chunk) < ready_elements_;",
        ),
    ),
    mutation(
        "result-is-shared-before-it-has-landed",
        "the ranks of a node get of each part what has landed",
        (
            "worker/machine/node_group.cc",
            "  if (in_rail == nullptr) return part.elements.count;",
            "  if (in_rail == nullptr || part.elements.count > 0) return part.elements.count;",
        ),
    ),
    mutation(
        "part-that-has-landed-is-not-shared",
        "the ranks of a node get of each part what has landed",
        (
            "worker/machine/node_group.cc",
            "const uint64_t end = std::min(ops_.first().value() + parts_.size(), rail_->newest_result().value() + 1);",
            "const uint64_t end = std::min(ops_.first().value() + parts_.size(), rail_->newest_result().value());",
        ),
    ),
    mutation(
        "failure-of-a-rail-stays-in-it",
        "F21: with rails all rails end",
        (
            "worker/machine/node_group.cc",
            "  } else if (!rail_->failure().ok()) {\n",
            "  } else if (rail_->closed()) {\n",
        ),
    ),
    mutation(
        "death-on-the-node-ends-the-ops-under-way-alone",
        "I8: a rank that dies ends its group on its node, and is named",
        (
            "worker/machine/node_group.cc",
            "  if (failed() || closed()) return;\n  const absl::Status why = WhatFailed(event);",
            "  if (failed() || closed() || absl::IsUnavailable(event.status)) return;\n"
            "  const absl::Status why = WhatFailed(event);",
        ),
    ),
    mutation(
        "dead-local-rank-is-not-noticed",
        "I8: the ranks of a node see each other die (L4)",
        ("sim/sim_local_reduce.cc", "      if (!member.failure.has_value()) {\n", "      if (!member.came) {\n"),
    ),
    mutation(
        "local-group-is-never-closed",
        "what ranks share on a node is given up with the group",
        ("worker/machine/node_group.cc", "  actions->push_back(LocalCloseAction{handle_});\n", ""),
    ),
]
