"""A cluster whose programs prove who they are by certificates. Real processes, certificates of the openssl command."""

import json
import pathlib
import re
import signal
import subprocess

import pytest

from hosts.authority import DOMAIN, Authority
from hosts.cluster import Cluster
from hosts.etcd import Etcd
from job_runs import digests, let_go_on, refusal, wait_for_line_of_all

# Of the tests' short certificates: long enough to start all programs on a busy machine.
SHORT_LIFE_S = 20


class SecuredCluster(Cluster):
    """shoalctl is an operator's."""

    def __init__(self, folder: pathlib.Path):
        super().__init__()
        self.authority = Authority(folder / "authority")
        self.operator = self.authority.member("operator")

    def call_shoalctl(self, *arguments: str, scheduler: str = "") -> subprocess.CompletedProcess[str]:
        return super().call_shoalctl(*arguments, *self.operator, scheduler=scheduler)

    def call_as(self, files: list[str], *arguments: str) -> subprocess.CompletedProcess[str]:
        return Cluster.call_shoalctl(self, *arguments, *files)


@pytest.fixture
def secured(tmp_path: pathlib.Path):
    with SecuredCluster(tmp_path) as cluster:
        yield cluster


def plain_digest(*options: str) -> set[str]:
    with Cluster() as cluster:
        cluster.start_scheduler()
        cluster.start_server("alpha")
        return digests(cluster.start_ranks(2, *options))


def test_a_job_trains_and_strangers_are_refused_by_name(secured: Cluster):
    authority = secured.authority
    scheduler = secured.start_scheduler(*authority.member("scheduler"), "--http", "127.0.0.1:0")
    secured.start_server("alpha", *authority.member("server"))
    worker = authority.member("worker/vision")
    ranks = secured.start_ranks(2, *worker, "--rounds", "3", "--hold")
    wait_for_line_of_all(ranks, "^round 0 done$")

    # Without a certificate, with that of another authority, of another role, and of another tenant.
    stranger = secured.call_as([], "abort", "test")
    assert stranger.returncode == 1 and "--tls-cert" in stranger.stderr, stranger.stderr
    other = Authority(authority.folder / "other")
    stranger = secured.call_as(other.member("operator"), "abort", "test")
    assert stranger.returncode == 1 and "--tls-ca" in stranger.stderr, stranger.stderr
    stranger = secured.call_as(authority.member("viewer"), "abort", "test")
    assert stranger.returncode == 1
    said = f"{DOMAIN}/viewer (viewer) may not call /shoal.v1.Admin/AbortJob; it takes the role operator"
    assert said in stranger.stderr, stranger.stderr
    who = re.escape(f"{DOMAIN}/viewer (viewer)")
    scheduler.wait_for_line(rf"call-refused {who}: AbortJob from 127.0.0.1:\d+: PERMISSION_DENIED: {re.escape(said)}")
    rank_of_another = secured.start_rank(0, 2, *authority.member("worker/speech"))
    assert f"{DOMAIN}/worker/speech (worker of tenant speech) may not act for job" in refusal(rank_of_another)
    server_of_nobody = secured.launch_server("--name", "beta", *worker)
    assert server_of_nobody.wait() == 1
    assert f"{DOMAIN}/worker/vision (worker of tenant vision) may not call" in server_of_nobody.output

    assert secured.call_as(authority.member("viewer"), "status").returncode == 0
    let_go_on(ranks, 3)
    assert digests(ranks) == plain_digest("--rounds", "3")
    assert "alpha" in secured.servers()


def test_nothing_older_than_tls_13_is_spoken(secured: Cluster):
    authority = secured.authority
    secured.start_scheduler(*authority.member("scheduler"))
    operator = secured.operator
    files = ["-cert", operator[1], "-key", operator[3], "-CAfile", operator[5]]

    def speaks(version: str) -> bool:
        command = ["openssl", "s_client", "-connect", secured.scheduler_address, version, "-alpn", "h2", *files]
        said = subprocess.run(command, input=b"", capture_output=True, check=False, timeout=30)
        # The scheduler's first HTTP/2 frame may be among what it prints.
        return b"Verify return code: 0" in said.stdout and b"Cipher is (NONE)" not in said.stdout

    assert speaks("-tls1_3") and not speaks("-tls1_2")


def test_certificates_are_replaced_under_a_running_job(secured: Cluster):
    """Those that all began with expire, and the job goes on; so does what connects anew."""
    authority = secured.authority

    def issue(valid_s: int) -> dict[str, list[str]]:
        return {who: authority.member(who, valid_s) for who in ("scheduler", "server", "worker/vision")}

    files = issue(SHORT_LIFE_S)
    scheduler = secured.start_scheduler(*files["scheduler"], lease_ttl_ms=3000)
    server = secured.start_server("alpha", *files["server"])
    ranks = secured.start_ranks(2, *files["worker/vision"], "--rounds", "3", "--hold")
    wait_for_line_of_all(ranks, "^round 0 done$")
    old = pathlib.Path(files["scheduler"][1]).read_text(encoding="ascii")

    # A key that is not the certificate's: the old ones stay in use, and it is said.
    pathlib.Path(files["scheduler"][3]).write_text(pathlib.Path(files["server"][3]).read_text(encoding="ascii"))
    scheduler.wait_for_line("certificate-not-taken: what was read before stays in use, .*scheduler-key.pem")
    assert secured.call_shoalctl("status").returncode == 0
    issue(3600)
    for process in (scheduler, server):
        process.wait_for_line("certificate-renewed: new connections use the changed files")

    def has_expired() -> bool:
        command = ["openssl", "x509", "-checkend", "0"]
        return subprocess.run(command, input=old, text=True, capture_output=True, check=False).returncode == 1

    secured.wait_until(has_expired, "the first certificates have expired", SHORT_LIFE_S + 10)
    let_go_on(ranks)
    wait_for_line_of_all(ranks, "^round 1 done$")
    assert secured.call_shoalctl("status").returncode == 0, "a new connection"
    # All connections are new ones when the scheduler was started again.
    scheduler.process.kill()
    scheduler.wait()
    secured.start_scheduler(*files["scheduler"], listen=secured.scheduler_address, lease_ttl_ms=3000)
    server.wait_for_line("lease-granted-again")
    let_go_on(ranks, 2)
    assert digests(ranks) == plain_digest("--rounds", "3")


def test_an_expired_certificate_is_told_of(secured: Cluster):
    scheduler = secured.start_scheduler(*secured.authority.member("scheduler", valid_s=8))
    scheduler.wait_for_line("certificate-not-taken: the certificate in .*scheduler-cert.pem has expired")
    refused = secured.call_shoalctl("status")
    assert refused.returncode == 1 and "--tls-ca" in refused.stderr, refused.stderr


@pytest.mark.parametrize("damage", ["no key", "of another pair", "missing", "expired"])
def test_files_that_cannot_be_used_are_named_at_the_start(secured: Cluster, damage: str):
    files = secured.authority.member("server", -60 if damage == "expired" else 3600)
    other = secured.authority.member("scheduler")
    said = {
        "no key": ([*files[:2], *files[4:]], "give --tls-cert, --tls-key and --tls-ca"),
        "of another pair": ([*files[:3], other[3], *files[4:]], f"is not the key of the certificate in {files[1]}"),
        "missing": ([*files[:5], "/nowhere"], "the file /nowhere (--tls-ca) can't be read"),
        "expired": (files, f"the file {files[1]} (--tls-cert) has a certificate that has expired"),
    }
    options, text = said[damage]
    for name, more in (
        ("shoal-scheduler", ["--listen", "127.0.0.1:0"]),
        ("shoal-server", ["--scheduler", "127.0.0.1:1", "--advertise", "127.0.0.1"]),
        ("shoalctl", ["--scheduler", "127.0.0.1:1", "status"]),
    ):
        program = secured.start([secured.program(name), *more, *options])
        assert program.wait() != 0 and text in program.output, f"{program}"
    secured.scheduler_address = "127.0.0.1:1"
    rank = secured.start_rank(0, 1, *options)
    assert text in refusal(rank)
    assert "PRIVATE KEY" not in rank.output


def test_a_wrong_authority_is_told_of(secured: Cluster):
    """By all that connect, and not only when their patience is over."""
    secured.start_scheduler(*secured.authority.member("scheduler"))
    other = Authority(secured.authority.folder / "other")
    server = secured.launch_server("--name", "alpha", "--timeout", "15000", *other.member("server"))
    server.wait_for_line("--tls-ca")
    rank = secured.start_rank(0, 1, "--timeout-ms", "15000", *other.member("worker/vision"))
    rank.wait_for_line("--tls-ca")
    assert "--tls-ca" in refusal(rank)
    assert server.wait() == 1


def test_schedulers_pass_identities_on_and_log_in_to_etcd(secured: Cluster, tmp_path: pathlib.Path):
    authority = secured.authority
    etcd = Etcd(secured, tmp_path / "etcd", files=authority.issue("etcd", "IP:127.0.0.1"))
    login = tmp_path / "login"
    login.write_text("root:secret\n")
    etcd.require_login("root", "secret")
    scheduler_files = authority.member("scheduler")
    audits = [tmp_path / "first.json", tmp_path / "second.json"]
    store = ["--store", f"etcd://{etcd.address}/test", "--leader-lease", "2000", "--etcd-login", str(login)]
    store += ["--etcd-ca", str(authority.file)]
    addresses = []
    for audit in audits:
        scheduler = secured.start_scheduler(*scheduler_files, *store, "--audit-log", str(audit))
        addresses.append(secured.scheduler_address)
        scheduler.wait_for_line("leads, term|follows ")
    follower = addresses[1]
    secured.scheduler_address = follower
    secured.start_server("alpha", *authority.member("server"))
    ranks = secured.start_ranks(2, *authority.member("worker/vision"), "--hold")
    wait_for_line_of_all(ranks, "^round 0 done$")
    other = secured.start_rank(0, 2, *authority.member("worker/speech"))
    assert f"{DOMAIN}/worker/speech (worker of tenant speech) may not act for job" in refusal(other)
    refused = secured.call_as(authority.member("viewer"), "drain", "alpha")
    assert refused.returncode == 1 and "takes the role operator" in refused.stderr
    let_go_on(ranks)
    assert len(digests(ranks)) == 1
    assert "secret" not in secured.shoalctl_text("status")

    secured.wait_until(lambda: audited(audits[1]), "the follower has told what it refused")
    # The leader has what it was asked by way of the follower, and the follower what it has refused itself.
    of_leader, of_follower = (audited(audit) for audit in audits)
    joins = [line for line in of_leader if line["call"] == "JoinJob" and line["outcome"] == "ok"]
    assert [line["object"] for line in sorted(joins, key=lambda line: line["object"])] == [
        'job "test", rank 0',
        'job "test", rank 1',
    ]
    for line in joins:
        assert line["who"] == f"{DOMAIN}/worker/vision" and line["role"] == "worker of tenant vision"
        assert re.fullmatch(r"127\.0\.0\.1:\d+ by way of 127\.0\.0\.1:\d+", line["from"])
    foreign = [line for line in of_leader if line["event"] == "call-refused"]
    assert {line["call"] for line in foreign} == {"JoinJob"} and foreign[0]["who"] == f"{DOMAIN}/worker/speech"
    assert [(line["call"], line["who"]) for line in of_follower] == [("DrainServer", f"{DOMAIN}/viewer")]
    assert re.fullmatch(r"127\.0\.0\.1:\d+", of_follower[0]["from"])


def audited(path: pathlib.Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="ascii").splitlines()]


def test_each_change_is_a_line_of_the_audit_log_also_after_a_restart(secured: Cluster, tmp_path: pathlib.Path):
    authority = secured.authority
    audit = tmp_path / "audit.json"
    state = tmp_path / "state"
    options = [*authority.member("scheduler"), "--state-file", str(state), "--audit-log", str(audit)]
    scheduler = secured.start_scheduler(*options)
    secured.start_server("alpha", *authority.member("server"))
    ranks = secured.start_ranks(2, *authority.member("worker/vision"))
    digests(ranks)
    assert secured.call_shoalctl("drain", "beta").returncode == 1
    assert secured.call_as(authority.member("viewer"), "abort", "test").returncode == 1
    assert secured.call_as(authority.member("viewer"), "status").returncode == 0
    first = audited(audit)
    scheduler.send(signal.SIGTERM)
    assert scheduler.wait() == 0
    secured.start_scheduler(*options, listen=secured.scheduler_address)
    assert secured.call_shoalctl("evict", "alpha").returncode == 0
    # The server, which is still there, may have tried to come back by then.
    secured.wait_until(
        lambda: any(line["call"] == "EvictServer" for line in audited(audit)), "the eviction is in the audit log"
    )
    lines = audited(audit)
    assert lines[: len(first)] == first, "what the scheduler before has written stays"

    def told(call: str) -> list[tuple[str, str, str]]:
        of_call = [line for line in lines if line["call"] == call]
        assert all(re.fullmatch(r"127\.0\.0\.1:\d+", line["from"]) for line in of_call)
        return sorted((line["role"], line.get("object", ""), line["outcome"].partition(":")[0]) for line in of_call)

    worker = "worker of tenant vision"
    both_ranks = [(worker, f'job "test", rank {rank}', "ok") for rank in range(2)]
    assert told("RegisterServer")[0] == ("server", 'server "alpha"', "ok")
    assert told("JoinJob") == both_ranks
    assert told("LeaveJob") == both_ranks
    assert {role for role, _, outcome in told("JoinGroup") if outcome == "ok"} == {worker}
    assert told("DrainServer") == [("operator", 'server "beta"', "NOT_FOUND")]
    assert told("EvictServer") == [("operator", 'server "alpha"', "ok")]
    assert told("AbortJob") == [("viewer", "", "PERMISSION_DENIED")]
    assert not told("GetCluster") and not told("HeartbeatServer")
    assert [line["event"] for line in lines if line["call"] == "AbortJob"] == ["call-refused"]
    # Operators see the same without the file.
    events = json.loads(secured.shoalctl_text("events", "--json", "--kind", "call"))["events"]
    assert any("EvictServer" in event["reason"] and event["subject"].endswith("(operator)") for event in events)
