"""`shoalctl doctor` against real servers: what can be reached, and what is said of what can't."""

import contextlib
import json
import re
import signal
from collections.abc import Iterator

from hosts.cluster import SERVER_LISTENS, Cluster, linked_cluster
from hosts.network import LinkShape
from hosts.node import mount_own_sys


def doctor(cluster: Cluster, *options: str) -> tuple[int, list[dict], str]:
    """The exit code, the findings, what was said to standard error."""
    done = cluster.call_shoalctl("doctor", "--json", *options)
    return done.returncode, json.loads(done.stdout)["findings"], done.stderr


def of_servers(findings: list[dict]) -> list[tuple[str, str]]:
    return [(finding["verdict"], finding["text"]) for finding in findings if finding["check"] == "server"]


def test_the_doctor_reaches_every_io_thread_and_the_servers_do_not_mind(cluster: Cluster):
    cluster.start_scheduler()
    servers = [cluster.start_server("alpha", "--io-threads", "2"), cluster.start_server("beta")]
    for _ in range(3):
        code, findings, said = doctor(cluster)
        assert code == 0, said
        (alpha, beta) = of_servers(findings)
        assert alpha[0] == beta[0] == "good"
        assert alpha[1].startswith("server alpha on ") and "2 ports reached" in alpha[1]
    for server in servers:
        server.send(signal.SIGTERM)
        assert server.wait() == 0, f"{server}"


def test_a_server_that_was_killed_is_a_problem_with_a_fix(cluster: Cluster):
    cluster.start_scheduler(lease_ttl_ms=60_000)  # it counts as live for a while
    cluster.start_server("alpha")
    beta = cluster.start_server("beta")
    beta.send(signal.SIGKILL)
    beta.wait()
    code, findings, said = doctor(cluster)
    assert code == 3 and "the doctor found 1 problem" in said
    (alpha, lost) = of_servers(findings)
    assert alpha[0] == "good"
    assert lost[0] == "problem" and lost[1].startswith("server beta on ") and lost[1].endswith("Connection refused")
    (fix,) = [finding["fix"] for finding in findings if finding["verdict"] == "problem"]
    assert "whether the server runs" in fix


LINK_MBIT = 50  # a busy processor carries as much as well


@contextlib.contextmanager
def on_shaped_links() -> Iterator[Cluster]:
    """Two servers, of which the second one has the slower link. The doctor is on a third node, whose card says that it
    has 10000 Mbit/s."""
    with linked_cluster(1, 2, server_links=[None, LinkShape(LINK_MBIT)]) as cluster:
        cluster.start_scheduler()
        cluster.start_servers()
        cluster.node, cluster.before_exec = cluster.network.workers[0], mount_own_sys
        yield cluster


def test_what_the_ways_carry_is_measured_and_compared_with_the_card():
    with on_shaped_links() as cluster:
        code, findings, said = doctor(cluster, "--bandwidth")
        assert code == 0, said
        fast, slow = sorted((each for each in findings if each["check"] == "bandwidth"), key=lambda each: each["text"])
        carried = [int(re.search(r": (\d+) Mbit/s of the 10000 that", each["text"]).group(1)) for each in (fast, slow)]
        assert carried[0] > 2 * LINK_MBIT, fast
        assert 0.8 * LINK_MBIT < carried[1] < 1.1 * LINK_MBIT and slow["verdict"] == "warning", slow
        assert "find what holds it up" in slow["fix"] and "over tcp/eth0" in slow["text"]


def test_a_slow_way_is_measured_to_all_io_threads_of_a_server():
    """What is under way at the end of the time need not arrive."""
    with linked_cluster(1, 1, server_links=[LinkShape(20)]) as cluster:
        cluster.start_scheduler()
        cluster.launch_server_on(cluster.network.servers[0], "--io-threads", "8").wait_for_line(SERVER_LISTENS)
        with cluster.on(cluster.network.workers[0]):
            _, findings, _ = doctor(cluster, "--bandwidth")
        (measured,) = [finding for finding in findings if finding["check"] == "bandwidth"]
        assert 10 < int(re.search(r": (\d+) Mbit/s", measured["text"]).group(1)) < 22, measured


def test_servers_of_this_node_are_not_measured(cluster: Cluster):
    cluster.start_scheduler()
    cluster.start_server("alpha")
    code, findings, said = doctor(cluster, "--bandwidth")
    assert code == 0, said
    (told,) = [finding for finding in findings if finding["check"] == "bandwidth"]
    assert told["verdict"] == "note" and told["text"].endswith("was not measured: it is on this node")
