"""Deliberate bugs of what a worker's machine decides about tensors on devices; see mutations.py."""

from mutation import mutation

DEVICE_MUTATIONS = [
    mutation(
        "tensor-is-taken-for-ready",
        "a tensor on a device is read when its stream has made the contribution",
        ("worker/machine/chunk_flow.cc", "  if (op.on_device()) op.SetReadyElements(0);\n", ""),
    ),
    mutation(
        "chunk-is-sent-before-its-copy-has-ended",
        "a chunk of a tensor on a device is sent when it is in host memory",
        (
            "worker/machine/chunk_flow.cc",
            "    link.chunk(cell).StartCopy();\n",
            "    link.chunk(cell).StartCopy();\n"
            "    SendChunk(shard, cell, op, link.staging()->Place(cell), actions);\n",
        ),
        (
            "worker/machine/chunk_flow.cc",
            "        SendChunk(token.shard, token.cell, *op, link.staging()->Place(token.cell), actions);\n",
            "",
        ),
    ),
    mutation(
        "cell-is-used-again-before-its-result-is-copied",
        "a chunk is done when its result is on the device",
        (
            "worker/machine/chunk_flow.cc",
            "    chunk.StartCopy();\n    op->StartOperation();\n",
            "    op->StartOperation();\n    FinishChunk(token.shard, token.cell, op, now);\n",
        ),
        (
            "worker/machine/chunk_flow.cc",
            "      if (goes_on) FinishChunk(token.shard, token.cell, op, now);\n",
            "",
        ),
    ),
    mutation(
        "group-moves-while-a-result-is-copied",
        "I5: a group moves when no tensor holds half a result",
        (
            "worker/machine/chunk_in_flight.h",
            "    return open_ && ((landing_ && taking_ != Taking::kBeside) || (landed_ && copying_));",
            "    return open_ && landing_ && taking_ != Taking::kBeside;",
        ),
    ),
    mutation(
        "result-is-copied-while-an-old-copy-reads",
        "a tensor's chunk is written to when nothing reads it any more",
        (
            "worker/machine/chunk_in_flight.h",
            "  bool ReadsTensor() const { return open_ && !sent_ && (copying_ || sent_from_tensor_); }",
            "  bool ReadsTensor() const { return open_ && !sent_ && sent_from_tensor_; }",
        ),
    ),
    mutation(
        "op-ends-while-its-results-are-kept",
        "a tensor is its caller's again when it is not read any more",
        (
            "worker/machine/chunk_flow.cc",
            "    if (op->busy()) return absl::OkStatus();  // results are copied from a device\n",
            "",
        ),
    ),
    mutation(
        "result-is-handed-over-before-it-is-copied",
        "I3: a rank hands over the result of a chunk, and nothing else",
        (
            "worker/machine/result_keeper.cc",
            "  op->StartOperation();\n  return std::nullopt;\n",
            "  op->StartOperation();\n  return index;\n",
        ),
        (
            "worker/machine/chunk_flow.cc",
            "        SendHandOver(token.cell, actions);\n      } else {",
            "      } else {",
        ),
    ),
]
