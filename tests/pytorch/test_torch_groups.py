"""Sub-groups, and the life of groups and of the session."""

import os
import resource
import time

import pytest
import torch
import torch.distributed as dist
from rank_processes import run_ranks
from torch._C._distributed_c10d import Backend

import shoal


def use_sub_groups() -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    reversed_all = dist.new_group([3, 2, 1, 0])
    alone = [dist.new_group([other]) for other in range(ranks)]

    tensor = torch.tensor([float(rank)])
    dist.all_reduce(tensor, group=pairs[rank // 2])
    assert tensor.item() == (1 if rank < 2 else 5)

    before = shoal.statistics()["ops_completed"]
    tensor = torch.tensor([float(rank)])
    dist.all_reduce(tensor, group=alone[rank])
    assert tensor.item() == rank
    dist.all_reduce(tensor, op=dist._make_nccl_premul_sum(3.0), group=alone[rank])
    assert tensor.item() == 3 * rank
    assert shoal.statistics()["ops_completed"] == before, "a group of one needs no servers"

    # Several groups with work in flight at once, started in another order on each rank.
    works = []
    for group in [dist.group.WORLD, pairs[rank // 2], reversed_all][:: 1 if rank % 2 == 0 else -1]:
        works.append((dist.get_world_size(group), torch.ones(50_000), None))
        works[-1] = (*works[-1][:2], dist.all_reduce(works[-1][1], group=group, async_op=True))
    for size, tensor, work in works:
        work.wait()
        assert (tensor == size).all()

    dist.destroy_process_group(reversed_all)
    again = dist.new_group([3, 2, 1, 0])
    tensor = torch.ones(3)
    dist.all_reduce(tensor, group=again)
    assert (tensor == ranks).all()


def test_sub_groups(cluster):
    run_ranks(4, use_sub_groups, environment=cluster.environment())


def init_twice(make_group) -> None:
    for _ in range(3):
        make_group()
        tensor = torch.ones(1000)
        dist.all_reduce(tensor)
        assert (tensor == dist.get_world_size()).all()
        dist.destroy_process_group()
        assert shoal.statistics() == {}


def test_init_again_after_destroy(cluster):
    run_ranks(3, init_twice, environment=cluster.environment(), init=False)


def leave_works_open(make_group) -> None:
    make_group()
    dist.barrier()
    store = dist.distributed_c10d._get_default_store()
    if dist.get_rank() == 0:
        work = dist.all_reduce(torch.ones(10), async_op=True)
        dist.destroy_process_group()
        try:
            work.wait()
            raise AssertionError("the other rank never took part")
        except dist.DistBackendError as error:
            assert "destroyed" in str(error), error
        store.set("rank 0 has destroyed its group", "")
    else:
        store.wait(["rank 0 has destroyed its group"])  # leaving before would end rank 0's work by another error
        dist.destroy_process_group()


def test_destroy_ends_open_work(cluster):
    run_ranks(2, leave_works_open, environment=cluster.environment(), init=False)


def shoal_beside_gloo() -> None:
    group = dist.new_group([0, 2], backend="shoal")
    if dist.get_rank() in (0, 2):
        tensor = torch.full((100,), float(dist.get_rank()))
        dist.all_reduce(tensor, group=group)
        assert (tensor == 2).all()
        assert shoal.statistics()["ops_completed"] == 1
        dist.barrier(group)


def test_a_shoal_group_beside_a_default_group_of_gloo(cluster):
    run_ranks(3, shoal_beside_gloo, environment=cluster.environment(), backend="gloo")


def shoal_beside_gloo_without_scheduler() -> str:
    try:
        dist.new_group([0, 1], backend="shoal")
    except ValueError as error:
        return str(error)
    return "no error"


def test_a_shoal_group_beside_gloo_needs_a_scheduler():
    messages = run_ranks(2, shoal_beside_gloo_without_scheduler, backend="gloo")
    assert all("needs SHOAL_SCHEDULER" in message for message in messages), messages


def one_rank_world() -> None:
    tensor = torch.ones(3)
    dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
    assert (tensor == 1).all()
    dist.barrier()


def test_a_world_of_one_needs_nothing():
    run_ranks(1, one_rank_world)


@pytest.mark.parametrize(("variable", "value"), [("SHOAL_WIRE", "bf17"), ("LOCAL_WORLD_SIZE", "2(x1)")])
def test_a_world_of_one_refuses_wrong_settings(variable: str, value: str):
    [failure] = run_ranks(1, one_rank_world, environment={variable: value}, expect_failures=True)
    assert failure.kind == "ValueError" and value in failure.message, failure.message


def join_beside_gloo_with_few_files() -> str:
    """On rank 0, in whose process others have used almost all that may be open."""
    if dist.get_rank() == 0:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 30, hard))
    begin = time.monotonic()
    with pytest.raises(dist.DistBackendError) as caught:
        dist.new_group(backend="shoal")
    assert time.monotonic() - begin < 20, "it waited for the rank that can't join"
    return str(caught.value)


def test_a_rank_that_can_not_join_beside_gloo_tells_the_others_why(cluster):
    environment = cluster.environment()
    own, other = run_ranks(2, join_beside_gloo_with_few_files, environment=environment, backend="gloo")
    assert "raise the limit with ulimit -n" in own, own
    assert other.startswith("shoal: rank 0: ") and "raise the limit with ulimit -n" in other, other


def give_options_to_gloo() -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.barrier(dist.new_group(pg_options=dist.ProcessGroupGloo._Options()))
    os.environ["GLOO_SOCKET_IFNAME"] = "lo,no-such-device"
    with pytest.raises(RuntimeError, match="no-such-device"):
        dist.new_group(pg_options=dist.ProcessGroupGloo._Options())


def test_the_inner_gloo_uses_the_named_interfaces_also_with_options(cluster):
    run_ranks(2, give_options_to_gloo, environment=cluster.environment())


def refuse_options(make_group) -> None:
    make_group()
    with pytest.raises(TypeError, match="expected shoal.GroupOptions"):
        dist.new_group(pg_options=Backend.Options("another"))
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    assert (tensor == 2).all()
    dist.destroy_process_group()
    assert shoal.membership._current is None, "the job goes on, for the sake of a group that nobody has"


def test_a_group_that_could_not_be_made_leaves_nothing_behind(cluster):
    run_ranks(2, refuse_options, environment=cluster.environment(), init=False)


def mixed_backends(make_group) -> None:
    make_group()
    tensor = torch.ones(5)
    dist.all_reduce(tensor)
    assert (tensor == 2).all()
    assert dist.get_backend() == "shoal" or "shoal" in dist.get_backend_config()


def test_device_qualified_backend_name(cluster):
    run_ranks(2, mixed_backends, environment=cluster.environment(), backend="cpu:shoal,cuda:gloo", init=False)


def fork_and_reduce() -> str:
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            dist.all_reduce(torch.ones(3))
            message = "no error"
        except RuntimeError as error:
            message = str(error)
        os.write(write_end, message.encode())
        os._exit(0)
    os.waitpid(child, 0)
    loader = torch.utils.data.DataLoader(range(8), batch_size=2, num_workers=2)
    assert sum(len(batch) for batch in loader) == 8
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    assert (tensor == dist.get_world_size()).all()
    return os.read(read_end, 4096).decode()


def test_a_forked_child_touches_nothing(cluster):
    for message in run_ranks(2, fork_and_reduce, environment=cluster.environment()):
        assert "forked" in message
