"""How a group's ranks come together: nothing that they must agree on comes from what one of them did before, and two
jobs never meet by a default."""

import datetime
import os
import pathlib
import re
import resource
import threading
import time
from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
from rank_processes import run_ranks
from shoal import config, inner, meeting, membership
from torch_cluster import Cluster

TIMEOUT = datetime.timedelta(seconds=30)


def sum_in_new_group(
    path: str, rank: int, world_size: int, backend: str = "shoal", meanwhile: Callable[[], None] = lambda: None
) -> None:
    dist.init_process_group(
        backend, store=dist.FileStore(path, -1), rank=rank, world_size=world_size, timeout=TIMEOUT
    )
    group = None if backend == "shoal" else dist.new_group(backend="shoal")
    tensor = torch.full((1000,), float(rank + 1))
    dist.all_reduce(tensor, group=group)
    assert (tensor == sum(range(1, world_size + 1))).all(), tensor[0]
    meanwhile()
    dist.destroy_process_group()


def say(path: str) -> None:
    dist.FileStore(path, -1).set("said", "so")


def hear(path: str) -> None:
    dist.FileStore(path, -1).wait(["said"], TIMEOUT)


def survive_or_replace(_make_group, folder: str, stores: list[str], rank_of_survivor: int) -> None:
    """Process 0 has two groups, with process 1 and then with process 2."""
    first, second = (os.path.join(folder, name) for name in stores)
    process, other = int(os.environ["TEST_RANK"]), 1 - rank_of_survivor
    if process == 0:
        sum_in_new_group(first, rank_of_survivor, 2)
        say(os.path.join(folder, "first_is_over"))
        sum_in_new_group(second, rank_of_survivor, 2)
    elif process == 1:
        sum_in_new_group(first, other, 2)
    else:
        hear(os.path.join(folder, "first_is_over"))
        sum_in_new_group(second, other, 2)


def environment_of(kind: str, cluster: Cluster) -> dict[str, str]:
    return {} if kind == "alone" else cluster.environment()


KINDS = pytest.mark.parametrize("kind", ["alone", "cluster"])


@KINDS
@pytest.mark.parametrize("stores", [["first", "second"], ["one", "one"]], ids=["stores", "store"])
@pytest.mark.parametrize("rank_of_survivor", [0, 1])
def test_a_survivor_makes_a_group_with_a_fresh_process(
    cluster: Cluster, tmp_path: pathlib.Path, kind: str, stores: list[str], rank_of_survivor: int
):
    environment = environment_of(kind, cluster)
    run_ranks(3, survive_or_replace, str(tmp_path), stores, rank_of_survivor, environment=environment, init=False)


def be_alone_first(_make_group, folder: str, loner: int) -> None:
    rank = int(os.environ["TEST_RANK"])
    if rank == loner:
        sum_in_new_group(os.path.join(folder, "alone"), 0, 1)
    sum_in_new_group(os.path.join(folder, "both"), rank, 2)


@KINDS
@pytest.mark.parametrize("loner", [0, 1])
def test_a_rank_may_have_had_a_group_of_its_own_before(
    cluster: Cluster, tmp_path: pathlib.Path, kind: str, loner: int
):
    run_ranks(2, be_alone_first, str(tmp_path), loner, environment=environment_of(kind, cluster), init=False)


def join_in_turns(_make_group, folder: str, backend: str) -> None:
    """Processes 0 and 1 are a job, 2 and 3 another; of each the first process comes when both second ones have come,
    and none leaves before the other job has its sum."""
    process = int(os.environ["TEST_RANK"])
    job, rank = divmod(process, 2)
    if rank == 1:
        say(os.path.join(folder, f"came_{job}"))
    else:
        for other in (0, 1):
            hear(os.path.join(folder, f"came_{other}"))

    def let_the_other_job_reduce() -> None:
        say(os.path.join(folder, f"reduced_{job}"))
        hear(os.path.join(folder, f"reduced_{1 - job}"))

    sum_in_new_group(os.path.join(folder, f"store_{job}"), rank, 2, backend, let_the_other_job_reduce)


@pytest.mark.parametrize("backend", ["shoal", "gloo"])
def test_jobs_without_names_do_not_meet(cluster: Cluster, tmp_path: pathlib.Path, backend: str):
    environment = cluster.environment()
    del environment["SHOAL_JOB_NAME"]
    run_ranks(4, join_in_turns, str(tmp_path), backend, environment=environment, init=False)


def tell_names(_make_group, folder: str) -> list[str]:
    names = []
    connect = membership.Membership._connect

    def spy(self, scheduler, job_name, *more):
        names.append(job_name)
        return connect(self, scheduler, job_name, *more)

    membership.Membership._connect = spy
    rank = int(os.environ["TEST_RANK"])
    sum_in_new_group(os.path.join(folder, "first"), rank, 2)
    sum_in_new_group(os.path.join(folder, "second"), rank, 2)
    return names


def test_a_given_name_stays_as_given(cluster: Cluster, tmp_path: pathlib.Path):
    environment = cluster.environment()
    given = environment["SHOAL_JOB_NAME"]
    names = run_ranks(2, tell_names, str(tmp_path), environment=environment, init=False)
    assert names == [[given, f"{given}.2"]] * 2


def test_a_name_that_nobody_gave_says_which_job_it_is(cluster: Cluster, tmp_path: pathlib.Path):
    environment = cluster.environment(TORCHELASTIC_RUN_ID="tutorial", TORCHELASTIC_RESTART_COUNT="3")
    del environment["SHOAL_JOB_NAME"]
    names = run_ranks(2, tell_names, str(tmp_path), environment=environment, init=False)
    assert names[0] == names[1] and names[0][0] != names[0][1]
    assert all(name.startswith("tutorial-3-") for name in names[0])


def come_late(_make_group, folder: str) -> list[str]:
    """Rank 1, when rank 0 has waited for longer than joining may take."""
    told: list[str] = []
    membership.JOIN_SECONDS = meeting.FIRST_WORD_SECONDS = 5

    def tell(text: str) -> None:
        told.append(text)
        say(os.path.join(folder, "waited"))

    membership._tell = tell
    rank = int(os.environ["TEST_RANK"])
    if rank == 1:
        hear(os.path.join(folder, "waited"))
    sum_in_new_group(os.path.join(folder, "store"), rank, 2)
    return told


def test_the_groups_timeout_says_how_late_a_rank_may_come(cluster: Cluster, tmp_path: pathlib.Path):
    told = run_ranks(2, come_late, str(tmp_path), environment=cluster.environment(), init=False)
    assert re.search(r"waited \d+ s of 0:00:30 for these ranks to join: \[1\]", told[0][0]), told


def wait_for_servers(make_group) -> str:
    membership.JOIN_SECONDS = 3
    with pytest.raises(dist.DistBackendError) as caught:
        make_group()
    return str(caught.value)


def test_a_wait_that_ends_before_the_groups_timeout_says_what_sets_it(cluster: Cluster):
    environment = cluster.environment(SHOAL_MIN_SERVERS="3")
    for text in run_ranks(2, wait_for_servers, environment=environment, init=False):
        assert "2 of 3 reduction servers" in text and "SHOAL_TIMEOUT sets how long" in text, text


SERVERS = {"SHOAL_NODE_REDUCE": "off"}  # the ranks' own


def set_and_join(_make_group, folder: str, failing_rank: int, variable: str, value: str) -> None:
    rank = int(os.environ["TEST_RANK"])
    if rank == failing_rank:
        os.environ[variable] = value
    sum_in_new_group(os.path.join(folder, "store"), rank, 2)


@pytest.mark.parametrize("failing_rank", [0, 1])
@pytest.mark.parametrize(
    ("variable", "value"), [("LOCAL_WORLD_SIZE", "2(x1)"), ("SHOAL_WIRE", "bf17"), ("SHOAL_NET_DEVICE", "nonesuch")]
)
def test_what_is_wrong_on_one_rank_is_told_to_the_others(
    cluster: Cluster, tmp_path: pathlib.Path, failing_rank: int, variable: str, value: str
):
    environment = cluster.environment() if variable != "SHOAL_NET_DEVICE" else SERVERS
    begin = time.monotonic()
    failures = run_ranks(
        2, set_and_join, str(tmp_path), failing_rank, variable, value,
        environment=environment, init=False, expect_failures=True,
    )  # fmt: skip
    assert time.monotonic() - begin < TIMEOUT.total_seconds(), "nobody waits to the timeout"
    assert f"{value}" in failures[failing_rank].message, failures[failing_rank].message
    other = failures[1 - failing_rank].message
    assert f"rank {failing_rank}: " in other and value in other, other


def join_again(make_group, variable: str, value: str) -> None:
    os.environ[variable] = value
    with pytest.raises((ValueError, dist.DistBackendError), match=value):
        make_group()
    assert not dist.is_initialized()
    del os.environ[variable]
    make_group()
    tensor = torch.ones(1000)
    dist.all_reduce(tensor)
    assert (tensor == 2).all()


@KINDS
@pytest.mark.parametrize(("variable", "value"), [("SHOAL_WIRE", "bf17"), ("SHOAL_NET_DEVICE", "nonesuch")])
def test_a_group_can_be_made_when_what_was_wrong_at_the_first_try_is_mended(
    cluster: Cluster, kind: str, variable: str, value: str
):
    run_ranks(2, join_again, variable, value, environment=environment_of(kind, cluster) | SERVERS, init=False)


def join_with_few_files(make_group) -> str:
    """On rank 0, in whose process others have used almost all that may be open."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft = len(os.listdir("/proc/self/fd")) + 30
    if os.environ["TEST_RANK"] == "0":
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    with pytest.raises(dist.DistBackendError) as caught:
        make_group()
    assert os.environ["TEST_RANK"] == "1" or resource.getrlimit(resource.RLIMIT_NOFILE) == (soft, hard), "not ours"
    return str(caught.value)


def test_a_shortage_of_files_is_named_with_the_limit_and_what_to_do(cluster: Cluster):
    own, other = run_ranks(2, join_with_few_files, environment=cluster.environment(), init=False)
    assert "RESOURCE_EXHAUSTED" in own and "raise the limit with ulimit -n" in own, own
    assert other.startswith("shoal: rank 0: ") and "raise the limit with ulimit -n" in other, other


SECOND = datetime.timedelta(seconds=1)


def meet_with(store: dist.Store, rank: int, results: dict, timeout: datetime.timedelta = TIMEOUT) -> threading.Thread:
    def run() -> None:
        try:
            results[rank] = meeting.meet(
                store, rank, 2, {"from": rank}, timeout, lambda words: {"heard": [word["from"] for word in words]}
            )
        except (dist.DistBackendError, ValueError) as error:
            results[rank] = error

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_what_is_left_of_earlier_meetings_in_a_store_counts_for_nothing():
    store = dist.HashStore()
    lost: dict = {}
    meet_with(store, 1, lost, SECOND).join()  # said hello, and is gone
    assert "rank 1 waited 0:00:01 for rank 0 of the group, which did not come" in str(lost[1])
    for _ in range(2):
        results: dict = {}
        first = meet_with(store, 0, results)
        second = meet_with(store, 1, results)
        first.join()
        second.join()
        assert [results[rank][1] for rank in (0, 1)] == [{"heard": [0, 1]}] * 2, results
    results = {}
    meet_with(store, 0, results, SECOND).join()
    assert "after 0:00:01 these ranks had not joined: [1]" in str(results[0])


def test_ranks_that_came_before_rank_0_name_who_is_missing():
    store = dist.HashStore()
    errors: dict[int, str] = {}

    def meet(rank: int) -> None:
        with pytest.raises(dist.DistBackendError) as caught:
            meeting.meet(store, rank, 3, {}, SECOND, lambda _words: {})
        errors[rank] = str(caught.value)

    early, rank_0 = threading.Thread(target=meet, args=(1,)), threading.Thread(target=meet, args=(0,))
    early.start()
    store.wait(["shoal/hello/1"], TIMEOUT)
    rank_0.start()
    early.join()
    rank_0.join()
    assert sorted(errors) == [0, 1]
    assert all("these ranks had not joined: [2]" in text for text in errors.values()), errors


def test_a_rank_without_the_scheduler_goes_for_itself_alone():
    store = dist.HashStore()
    membership.Membership(config.read_config({}, {})[0])._wait_for_all(store, "left", lambda _seconds: True)
    assert not store.check(["all_left"])


def fail_after_joining(_make_group, folder: str) -> None:
    global TIMEOUT
    TIMEOUT = datetime.timedelta(seconds=15)
    rank = int(os.environ["TEST_RANK"])

    def create_gloo(*_arguments) -> None:
        raise RuntimeError("no Gloo here")

    if rank == 0:
        inner._create_gloo = create_gloo
    begin = time.monotonic()
    with pytest.raises(RuntimeError) as caught:
        sum_in_new_group(os.path.join(folder, "store"), rank, 2)
    if rank == 0:
        assert "no Gloo here" in str(caught.value)
        assert time.monotonic() - begin < 10, "it waited for those that wait for it"


def test_an_error_after_joining_is_not_held_back_by_those_that_wait_for_this_rank(tmp_path: pathlib.Path):
    run_ranks(2, fail_after_joining, str(tmp_path), environment=SERVERS, init=False)
