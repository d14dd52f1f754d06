"""What is checked in the guest, over real verbs. Runs there as a program: SHOAL_BIN=FOLDER guest_checks.py OUTCOMES
[CHECK...]

Each function check_... is one test of test_rdma.py, and gets a cluster of its own, which has a scheduler. Its limit, in
seconds, is for a fast machine that does nothing else, and is multiplied by SHOAL_TEST_TIME_FACTOR.
"""

import contextlib
import ctypes
import dataclasses
import functools
import io
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from hosts.cluster import PROGRAMS, SERVER_LISTENS, Cluster, program
from hosts.node import LOOPBACK
from hosts.process import TIME_FACTOR, Process

NOBODY = 65534
CHECKS: dict[str, "Check"] = {}
DEVICES_S = 90
SLOT_MEMORY_BYTES = 256 << 20  # of a server that is not told how much


@dataclasses.dataclass
class Check:
    run: Callable[[Cluster], None]
    limit_s: float
    devices: str  # an argument of guest_devices.sh


def check(limit_s: float, devices: str = "one") -> Callable:
    def add(function: Callable[[Cluster], None]) -> Callable[[Cluster], None]:
        CHECKS[function.__name__.removeprefix("check_")] = Check(function, limit_s * TIME_FACTOR, devices)
        return function

    return add


@dataclasses.dataclass(frozen=True)
class Network:
    """How a server, and the workers that come to it, use the devices."""

    address: str = "10.0.0.1"
    transports: str = "rc"
    server_device: str = "rxe0:1"
    worker_device: str = "rxe0:1"

    def options(self, device: str) -> list[str]:
        return ["--transports", self.transports, "--net-device", device, "--network-only"]


# UCX makes its connections by UD, which with Soft-RoCE does not get through from the GIDs of IPv4 addresses. This is
# that of the IPv6 address.
os.environ["UCX_IB_GID_INDEX"] = "2"
TCP = Network(transports="tcp", server_device="eth0", worker_device="eth0")
TCP_OVER_LOOPBACK = Network(LOOPBACK, "tcp", "lo", "lo")
RC = Network()
RC_OVER_CABLE = dataclasses.replace(RC, worker_device="rxe1:1")
# On the ranks' device: what they say to each other crosses no cable. (10.0.0.2 is reached over it, even from there.)
RC_AT_THE_RANKS_END = dataclasses.replace(RC, address=LOOPBACK, server_device="rxe1:1", worker_device="rxe1:1")
UD = Network("fd00::1", "ud_verbs")
UD_OVER_CABLE = dataclasses.replace(UD, worker_device="rxe1:1")


def start_servers(cluster: Cluster, network: Network, count: int, first: int = 0) -> list[Process]:
    """Named server-FIRST and so on."""
    servers = []
    for number in range(first, first + count):
        command = [program("shoal-server"), "--scheduler", cluster.scheduler_address, "--advertise", network.address]
        command += ["--name", f"server-{number}", *network.options(network.server_device)]
        servers.append(cluster.start(command))
    for server in servers:
        server.wait_for_line(SERVER_LISTENS)
    return servers


def start_ranks(cluster: Cluster, network: Network, count: int, *options: str, servers: int = 2) -> list[Process]:
    command = [program("shoal-perf"), "--scheduler", cluster.scheduler_address, "--job", f"job-{time.monotonic_ns()}"]
    command += ["--min-servers", str(servers), "--world-size", str(count), *network.options(network.worker_device)]
    return [cluster.start([*command, "--rank", str(rank), *options]) for rank in range(count)]


def reduce(cluster: Cluster, network: Network, ranks: int, *options: str, servers: int = 2) -> dict:
    """What rank 0 of a finished run writes, after every rank has found no element wrong."""
    report = pathlib.Path(f"/tmp/report-{time.monotonic_ns()}")
    started = start_ranks(cluster, network, ranks, *options, "--json", str(report), servers=servers)
    for rank in started:
        assert rank.wait(60 * TIME_FACTOR) == 0, str(rank)
    document = json.loads(report.read_text())
    assert document["wrong"] == 0, document
    return document


def digests(document: dict) -> list[tuple]:
    return [(result["dtype"], result["op"], result["bytes"], result["digest"]) for result in document["results"]]


def run_suite(test_program: str, network: Network, gtest_filter: str, many: int = 8) -> None:
    variables = {"SHOAL_TEST_TRANSPORTS": network.transports, "SHOAL_TEST_NET_DEVICE": network.server_device}
    variables |= {"SHOAL_TEST_LISTEN_IP": network.address, "SHOAL_TEST_MANY_PEERS": str(many)}
    variables |= {"SHOAL_TEST_MANY_ROUNDS": "300", "UCX_LOG_LEVEL": "fatal"}
    path = PROGRAMS.parent / "tests" / test_program
    result = subprocess.run(
        [path, f"--gtest_filter={gtest_filter}"],
        env=os.environ | variables,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    print(result.stdout)
    assert result.returncode == 0, f"{test_program} ended with {result.returncode}"
    passed = re.search(r"\[  PASSED  \] (\d+) test", result.stdout)
    assert passed and int(passed.group(1)) > 3, "the filter leaves next to no test"


@check(limit_s=180)
def check_the_transport_suite_over_rc(cluster: Cluster) -> None:
    del cluster
    run_suite("ucx_transport_test", RC, "*/Mixed")


@check(limit_s=60)
def check_killed_and_stopped_processes_over_rc(cluster: Cluster) -> None:
    del cluster
    run_suite("transport_process_test", RC, "*/Rendezvous")


@check(limit_s=90)
def check_the_transport_suite_over_ud_and_ipv6(cluster: Cluster) -> None:
    del cluster
    run_suite("ucx_transport_test", UD, "*T1Completes*/Mixed:*T5*/Mixed:*ManyInFlight*/Mixed:*WakeSuite*/Mixed")


@check(limit_s=150)
def check_digests_equal_those_over_tcp(cluster: Cluster) -> None:
    del cluster
    found = {}
    for network, in_use in [(TCP, "tcp/eth0"), (RC, "rc_verbs/rxe0:1"), (UD, "ud_verbs/rxe0:1")]:
        with Cluster() as own:
            own.start_scheduler()
            start_servers(own, network, 2)
            # Eager and rendezvous. Soft-RoCE's UD is slow under emulation: a second for a mebibyte.
            sizes = ["-b", "8K", "-e", "512K", "-f", "64", "--chunk-bytes", "256K", "-n", "1", "-w", "0", "-c", "1"]
            document = reduce(own, network, 4, *sizes)
            found[in_use] = digests(document)
            assert {server["transport"] for server in document["servers"]} == {in_use}, document["servers"]
    print(found)
    assert len({json.dumps(of_network) for of_network in found.values()}) == 1, found


@check(limit_s=60)
def check_a_killed_server_is_named_at_once_over_rc(cluster: Cluster) -> None:
    servers = start_servers(cluster, RC, 2)
    expect_move(cluster, RC, servers[1].end_group, "server-1", within_s=5)


@check(limit_s=60)
def check_a_killed_server_is_named_at_once_over_ud(cluster: Cluster) -> None:
    servers = start_servers(cluster, UD, 2)
    expect_move(cluster, UD, servers[1].end_group, "server-1", within_s=5)


@check(limit_s=90)
def check_a_killed_server_is_survived_over_rc(cluster: Cluster) -> None:
    servers = start_servers(cluster, RC, 2)

    def kill_in_mid_op(go_on: Callable[[], None]) -> None:
        servers[1].send(signal.SIGSTOP)  # so that it has not answered yet
        go_on()
        servers[1].end_group()

    expect_survival(cluster, RC, kill_in_mid_op, within_s=10)


@check(limit_s=90)
def check_a_stopped_server_is_survived_over_rc(cluster: Cluster) -> None:
    servers = start_servers(cluster, RC, 2)

    def stop_in_mid_op(go_on: Callable[[], None]) -> None:
        # The verbs go on acknowledging what is sent to a stopped process: its lease of 5 s alone tells.
        servers[1].send(signal.SIGSTOP)
        go_on()

    expect_survival(cluster, RC, stop_in_mid_op, within_s=15)


@check(limit_s=120, devices="cable")
def check_a_silent_cable_to_one_of_two_servers_is_survived_over_rc(cluster: Cluster) -> None:
    start_servers(cluster, RC_OVER_CABLE, 1)
    start_servers(cluster, RC_AT_THE_RANKS_END, 1, first=1)

    def silence_in_mid_op(go_on: Callable[[], None]) -> None:
        # All leases go on: scheduler and processes talk over loopback. The ranks must find out, and report it.
        lose(100, "eth0", "eth1")
        go_on()

    # About 4 s until the verbs give the server up, and 2 until the ranks report that they don't reach it again.
    expect_survival(cluster, RC_OVER_CABLE, silence_in_mid_op, within_s=45)


SURVIVORS_ROUNDS = 3


def start_survivors(cluster: Cluster, network: Network, servers: int) -> list[Process]:
    """Two ranks that wait for a word after each all-reduce and say a digest of all in the end."""
    options = ["--count", "40001", "--chunk-bytes", "16384", "--rounds", str(SURVIVORS_ROUNDS), "--hold"]
    options += ["--min-servers", str(servers), *network.options(network.worker_device)]
    return cluster.start_ranks(2, *options)


def go_on_to_the_end(ranks: list[Process], rounds: int) -> set[str]:
    """The digests of ranks that must end well."""
    for rank in ranks:
        for _ in range(rounds):
            rank.say()
    found = {rank.wait_for_line(r"^digest (\w+)$").group(1) for rank in ranks}
    for rank in ranks:
        assert rank.wait() == 0, str(rank)
    return found


@functools.cache
def undisturbed_digests() -> frozenset[str]:
    with Cluster() as own:
        own.start_scheduler()
        start_servers(own, TCP_OVER_LOOPBACK, 1)
        return frozenset(go_on_to_the_end(start_survivors(own, TCP_OVER_LOOPBACK, 1), SURVIVORS_ROUNDS))


def expect_survival(
    cluster: Cluster, network: Network, disturb: Callable[[Callable[[], None]], None], within_s: float
) -> None:
    """Two ranks must get through an op that is disturbed, in time, and end with the bits of an undisturbed run.

    `disturb` is given the function that has them begin the op."""
    expected = undisturbed_digests()
    ranks = start_survivors(cluster, network, 2)
    for rank in ranks:
        rank.wait_for_line("^round 0 done$")

    def go_on() -> None:
        for rank in ranks:
            rank.say()

    began_at = time.monotonic()
    disturb(go_on)
    for rank in ranks:
        rank.wait_for_line("^round 1 done$", within_s)
    print(f"the op took {time.monotonic() - began_at:.1f} s")
    assert go_on_to_the_end(ranks, SURVIVORS_ROUNDS - 1) == expected
    assert any(event["kind"] == "group-moved" for event in cluster.events()), "nobody noticed"


def start_endless(cluster: Cluster, network: Network, *options: str) -> list[Process]:
    """Two ranks that reduce over the network until something ends them."""
    endless = ["-b", "32K", "-e", "32K", "-n", "1000000", "-w", "1", "-c", "0", *options]
    ranks = start_ranks(cluster, network, 2, *endless, servers=len(cluster.servers()))
    cluster.wait_until(lambda: bytes_in(cluster) > 256 << 10, "payload flows")
    in_use = {"rc": "rc_verbs/", "ud_verbs": "ud_verbs/"}[network.transports] + network.worker_device
    cluster.wait_until(lambda: transports_of_ranks(cluster) == {in_use}, f"shoalctl jobs tells of {in_use}")
    return ranks


def expect_move(cluster: Cluster, network: Network, break_it: Callable[[], object], name: str, within_s: float) -> None:
    """Breaks a server while two ranks reduce: their group must move away in time, for a reason that names it."""
    ranks = start_endless(cluster, network)
    broken_at = time.monotonic()
    break_it()
    cluster.wait_until(
        lambda: any(event["kind"] == "group-moved" and name in event["reason"] for event in cluster.events()),
        f"the group moves away from {name}",
    )
    took_s = time.monotonic() - broken_at
    print(f"{network.transports}: the group moved after {took_s:.1f} s")
    assert took_s < within_s, str(cluster)
    for rank in ranks:
        rank.end_group()


def expect_loss(cluster: Cluster, network: Network, break_it: Callable[[], object], name: str, within_s: float) -> None:
    """Breaks the way to the only server while two ranks reduce: by an op's deadline they must know that it is lost."""
    ranks = start_endless(cluster, network, "--timeout", "15")
    broken_at = time.monotonic()
    break_it()
    for rank in ranks:
        assert rank.wait(within_s + 20) == 1, str(rank)
    took_s = time.monotonic() - broken_at
    print(f"{network.transports}: the ranks ended after {took_s:.1f} s: {ranks[0].output.splitlines()[-1]}")
    assert took_s < within_s, str(cluster)
    for rank in ranks:
        # Without the loss: "no answer from ...".
        assert re.search(rf"{name} \([^)]*\) was lost \(", rank.output), str(rank)


def transports_of_ranks(cluster: Cluster) -> set[str]:
    (document,) = cluster.shoalctl("jobs")
    return {rank.get("load", {}).get("transports", "") for job in document["jobs"] for rank in job["ranks"]}


def bytes_in(cluster: Cluster) -> int:
    return sum(int(server.get("load", {}).get("bytes_in", 0)) for server in cluster.servers().values())


def lose(percent: int, *devices: str) -> None:
    for device in devices:
        command = ["tc", "qdisc", "replace", "dev", device, "root", "netem", "loss", f"{percent}%"]
        subprocess.run(command, check=True)


def go_silent(cluster: Cluster, network: Network) -> None:
    """What is lost is what travels between the devices; scheduler and processes talk over loopback."""
    start_servers(cluster, network, 1)
    # About 5 s on an idle machine. By UCX's own settings the wait has no end.
    expect_loss(cluster, network, lambda: lose(100, "eth0", "eth1"), "server-0", within_s=25)


@check(limit_s=90, devices="cable")
def check_a_silent_cable_is_noticed_within_seconds_over_rc(cluster: Cluster) -> None:
    go_silent(cluster, RC_OVER_CABLE)


@check(limit_s=90, devices="cable")
def check_a_silent_cable_is_noticed_within_seconds_over_ud(cluster: Cluster) -> None:
    go_silent(cluster, UD_OVER_CABLE)


@check(limit_s=90, devices="cable")
def check_one_percent_of_packets_may_be_lost(cluster: Cluster) -> None:
    start_servers(cluster, RC_OVER_CABLE, 1)
    lose(1, "eth0", "eth1")
    # Some 1500 packets. Most that are lost cost the half second until RDMA sends them again.
    reduce(cluster, RC_OVER_CABLE, 2, "-b", "128K", "-e", "128K", "-n", "1", "-w", "0", "-c", "1", servers=1)
    shown = subprocess.run(["tc", "-s", "qdisc", "show"], check=True, capture_output=True, text=True).stdout
    dropped = [int(number) for number in re.findall(r"dropped (\d+)", shown)]
    assert sum(dropped) > 0, shown


@check(limit_s=60, devices="cable")
def check_each_process_keeps_to_the_device_it_is_told(cluster: Cluster) -> None:
    def received(device: str) -> int:
        return int(pathlib.Path(f"/sys/class/net/{device}/statistics/rx_bytes").read_text())

    start_servers(cluster, RC_OVER_CABLE, 1)
    before = [received("eth0"), received("eth1")]
    size, times = 1 << 20, 4
    reduce(cluster, RC_OVER_CABLE, 1, "-b", str(size), "-e", str(size), "-n", str(times), "-c", "0", servers=1)
    crossed = [received("eth0") - before[0], received("eth1") - before[1]]
    assert min(crossed) > size * times, f"{crossed} bytes crossed the cable, one way and the other"


@check(limit_s=60, devices="cable")
def check_the_ranks_of_a_node_are_dealt_over_its_cards(cluster: Cluster) -> None:
    start_servers(cluster, RC_OVER_CABLE, 1)
    both = dataclasses.replace(RC, worker_device="rxe0:1/rxe1:1")
    options = ["--world-size", "2", "-b", "32K", "-e", "32K", "-n", "1000000", *both.options(both.worker_device)]
    for rank in range(2):
        command = [program("shoal-perf"), "--scheduler", cluster.scheduler_address, "--rank", str(rank), *options]
        cluster.start(command, {"LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "2"})
    in_use = {"rc_verbs/rxe0:1", "rc_verbs/rxe1:1"}
    cluster.wait_until(lambda: transports_of_ranks(cluster) == in_use, f"shoalctl jobs tells of {in_use}")
    cluster.wait_until(lambda: bytes_in(cluster) > 256 << 10, "payload flows")


def ucx_release() -> tuple[int, int]:
    numbers = [ctypes.c_uint() for _ in range(3)]
    ctypes.CDLL("libucp.so.0").ucp_get_version(*map(ctypes.byref, numbers))
    return numbers[0].value, numbers[1].value


def registered_with_cards(process: Process) -> list[int]:
    """How many bytes each memory region has that the process has registered now."""
    # The kernel names the thread that did it.
    threads = set(map(int, os.listdir(f"/proc/{process.process.pid}/task")))
    listed = subprocess.run(["rdma", "-j", "resource", "show", "mr"], capture_output=True, text=True, check=True)
    return [region["mrlen"] for region in json.loads(listed.stdout) if region.get("pid") in threads]


@check(limit_s=60)
def check_a_server_registers_its_slots_once(cluster: Cluster) -> None:
    chunk_bytes = 256 << 10
    [server] = start_servers(cluster, RC, 1)
    options = ["-b", "4M", "-e", "4M", "-n", "1000000", "-w", "0", "-c", "0", "--chunk-bytes", str(chunk_bytes)]
    [rank, _] = start_ranks(cluster, RC, 2, *options, servers=1)
    cluster.wait_until(lambda: bytes_in(cluster) > 8 << 20, "payload flows")
    of_server = [registered_with_cards(server) for _ in range(20)]
    of_rank = [registered_with_cards(rank) for _ in range(20)]
    print(of_server[-1], of_rank[-1])
    assert all(sizes.count(SLOT_MEMORY_BYTES) == 1 for sizes in of_server), of_server
    # Up to 1.13 UCX forgets a handle of the receiver's where it reads from the sender, and registers what it receives.
    if ucx_release() >= (1, 14):
        assert not any(chunk_bytes in sizes for sizes in of_server), of_server
    # The tensors of a rank are its program's, so it registers each chunk: such regions can be seen.
    assert any(chunk_bytes in sizes for sizes in of_rank), of_rank


def run_unprivileged(command: list[str], lockable_kib: int) -> subprocess.CompletedProcess:
    limits = f'ulimit -l {lockable_kib} && exec setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups "$@"'
    return subprocess.run(["sh", "-c", limits, "sh", *command], capture_output=True, text=True, timeout=20, check=False)


@check(limit_s=40)
def check_too_little_lockable_memory_is_refused_with_advice(cluster: Cluster) -> None:
    for lockable_kib in [64, 8192]:
        server = [program("shoal-server"), "--scheduler", cluster.scheduler_address, "--advertise", RC.address]
        rank = [program("shoal-perf"), "--scheduler", cluster.scheduler_address, "--world-size", "1"]
        for command in [server, rank]:
            result = run_unprivileged([*command, *RC.options("rxe0:1")], lockable_kib)
            assert result.returncode == 1, result
            assert "ulimit -l unlimited" in result.stderr, result


@check(limit_s=40)
def check_nobody_in_particular_can_serve(cluster: Cluster) -> None:
    server = [program("shoal-server"), "--scheduler", cluster.scheduler_address, "--advertise", RC.address]
    drop = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
    cluster.start([*drop, *server, *RC.options(RC.server_device)]).wait_for_line(SERVER_LISTENS)
    reduce(cluster, RC, 1, "-b", "64K", "-e", "64K", "-n", "1", "-w", "0", servers=1)


@check(limit_s=40)
def check_a_cluster_that_encrypts_refuses_rdma(cluster: Cluster) -> None:
    with Cluster() as encrypted:
        encrypted.start_scheduler("--encrypt")
        server = [program("shoal-server"), "--scheduler", encrypted.scheduler_address, "--advertise", RC.address]
        refused = encrypted.start([*server, *RC.options(RC.server_device)])
        assert refused.wait() == 1 and "encrypts" in refused.output and "--transports tcp" in refused.output, refused
        start_servers(encrypted, TCP, 1)
        [rank] = start_ranks(encrypted, RC, 1, servers=1)
        assert rank.wait() == 1 and "encrypts" in rank.output, rank


@check(limit_s=40)
def check_a_server_needs_one_port_and_no_other(cluster: Cluster) -> None:
    [server] = start_servers(cluster, RC, 1)
    reduce(cluster, RC, 1, "-b", "64K", "-e", "64K", "-n", "1", "-w", "0", servers=1)
    listens = subprocess.run(["ss", "-tulnpH"], capture_output=True, text=True, check=True).stdout.splitlines()
    of_server = [line for line in listens if f"pid={server.process.pid}," in line]
    assert len(of_server) == 1 and of_server[0].startswith("tcp"), listens


@check(limit_s=40, devices="none")
def check_rdma_without_a_device_is_refused(cluster: Cluster) -> None:
    server = [program("shoal-server"), "--scheduler", cluster.scheduler_address, "--advertise", RC.address]
    result = run_unprivileged([*server, "--transports", "rc"], 1 << 20)
    assert result.returncode == 1, result
    assert "without RDMA use transports=tcp" in result.stderr, result


def run_check(name: str) -> dict:
    wanted = CHECKS[name]

    def out_of_time(*_: object) -> None:
        raise TimeoutError(f"not done within {wanted.limit_s} s")

    signal.signal(signal.SIGALRM, out_of_time)
    said = io.StringIO()
    failure = ""
    cluster = Cluster()
    started = time.monotonic()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            # Old devices go when the kernel has given up on what the last check left in them.
            make_devices = ["sh", str(HERE / "guest_devices.sh"), wanted.devices]
            subprocess.run(make_devices, check=True, timeout=DEVICES_S * TIME_FACTOR)
            signal.setitimer(signal.ITIMER_REAL, wanted.limit_s)
            cluster.start_scheduler()
            wanted.run(cluster)
        except Exception:  # whatever it is belongs to this check alone
            failure = traceback.format_exc()
            print(cluster)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            cluster.end()
    return {"name": name, "failure": failure, "said": said.getvalue(), "seconds": time.monotonic() - started}


def main() -> None:
    outcomes = sys.argv[1]
    wanted = sys.argv[2:] or list(CHECKS)
    with open(outcomes, "w", encoding="utf-8") as file:
        for name in wanted:
            outcome = run_check(name)
            print(f"{name}: {'failed' if outcome['failure'] else 'passed'} in {outcome['seconds']:.1f} s", flush=True)
            file.write(json.dumps(outcome) + "\n")
            file.flush()


if __name__ == "__main__":
    main()
