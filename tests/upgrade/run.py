#!/usr/bin/env python3
"""Replaces the programs of a running cluster by those of another build and back, while jobs reduce.

`make upgrade-check FROM=COMMIT`, or tests/upgrade/run.py --from COMMIT after a build. It compiles the programs of that
commit in build/upgrade, then goes the way that docs/operating.md tells operators: schedulers, servers one by one, then
jobs; and the way back, with the schedulers last. Meanwhile servers and jobs of the older build join schedulers of the
newer one. Every op must end well, with the bits of a run in which nothing was replaced. Results: tests/upgrade/results.
Exit status 1 if an op failed or bits differ.
"""

import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import platform
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/process")]

from hosts.cluster import RANK_PROGRAM, Cluster, free_ports
from hosts.etcd import Etcd
from hosts.node import LOOPBACK, HostError
from hosts.process import Process
from job_runs import digests, let_go_on, wait_for_line_of_all

RESULTS = pathlib.Path(__file__).parent / "results"
RANK_OF_BUILD = str(pathlib.Path(__file__).with_name("rank_of_build.py"))
PROGRAMS = ("bin/shoal-scheduler", "bin/shoal-server", "bin/shoalctl", "lib/libshoal.so")
SERVERS = ("alpha", "beta", "gamma")
WORLD_SIZE = 4
ROUNDS = 40  # of a job; more than are needed, so that it ends with rounds in which nothing happens
LEASE_TTL_MS = 3000


@dataclasses.dataclass(frozen=True)
class Build:
    name: str
    folder: pathlib.Path

    def file(self, path: str) -> str:
        return str(self.folder / path)

    @property
    def rank_program(self) -> str:
        """That of the build's own tree: structs of the C ABI grow."""
        return str(self.folder.parent / RANK_PROGRAM.relative_to(ROOT))


def output_of(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout.strip()


def build_of(commit: str) -> Build:
    """The programs of a commit, compiled unless they are there."""
    name = output_of("git", "rev-parse", "--short=12", f"{commit}^{{commit}}")
    tree = ROOT / "build/upgrade" / name
    if not tree.is_dir():
        tree.mkdir(parents=True)
        with subprocess.Popen(["git", "archive", name], cwd=ROOT, stdout=subprocess.PIPE) as archive:
            subprocess.run(["tar", "-x", "-C", str(tree)], stdin=archive.stdout, check=True)
    jobs = os.environ.get("SHOAL_JOBS", str(os.cpu_count()))
    if not (tree / "build/build.ninja").is_file():
        configure = ["cmake", "--preset", "release", "-D", "SHOAL_BUILD_TESTS=OFF"]
        subprocess.run(configure, cwd=tree, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["ninja", "-C", "build", "-j", jobs, *PROGRAMS], cwd=tree, check=True, stdout=subprocess.DEVNULL)
    return Build(name, tree / "build")


class Job:
    """Ranks of one build that reduce a round when told to."""

    def __init__(self, cluster: Cluster, build: Build, name: str):
        self.name, self.build = name, build
        self.rounds = 0
        command = [sys.executable, RANK_OF_BUILD, build.rank_program, "--library", build.file("lib/libshoal.so")]
        command += ["--scheduler", cluster.scheduler_address, "--world-size", str(WORLD_SIZE), "--job", name]
        command += ["--count", "150001", "--rounds", str(ROUNDS), "--hold"]
        self.ranks = [cluster.start([*command, "--rank", str(rank)]) for rank in range(WORLD_SIZE)]
        self.wait_for_round()

    def wait_for_round(self) -> None:
        wait_for_line_of_all(self.ranks, f"^round {self.rounds} done$")
        self.rounds += 1

    def go_on(self) -> None:
        let_go_on(self.ranks)
        self.wait_for_round()

    def digest(self) -> str:
        """Of all rounds, when it has ended well."""
        let_go_on(self.ranks, ROUNDS - self.rounds + 1)
        (digest,) = digests(self.ranks)
        return digest


class Walk:
    """A cluster on its way from build to build. `schedulers` 1: with a state file; 3: over a real etcd."""

    def __init__(self, cluster: Cluster, folder: pathlib.Path, build: Build, schedulers: int):
        self.cluster = cluster
        self.steps: list[dict] = []
        self.jobs: list[Job] = []
        options = ["--state-file", str(folder / "state")]
        if schedulers > 1:
            options = ["--store", f"etcd://{Etcd(cluster, folder).address}/upgrade", "--leader-lease", "2000"]
        self.scheduler_options = options
        self.schedulers: dict[str, Process] = {}
        for port in free_ports(schedulers):
            self.start_scheduler(build, f"{LOOPBACK}:{port}")
        self.servers = {name: self.start_server(build, name) for name in SERVERS}

    def start_scheduler(self, build: Build, address: str) -> None:
        self.schedulers[address] = self.with_programs_of(build).start_scheduler(
            *self.scheduler_options, listen=address, lease_ttl_ms=LEASE_TTL_MS
        )
        self.cluster.scheduler_address = ",".join(self.schedulers)

    def start_server(self, build: Build, name: str) -> Process:
        return self.with_programs_of(build).start_server(name)

    def with_programs_of(self, build: Build) -> Cluster:
        self.cluster.programs = build.folder / "bin"
        return self.cluster

    def step(self, what: str) -> None:
        """All jobs reduce a round after what was just done."""
        began = time.monotonic()
        for job in self.jobs:
            job.go_on()
        self.steps.append({"what": what, "round_s": round(time.monotonic() - began, 3), "jobs": len(self.jobs)})
        print(f"    {what}: a round of {len(self.jobs)} jobs in {self.steps[-1]['round_s']} s", flush=True)

    def replace_schedulers(self, build: Build) -> None:
        for address in list(self.schedulers):
            self.schedulers[address].send(signal.SIGTERM)
            self.schedulers[address].wait()
            self.step(f"scheduler {address} is away")
            self.start_scheduler(build, address)
            self.step(f"scheduler {address} is {build.name}")

    def restart_server(self, build: Build, name: str) -> None:
        """It dies, and comes again as what it was: its node has not been upgraded yet."""
        self.servers[name].end_group()
        self.step(f"server {name} was killed")
        self.start_again(build, name)

    def replace_servers(self, build: Build) -> None:
        """The last one dies while servers of two builds share groups, and its groups go over to the others."""
        *drained, killed = SERVERS
        for name in drained:
            self.with_programs_of(build).shoalctl_text("drain", name, "--wait")
            self.servers[name].wait()
            self.step(f"server {name} has left")
            self.start_again(build, name)
        self.restart_server(build, killed)

    def start_again(self, build: Build, name: str) -> None:
        self.servers[name] = self.start_server(build, name)
        self.step(f"server {name} is {build.name}")

    def start_job(self, build: Build, name: str) -> None:
        self.jobs.append(Job(self.cluster, build, name))
        self.step(f"job {name} of {build.name} has joined")

    def upgrade(self, old: Build, new: Build) -> None:
        """Schedulers, servers, jobs; a server and two jobs of the older build join meanwhile."""
        self.replace_schedulers(new)
        self.restart_server(old, SERVERS[0])
        self.start_job(old, "old-at-new-schedulers")
        self.replace_servers(new)
        self.start_job(old, "old-at-new-servers")
        self.start_job(new, "new")

    def downgrade(self, old: Build, new: Build) -> None:
        """Jobs, servers, schedulers; a server and a job of the newer build join as long as they may."""
        self.start_job(old, "old-again")
        self.restart_server(new, SERVERS[0])
        self.replace_servers(old)
        self.start_job(new, "new-at-old-servers")
        self.replace_schedulers(old)
        self.start_job(old, "old-at-old-schedulers")

    def end_jobs_of(self, build: Build, expected: str) -> None:
        """AssertionError if the bits of one differ."""
        ending = [job for job in self.jobs if job.build == build]
        self.jobs = [job for job in self.jobs if job.build != build]
        for job in ending:
            assert job.digest() == expected, f"the bits of job {job.name} differ"


def undisturbed_digest(build: Build) -> str:
    with Cluster() as cluster:
        with tempfile.TemporaryDirectory() as folder:
            Walk(cluster, pathlib.Path(folder), build, 1)
            return Job(cluster, build, "undisturbed").digest()


def walk(old: Build, new: Build, schedulers: int, expected: str) -> list[dict]:
    """There and back. HostError if an op failed, AssertionError if bits differ."""
    with Cluster() as cluster:
        with tempfile.TemporaryDirectory() as folder:
            way = Walk(cluster, pathlib.Path(folder), old, schedulers)
            way.start_job(old, "first")
            way.upgrade(old, new)
            way.end_jobs_of(old, expected)
            way.downgrade(old, new)
            way.end_jobs_of(new, expected)
            way.end_jobs_of(old, expected)
            return way.steps


def page_of(record: dict) -> str:
    lines = [
        f"# From {record['old']} to {record['new']} and back ({record['date']})",
        "",
        f"`tests/upgrade/run.py --from {record['old']}` on {record['machine']}. Jobs of {WORLD_SIZE} ranks over "
        f"{len(SERVERS)} servers, on one node. No op failed, and all jobs have the bits of a run in which nothing was "
        "replaced. A round is one all-reduce of each job.",
    ]
    for walked in record["walks"]:
        kind = "one scheduler with a state file" if walked["schedulers"] == 1 else "three schedulers over etcd"
        lines += ["", f"## With {kind}", "", "| step | jobs | next round (s) |", "|---|---:|---:|"]
        lines += [f"| {step['what']} | {step['jobs']} | {step['round_s']} |" for step in walked["steps"]]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--from", dest="old", required=True, help="the commit of the other build")
    options = parser.parse_args()
    state = " with changes" if output_of("git", "status", "--porcelain", "--untracked-files=no") else ""
    new = Build(f"{output_of('git', 'rev-parse', '--short=12', 'HEAD')}{state}", ROOT / "build")
    print(f"compiling {options.old}", flush=True)
    old = build_of(options.old)
    expected = undisturbed_digest(new)
    walks = []
    for schedulers in (1, 3):
        print(f"{schedulers} scheduler(s): from {old.name} to {new.name} and back", flush=True)
        try:
            walks.append({"schedulers": schedulers, "steps": walk(old, new, schedulers, expected)})
        except (AssertionError, HostError) as error:
            sys.exit(f"FAILED: {error}")
    date = datetime.date.today().isoformat()
    machine = f"{platform.system()} {platform.release()}, {os.cpu_count()} cores"
    record = {"old": old.name, "new": new.name, "date": date, "machine": machine, "walks": walks}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"upgrade_{date}.json").write_text(json.dumps(record, indent=1) + "\n")
    (RESULTS / f"upgrade_{date}.md").write_text(page_of(record))
    print(f"all ops ended well, with the same bits; see {RESULTS.relative_to(ROOT)}/upgrade_{date}.md")


if __name__ == "__main__":
    main()
