"""Deliberate bugs of how the PyTorch plugin treats CUDA tensors, which a test on the simulated driver has to find."""

from mutation import CxxTest, PythonTest, mutation


def of_devices(name: str) -> PythonTest:
    return PythonTest("tests/pytorch/test_torch_devices.py", f"{name}[through servers]")


def of_checks(name: str) -> PythonTest:
    return PythonTest("tests/pytorch/test_torch_device_checks.py", name)


def of_group(name: str) -> CxxTest:
    return CxxTest("plugin_group_test", f"GroupTest.{name}")


BARRIER = of_checks(
    "test_a_barrier_has_the_error_of_a_reduction_that_nobody_else_has_heard_of[through servers]"
)
LATE_DEVICE = of_checks(
    "test_barriers_wait_for_reductions_on_devices_as_long_as_they_are_told[through servers]"
)

PLUGIN_MUTATIONS = [
    mutation(
        "barrier-is-ahead-of-the-devices",
        "a barrier waits for the all-reduces on devices that were called before",
        (
            "pytorch/src/shoal_backend_delegated.cc",
            "OperationsOnDevices(now.group->StartedOnDevices(), ",
            "OperationsOnDevices({}, ",
        ),
        test=BARRIER,
    ),
    mutation(
        "monitored-barrier-is-ahead-of-the-devices",
        "a monitored barrier waits for the all-reduces on devices that were called before",
        ("pytorch/src/shoal_backend_delegated.cc", "  if (operations) operations->Await(until);\n", ""),
        test=LATE_DEVICE,
    ),
    mutation(
        "barrier-has-no-deadline",
        "a barrier's timeout counts for the all-reduces on devices that it waits for",
        (
            "pytorch/src/shoal_backend_delegated.cc",
            "  return std::chrono::steady_clock::now() + opts.timeout;\n",
            "  return std::nullopt;\n",
        ),
        test=LATE_DEVICE,
    ),
    mutation(
        "error-that-nobody-has-heard-is-forgotten",
        "a barrier raises the error of an all-reduce on a device, whenever that has failed",
        (
            "pytorch/src/shoal_backend.cc",
            "      if (!failures->unheard_error) failures->unheard_error = unheard;\n",
            "",
        ),
        test=BARRIER,
    ),
    mutation(
        "future-is-ahead-with-blocking-wait",
        "with blocking_wait the future has the op's error",
        (
            "pytorch/src/all_reduce_work.h",
            "return enqueued_.has_value() && !blocking_wait_;",
            "return enqueued_.has_value();",
        ),
        test=of_devices("test_with_blocking_wait_the_failed_reduction_itself_raises"),
    ),
    mutation(
        "wait-blocks-the-host",
        "the caller's stream waits, the host does not",
        (
            "pytorch/src/all_reduce_work.cc",
            "if (enqueued_ && !settled_ && !blocking_wait_ &&",
            "if (enqueued_ && settled_ && !blocking_wait_ &&",
        ),
        test=of_devices("test_a_kernel_without_an_end_fails_the_reduction_at_its_deadline_and_shutdown_returns"),
    ),
    mutation(
        "wait-holds-the-default-stream",
        "the caller's current stream waits, whichever it is",
        (
            "pytorch/src/all_reduce_work.cc",
            "enqueued_->block(c10::impl::VirtualGuardImpl(device.type()).getStream(device));",
            "enqueued_->block(c10::impl::VirtualGuardImpl(device.type()).getDefaultStream(device));",
        ),
        test=of_devices("test_side_streams_and_several_devices_of_a_process"),
    ),
    mutation(
        "block-current-stream-does-nothing",
        "the next kernel sees the sum, also after block_current_stream",
        ("pytorch/src/all_reduce_work.cc", "    synchronize();\n  } else {\n", "  } else {\n"),
        test=of_devices("test_side_streams_and_several_devices_of_a_process"),
    ),
    mutation(
        "future-is-ahead-of-the-sum",
        "a callback of a future sees the sum",
        (
            "pytorch/src/all_reduce_work.cc",
            "  if (return_stream_) {\n    behind_the_copies",
            "  if (kind != Kind::kTensors && return_stream_) {\n    behind_the_copies",
        ),
        test=of_devices("test_futures_are_complete_at_the_call_and_their_callbacks_see_the_sum"),
    ),
    mutation(
        "copy-of-a-strided-tensor-is-not-recorded",
        "torch's allocator gives nobody memory that a stream still uses",
        (
            "pytorch/src/staged_tensor.cc",
            "    guard.recordDataPtrOnStream(memory_.storage().data_ptr(), *return_stream_);\n",
            "",
        ),
        test=of_devices("test_the_copy_of_a_strided_tensor_is_not_used_again_before_it_was_copied_back"),
    ),
    mutation(
        "memory-on-a-failed-device-is-let-go-of",
        "a device that fails is an error of the program's next call, and does not end its process",
        ("pytorch/src/all_reduce_work.cc", "    guard.queryStream(guard.getStream(device));\n", ""),
        test=of_devices("test_a_device_that_fails_is_an_error_on_all_ranks"),
    ),
    mutation(
        "capture-goes-unnoticed",
        "a reduction that is captured into a CUDA graph is the inner backend's, with one warning",
        ("pytorch/src/shoal_backend.cc", "IsCapturing(tensors.front())", "tensors.empty()"),
        test=of_devices("test_a_captured_reduction_is_the_inner_backends_and_says_so_once"),
    ),
    mutation(
        "tensor-is-not-recorded",
        "torch's allocator gives nobody memory that a stream still uses",
        (
            "pytorch/src/staged_tensor.cc",
            "  guard.recordDataPtrOnStream(tensor_.storage().data_ptr(), *return_stream_);\n",
            "",
        ),
        test=of_devices("test_memory_of_dropped_tensors_is_not_used_again_before_they_are_reduced"),
    ),
    mutation(
        "tensors-of-inference-mode-are-copied-as-others",
        "tensors of inference mode are reduced, whichever thread copies them back",
        (
            "pytorch/src/staged_tensor.cc",
            "  at::AutoDispatchBelowADInplaceOrView below_autograd;\n  to.copy_(",
            "  to.copy_(",
        ),
        test=PythonTest(
            "tests/pytorch/test_torch_all_reduce.py", "test_non_contiguous_zero_size_and_scalar_tensors"
        ),
    ),
    mutation(
        "refusal-of-a-node-is-taken-for-one-of-all-ranks",
        "a node whose ranks can't reduce tensors on devices ends the group for all",
        ("pytorch/src/group.cc", "takes_devices_ != 0);", "true);"),
        test=of_group("ANodeWhoseRanksReduceNoTensorsOnDevicesAbortsTheGroupForThoseOfOtherNodes"),
    ),
    mutation(
        "wait-for-room-on-devices-has-no-end",
        "an op that waits for room on a device ends with its group or at its deadline",
        ("worker/device/cuda_stager.cc", "    if (now_ns >= deadline_ns) {\n", "    if (deadline_ns == 0) {\n"),
        test=CxxTest("cuda_driver_test", "CudaStagerTest.AnOpWaitsForRoomUntilOneHasLeftItsDevice"),
    ),
    mutation(
        "destroying-a-group-waits-for-its-device",
        "a kernel that never ends: a group is destroyed within five seconds",
        ("pytorch/src/group.cc", "kDevicesEnd{3}", "kDevicesEnd{30}"),
        test=of_devices("test_shutdown_returns_before_the_deadlines_of_reductions_behind_a_kernel_without_an_end"),
    ),
]
