"""`shoalctl doctor` against real servers: what can be reached, and what is said of what can't."""

import json
import signal
import subprocess

from cluster import PATIENCE_S, Cluster, program


def doctor(cluster: Cluster, *options: str) -> tuple[int, list[dict], str]:
    """The exit code, the findings, what was said to standard error."""
    command = [program("shoalctl"), "doctor", "--scheduler", cluster.scheduler_address, "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
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
