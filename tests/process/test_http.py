"""--http of scheduler and server: metrics under the documented names, and health that depends on the process alone."""

import base64
import json
import pathlib
import re
import signal
import socket
import time
import urllib.error
import urllib.request

import pytest

from hosts.cluster import ROOT, Cluster, parse_samples, program
from hosts.node import LOOPBACK
from hosts.process import Process
from job_runs import digests, wait_for_line_of_all

DOCUMENTED = re.compile(r"^\| `(shoal_\w+)` \| (\w+) \|", re.MULTILINE)


def http_address(process: Process) -> str:
    return f"http://{process.http_address()}"


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def metrics(address: str) -> dict[str, float]:
    code, text = get(f"{address}/metrics")
    assert code == 200
    return parse_samples(text)


def types(address: str) -> dict[str, str]:
    return dict(re.findall(r"^# TYPE (\S+) (\S+)$", get(f"{address}/metrics")[1], re.MULTILINE))


def test_the_documented_metrics_are_those_that_are_exported_and_count_what_a_job_does(cluster: Cluster):
    scheduler = http_address(cluster.start_scheduler("--http", f"{LOOPBACK}:0", lease_ttl_ms=1000))
    server = http_address(cluster.start_server("alpha", "--http", f"{LOOPBACK}:0"))
    ranks = cluster.start_ranks(2, "--hold", "--rounds", "2")
    wait_for_line_of_all(ranks, "^round 0 done$")
    cluster.wait_until(lambda: metrics(scheduler).get('shoal_job_ops_total{job="test"}', 0) >= 2, "the ops are counted")
    cluster.wait_until(lambda: metrics(server)["shoal_server_ops_total"] >= 1, "the server counts them too")
    reserved = metrics(server)['shoal_server_slot_memory_bytes{state="reserved"}']
    cluster.wait_until(
        lambda: metrics(scheduler)['shoal_job_slot_memory_bytes{job="test"}'] == reserved > 0, "so is the job's memory"
    )
    page = (pathlib.Path(ROOT) / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert types(scheduler) | types(server) == dict(DOCUMENTED.findall(page))
    of_server = metrics(server)
    assert of_server["shoal_server_received_bytes_total"] == of_server["shoal_server_sent_bytes_total"] > 0
    assert of_server["shoal_server_open_groups"] == 1 and of_server["shoal_server_registered"] == 1
    assert of_server['shoal_server_slots{state="free"}'] > 0 and of_server["shoal_server_pending_pushes"] == 0
    assert of_server['shoal_server_peers{transport="shared_memory"}'] == 2
    of_scheduler = metrics(scheduler)
    assert of_scheduler["shoal_scheduler_leads"] == 1 and of_scheduler['shoal_scheduler_servers{state="live"}'] == 1
    assert of_scheduler['shoal_job_ranks{job="test"}'] == 2
    ops = of_scheduler['shoal_job_ops_total{job="test"}']
    assert of_scheduler['shoal_job_op_duration_seconds_bucket{job="test",le="+Inf"}'] == ops
    assert of_server["shoal_server_reduce_seconds_total"] > 0
    assert of_scheduler['shoal_scheduler_events_total{event="group-opened"}'] == 1
    saves = of_scheduler['shoal_scheduler_saves_total{outcome="succeeded"}']
    assert of_scheduler["shoal_scheduler_save_seconds_count"] == saves > 0
    for rank in ranks:
        rank.say()
        rank.say()
    digests(ranks)


def token_key(state_file: pathlib.Path) -> bytes:
    """Field 2 of SchedulerState, of 32 bytes (proto/shoal/v1/state.proto)."""
    content = state_file.read_bytes()
    begin = content.index(b"\x12\x20") + 2
    return content[begin : begin + 32]


def test_the_key_that_signs_tokens_is_nowhere_to_be_read(cluster: Cluster, tmp_path: pathlib.Path):
    state_file = tmp_path / "state"
    scheduler = cluster.start_scheduler("--state-file", str(state_file), "--http", f"{LOOPBACK}:0", lease_ttl_ms=1000)
    server = cluster.start_server("alpha", "--http", f"{LOOPBACK}:0")
    ranks = cluster.start_ranks(2, "--hold", "--rounds", "1")
    wait_for_line_of_all(ranks, "^round 0 done$")
    key = token_key(state_file)
    assert len(set(key)) > 8, "a drawn key"
    said = [get(f"{http_address(scheduler)}{path}")[1] for path in ("/metrics", "/", "/cluster.json")]
    said.append(get(f"{http_address(server)}/metrics")[1])
    for command in (["status"], ["servers"], ["jobs"], ["job", "test"], ["map"], ["events"], ["doctor"]):
        said.append(json.dumps(cluster.shoalctl(*command)))
    for rank in ranks:
        rank.say()
    digests(ranks)
    said += [scheduler.output, server.output, *(rank.output for rank in ranks)]
    spellings = {key.hex(), base64.b64encode(key).decode(), base64.urlsafe_b64encode(key).decode()}
    # A part of it is too much as well.
    parts = {spelling[at : at + 12] for spelling in spellings for at in range(len(spelling) - 12)}
    for text in said:
        assert not [part for part in parts if part in text.lower() or part in text], text


def test_a_server_is_ready_from_its_registration_on_also_while_the_scheduler_is_away(cluster: Cluster):
    scheduler = cluster.start_scheduler(lease_ttl_ms=1000)
    server = cluster.start_server("alpha", "--http", f"{LOOPBACK}:0")
    address = http_address(server)
    assert get(f"{address}/readyz") == (200, "ok\n")
    scheduler.send(signal.SIGKILL)
    server.wait_for_line("lease-missing")
    assert get(f"{address}/readyz") == (200, "ok\n")
    assert get(f"{address}/healthz") == (200, "ok\n")
    assert metrics(address)["shoal_server_registered"] == 1


def test_a_scheduler_is_ready_as_soon_as_it_answers_and_needs_nobody_else_for_it(cluster: Cluster):
    scheduler = cluster.start_scheduler("--http", f"{LOOPBACK}:0", lease_ttl_ms=1000)
    address = http_address(scheduler)

    def is_ready() -> bool:
        return get(f"{address}/readyz") == get(f"{address}/healthz") == (200, "ok\n")

    assert is_ready(), "no server has registered yet"
    server = cluster.start_server("alpha")
    assert is_ready()
    server.send(signal.SIGKILL)
    cluster.wait_for_server("alpha", "lost")
    assert is_ready(), "its only server is lost"


def answer_to(method: str, url: str) -> tuple[str, bytes]:
    """The status line and headers, and what follows them."""
    host, _, path = url.removeprefix("http://").partition("/")
    address, port = host.rsplit(":", 1)
    with socket.create_connection((address, int(port)), timeout=10) as connection:
        connection.sendall(f"{method} /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    return head.decode(), body


@pytest.mark.parametrize("path", ["/", "/page.js", "/cluster.json", "/metrics", "/healthz", "/readyz"])
def test_head_is_answered_as_get_without_the_body(cluster: Cluster, path: str):
    address = http_address(cluster.start_scheduler("--http", f"{LOOPBACK}:0"))
    cluster.wait_until(lambda: get(f"{address}{path}")[0] == 200, "there is something to get")
    length = re.compile(r"^Content-Length: \d+$", re.MULTILINE)  # which a metric may change
    head, body = answer_to("HEAD", f"{address}{path}")
    assert head.startswith("HTTP/1.1 200 OK\r\n") and body == b""
    with_body, got = answer_to("GET", f"{address}{path}")
    assert length.sub("", head) == length.sub("", with_body)
    assert f"Content-Length: {len(got)}\r\n" in with_body and got != b""
    assert re.search(r"Content-Length: [1-9]", head), "that of the body that GET has"


def test_a_server_that_has_not_registered_is_healthy_and_not_ready(cluster: Cluster):
    server = cluster.launch_server("--http", f"{LOOPBACK}:0", scheduler=f"{LOOPBACK}:1")
    address = http_address(server)
    assert get(f"{address}/healthz") == (200, "ok\n")
    assert get(f"{address}/readyz") == (503, "this server has not registered with the scheduler yet\n")
    assert metrics(address)["shoal_server_registered"] == 0
    assert get(f"{address}/")[0] == get(f"{address}/metrics/../../etc/passwd")[0] == 404


def test_a_leaving_server_is_not_ready_and_counts_on(cluster: Cluster):
    cluster.start_scheduler()
    server = cluster.start_server("alpha", "--http", f"{LOOPBACK}:0", "--drain-timeout", "60000")
    address = http_address(server)
    ranks = cluster.start_ranks(2, "--hold")
    wait_for_line_of_all(ranks, "^round 0 done$")
    server.send(signal.SIGTERM)
    server.wait_for_line("server-leaving")
    assert get(f"{address}/readyz") == (503, "this server leaves the cluster\n")
    cluster.wait_until(lambda: metrics(address)["shoal_server_received_bytes_total"] > 0, "the bytes are counted")
    server.send(signal.SIGINT)  # a second SIGTERM counts from a second on only
    assert server.wait() == 0


@pytest.mark.parametrize("name", ["shoal-scheduler", "shoal-server"])
@pytest.mark.parametrize(
    ("address", "complaint"),
    [
        ("9100", 'the address "9100" of --http is not of the form IP:PORT'),
        ("127.0.0.1:http", "the address \"127.0.0.1:http\" of --http is not of the form IP:PORT"),
        ("0.0.0.0:9100", "other nodes may reach --http 0.0.0.0:9100, where everybody reads metrics and page"),
    ],
)
def test_a_bad_address_is_refused_with_the_option_named(cluster: Cluster, name: str, address: str, complaint: str):
    options = ["--listen", f"{LOOPBACK}:0"]
    if name == "shoal-server":
        options = ["--scheduler", f"{LOOPBACK}:1", "--advertise", LOOPBACK]
    process = cluster.start([program(name), *options, "--http", address])
    assert process.wait() == 1
    assert complaint in process.output and "--http" in process.output.splitlines()[-1]


@pytest.mark.parametrize("name", ["shoal-scheduler", "shoal-server"])
def test_an_address_that_others_reach_takes_a_word_and_is_told(cluster: Cluster, name: str):
    cluster.start_scheduler()
    options = ["--listen", f"{LOOPBACK}:0"]
    if name == "shoal-server":
        options = ["--scheduler", cluster.scheduler_address, "--advertise", LOOPBACK]
    process = cluster.start([program(name), *options, "--http", "0.0.0.0:0", "--insecure-network"])
    process.wait_for_line("insecure-network: everybody who reaches the address of --http can read metrics")
    taken = cluster.start([program(name), *options, "--http", "192.0.2.1:9100", "--insecure-network"])
    assert taken.wait() == 1
    assert "can't listen on 192.0.2.1:9100: Cannot assign requested address" in taken.output


def test_a_scheduler_that_others_reach_takes_a_word_and_is_told(cluster: Cluster):
    refused = cluster.start([program("shoal-scheduler"), "--listen", "0.0.0.0:0"])
    assert refused.wait() == 1
    assert "other nodes may reach --listen 0.0.0.0:0, where everybody could read and end this cluster" in refused.output
    assert "--tls-cert" in refused.output and "--insecure-network" in refused.output
    scheduler = cluster.start_scheduler("--insecure-network", listen="0.0.0.0:0")
    scheduler.wait_for_line("insecure-network: everybody who reaches this scheduler can read and end the cluster")
    port = cluster.scheduler_address.rpartition(":")[2]
    status = cluster.call_shoalctl("status", scheduler=f"{LOOPBACK}:{port}")
    assert "Warning: everybody who reaches this scheduler" in status.stdout, status


def answers(host: str, port: str) -> bool:
    try:
        return get(f"http://{host}:{port}/healthz") == (200, "ok\n")
    except urllib.error.URLError:
        return False


def test_every_address_is_that_of_ipv6_as_well_where_civetweb_has_it(cluster: Cluster):
    """That of Debian 12 has not: then what asks for IPv6 is refused."""
    command = [program("shoal-scheduler"), "--listen", f"{LOOPBACK}:0", "--insecure-network", "--http"]
    asks = cluster.start([*command, "[::]:0"])
    cluster.wait_until(lambda: "http-listening" in asks.output or "can't listen" in asks.output, "it says something")
    has_ipv6 = "http-listening" in asks.output
    if not has_ipv6:
        assert asks.wait() == 1
        assert "can't listen on [::]:0: the civetweb of this machine has no IPv6" in asks.output
        assert "give an IPv4 address, or 0.0.0.0 for all of them, with --http" in asks.output
    all_addresses = cluster.start([*command, "0.0.0.0:0"])
    listening = [all_addresses, asks] if has_ipv6 else [all_addresses]
    for scheduler in listening:
        port = scheduler.http_address().rsplit(":", 1)[1]
        assert answers("127.0.0.1", port)
        assert answers("[::1]", port) == has_ipv6


def test_the_port_of_http_is_told_from_that_of_a_scheduler(cluster: Cluster):
    address = cluster.start_scheduler("--http", f"{LOOPBACK}:0").http_address()
    done = cluster.call_shoalctl("status", scheduler=address)
    assert done.returncode == 1
    why = "what listens there is not a scheduler; the port of --http is another one"
    assert f"can't reach a scheduler at {address} ({why}" in done.stderr
    server = cluster.launch_server("--timeout", "500", scheduler=address)
    assert server.wait() == 1
    assert "what listens there is not a scheduler" in server.output.splitlines()[-1], f"{server}"


def test_connections_that_say_nothing_do_not_keep_health_from_answering(cluster: Cluster):
    address = http_address(cluster.start_scheduler("--http", f"{LOOPBACK}:0"))
    port = int(address.rsplit(":", 1)[1])
    silent = [socket.create_connection((LOOPBACK, port)) for _ in range(20)]
    try:
        started = time.monotonic()
        assert get(f"{address}/healthz") == (200, "ok\n")
        assert time.monotonic() - started < 8
    finally:
        for connection in silent:
            connection.close()
