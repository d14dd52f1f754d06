"""What scheduler and servers write to standard error: one line for each event, as text or as a JSON object."""

import json
import re
import signal

import pytest

from hosts.cluster import Cluster, program
from hosts.node import LOOPBACK
from hosts.process import Process
from job_runs import digests, wait_for_line_of_all

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
IDS = r"\(job=\d+ group=\d+ epoch=\d+\)"


def listening(process: Process) -> str:
    return process.wait_for_line(r'"event":"\w+-listening".* listens on ([\d.:]+)').group(1)


def events_of(process: Process) -> list[dict]:
    """Of a process with --log-format json, which writes nothing else."""
    return [json.loads(line) for line in process.output.splitlines()]


def test_a_jobs_groups_can_be_followed_in_the_logs_of_scheduler_and_server(cluster: Cluster):
    scheduler = cluster.start_scheduler()
    server = cluster.start_server("alpha")
    digests(cluster.start_ranks(2))
    for key in ("job-started", "group-opened", "job-ended"):
        scheduler.wait_for_line(rf'^{TIME} INFO scheduler {key} .*job "test" \(job=\d+.*\): ')
    server.wait_for_line(rf"^{TIME} INFO server shard-group-opened {IDS}: 2 ranks with ")
    server.wait_for_line(rf"^{TIME} INFO server shard-group-closed {IDS}: no rank is in it any more")
    server.send(signal.SIGTERM)
    assert server.wait() == 0
    assert re.search(rf"^{TIME} INFO server server-stopped: stopped after SIGTERM$", server.output, re.MULTILINE)
    scheduler.wait_for_line(rf"^{TIME} INFO scheduler server-left server alpha: SIGTERM")


def test_in_json_every_line_is_an_object_and_a_lost_rank_is_named_with_its_ids(cluster: Cluster):
    scheduler = cluster.start(
        [program("shoal-scheduler"), "--listen", f"{LOOPBACK}:0", "--lease-ttl", "1000", "--log-format", "json"]
    )
    cluster.scheduler_address = listening(scheduler)
    server = cluster.launch_server("--log-format=json", "--name=alpha", "--drain-timeout=0")
    listening(server)
    ranks = cluster.start_ranks(2, "--hold", "--rounds", "2")
    wait_for_line_of_all(ranks, "^round 0 done$")
    ranks[1].send(signal.SIGKILL)
    scheduler.wait_for_line('"event":"rank-lost"')
    server.wait_for_line('"event":"shard-group-failed"|"event":"shard-group-closed"')
    server.send(signal.SIGTERM)
    assert server.wait() == 0
    scheduler.send(signal.SIGTERM)
    assert scheduler.wait() == 0
    of_scheduler, of_server = events_of(scheduler), events_of(server)
    assert {"scheduler-listening", "server-registered", "job-running", "rank-lost", "scheduler-stopped"} <= {
        event["event"] for event in of_scheduler
    }
    assert {event["component"] for event in of_server} == {"server"}
    (opened,) = [event for event in of_server if event["event"] == "shard-group-opened"]
    absent = [event for event in of_server if event["event"] == "rank-absent"]
    assert absent and absent[0]["rank"] == "1" and absent[0]["level"] == "warning"
    assert (absent[0]["job"], absent[0]["group"]) == (opened["job"], opened["group"])
    lost = [event for event in of_scheduler if event["event"] == "rank-lost"]
    assert lost[0]["rank"] == "1" and lost[0]["job"] == opened["job"]


def test_without_events_a_scheduler_writes_of_its_cluster_only_what_is_wrong(cluster: Cluster):
    scheduler = cluster.start_scheduler("--log-events=false", lease_ttl_ms=1000)
    server = cluster.start_server("alpha")
    digests(cluster.start_ranks(2))
    server.send(signal.SIGKILL)
    scheduler.wait_for_line(rf"^{TIME} WARNING scheduler server-lost server alpha: ")
    scheduler.send(signal.SIGTERM)
    assert scheduler.wait() == 0
    lines = re.findall(rf"^{TIME} (\w+) scheduler ([\w-]+)", scheduler.output, re.MULTILINE)
    of_itself = {"scheduler-listening", "scheduler-stopped"}
    assert {key for level, key in lines if level == "INFO"} == of_itself, scheduler.output


@pytest.mark.parametrize("name", ["shoal-scheduler", "shoal-server"])
def test_an_unknown_format_is_refused_with_those_that_there_are(cluster: Cluster, name: str):
    process = cluster.start(
        [program(name), "--log-format", "xml"]
        + (["--scheduler", "127.0.0.1:1", "--advertise", LOOPBACK] if name == "shoal-server" else [])
    )
    assert process.wait() == 2
    assert '--log-format "xml" is unknown; give text (human-readable lines) or json' in process.output
