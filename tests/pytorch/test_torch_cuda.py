"""CUDA tensors, from the device and by way of host memory; skipped without a GPU (docs/gpu_checks.md). The ranks may
share one GPU: the inner backend is not used."""

import pytest
import torch
import torch.distributed as dist
from rank_processes import run_ranks

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")


WAYS = {
    "from the device": {"SHOAL_DEVICES": "cuda", "SHOAL_NODE_REDUCE": "off"},
    "by way of host memory": {"SHOAL_DEVICES": "none", "SHOAL_NODE_REDUCE": "off"},
    "by NCCL within the node": {"SHOAL_DEVICES": "cuda", "SHOAL_NODE_REDUCE": "nccl"},
}
needs_two = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="NCCL wants a GPU a rank")


@pytest.fixture(params=[*list(WAYS)[:2], pytest.param(list(WAYS)[2], marks=needs_two)])
def environment(cluster, request) -> dict[str, str]:
    return cluster.environment() | WAYS[request.param]


def use_own_device() -> torch.device:
    device = torch.device("cuda", dist.get_rank() % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device


def keep_stream_busy(device: torch.device) -> None:
    """Some tens of milliseconds of work that what follows on the current stream has to wait for."""
    matrix = torch.randn(4096, 4096, device=device)
    for _ in range(30):
        matrix = torch.mm(matrix, matrix).clamp_(-1, 1)


def reduce_on_device() -> None:
    device, rank, ranks = use_own_device(), dist.get_rank(), dist.get_world_size()
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.uint8):
        tensor = torch.zeros(100_003, dtype=dtype, device=device)
        keep_stream_busy(device)
        tensor.fill_(rank + 1)  # runs long after the call below
        dist.all_reduce(tensor)
        result = tensor + 0  # ordered by stream alone
        assert (result == sum(range(1, ranks + 1))).all(), dtype


def test_cuda_all_reduce_waits_for_the_producer_and_the_consumer_for_it(environment):
    run_ranks(2, reduce_on_device, environment=environment)


def reduce_on_side_stream() -> None:
    device, ranks = use_own_device(), dist.get_world_size()
    keep_stream_busy(device)  # the default stream
    stream = torch.cuda.Stream(device)
    with torch.cuda.stream(stream):
        tensor = torch.ones(1 << 20, device=device)
        work = dist.all_reduce(tensor, async_op=True)
        work.wait()
        tensor.mul_(2)
    stream.synchronize()
    assert (tensor == 2 * ranks).all()
    future = dist.all_reduce(torch.ones(1 << 20, device=device), async_op=True).get_future()
    doubled = future.then(lambda done: done.value()[0] * 2)
    assert (doubled.wait() == 2 * ranks).all()


def test_cuda_side_stream_and_future(environment):
    run_ranks(2, reduce_on_side_stream, environment=environment)


def drop_tensors() -> None:
    device, ranks = use_own_device(), dist.get_world_size()
    works = []
    for number in range(50):
        keep_stream_busy(device) if number % 10 == 0 else None
        works.append(dist.all_reduce(torch.full((1 << 18,), float(number), device=device), async_op=True))
        torch.full((1 << 18,), -1.0, device=device)  # would take freed memory at once
    for number, work in enumerate(works):
        work.wait()
        assert (work.result()[0] == number * ranks).all()


def test_cuda_tensors_live_until_their_copies_are_done(environment):
    run_ranks(2, drop_tensors, environment=environment)


def mix_devices() -> None:
    device, ranks = use_own_device(), dist.get_world_size()
    on_device = torch.ones(1000, device=device)
    keep_stream_busy(device)
    first = dist.all_reduce(on_device, async_op=True)
    on_host = torch.ones(1000)
    second = dist.all_reduce(on_host, async_op=True)  # must not overtake
    second.wait()
    first.wait()
    assert (on_device == ranks).all() and (on_host == ranks).all()
    matrix = torch.arange(12.0, device=device).reshape(3, 4)
    transposed = matrix.clone().t()
    dist.all_reduce(transposed)
    assert torch.equal(transposed, matrix.t() * ranks)
    empty = torch.empty(0, device=device)
    dist.all_reduce(empty)


def test_cuda_and_cpu_tensors_in_one_group(environment):
    run_ranks(2, mix_devices, environment=environment)


def train_on(device_type: str) -> list[torch.Tensor]:
    device = use_own_device() if device_type == "cuda" else torch.device("cpu")
    torch.manual_seed(5)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(32, 32).to(device), bucket_cap_mb=0.001)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(5):
        model(torch.randn(8, 32, generator=generator).to(device)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return [parameter.detach().cpu() for parameter in model.parameters()]


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="DDP's set-up uses NCCL, which wants a GPU a rank")
def test_cuda_ddp_gives_the_weights_of_the_cpu(environment):
    on_gpu = run_ranks(2, train_on, "cuda", environment=environment)
    on_cpu = run_ranks(2, train_on, "cpu", environment=environment)
    for ours, theirs in zip(on_gpu[0], on_cpu[0]):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
