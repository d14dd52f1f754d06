"""The servers' kernels against PyTorch's own arithmetic, bit by bit, for every bfloat16 and float16 value."""

import os
import pathlib
import subprocess

import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILTER = pathlib.Path(os.environ.get("SHOAL_BIN", ROOT / "build" / "bin")).parent / "tests" / "kernel_filter"
HALVES = {torch.float16: "float16", torch.bfloat16: "bfloat16"}
WIRES = {torch.float16: "fp16", torch.bfloat16: "bf16"}
RUN_SECONDS = 60


def run_filter(*words: str, stdin: bytes = b"") -> bytes:
    assert FILTER.is_file(), f"{FILTER} is missing: run `make build`"
    return subprocess.run([FILTER, *words], input=stdin, capture_output=True, check=True, timeout=RUN_SECONDS).stdout


KERNELS = run_filter("names").decode().split() if FILTER.is_file() else ["portable"]


def bytes_of(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().view(torch.uint8).numpy().tobytes()


def tensor_of(data: bytes, dtype: torch.dtype) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=dtype)


def all_values(dtype: torch.dtype) -> torch.Tensor:
    return torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).to(torch.int16).view(dtype)


def assert_same_bits(got: torch.Tensor, expected: torch.Tensor, *inputs: torch.Tensor) -> None:
    """NaNs are compared as NaNs: ours have no payload and no sign, PyTorch's do."""
    bits = {2: torch.int16, 4: torch.int32}[expected.element_size()]
    wrong = (got.view(bits) != expected.view(bits)) & ~(got.isnan() & expected.isnan())
    assert not wrong.any(), (
        f"{int(wrong.sum())} of {wrong.numel()} differ; first: {got[wrong][0]} instead of {expected[wrong][0]}"
        f" from {[part[wrong][0].item() for part in inputs]}"
    )
    assert got[got.isnan()].view(bits).unique().numel() <= 1, "NaNs that differ from one another"


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("dtype", HALVES)
def test_every_value_is_widened_as_pytorch_does(dtype, kernel):
    values = all_values(dtype)
    got = tensor_of(run_filter(kernel, "widen", WIRES[dtype], stdin=bytes_of(values)), torch.float32)
    assert_same_bits(got, values.to(torch.float32), values)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("dtype", HALVES)
def test_fp32_is_narrowed_as_pytorch_does(dtype, kernel):
    """Every upper half of an fp32 number, with lower halves that round down, up, and to even."""
    upper = torch.arange(1 << 16, dtype=torch.int64) << 16
    lower = torch.tensor([0, 1, 0x0FFF, 0x1000, 0x1001, 0x2FFF, 0x3000, 0x3001, 0x7FFF, 0x8000, 0x8001, 0xABCD, 0xFFFF])
    numbers = (upper[:, None] | lower[None, :]).flatten()
    values = torch.where(numbers >= 1 << 31, numbers - (1 << 32), numbers).to(torch.int32).view(torch.float32)
    got = tensor_of(run_filter(kernel, "narrow", WIRES[dtype], stdin=bytes_of(values)), dtype)
    assert_same_bits(got, values.to(dtype), values)


# ---- blocks of fp8: E4M3 numbers with a scale each 32 (docs/numerics.md) ----


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_byte_of_a_block_of_fp8_is_widened_as_pytorch_does(kernel):
    values = torch.arange(256, dtype=torch.int32).to(torch.uint8)
    for scale in (10, 100, 127, 246):
        blocks = torch.cat([torch.full((8, 1), scale, dtype=torch.uint8), values.view(8, 32)], dim=1)
        got = tensor_of(run_filter(kernel, "widen", "fp8", stdin=bytes_of(blocks)), torch.float32)
        expected = values.view(torch.float8_e4m3fn).to(torch.float32) * 2.0 ** (scale - 127)
        assert_same_bits(got, expected, values)


@pytest.mark.parametrize("kernel", KERNELS)
def test_fp32_is_narrowed_to_fp8_as_pytorch_does(kernel):
    """All upper halves of numbers below 464, and lower ones beside a tie, each in a block whose scale is 1."""
    upper = torch.arange(0x43E8, dtype=torch.int64) << 16
    lower = torch.tensor([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF])
    magnitudes = (upper[:, None] | lower[None, :]).flatten().to(torch.int32).view(torch.float32)
    numbers = torch.cat([magnitudes, -magnitudes])
    numbers = numbers[: numbers.numel() // 31 * 31].view(-1, 31)
    blocks = torch.cat([torch.full((len(numbers), 1), 448.0), numbers], dim=1)
    got = tensor_of(run_filter(kernel, "narrow", "fp8", stdin=bytes_of(blocks)), torch.uint8).view(-1, 33)
    assert got[:, 0].eq(127).all()
    wrong = got[:, 1:] != blocks.to(torch.float8_e4m3fn).view(torch.uint8)
    assert not wrong.any(), f"{int(wrong.sum())} differ, first of {blocks[wrong][0]}"


def rounded_once(contributions: list[torch.Tensor], operation: str) -> torch.Tensor:
    kept = contributions[0].to(torch.float32)
    for contribution in contributions[1:]:
        kept = kept + contribution.to(torch.float32)
    return (kept / len(contributions) if operation == "avg" else kept).to(contributions[0].dtype)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("operation", ["sum", "avg"])
@pytest.mark.parametrize("dtype", HALVES)
def test_sums_with_every_value_have_pytorchs_bits(dtype, operation, kernel):
    """Each of the 65536 values once alone, then beside eight others, then among eight: sampled from all pairs."""
    values = all_values(dtype)
    generator = torch.Generator().manual_seed(7)
    shuffled = [values[torch.randperm(values.numel(), generator=generator)] for _ in range(15)]
    cases = [[values], [values.repeat(8), torch.cat(shuffled[:8])], [values, *shuffled[8:]]]
    # Moderate numbers as well: among random bits few sums are ties.
    moderate = torch.randn(9, 1 << 16, generator=generator).to(dtype)
    cases.append(list(moderate))
    for contributions in cases:
        data = b"".join(bytes_of(contribution) for contribution in contributions)
        got = tensor_of(
            run_filter(kernel, "reduce", HALVES[dtype], operation, str(len(contributions)), stdin=data), dtype
        )
        assert_same_bits(got, rounded_once(contributions, operation), *contributions)
