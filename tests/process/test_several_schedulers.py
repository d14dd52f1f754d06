"""Three schedulers that share a real etcd: one leads, each answers, and none is missed (F16). Real processes."""

import pathlib
import re
import signal
import time

import pytest

from hosts.cluster import PROCESS_OF, SCHEDULER_LISTENS, Cluster, program
from hosts.etcd import Etcd
from hosts.node import LOOPBACK
from hosts.process import TIME_FACTOR, Process
from job_runs import wait_for_line_of_all

LEASE_TTL_MS = 3000
LEADER_LEASE_MS = 2000  # etcd's least; one in a cluster of one member with default times


class Schedulers:
    def __init__(self, cluster: Cluster, etcd: Etcd, count: int = 3):
        self.cluster = cluster
        self.etcd = etcd
        self.by_address: dict[str, Process] = {}
        for _ in range(count):
            self.start()
        cluster.scheduler_address = ",".join(self.by_address)

    def start(self, listen: str = f"{LOOPBACK}:0") -> str:
        store = f"etcd://{self.etcd.address}/test"
        options = ["--store", store, "--leader-lease", str(LEADER_LEASE_MS)]
        process = self.cluster.start_scheduler(*options, listen=listen, lease_ttl_ms=LEASE_TTL_MS)
        address = process.wait_for_line(SCHEDULER_LISTENS).group(1)
        self.by_address[address] = process
        return address

    def leader(self, other_than: str = "") -> str:
        """Waits for one."""

        def who() -> str:
            for address, process in self.by_address.items():
                lines = [line for line in process.output.splitlines() if " scheduler at " in line]
                if address != other_than and process.running() and lines and "leads, term" in lines[-1]:
                    return address
            return ""

        return self.cluster.wait_until(who, "one leads")

    def term(self, address: str) -> int:
        (*_, last) = [line for line in self.by_address[address].output.splitlines() if "leads, term" in line]
        return int(last.rsplit(" ", 1)[1])

    def ask(self, address: str, *command: str) -> dict:
        """What this one scheduler answers, whoever leads."""
        before, self.cluster.scheduler_address = self.cluster.scheduler_address, address
        try:
            (document,) = self.cluster.shoalctl(*command)
            return document
        finally:
            self.cluster.scheduler_address = before


@pytest.fixture
def schedulers(cluster: Cluster, tmp_path: pathlib.Path) -> Schedulers:
    return Schedulers(cluster, Etcd(cluster, tmp_path))


def test_each_of_three_schedulers_answers_for_the_one_that_leads(cluster: Cluster, schedulers: Schedulers):
    leader = schedulers.leader()
    followers = [address for address in schedulers.by_address if address != leader]
    for follower in followers:
        schedulers.by_address[follower].wait_for_line(f"follows {leader}")
    cluster.launch_server("--name", "alpha", scheduler=followers[0]).wait_for_line("listening on")
    cluster.launch_server("--name", "beta", scheduler=leader).wait_for_line("listening on")
    for address in schedulers.by_address:
        shown = schedulers.ask(address, "servers")
        assert [server["name"] for server in shown["servers"]] == ["alpha", "beta"]
        cluster_shown = schedulers.ask(address, "status")["cluster"]
        assert "etcd at" in cluster_shown["store"] and cluster_shown["leader"] == leader
    ranks = [cluster.start_rank(rank, 2, "--scheduler", followers[1]) for rank in range(2)]
    assert [rank.wait() for rank in ranks] == [0, 0], ranks
    # What changes the cluster is passed on as well.
    assert schedulers.ask(followers[1], "drain", "alpha")["was_draining"] is False
    cluster.wait_for_server("alpha", "left")


def test_i6_a_killed_leader_is_replaced_and_nobody_notices(cluster: Cluster, schedulers: Schedulers):
    leader = schedulers.leader()
    cluster.start_server("alpha")
    before, epoch_before = cluster.servers()["alpha"], cluster.epoch()
    ranks = cluster.start_ranks(2, "--rounds", "2", "--hold")
    wait_for_line_of_all(ranks, "round 0 done")
    killed_at = time.monotonic()
    schedulers.by_address[leader].send(signal.SIGKILL)
    replacement = schedulers.leader(other_than=leader)
    assert time.monotonic() - killed_at < 4 * LEADER_LEASE_MS / 1000
    cluster.told("F16", "leading-began", r"leads, term \d+", schedulers.by_address[replacement])
    (other,) = [each for each in schedulers.by_address if each not in (leader, replacement)]
    cluster.told("F16", "leader-followed", f"follows {replacement}", schedulers.by_address[other])
    assert schedulers.term(replacement) > schedulers.term(leader)
    for rank in ranks:
        rank.say("go on\ngo on")
    assert [rank.wait() for rank in ranks] == [0, 0], ranks
    after = cluster.wait_for_server("alpha", "live")
    assert PROCESS_OF(after) == PROCESS_OF(before)
    assert cluster.epoch() == epoch_before, "nothing changed, so no new map"
    # The killed one comes back as a follower.
    schedulers.start(listen=leader)
    schedulers.by_address[leader].wait_for_line(f"follows {replacement}")
    assert [server["name"] for server in schedulers.ask(leader, "servers")["servers"]] == ["alpha"]


def test_f16_etcd_and_the_schedulers_lose_their_leaders_at_once(cluster: Cluster, tmp_path: pathlib.Path):
    etcd = Etcd(cluster, tmp_path, members=3)
    schedulers = Schedulers(cluster, etcd)
    leader = schedulers.leader()
    cluster.start_server("alpha")
    before = cluster.servers()["alpha"]
    ranks = cluster.start_ranks(2, "--rounds", "2", "--hold")
    wait_for_line_of_all(ranks, "round 0 done")
    leader_of_etcd = etcd.leader()
    killed_at = time.monotonic()
    leader_of_etcd.send(signal.SIGKILL)
    schedulers.by_address[leader].send(signal.SIGKILL)
    assert leader_of_etcd.wait() == -signal.SIGKILL
    # How long etcd takes is its own affair: each split vote costs it another round.
    cluster.wait_until(etcd.leaders, "etcd's members have elected another leader")
    elected_at = time.monotonic()
    schedulers.leader(other_than=leader)
    led_at = time.monotonic()
    assert led_at - elected_at < (LEADER_LEASE_MS / 1000 + 2.5) * TIME_FACTOR, "failover.md, F16"
    least_s = LEADER_LEASE_MS / 1000 + 1
    assert led_at - killed_at > least_s, "etcd's next leader did not begin all leases anew: F16 may promise more"
    for rank in ranks:
        rank.say("go on\ngo on")
    assert [rank.wait() for rank in ranks] == [0, 0], ranks
    after = cluster.wait_for_server("alpha", "live")
    assert PROCESS_OF(after) == PROCESS_OF(before)


def test_i6_who_waits_at_a_leader_that_stands_still_is_answered_by_the_next(cluster: Cluster, schedulers: Schedulers):
    leader = schedulers.leader()
    cluster.start_server("alpha")
    # Of those with all addresses some ask the leader itself; of the two followers one will pass calls on to the other.
    known = [cluster.scheduler_address] * 3 + [address for address in schedulers.by_address if address != leader]
    options = ["--timeout-ms", "60000", "--rounds", "1"]
    early = [
        cluster.start_rank(rank, len(known) + 1, "--scheduler", addresses, *options)
        for rank, addresses in enumerate(known)
    ]
    wait_for_line_of_all(early, "^joined$")

    def missing() -> list[list[int]]:
        return [group.get("missing_ranks", []) for group in schedulers.ask(leader, "jobs")["jobs"][0].get("groups", [])]

    cluster.wait_until(lambda: missing() == [[len(early)]], "the group waits for the last rank alone")
    stopped_at = time.monotonic()
    schedulers.by_address[leader].send(signal.SIGSTOP)
    try:
        schedulers.leader(other_than=leader)
        late = cluster.start_rank(len(early), len(early) + 1, *options)
        wait_for_line_of_all([*early, late], "^group open$")
        assert time.monotonic() - stopped_at < 4 * LEADER_LEASE_MS / 1000 + 2 * LEASE_TTL_MS / 1000
        assert [rank.wait() for rank in (*early, late)] == [0] * (len(early) + 1)
    finally:
        schedulers.by_address[leader].send(signal.SIGCONT)


def test_f16_a_follower_that_stands_still_costs_nobody_his_lease(cluster: Cluster, schedulers: Schedulers):
    leader = schedulers.leader()
    cluster.start_server("alpha")
    ranks = cluster.start_ranks(3, "--rounds", "2", "--hold")
    wait_for_line_of_all(ranks, "round 0 done")
    follower = next(address for address in schedulers.by_address if address != leader)
    schedulers.by_address[follower].send(signal.SIGSTOP)
    try:
        time.sleep(2.5 * LEASE_TTL_MS / 1000)  # each member has called it meanwhile
        for rank in ranks:
            rank.say("go on\ngo on")
        assert [rank.wait() for rank in ranks] == [0, 0, 0], ranks
        cluster.scheduler_address = leader
        kinds = {event["kind"] for event in cluster.events()}
        assert kinds.isdisjoint({"rank-lost", "server-lost", "job-failed"}), kinds
    finally:
        schedulers.by_address[follower].send(signal.SIGCONT)


def test_a_leader_that_was_stopped_and_goes_on_changes_nothing(cluster: Cluster, schedulers: Schedulers):
    leader = schedulers.leader()
    cluster.start_server("alpha")
    stopped = schedulers.by_address[leader]
    stopped.send(signal.SIGSTOP)
    try:
        replacement = schedulers.leader(other_than=leader)
        others = ",".join(address for address in schedulers.by_address if address != leader)
        cluster.scheduler_address = others
        cluster.wait_for_server("alpha", "live")
        beta = cluster.launch_server("--name", "beta", scheduler=others)
        beta.wait_for_line("listening on")
        epoch = cluster.epoch()
    finally:
        stopped.send(signal.SIGCONT)
    stopped.wait_for_line("leads no longer")
    stopped.wait_for_line(f"follows {replacement}")
    assert {server["name"] for server in schedulers.ask(leader, "servers")["servers"]} == {"alpha", "beta"}
    assert cluster.epoch() == epoch
    # What the stopped one knew is not in the store: after all schedulers are gone the cluster is as it was.
    for process in schedulers.by_address.values():
        process.send(signal.SIGKILL)
        process.wait()
    address = schedulers.start()
    cluster.scheduler_address = address
    schedulers.leader()
    assert set(cluster.servers()) == {"alpha", "beta"}
    assert cluster.epoch() >= epoch


def test_without_etcd_the_job_goes_on_and_the_lead_comes_back(cluster: Cluster, schedulers: Schedulers):
    leader = schedulers.leader()
    cluster.start_server("alpha")
    ranks = cluster.start_ranks(2, "--rounds", "2", "--hold")
    wait_for_line_of_all(ranks, "round 0 done")
    schedulers.etcd.process.send(signal.SIGSTOP)
    schedulers.by_address[leader].wait_for_line("leads no longer")
    for rank in ranks:
        rank.say("go on\ngo on")
    assert [rank.wait() for rank in ranks] == [0, 0], ranks
    refused = cluster.call_shoalctl("servers", scheduler=leader)
    assert refused.returncode != 0
    assert "no scheduler leads at the moment; try again in a few seconds" in refused.stderr
    schedulers.etcd.process.send(signal.SIGCONT)
    next_leader = schedulers.leader()
    for address, process in schedulers.by_address.items():
        if address != next_leader:
            cluster.wait_until(lambda p=process: p.output.endswith(f"follows {next_leader}"), "all know who leads")
    cluster.wait_for_server("alpha", "live")


def test_who_follows_events_goes_on_at_the_next_leader(cluster: Cluster, schedulers: Schedulers):
    cluster.start_server("alpha")
    follower = follow_events(cluster)
    follower.wait_for_line("server-registered.*server alpha")
    for number, name in enumerate(["beta", "gamma"]):
        old = schedulers.leader()
        schedulers.by_address[old].send(signal.SIGKILL)
        schedulers.leader(other_than=old)
        cluster.start_server(name)
        follower.wait_for_line(f"server-registered.*server {name}", timeout_s=40)
        assert follower.output.count("a scheduler answers again") <= number + 1
        if number == 0:
            schedulers.start(listen=old)
    assert_numbers_grow(follower)


def test_who_follows_events_goes_on_when_the_scheduler_is_started_again(cluster: Cluster, tmp_path: pathlib.Path):
    state = ["--state-file", str(tmp_path / "state")]
    scheduler = cluster.start_scheduler(*state)
    cluster.start_server("alpha")
    follower = follow_events(cluster)
    follower.wait_for_line("server-registered.*server alpha")
    scheduler.send(signal.SIGKILL)
    scheduler.wait()
    follower.wait_for_line("shoalctl: no events now, trying again: can't reach a scheduler at")
    cluster.start_scheduler(*state, listen=cluster.scheduler_address)
    follower.wait_for_line("shoalctl: a scheduler answers again")
    cluster.start_server("beta")
    follower.wait_for_line("server-registered.*server beta")
    assert_numbers_grow(follower)


def test_who_follows_events_hears_those_of_a_cluster_that_lost_its_state(cluster: Cluster):
    scheduler = cluster.start_scheduler()
    cluster.start_server("alpha")
    follower = follow_events(cluster)
    follower.wait_for_line("server-registered.*server alpha")
    scheduler.send(signal.SIGKILL)
    scheduler.wait()
    cluster.start_scheduler(listen=cluster.scheduler_address)
    cluster.start_server("beta")
    follower.wait_for_line("server-registered.*server beta")


def follow_events(cluster: Cluster) -> Process:
    return cluster.start([program("shoalctl"), "events", "--follow", "--scheduler", cluster.scheduler_address])


def assert_numbers_grow(follower: Process) -> None:
    numbers = [int(number) for number in re.findall(r"  #(\d+)  ", follower.output)]
    assert len(numbers) >= 4 and numbers == sorted(set(numbers)), follower.output


def test_a_leader_that_stops_in_good_order_is_replaced_at_once(cluster: Cluster, schedulers: Schedulers):
    leader = schedulers.leader()
    stopped_at = time.monotonic()
    schedulers.by_address[leader].send(signal.SIGTERM)
    assert schedulers.by_address[leader].wait() == 0
    schedulers.leader(other_than=leader)
    assert time.monotonic() - stopped_at < LEADER_LEASE_MS / 1000


def test_leases_that_do_not_fit_each_other_are_refused_at_the_start(cluster: Cluster):
    leases = ["--lease-ttl", "5000", "--leader-lease", "60000"]
    scheduler = cluster.start([*cluster_program(), *leases, "--store", "etcd://127.0.0.1:1/test"])
    assert scheduler.wait() == 1
    scheduler.wait_for_line("--leader-lease 60000 does not fit --lease-ttl 5000: .*give --leader-lease 8333 or less")


def test_a_store_that_is_none_is_refused(cluster: Cluster):
    for store, complaint in [
        ("redis://localhost", "is not of a known kind; give etcd://HOST:PORT"),
        ("etcd://localhost/x", 'names "localhost", which is not HOST:PORT'),
    ]:
        scheduler = cluster.start([*cluster_program(), "--store", store])
        assert scheduler.wait() == 1
        assert complaint in scheduler.output
    scheduler = cluster.start([*cluster_program(), "--store", "etcd://localhost:1", "--state-file", "x"])
    assert scheduler.wait() == 1
    assert "not both" in scheduler.output
    everywhere = ["--listen", "0.0.0.0:0", "--insecure-network"]
    scheduler = cluster.start([*cluster_program()[:1], *everywhere, "--store", "etcd://localhost:1"])
    assert scheduler.wait() == 1
    assert "several schedulers requires --advertise HOST:PORT" in scheduler.output
    scheduler = cluster.start([*cluster_program(), "--store", "etcd://localhost:1", "--advertise", "10.0.0.7"])
    assert scheduler.wait() == 1
    assert '"10.0.0.7" is no address of one scheduler; give --advertise HOST:PORT' in scheduler.output


def cluster_program() -> list[str]:
    return [program("shoal-scheduler"), "--listen", f"{LOOPBACK}:0"]
