"""The checks that want a CUDA device. docs/gpu_checks.md is made from this table, and run_checks.py runs it."""

import dataclasses
from collections.abc import Mapping

CUDA_TESTS = "{python} -m pytest tests/pytorch/test_torch_cuda.py -rA"
DRIVER = {"SHOAL_TEST_CUDA_LIBRARY": "libcuda.so.1"}
DEVICE_TESTS = (
    "{python} -m pytest tests/pytorch/test_torch_devices.py tests/pytorch/test_torch_device_checks.py "
    "tests/pytorch/test_torch_node_devices.py -rA"
)
ON_GPU = {"TEST_ON_GPU": "1"}
# A test may be skipped for what a real device lacks: its reason begins with one of these. Any other skip is a failure.
ACCEPTED_SKIPS = ("a real device", "a real driver")
TRAINING = (
    "{python} -m torch.distributed.run --nproc-per-node 2 tests/gpu/share_device.py examples/train_gpt.py "
    "--device cuda --text {text} --steps 50"
)


@dataclasses.dataclass(frozen=True)
class Check:
    part: str  # "library" or "plugin"
    command: str  # from the root; {python}: the one with torch and the plugin, {text}: a text file, {out}: a folder
    expected: str  # for the reader
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    devices: int = 1
    output: str = ""  # that must be in what it prints
    verdict: str = ""  # how a line of what it prints begins that belongs into the result
    timeout_s: int = 300

    @property
    def shown(self) -> str:
        """The command for a reader."""
        return self.command.format(python="python", text="FILE", out="OUT")


CHECKS = (
    Check(
        "library",
        "build/tests/cuda_stager_test",
        "all pass: the kernel copies every byte, and rounds as the host does",
        DRIVER,
    ),
    Check("library", "build/tests/cuda_driver_test", "all pass that do not want the simulated driver", DRIVER),
    Check(
        "library",
        "build/tests/worker_c_api_device_test",
        "as before: order by stream, several groups, a lost server, a kernel without an end",
        DRIVER,
    ),
    Check(
        "library",
        "build/tests/worker_c_api_node_device_test",
        "all pass: NCCL reduces within the node",
        DRIVER,
        devices=2,
    ),
    Check(
        "library",
        "compute-sanitizer --tool racecheck --error-exitcode 1 build/tests/cuda_stager_test",
        "no hazard is reported",
        DRIVER,
    ),
    Check(
        "library",
        "compute-sanitizer --error-exitcode 1 build/tests/worker_c_api_device_test",
        "no access outside of an allocation is reported",
        DRIVER,
    ),
    Check(
        "library",
        "compute-sanitizer --tool racecheck --error-exitcode 1 build/tests/worker_c_api_device_test",
        "no hazard is reported",
        DRIVER,
    ),
    Check("plugin", "{python} -m shoal.info", "`inner backends: cpu gloo, cuda nccl`", output="cuda nccl"),
    Check(
        "plugin",
        DEVICE_TESTS,
        "all pass that do not want the simulated device: what holds on it as well, on 1 node and 2",
        ON_GPU,
        timeout_s=900,
    ),
    Check(
        "plugin",
        DEVICE_TESTS + " -k 'not side_streams'",
        "as before: streams that share a hardware queue do not hold each other up (but for one that holds a queue)",
        {**ON_GPU, "CUDA_DEVICE_MAX_CONNECTIONS": "1"},
        timeout_s=900,
    ),
    Check("plugin", CUDA_TESTS, "all pass, and none is skipped"),
    Check(
        "plugin",
        CUDA_TESTS + " -k 'not 10_gib'",
        "as before, with each kernel waited for",
        {"CUDA_LAUNCH_BLOCKING": "1"},
    ),
    Check(
        "plugin",
        "compute-sanitizer --target-processes all --error-exitcode 1 " + CUDA_TESTS + " -k 'producer and from'",
        "no access outside of an allocation is reported",
    ),
    Check(
        "plugin",
        "{python} bench/gpu/all_reduce_rates.py --device cuda --output {out}/rates.json",
        "a table: all-reduces of two ranks, what bounds them, and NCCL's if it takes them; with a device for each rank "
        "256 MiB take at most 1.15 times the slower of copies and transport",
        verdict="256 MiB ",
    ),
    Check(
        "plugin",
        TRAINING + " --backend shoal --summary {out}/shoal.json",
        "the loss falls, and the digests are equal",
    ),
    Check(
        "plugin",
        TRAINING + " --backend cpu:gloo,cuda:nccl --summary {out}/nccl.json",
        "as before",
    ),
    Check(
        "plugin",
        "{python} tests/gpu/compare_losses.py {out}/shoal.json {out}/nccl.json",
        "the losses of the two agree within 1e-3",
    ),
)
