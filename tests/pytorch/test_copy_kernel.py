"""The kernel for CUDA devices (worker/device/copy_kernel.h), as far as it can be checked without one, with the tools
that come with torch."""

import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = pathlib.Path(sys.executable).parents[1] / "lib"

# Turing, Ampere, Hopper, Blackwell.
DEVICES = ["sm_75", "sm_80", "sm_90", "sm_100"]


def found(pattern: str) -> pathlib.Path:
    files = sorted(PACKAGES.glob(f"python*/site-packages/{pattern}"))
    assert files, f"torch's packages have no {pattern}"
    return files[0]


def test_the_committed_text_is_what_the_sources_give():
    subprocess.run([ROOT / "scripts/copy_kernel.py", "--check"], check=True)


# What a thread reads and writes, in order, where it copies: a name and its size in bytes each.
ACCESS = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+(?:@!?\w+\s+)?(LD|ST)G?\.E(?:\.(128|64|U16|U8))?(?:\.SYS)? ", re.MULTILINE)
BYTES = {"128": 16, "64": 8, "": 4, "U16": 2, "U8": 1}


def assembled(device: str, folder: pathlib.Path) -> tuple[str, str]:
    """What the assembler says of the kernel, and the device's instructions."""
    text = (ROOT / "worker/device/copy_kernel_ptx.cc").read_text(encoding="utf-8")
    (folder / "kernel.ptx").write_text(re.search(r'R"ptx\((.*)\)ptx"', text, re.DOTALL).group(1), encoding="utf-8")
    assembler = found("triton/backends/nvidia/bin/ptxas")
    command = [assembler, "-v", "--warning-as-error", f"-arch={device}", "kernel.ptx", "-o", "kernel.cubin"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    disassembler = found("triton/backends/nvidia/bin/nvdisasm")
    listing = subprocess.run(
        [disassembler, "-c", "kernel.cubin"], cwd=folder, capture_output=True, text=True, check=True
    ).stdout
    return done.stderr, listing


@pytest.mark.parametrize("device", DEVICES)
def test_the_assembler_takes_it(device, tmp_path):
    said, listing = assembled(device, tmp_path)
    # Few enough that all blocks fit beside a program's own kernels.
    assert int(re.search(r"Used (\d+) registers", said).group(1)) <= 64
    # What a thread has loaded is in its registers: through memory of its own it would wait for each load.
    assert set(re.findall(r"(\d+) bytes (?:stack frame|spill stores|spill loads)", said)) == {"0"}
    accesses = " ".join(f"{name}{BYTES[size]}" for name, size in ACCESS.findall(listing))
    for load, store in [("LD16", "ST16"), ("LD16", "ST8"), ("LD8", "ST16")]:  # bytes, rounded, widened
        four = " ".join([load] * 4 + [store] * 4)
        assert four in accesses, f"no four of {load} are under way before four of {store}: {accesses}"


CHECK = """
#include <cuda.h>
#include <array>
#include <type_traits>
#include "worker/device/cuda_api.h"

// Result and arguments as they are passed: sizes, and whether they are pointers.
template <typename Result, typename... Arguments>
constexpr auto Passed(Result (*)(Arguments...)) {
  return std::array<int, 1 + sizeof...(Arguments)>{
      sizeof(Result), (static_cast<int>(sizeof(Arguments)) + (std::is_pointer_v<Arguments> ? 100 : 0))...};
}
using Api = shoal::cuda::Api;
#define SAME(member, function) static_assert(Passed(decltype(Api::member){}) == Passed(decltype(&function){}))
SAME(init, cuInit);
SAME(get_error_string, cuGetErrorString);
SAME(device_get_count, cuDeviceGetCount);
SAME(device_get, cuDeviceGet);
SAME(primary_context_retain, cuDevicePrimaryCtxRetain);
SAME(context_push, cuCtxPushCurrent);
SAME(context_pop, cuCtxPopCurrent);
SAME(context_stream_priorities, cuCtxGetStreamPriorityRange);
SAME(stream_create, cuStreamCreateWithPriority);
SAME(stream_is_capturing, cuStreamIsCapturing);
SAME(stream_wait_event, cuStreamWaitEvent);
SAME(stream_add_callback, cuStreamAddCallback);
SAME(event_create, cuEventCreate);
SAME(event_record, cuEventRecord);
SAME(host_register, cuMemHostRegister);
SAME(host_unregister, cuMemHostUnregister);
SAME(module_load_data, cuModuleLoadData);
SAME(module_get_function, cuModuleGetFunction);
SAME(launch_kernel, cuLaunchKernel);
static_assert(shoal::cuda::kSuccess == CUDA_SUCCESS);
static_assert(shoal::cuda::kStreamNonBlocking == CU_STREAM_NON_BLOCKING);
static_assert(shoal::cuda::kEventDisableTiming == CU_EVENT_DISABLE_TIMING);
static_assert(shoal::cuda::kHostRegisterPortable == CU_MEMHOSTREGISTER_PORTABLE);
static_assert(shoal::cuda::kHostRegisterMapped == CU_MEMHOSTREGISTER_DEVICEMAP);
static_assert(sizeof(CUstreamCaptureStatus) == sizeof(int));
"""


def test_the_drivers_functions_are_declared_as_in_its_header(tmp_path):
    (tmp_path / "check.cc").write_text(CHECK, encoding="utf-8")
    header = found("nvidia/*/include/cuda.h")
    command = ["c++", "-std=c++20", "-fsyntax-only", f"-I{ROOT}", f"-I{header.parent}", "check.cc"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # What the header's names stand for is what the worker looks up.
    source = (ROOT / "worker/device/cuda_api.cc").read_text(encoding="utf-8")
    looked_up = re.findall(r'FindFunction\(handle, "(\w+)", &api->(\w+),', source)
    plain_names = {member: re.sub(r"_v2$", "", name) for name, member in looked_up}
    assert plain_names == dict(re.findall(r"^SAME\((\w+), (\w+)\);", CHECK, re.MULTILINE))
    text = header.read_text(encoding="utf-8")
    for name, member in looked_up:
        plain = plain_names[member]
        is_renamed = re.search(rf"#define\s+{plain}\s+{plain}_v2\b", text) is not None
        assert (name != plain) == is_renamed, name
