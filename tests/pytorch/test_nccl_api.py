"""What the worker declares of NCCL (worker/device/nccl_api.h), against the header and the library that come with
torch."""

import ctypes
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = pathlib.Path(sys.executable).parents[1] / "lib"


def found(pattern: str) -> pathlib.Path:
    files = sorted(PACKAGES.glob(f"python*/site-packages/{pattern}"))
    assert files, f"torch's packages have no {pattern}"
    return files[0]


CHECK = """
#include <nccl.h>
#include <array>
#include <cstddef>
#include <type_traits>
#include "worker/device/nccl_api.h"

// Result and arguments as they are passed: sizes, whether they are pointers, and whether they are structures.
template <typename Argument>
constexpr int kPassed = static_cast<int>(sizeof(Argument)) + (std::is_pointer_v<Argument> ? 1000 : 0) +
                        (std::is_class_v<Argument> ? 2000 : 0);
template <typename Result, typename... Arguments>
constexpr auto Passed(Result (*)(Arguments...)) {
  return std::array<int, 1 + sizeof...(Arguments)>{kPassed<Result>, kPassed<Arguments>...};
}
using Api = shoal::nccl::Api;
#define SAME(member, function) static_assert(Passed(decltype(Api::member){}) == Passed(decltype(&function){}))
SAME(get_version, ncclGetVersion);
SAME(get_unique_id, ncclGetUniqueId);
SAME(get_error_string, ncclGetErrorString);
SAME(get_last_error, ncclGetLastError);
SAME(comm_init_rank_config, ncclCommInitRankConfig);
SAME(comm_get_async_error, ncclCommGetAsyncError);
SAME(comm_abort, ncclCommAbort);
SAME(comm_destroy, ncclCommDestroy);
SAME(reduce_scatter, ncclReduceScatter);
SAME(all_gather, ncclAllGather);
SAME(reduce, ncclReduce);
SAME(broadcast, ncclBroadcast);
SAME(group_start, ncclGroupStart);
SAME(group_end, ncclGroupEnd);
SAME(red_op_create_pre_mul_sum, ncclRedOpCreatePreMulSum);
SAME(red_op_destroy, ncclRedOpDestroy);

namespace nccl = shoal::nccl;
static_assert(nccl::kSuccess == ncclSuccess && nccl::kInProgress == ncclInProgress);
static_assert(nccl::kInt8 == ncclInt8 && nccl::kUint8 == ncclUint8 && nccl::kInt32 == ncclInt32);
static_assert(nccl::kInt64 == ncclInt64 && nccl::kFloat16 == ncclFloat16 && nccl::kFloat32 == ncclFloat32);
static_assert(nccl::kFloat64 == ncclFloat64 && nccl::kBfloat16 == ncclBfloat16);
static_assert(nccl::kSum == ncclSum && nccl::kProd == ncclProd && nccl::kMax == ncclMax && nccl::kMin == ncclMin);
static_assert(nccl::kScalarHostImmediate == ncclScalarHostImmediate);
static_assert(sizeof(nccl::UniqueId) == sizeof(ncclUniqueId) && alignof(nccl::UniqueId) == alignof(ncclUniqueId));

// What version 2.14 had of the structure is the same in all.
constexpr ncclConfig_t kTheirs = NCCL_CONFIG_INITIALIZER;
constexpr nccl::Config kOurs;
static_assert(kOurs.size == sizeof(nccl::Config) && kOurs.size <= kTheirs.size);
static_assert(kOurs.magic == kTheirs.magic && kOurs.blocking == kTheirs.blocking);
static_assert(kOurs.version == NCCL_VERSION(2, 14, 0) && kOurs.version <= kTheirs.version);
static_assert(offsetof(nccl::Config, size) == offsetof(ncclConfig_t, size));
static_assert(offsetof(nccl::Config, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(nccl::Config, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(nccl::Config, blocking) == offsetof(ncclConfig_t, blocking));
"""


def test_nccls_functions_are_declared_as_in_its_header(tmp_path):
    (tmp_path / "check.cc").write_text(CHECK, encoding="utf-8")
    # All that it needs of CUDA's headers, which torch's packages have in part only.
    (tmp_path / "cuda_runtime.h").write_text(
        "#include <stddef.h>\ntypedef struct CUstream_st* cudaStream_t;\n", encoding="utf-8"
    )
    (tmp_path / "cuda_fp16.h").write_text("", encoding="utf-8")
    folders = [tmp_path, ROOT, found("nvidia/nccl/include/nccl.h").parent]
    command = ["c++", "-std=c++20", "-fsyntax-only", *(f"-I{folder}" for folder in folders), "check.cc"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_its_library_has_what_the_worker_looks_up():
    source, header = ((ROOT / f"worker/device/nccl_api.{end}").read_text(encoding="utf-8") for end in ("cc", "h"))
    names = re.findall(r'FindFunction\(handle, "(\w+)"', source)
    assert len(names) == len(re.findall(r"\(\*\w+\)\(", header))
    library = ctypes.CDLL(str(found("nvidia/nccl/lib/libnccl.so.2")))
    for name in names:
        assert getattr(library, name) is not None, name
        # The check above compares with the function of the same name.
        assert f", {name});" in CHECK, name
