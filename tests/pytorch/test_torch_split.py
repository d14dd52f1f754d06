"""Groups that are split off, device meshes, coalescing blocks, and what reaches the inner backends."""

import datetime

import inner_backends
import pytest
import torch
import torch.distributed as dist
from rank_processes import run_ranks
from torch.distributed.device_mesh import init_device_mesh

import shoal


def use_split_groups() -> None:
    rank = dist.get_rank()
    before = shoal.statistics()["ops_completed"]
    pair = dist.split_group(split_ranks=[[0, 1], [3, 2]])
    assert dist.get_group_rank(pair, rank) == {0: 0, 1: 1, 3: 0, 2: 1}[rank], "the order of the list is kept"
    tensor = torch.full((1000,), float(rank))
    dist.all_reduce(tensor, group=pair)
    assert (tensor == (1 if rank < 2 else 5)).all()
    assert shoal.statistics()["ops_completed"] == before + 1, "by the servers"
    tensor = torch.full((3,), float(rank))
    dist.broadcast(tensor, group_src=0, group=pair)
    assert (tensor == (0 if rank < 2 else 3)).all()

    some = dist.split_group(split_ranks=[[1, 2]])
    assert (some is dist.GroupMember.NON_GROUP_MEMBER) == (rank in (0, 3))
    if rank in (1, 2):
        alone = dist.split_group(parent_pg=some, split_ranks=[[0], [1]])
        dist.all_reduce(tensor, group=alone)
        both = torch.ones(2)
        dist.all_reduce(both, group=some)
        assert (both == 2).all()
        dist.destroy_process_group(some)
    tensor = torch.ones(5)
    dist.all_reduce(tensor)
    assert (tensor == 4).all()


def test_split_groups(cluster):
    run_ranks(4, use_split_groups, environment=cluster.environment())


def split_with_options() -> list[int]:
    moved = []
    parent = dist.new_group(pg_options=shoal.GroupOptions(wire="bf16"))
    for options in (None, shoal.GroupOptions(wire="none"), shoal.GroupOptions(wire="fp16")):
        group = dist.split_group(parent_pg=parent, split_ranks=[[0, 1]], pg_options=options)
        before = shoal.statistics()["bytes_pushed"]
        dist.all_reduce(torch.ones(1000), group=group)
        moved.append(shoal.statistics()["bytes_pushed"] - before)
    return moved


def test_a_split_group_has_its_parents_options_unless_it_is_given_some(cluster):
    assert run_ranks(2, split_with_options, environment=cluster.environment()) == [[2000, 4000, 2000]] * 2


def split_with_options_of_gloo() -> None:
    of_gloo = dist.ProcessGroupGloo._Options()
    parent = dist.new_group(timeout=datetime.timedelta(seconds=60), pg_options=shoal.GroupOptions(inner=of_gloo))
    child = dist.split_group(parent_pg=parent, split_ranks=[[0, 1]], timeout=datetime.timedelta(seconds=40))
    assert of_gloo.group_name == parent.group_name and of_gloo.global_ranks_in_group == [0, 1, 2]
    assert of_gloo._timeout == datetime.timedelta(seconds=60)
    if dist.get_rank() < 2:
        inner = child._get_backend(torch.device("cpu")).options.inner
        assert inner.group_name == child.group_name and inner._timeout == datetime.timedelta(seconds=40)


def test_a_split_leaves_the_options_of_its_parents_inner_backend_alone(cluster):
    if torch.__version__.startswith("2.11."):
        pytest.skip("torch 2.11 can't copy options")
    run_ranks(3, split_with_options_of_gloo, environment=cluster.environment())


def make_groups_with_a_bound_device() -> None:
    """With device_id, torch asks the ranks outside a new group to take part in a split."""
    dist.group.WORLD.bound_device_id = torch.device("cpu", 0)
    pair = dist.new_group([0, 1])
    tensor = torch.ones(2)
    if dist.get_rank() < 2:
        dist.all_reduce(tensor, group=pair)
        assert (tensor == 2).all()
    dist.barrier()


def test_new_groups_beside_a_bound_device(cluster):
    run_ranks(3, make_groups_with_a_bound_device, environment=cluster.environment())


def use_a_mesh() -> list[int]:
    options = shoal.GroupOptions(wire="bf16")
    mesh = init_device_mesh(
        "cpu", (2, 2), mesh_dim_names=("outer", "inner"), backend_override={"inner": ("shoal", options)}
    )
    moved = []
    for name in ("outer", "inner"):
        before = shoal.statistics()["bytes_pushed"]
        tensor = torch.full((1000,), float(dist.get_rank()))
        dist.all_reduce(tensor, group=mesh.get_group(name))
        moved.append(shoal.statistics()["bytes_pushed"] - before)
        other = dist.get_rank() ^ (2 if name == "outer" else 1)
        assert (tensor == dist.get_rank() + other).all()
    return moved


def test_a_mesh_with_options_for_one_dimension(cluster):
    assert run_ranks(4, use_a_mesh, environment=cluster.environment()) == [[4000, 2000]] * 4


def coalesce_on_the_cpu(make_group, gpu_node: bool) -> None:
    if gpu_node:
        inner_backends.use_one_for_gpus_that_sends_nothing()
    make_group()
    rank, cpu = dist.get_rank(), torch.device("cpu")
    store = dist.distributed_c10d._get_default_store()
    received = torch.zeros(3)
    summed = torch.ones(1000)
    with dist.distributed_c10d._coalescing_manager(device=cpu, async_ops=True) as block:
        if rank == 0:
            dist.irecv(received, src=1)
            dist.all_reduce(summed, async_op=True)
        else:
            store.wait(["rank 0 has looked"])
            dist.isend(torch.full((3,), 7.0), dst=0)
            dist.all_reduce(summed, async_op=True)
    if rank == 0:
        assert not block.works[0].is_completed(), "nothing was sent yet"
        store.set("rank 0 has looked", "1")
    block.wait()
    assert rank == 1 or (received == 7).all(), received
    assert (summed == 2).all(), summed

    other = torch.empty(4)
    exchange = [
        dist.P2POp(dist.isend, torch.full((4,), float(rank)), 1 - rank),
        dist.P2POp(dist.irecv, other, 1 - rank),
    ]
    for work in dist.batch_isend_irecv(exchange):
        work.wait()
    assert (other == 1 - rank).all()


def test_coalesced_cpu_tensors_are_waited_for(cluster):
    run_ranks(2, coalesce_on_the_cpu, False, environment=cluster.environment(), init=False)


def test_coalesced_cpu_tensors_are_waited_for_beside_an_inner_backend_for_gpus(cluster):
    run_ranks(2, coalesce_on_the_cpu, True, environment=cluster.environment(), init=False)


def note_what_gloo_is_made_with(make_group) -> list[tuple]:
    dist.Backend._ensure_backend_registered("gloo")
    plugin = dist.Backend._plugins["GLOO"]
    made = []

    def create(options, backend_options):
        made.append((options.group_id, list(options.global_ranks_in_group), options.group_rank, options.group_size))
        return plugin.creator_fn(options, backend_options)

    dist.Backend._plugins["GLOO"] = plugin._replace(creator_fn=create)
    make_group()
    group = dist.new_group([2, 0])
    name = group.group_name if dist.get_rank() != 1 else ""
    assert [entry[0] for entry in made] == [dist.group.WORLD.group_name, name][: len(made)]
    dist.barrier()  # or who has connected to all leaves while another one still connects to it
    return [entry[1:] for entry in made]


def test_name_and_ranks_of_a_group_reach_the_registered_creator_of_the_inner_backend(cluster):
    results = run_ranks(3, note_what_gloo_is_made_with, environment=cluster.environment(), init=False)
    assert results == [[([], 0, 3), ([0, 2], 0, 2)], [([], 1, 3)], [([], 2, 3), ([0, 2], 1, 2)]]
