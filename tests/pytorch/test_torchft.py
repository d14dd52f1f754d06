"""torchft trains on with the replicas that are left, and takes in those that come back: its Lighthouse and Manager as
they are, both lines of it, on Shoal (torchft_program.py)."""

import json
import pathlib
import random
import sys
import time

import pytest
import torch
import torch.distributed as dist
from hosts.process import TIME_FACTOR, Process, Processes
from torch_cluster import Cluster, clean_environment

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(__file__).with_name("torchft_program.py")
RELEASE, NIGHTLY = "0.2.0", "2026.10.26"
REPLICAS = 3
# Of the lighthouse: after so long without a word a replica is none of the quorum.
HEARTBEAT_MS = 500
# From the kill to the next step that is committed, of which torchft takes HEARTBEAT_MS.
COMMITS_WITHIN_S = (HEARTBEAT_MS / 1000 + 1) * TIME_FACTOR
PATIENCE_S = 90
# So many steps after the latest one that a replica has told: by then all have heard where to stop.
STEPS_TO_STOP = 50

if not hasattr(dist.ProcessGroup, "reconfigure"):
    pytest.skip(f"torch {torch.__version__} has no reconfigure", allow_module_level=True)


def start_lighthouse(processes: Processes, environment: dict[str, str]) -> str:
    """Returns its address."""
    program = (
        "import sys, torchft.coordination as c;"
        "l = c.LighthouseServer(bind='127.0.0.1:0', min_replicas=1, join_timeout_ms=1000, quorum_tick_ms=20,"
        f" heartbeat_timeout_ms={HEARTBEAT_MS});"
        "sys.stdout.write('address ' + l.address() + '\\n'); sys.stdin.read()"
    )
    started = processes.start([sys.executable, "-u", "-c", program], environment)
    return "http://127.0.0.1:" + started.wait_for_line(r"^address .*:(\d+)$", PATIENCE_S).group(1)


class Training:
    """Replicas of `ranks` processes each, and a lighthouse."""

    def __init__(self, processes: Processes, cluster: Cluster, version: str, ranks: int, *options: str):
        self.processes, self.ranks, self.options = processes, ranks, options
        self.environment = clean_environment(**cluster.environment(PYTHONPATH=str(ROOT / "build/torchft" / version)))
        self.lighthouse = start_lighthouse(processes, self.environment)
        self.stores: list[dist.Store] = []
        self.replicas = [self.start(number) for number in range(REPLICAS)]

    def start(self, number: int) -> list[Process]:
        # Of the replica's own ranks.
        store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        self.stores.append(store)
        started = []
        for rank in range(self.ranks):
            of_rank = {"RANK": str(rank), "WORLD_SIZE": str(self.ranks), "MASTER_PORT": str(store.port)}
            command = [sys.executable, str(PROGRAM), "--replica", f"r{number}", "--min-replicas", "2"]
            command += ["--lighthouse", self.lighthouse, *self.options]
            started.append(self.processes.start(command, self.environment | of_rank))
        return started

    def kill(self, number: int) -> float:
        for process in self.replicas[number]:
            process.process.kill()
        return time.time()

    def words(self, number: int, kind: str) -> list[dict]:
        lines = [line for line in self.replicas[number][0].output.splitlines() if line.startswith('{"kind"')]
        return [word for word in map(json.loads, lines) if word["kind"] == kind]

    def wait_for_commit(self, number: int, replicas: int, since: float = 0, count: int = 1) -> float:
        """Of steps of so many replicas; returns when the first one was."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            found = [
                word["at"]
                for word in self.words(number, "step")
                if word["committed"] and word["replicas"] == replicas and word["at"] > since
            ]
            if len(found) >= count:
                return found[0]
            assert all(process.running() for process in self.replicas[number]), self.replicas[number]
            time.sleep(0.02)
        raise AssertionError(f"replica {number} commits no step of {replicas}: {self.replicas[number]}")

    def wait_for_part(self, number: int, takes_part: bool, since: float = 0) -> None:
        """In a step that is committed."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            words = [word for word in self.words(number, "step") if word["committed"] and word["at"] > since]
            if words and words[-1]["takes_part"] == takes_part:
                return
            assert all(process.running() for process in self.replicas[number]), self.replicas[number]
            time.sleep(0.02)
        raise AssertionError(f"replica {number}: takes part {not takes_part}: {self.replicas[number]}")

    def stop(self) -> list[dict]:
        """What the replicas say at their ends. All end with the same step, which none of them has reached."""
        step = max(word["step"] for number in range(REPLICAS) for word in self.words(number, "step"))
        for replica in self.replicas:
            for process in replica:
                process.say(str(step + STEPS_TO_STOP))
        ends = []
        for number, replica in enumerate(self.replicas):
            assert [process.wait(PATIENCE_S) for process in replica] == [0] * self.ranks, replica
            ends += self.words(number, "end")
        return ends


@pytest.mark.parametrize(
    ("version", "group", "inside", "ranks"),
    [
        (NIGHTLY, "native", "ddp", 1),
        pytest.param(NIGHTLY, "shoal", "local_sgd", 1, marks=pytest.mark.long),
        pytest.param(NIGHTLY, "shoal", "diloco", 1, marks=pytest.mark.long),
        pytest.param(NIGHTLY, "shoal", "hsdp", 2, marks=pytest.mark.long),
        (RELEASE, "shoal", "flat", 1),
        pytest.param(RELEASE, "shoal", "hsdp", 2, marks=pytest.mark.long),
    ],
)
@pytest.mark.timeout(300)
def test_a_killed_replica_is_left_behind_and_comes_back(
    cluster: Cluster, version: str, group: str, inside: str, ranks: int
):
    seed = random.SystemRandom().randrange(1 << 30)
    moments = random.Random(seed)
    print("seed", seed)
    with Processes() as processes:
        training = Training(processes, cluster, version, ranks, "--group", group, "--inside", inside)
        everybody = range(REPLICAS)
        for number in everybody:
            training.wait_for_commit(number, REPLICAS, count=5)
        time.sleep(moments.uniform(0, 0.3))
        victim = moments.randrange(REPLICAS)
        killed_at = training.kill(victim)
        for number in everybody:
            if number != victim:
                committed_at = training.wait_for_commit(number, REPLICAS - 1, since=killed_at)
                assert committed_at - killed_at < COMMITS_WITHIN_S
        training.replicas[victim] = training.start(victim)
        back_at = training.wait_for_commit(victim, REPLICAS)
        for number in everybody:
            training.wait_for_commit(number, REPLICAS, since=back_at, count=5)
        ends = training.stop()
        assert len({(end["step"], end["digest"]) for end in ends}) == 1, ends


SAME_ADDRESS_PROGRAM = """
import sys, torch, torch.distributed as dist
from shoal.torchft import ProcessGroupShoal
rank, port = map(int, sys.argv[1:])
group = ProcessGroupShoal()
for turn in range(3):
    group.configure(f"127.0.0.1:{port}/torchft/1/0", "r", rank, 2)
    tensor = torch.ones(3)
    group.allreduce([tensor], dist.AllreduceOptions()).wait()
    assert tensor.tolist() == [2, 2, 2]
"""


def test_a_lighthouse_that_was_started_again_may_give_an_address_out_twice(cluster: Cluster):
    environment = clean_environment(**cluster.environment(PYTHONPATH=str(ROOT / "build/torchft" / RELEASE)))
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    with Processes() as processes:
        command = [sys.executable, "-c", SAME_ADDRESS_PROGRAM]
        ranks = [processes.start([*command, str(rank), str(store.port)], environment) for rank in range(2)]
        assert [rank.wait(PATIENCE_S) for rank in ranks] == [0, 0], ranks


@pytest.mark.timeout(300)
def test_a_spare_takes_the_place_of_a_killed_replica(cluster: Cluster):
    with Processes() as processes:
        training = Training(processes, cluster, NIGHTLY, 1, "--group", "shoal", "--spares")
        everybody = range(REPLICAS)
        for number in everybody:
            training.wait_for_commit(number, 2, count=5)
        # The lighthouse sorts the replicas by their names.
        victim, spare = 0, REPLICAS - 1
        training.wait_for_part(spare, False)
        training.wait_for_part(victim, True)
        killed_at = training.kill(victim)
        training.wait_for_part(spare, True, since=killed_at)
        training.replicas[victim] = training.start(victim)
        training.wait_for_part(victim, True)
        for number in everybody:
            training.wait_for_part(number, number != spare, since=time.time())
        # Two, never more or fewer, have taken part in what was committed, and the spare's weights are theirs.
        steps = [word for number in everybody for word in training.words(number, "step") if word["committed"]]
        assert {word["replicas"] for word in steps} == {2}
        ends = training.stop()
        assert len({(end["step"], end["digest"]) for end in ends}) == 1, ends


@pytest.mark.timeout(300)
def test_the_example_trains_on_and_all_end_with_the_same_weights(cluster: Cluster):
    environment = clean_environment(**cluster.environment(PYTHONPATH=str(ROOT / "build/torchft" / NIGHTLY)))
    with Processes() as processes:
        environment["TORCHFT_LIGHTHOUSE"] = start_lighthouse(processes, environment)

        def start(replica: str) -> Process:
            program = [sys.executable, str(ROOT / "examples/train_elastic.py"), "--replica", replica]
            # So many that replica a trains for longer than b takes to load torch again, beside other tests.
            return processes.start([*program, "--steps", "600", "--step-ms", "40"], environment)

        replicas = {replica: start(replica) for replica in "ab"}
        replicas["a"].wait_for_line(r"^step \d+ loss [\d.]+ of 2 replicas$", PATIENCE_S)
        replicas["b"].process.kill()
        replicas["a"].wait_for_line(r"^step \d+ loss [\d.]+ of 1 replicas$", PATIENCE_S)
        replicas["b"] = start("b")
        replicas["b"].wait_for_line(r"^step \d+ loss [\d.]+ of 2 replicas$", PATIENCE_S)
        digests = {
            process.wait_for_line(r"^replica . weights sha256 (\w+)$", PATIENCE_S).group(1)
            for process in replicas.values()
        }
        assert len(digests) == 1
        assert [process.wait(PATIENCE_S) for process in replicas.values()] == [0, 0]
