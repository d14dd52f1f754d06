"""CUDA tensors with torch's own kernels and allocator, on each way that an all-reduce takes; skipped without a GPU
(docs/gpu_checks.md). The ranks may share one GPU. What holds on a simulated device too: test_torch_devices.py."""

import functools
import re

import gpu_device
import pytest
import torch
import torch.distributed as dist
from rank_processes import run_ranks
from torch.distributed.device_mesh import init_device_mesh

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")


WAYS = {
    "from the device": {"SHOAL_DEVICES": "cuda", "SHOAL_NODE_REDUCE": "off"},
    "by NCCL within the node": {"SHOAL_DEVICES": "cuda", "SHOAL_NODE_REDUCE": "nccl"},
}


@pytest.fixture(params=WAYS)
def environment(cluster, request) -> dict[str, str]:
    return cluster.environment() | WAYS[request.param]


def use_own_device() -> torch.device:
    device = torch.device("cuda", gpu_device.share())
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


def test_cuda_ddp_gives_the_weights_of_the_cpu(environment):
    on_gpu = run_ranks(2, train_on, "cuda", environment=environment)
    on_cpu = run_ranks(2, train_on, "cpu", environment=environment)
    for ours, theirs in zip(on_gpu[0], on_cpu[0]):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def capture_and_replay() -> None:
    device, ranks = use_own_device(), dist.get_world_size()
    tensor = torch.ones(100_003, device=device)
    dist.broadcast(tensor, 0)  # NCCL, which reduces what is captured, can't meet the other rank during a capture
    dist.all_reduce(tensor)
    assert (tensor == ranks).all()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dist.all_reduce(tensor)
        tensor.mul_(3)
    for number in range(3):
        tensor.fill_(number)
        graph.replay()
        assert (tensor == number * ranks * 3).all()
    tensor.fill_(1)
    dist.all_reduce(tensor)  # not captured: as before
    assert (tensor == ranks).all()


def test_cuda_graphs_have_the_reduction_of_the_inner_backend(environment):
    run_ranks(2, capture_and_replay, environment=environment)


def use_a_mesh_beside_a_bound_device(make_group) -> None:
    """NCCL is inside: it connects at the start, and its groups are split off."""
    device = use_own_device()
    dist.init_process_group = functools.partial(dist.init_process_group, device_id=device)
    make_group()
    mesh = init_device_mesh("cuda", (2, 1), mesh_dim_names=("both", "alone"))
    for name, ranks in (("both", 2), ("alone", 1)):
        tensor = torch.ones(1000, device=device)
        dist.all_reduce(tensor, group=mesh.get_group(name))
        assert (tensor == ranks).all()
        gathered = torch.empty(1000 * ranks, device=device)
        dist.all_gather_into_tensor(gathered, tensor, group=mesh.get_group(name))  # NCCL's
        assert (gathered == ranks).all()


def test_cuda_meshes_beside_a_bound_device(environment):
    run_ranks(2, use_a_mesh_beside_a_bound_device, init=False, environment=environment)


ARENA_MIB = 64
BACKWARD_GIB = 10


def most_resident_mib() -> int:
    """Since the last call."""
    with open("/proc/self/status", encoding="utf-8") as status:
        peak_kib = int(re.search(r"VmHWM:\s+(\d+) kB", status.read())[1])
    with open("/proc/self/clear_refs", "w", encoding="utf-8") as peak:
        peak.write("5")  # begins anew, see proc(5)
    return peak_kib >> 10


def reduce_10_gib() -> int:
    device, ranks = use_own_device(), dist.get_world_size()
    count = 64 << 20  # 256 MiB
    tensors = [torch.full((count,), float(number), device=device) for number in range(BACKWARD_GIB * 4)]
    dist.all_reduce(torch.ones(count, device=device))
    torch.cuda.synchronize()
    most_resident_mib()
    before = most_resident_mib()
    for tensor in tensors:
        dist.all_reduce(tensor, async_op=True)
    torch.cuda.synchronize()
    for number, tensor in enumerate(tensors):
        assert (tensor == number * ranks).all(), number
    return most_resident_mib() - before


def test_cuda_host_memory_stays_the_same_in_a_backward_of_10_gib(cluster):
    environment = cluster.environment() | WAYS["from the device"] | {"SHOAL_DEVICE_MEMORY": f"{ARENA_MIB}M"}
    for grown_mib in run_ranks(2, reduce_10_gib, environment=environment):
        assert grown_mib < ARENA_MIB, f"{grown_mib} MiB more than after the first operation"
