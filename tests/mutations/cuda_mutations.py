"""Deliberate bugs of the path of CUDA tensors in the worker, which a test on the simulated driver has to find."""

from mutation import CxxTest, PythonTest, mutation


def of_stager(name: str) -> CxxTest:
    return CxxTest("cuda_driver_test", f"CudaStagerTest.{name}")


def of_ranks(name: str) -> CxxTest:
    return CxxTest("worker_c_api_device_test", f"DeviceTest.{name}")


def of_ranks_of_a_node(name: str) -> CxxTest:
    return CxxTest("worker_c_api_node_device_test", f"NodeDeviceTest.{name}")


ORDER_OF_STREAMS = of_stager("AnOpComesBehindWhatIsInItsCallersStreamAndWhatFollowsComesBehindTheOp")
KERNEL_WITHOUT_AN_END = of_ranks("AKernelThatNeverEndsFailsTheOpAtItsDeadlineAndTheWorkerCloses")

CUDA_MUTATIONS = [
    # ---- copies ----
    mutation(
        "what-is-left-over-of-four-numbers-is-not-copied",
        "a copy moves every number, whatever their count",
        (
            "worker/device/copy_kernel.h",
            "    done = count / 4 * 4;\n",
            "    done = count;\n",
        ),
        test=CxxTest("copy_kernel_test", "CopyKernelTest.NumbersOf16BitsHaveTheHostsBitsAtAnyAddressAndOfAnyCount"),
    ),
    # ---- streams ----
    mutation(
        "op-does-not-wait-for-its-callers-stream",
        "an op reads its tensor when all that was in its caller's stream is done",
        (
            "worker/device/cuda_stager.cc",
            "absl::Status status = device->Wait(turn->stream, op->produced_);",
            "absl::Status status;",
        ),
        test=ORDER_OF_STREAMS,
    ),
    mutation(
        "op-is-behind-the-default-stream",
        "an op reads its tensor when all that was in its caller's stream is done, whichever stream that is",
        ("worker/library/worker_client.cc", ".stream = place.stream,", ".stream = nullptr,"),
        test=KERNEL_WITHOUT_AN_END,
    ),
    mutation(
        "streams-pass-an-op-before-its-kernel",
        "what waits for an op by stream comes behind its kernel",
        (
            "worker/device/cuda_stager.cc",
            "  // Also behind what was put there of an op that could not be launched as a whole.\n"
            "  const absl::Status recorded = device->Record(*done, turn->stream);\n",
            "",
        ),
        (
            "worker/device/cuda_stager.cc",
            "  if (status.ok()) status = device->CallBack(turn->stream, std::move(when_ready));\n",
            "  if (status.ok()) status = device->CallBack(turn->stream, std::move(when_ready));\n"
            "  const absl::Status recorded = device->Record(*done, turn->stream);\n",
        ),
        test=ORDER_OF_STREAMS,
    ),
    mutation(
        "gathering-is-put-in-when-the-network-has-answered",
        "all that an op does on its node is put into streams at the call, in program order",
        (
            "worker/device/cuda_stager.cc",
            "    status = GatherOnNode(*device, *turn, call);\n",
            "    while (part.bytes > 0 && device::LoadAcquire(&op->control_->end) == 0) std::this_thread::yield();\n"
            "    status = GatherOnNode(*device, *turn, call);\n",
        ),
        test=PythonTest(
            "tests/pytorch/test_torch_node_devices.py",
            "test_ranks_of_a_node_reduce_on_their_devices_and_each_pushes_its_part",
        ),
    ),
    mutation(
        "call-of-nccl-returns-before-its-kernels-are-put-in",
        "a rank's calls of NCCL, and what follows them in the stream, are in program order",
        (
            "worker/device/device_comm.cc",
            "  return AwaitPut(what, [] { return absl::OkStatus(); });\n",
            "  static_cast<void>(what);\n  return absl::OkStatus();\n",
        ),
        test=CxxTest("device_comm_test", "OfSize/DeviceCommSums.WorkBehindItInTheStreamSeesTheResult/2"),
    ),
    mutation(
        "captured-stream-is-taken",
        "an op in a stream that is captured into a graph is refused",
        (
            "worker/device/cuda_stager.cc",
            "  if (absl::Status status = device->CheckNotCapturing(caller); !status.ok()) return"
            " give_back(std::move(status));\n",
            "",
        ),
        test=of_ranks("WhatCanNotBeDoneIsRefusedBeforeAnythingIsSent"),
    ),
    # ---- several devices ----
    mutation(
        "event-of-another-device-is-taken",
        "a process may have tensors on several devices",
        ("worker/device/cuda_stager.cc", "& free = free_events_[ordinal];", "& free = free_events_[ordinal * 0];"),
        test=PythonTest(
            "tests/pytorch/test_torch_devices.py",
            "test_side_streams_and_several_devices_of_a_process[through servers]",
        ),
    ),
    mutation(
        "group-within-a-node-takes-any-device",
        "the communicators of a group are of one device for each rank",
        (
            "worker/device/local_devices.cc",
            "if (*device_ == device) return absl::OkStatus();",
            "if (device_.has_value()) return absl::OkStatus();",
        ),
        test=of_ranks_of_a_node("AnotherDeviceOfTheSameRankIsRefusedAndTheGroupGoesOn"),
    ),
    # ---- failures ----
    mutation(
        "op-on-a-device-has-no-deadline",
        "a kernel that never ends: the op fails at its deadline",
        (
            "worker/machine/op_queue.cc",
            "    if (op.command().deadline_ns <= now_ns) return &op;\n",
            "    if (op.command().deadline_ns <= now_ns && !op.command().on_device) return &op;\n",
        ),
        test=KERNEL_WITHOUT_AN_END,
    ),
    mutation(
        "kernel-of-a-failed-op-ends-well",
        "a failure opens the gate and poisons the result",
        (
            "worker/device/cuda_stager.cc",
            "  EndKernel(op->control_, well ? device::OpEnd::kWell : device::OpEnd::kFailed);\n",
            "  static_cast<void>(well);\n  EndKernel(op->control_, device::OpEnd::kWell);\n",
        ),
        test=of_stager("AnOpWhoseKernelDoesNotComeToItEndsAllTheSame"),
    ),
    mutation(
        "tensor-is-filled-before-all-blocks-have-left",
        "a failure opens the gate and poisons the result",
        (
            "worker/device/copy_kernel.h",
            "CountUp(&control->left_copying) == kBlocks - 1;",
            "CountUp(&control->left_copying) == 0;",
        ),
        test=CxxTest(
            "copy_kernel_test", "CopyKernelTest.ATensorIsFilledAsAWholeAlsoIfABlockWasCopyingWhenItsOpFailed"
        ),
    ),
    mutation(
        "loop-says-well-of-a-failed-op",
        "a failure opens the gate and poisons the result",
        (
            "worker/library/io_thread.cc",
            "stager_->EndOp(op->ticket(), outcome.status.ok());",
            "stager_->EndOp(op->ticket(), true);",
        ),
        test=PythonTest(
            "tests/pytorch/test_torch_devices.py",
            "test_a_failed_reduction_fills_tensors_with_nan_and_the_next_one_raises[through servers]",
        ),
    ),
    mutation(
        "what-was-gathered-counts-without-a-verdict",
        "what NCCL gathered is a result only if no rank of the node has failed",
        (
            "worker/device/cuda_stager.cc",
            "const bool well = done.ok() && verdict->Counts();",
            "const bool well = done.ok() && verdict != nullptr;",
        ),
        test=of_ranks_of_a_node("WhereARankGivesUpTheStreamsGoOnAndTheTensorIsNan"),
    ),
    mutation(
        "verdict-leaves-out-the-other-ranks",
        "what NCCL gathered is a result only if no rank of the node has failed",
        (
            "worker/device/local_devices.h",
            "return !aborted() && (failures_ == nullptr || !failures_->AnyRankHasFailed());",
            "return !aborted();",
        ),
        test=CxxTest(
            "device_comm_test", "GatheringVerdictTest.WhatWasGatheredCountsUntilARankHasFailedOrItWasAborted"
        ),
    ),
    mutation(
        "abort-does-not-reach-nccl",
        "kernels that wait for a rank that is gone are ended",
        ("worker/device/device_comm.cc", "      api_->comm_abort(comm);\n", ""),
        test=CxxTest("device_comm_test", "DeviceCommTest.AbortEndsKernelsThatWaitForARankThatIsGone"),
    ),
    mutation(
        "rank-whose-device-failed-keeps-silent",
        "a device that fails is an error on all ranks",
        (
            "worker/library/io_thread.cc",
            "if (absl::IsInternal(device_op.status()) ||",
            "if (absl::IsCancelled(device_op.status()) ||",
        ),
        test=of_ranks("ZADeviceThatFailsEndsTheOpOnAllRanks"),
    ),
    mutation(
        "end-waits-for-a-kernel-without-an-end",
        "where a kernel never ends the worker closes within 5 s",
        (
            "worker/device/cuda_stager.cc",
            "constexpr auto kPatienceWithKernels = std::chrono::milliseconds(500);",
            "constexpr auto kPatienceWithKernels = std::chrono::milliseconds(8000);",
        ),
        test=of_stager("ItsEndDoesNotWaitLongForAKernelThatIsStuckAndLeavesItWhatItReads"),
    ),
    # ---- memory ----
    mutation(
        "control-is-used-again-before-its-kernel-has-ended",
        "what a kernel reads is its own until it has ended",
        (
            "worker/device/cuda_stager.cc",
            "    if (!op->launch_over_ || (op->runs_ && !HasExited(*op->control_)) ||\n",
            "    if (!op->launch_over_ ||\n",
        ),
        test=of_stager("WhatAKernelReadsIsNoOtherOpsBeforeItHasEnded"),
    ),
    mutation(
        "op-that-was-launched-in-part-is-over-at-once",
        "streams and events of an op are no other op's before its stream has come to the end of what was put there",
        (
            "worker/device/cuda_stager.cc",
            " || (op->in_part_ && !op->stream_passed_.load())) {\n",
            ") {\n",
        ),
        test=of_stager(
            "StreamsOfAnOpThatWasLaunchedInPartAreNotAnotherGroupsBeforeTheyComeToItsEnd"
        ),
    ),
    mutation(
        "place-is-let-go-of-before-its-kernel-has-ended",
        "S4: the memory of a place is kept until the device is done with it",
        (
            "worker/device/cuda_stager.cc",
            "      op->given_up_.push_back(std::move(copy.staging));\n",
            "      copy.staging.reset();\n",
        ),
        test=of_stager("AbandonedCopiesEndAtOnceAndTheirMemoryIsKeptUntilTheKernelHasEnded"),
    ),
    mutation(
        "arena-is-not-locked",
        "all that devices touch of the host's memory is one region, locked once",
        (
            "worker/device/cuda_stager.cc",
            "(*device)->Register(region_.memory);",
            "(*device)->Register(region_.memory.first(kControlBytes));",
        ),
        test=of_stager("TouchesNoDeviceBeforeTheFirstTensorAndLocksItsMemoryOnce"),
    ),
    mutation(
        "region-is-two-workers",
        "the memory that devices touch is one worker's",
        ("worker/device/locked_region.cc", "      regions.erase(found);\n", ""),
        test=CxxTest("cuda_driver_test", "LockedRegionTest.WhatIsGivenBackIsOneTakersAndStaysRegistered"),
    ),
    mutation(
        "forked-child-shares-the-region",
        "a process that forks goes on with the pages that devices know",
        ("worker/device/locked_region.cc", "  madvise(start, bytes, MADV_DONTFORK);\n", ""),
        test=CxxTest("cuda_driver_test", "LockedRegionTest.AForkedChildHasNoPageOfIt"),
    ),
    mutation(
        "wire-is-the-other-type-of-16-bits",
        "a 16-bit wire has the bits that the host's rounding gives",
        (
            "worker/device/cuda_stager.cc",
            "command.type = device::CopyType::kBfloat16",
            "command.type = device::CopyType::kFloat16",
        ),
        test=of_ranks("A16BitWireIsRoundedOnTheDevice"),
    ),
]
