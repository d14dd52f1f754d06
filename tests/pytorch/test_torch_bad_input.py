"""Tensors that can't be reduced are refused before anything is sent, in words that say what to do."""

import datetime
import re
import resource

import pytest
import torch
import torch.distributed as dist
from rank_processes import run_ranks

import shoal


def message_of(call) -> str:
    try:
        call()
    except (RuntimeError, ValueError, TypeError) as error:
        return str(error)
    return "no error"


def reduce_refused(make_tensor_name: str) -> str:
    before = shoal.statistics()["ops_completed"]
    tensor = REFUSED[make_tensor_name][0]()
    message = message_of(lambda: dist.all_reduce(tensor))
    # Nothing was sent, so the ranks still agree on which all-reduce is the next.
    after = torch.full((4,), float(dist.get_rank()))
    dist.all_reduce(after)
    assert (after == 1).all(), after
    assert shoal.statistics()["ops_completed"] == before + 1
    return message


REFUSED = {
    "float8": (lambda: torch.ones(4).to(torch.float8_e4m3fn), ["float8_e4m3fn", ".to(torch."]),
    "float8 of another kind": (lambda: torch.ones(4).to(torch.float8_e5m2), ["float8_e5m2", ".to(torch."]),
    "unsigned 16 bit": (lambda: torch.ones(4).to(torch.uint16), ["uint16", ".to(torch."]),
    "unsigned 64 bit": (lambda: torch.ones(4).to(torch.uint64), ["uint64", ".to(torch."]),
    "expanded": (lambda: torch.ones(1).expand(4), ["more than one element", ".contiguous()"]),
    "expanded in one dimension": (lambda: torch.ones(2, 1).expand(2, 3), ["more than one element", ".contiguous()"]),
    "unfolded": (lambda: torch.ones(6).unfold(0, 3, 1), ["more than one element", ".contiguous()"]),
    "overlapping rows": (lambda: torch.ones(8).as_strided((3, 4), (2, 1)), ["more than one element", ".contiguous()"]),
    "overlapping in three dimensions": (
        lambda: torch.ones(99).as_strided((2, 3, 4), (7, 3, 2)), ["more than one element", ".contiguous()"],
    ),
    "expanded bool": (lambda: torch.ones(1, dtype=torch.bool).expand(4), ["more than one element", ".contiguous()"]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_tensor_that_can_not_be_reduced_is_refused_by_name(cluster, name):
    for message in run_ranks(2, reduce_refused, name, environment=cluster.environment()):
        for part in REFUSED[name][1]:
            assert part in message, message


def reduce_views() -> None:
    views = {
        "transposed": torch.zeros(3, 4).t(),
        "permuted": torch.zeros(2, 3, 4, 5).permute(2, 0, 3, 1),
        "every second": torch.zeros(9)[::2],
        "columns": torch.zeros(5, 7)[:, 1:4],
        "a corner": torch.zeros(4, 5, 6)[1:, ::2, 2:5],
        "channels last": torch.zeros(2, 3, 4, 5).to(memory_format=torch.channels_last)[:, :, 1:],
        "unfolded without overlap": torch.zeros(9).unfold(0, 3, 3)[:, ::2],
        "elements between each other's": torch.zeros(8).as_strided((2, 3), (3, 2)),
        "three dimensions between each other's": torch.zeros(99).as_strided((2, 3, 2), (1, 5, 7)),
        "one element": torch.zeros(3).as_strided((1, 1), (1, 1)),
        "no element": torch.zeros(3).as_strided((0, 2, 2), (1, 1, 1)),
    }
    for name, view in views.items():
        view.fill_(dist.get_rank() + 1)
        dist.all_reduce(view)
        assert (view == 3).all(), (name, view)


def test_views_whose_elements_do_not_overlap_are_reduced(cluster):
    run_ranks(2, reduce_views, environment=cluster.environment())


def reduce_lists() -> list[str]:
    group = dist.group.WORLD._get_backend(torch.device("cpu"))
    ones = torch.ones(4)
    messages = [
        message_of(lambda: group.allreduce_coalesced([ones, torch.ones(4, device="meta")]).wait()),
        message_of(lambda: group.allreduce_coalesced([ones, torch.ones(4, dtype=torch.int32)]).wait()),
        message_of(lambda: group.allreduce_coalesced([ones, torch.ones(1).expand(4)]).wait()),
        message_of(lambda: group.allreduce_coalesced([]).wait()),
    ]
    dist.all_reduce(ones)
    assert (ones == 2).all()
    return messages


def test_lists_that_do_not_belong_together_are_refused(cluster):
    for messages in run_ranks(2, reduce_lists, environment=cluster.environment()):
        assert "meta" in messages[0] and "cpu" in messages[0], messages
        assert "Float" in messages[1] and "Int" in messages[1], messages
        assert "more than one element" in messages[2], messages
        assert "no tensor" in messages[3], messages


def reduce_nothing_with_something(first_to_give_up: int) -> list[str]:
    """Rank 0's first tensor has no element, and all of its next ones have as many as the other rank's."""
    seconds = 3 if dist.get_rank() == first_to_give_up else 60
    group = dist.new_group(timeout=datetime.timedelta(seconds=seconds))
    messages = []
    for number in (0, 1):
        tensor = torch.full((0 if dist.get_rank() == number == 0 else 4,), 10.0**number)
        messages.append(message_of(lambda: dist.all_reduce(tensor, group=group)))
        assert messages[-1] != "no error" or tensor.numel() == 0, f"summed with another call: {tensor}"
    return messages


@pytest.mark.parametrize(
    ("node_reduce", "first_to_give_up", "told"),
    [
        ("off", 1, r"all-reduce 1 .* waits for rank 0"),
        ("off", 0, r"rank 0 on .*: all-reduce 2 .* waits for rank 1.* fewer calls"),
        ("host", 1, r"local rank 0 of 2 asked for call 2"),
    ],
    ids=["off, it is waited for", "off, it waits", "host"],
)
def test_an_empty_tensor_on_one_rank_is_an_error_instead_of_a_shift(cluster, node_reduce, first_to_give_up, told):
    environment = cluster.environment() | {"SHOAL_NODE_REDUCE": node_reduce}
    arguments = (reduce_nothing_with_something, first_to_give_up)
    _, messages = run_ranks(2, *arguments, environment=environment, timeout_seconds=60)
    assert re.search(told, messages[0]), messages


ELEMENTS = 64 * 1024 * 1024


def run_out_of_memory_between_two_all_reduces() -> list[str]:
    """Rank 0 has no memory for the contiguous copy of the first tensor. Its second call has the same size."""
    dist.barrier()
    messages = []
    for number in (1, 2):
        if dist.get_rank() == 0 and number == 1:
            tensor = torch.empty(2 * ELEMENTS, dtype=torch.int8)[::2]
            with open("/proc/self/statm", encoding="ascii") as file:
                in_use = int(file.read().split()[0]) * resource.getpagesize()
            limits = resource.getrlimit(resource.RLIMIT_AS)
            resource.setrlimit(resource.RLIMIT_AS, (in_use + ELEMENTS // 2, limits[1]))
            messages.append(message_of(lambda: dist.all_reduce(tensor)))
            resource.setrlimit(resource.RLIMIT_AS, limits)
        else:
            tensor = torch.full((ELEMENTS,), number, dtype=torch.int8)
            messages.append(message_of(lambda: dist.all_reduce(tensor)))
    return messages


def test_a_rank_without_memory_for_the_copy_fails_the_group_instead_of_shifting_it(cluster):
    first, second = run_ranks(2, run_out_of_memory_between_two_all_reduces, environment=cluster.environment())
    assert "memory" in first[0], first
    assert "rank 0" in second[0] and "memory" in second[0], second
    assert "no error" not in first + second, (first, second)
