"""Runs one schedule on one cluster, from the first process to the last check, and says what it came to."""

import contextlib
import dataclasses
import pathlib
import resource
import shutil
import signal
import tempfile
import time

from chaos import promises
from chaos.chaos_cluster import ChaosCluster
from chaos.fault import IMPAIRMENTS, KINDS, Fault
from chaos.findings import CLOSED_GROUPS, ETCD_MEMORY, MOVES, Findings, Violation
from chaos.job_watch import JobWatch
from chaos.left_behind import Before
from chaos.memory import LARGE_TENSOR_BYTES, MemoryWatch
from chaos.moves import MoveWatch
from chaos.open_job_watch import OpenJobWatch
from chaos.schedule import Schedule
from chaos.shape import SERVER_JOINS_LATER, Shape
from chaos.starvation import Starvation
from chaos.strike import Strike
from chaos.world import Incident, World

from hosts.left_over import FOLDER_PREFIX, own_mark

TICK_S = 0.05
MEMORY_INTERVAL_S = 2.0
STARVATION_INTERVAL_S = 0.5
READY_S = 90.0  # for a cluster and its jobs to begin, on a loaded machine
END_S = 60.0
MEND_S = 60.0  # a process that was ended is back by then
FREE_S = 10.0


@dataclasses.dataclass
class Outcome:
    schedule: Schedule
    incidents: list[Incident]  # times after the run's start
    violations: list[Violation]
    allowed: list[tuple[float, str, str]]
    counts: dict[str, int]
    memory: dict[str, dict[str, float]]
    longest_pause_s: float
    longest_after_kill_s: float
    pauses: dict[str, int]
    void: int  # faults that found nothing to be done to
    moves: int  # of groups
    wall_s: float
    cpu_s: float
    worst_noise_s: float

    @property
    def ok(self) -> bool:
        return not self.violations


class Stopped(Exception):
    """The first violation ends the run."""


def with_large_tensors(shape: Shape) -> frozenset[str]:
    """The ranks whose tensors may be larger than what their memory may grow by."""
    large = [job for job in shape.jobs if job.most_bytes >= LARGE_TENSOR_BYTES]
    return frozenset(job.rank_name(rank) for job in large for rank in job.ranks)


class Experiment:
    def __init__(
        self,
        schedule: Schedule,
        without: set[str],
        stop_at_first: bool,
        say=None,
        logs: pathlib.Path | None = None,
        patience_s: float = 0.0,
    ):
        self.logs, self.patience_s = logs, patience_s
        self.schedule, self.without, self.stop_at_first = schedule, without, stop_at_first
        self.findings = Findings(say, frozenset(without))
        self.world = World(schedule.shape)
        self.memory = MemoryWatch(with_large_tensors(schedule.shape))
        self.moves = MoveWatch()
        self.starvation = Starvation()
        self.strikes: list[tuple[Incident, Strike, float]] = []  # under way, with the time when it is to be mended
        self.watches: list[JobWatch] = []
        self.void = 0
        self.noise_s = self.worst_noise_s = 0.0
        self.leader, self.leader_since = "", 0.0
        self.memory_at = self.starvation_at = 0.0

    def run(self) -> Outcome:
        began, cpu_before = time.monotonic(), cpu_seconds()
        before = Before()
        folder = pathlib.Path(tempfile.mkdtemp(prefix=f"{FOLDER_PREFIX}{own_mark()}-chaos-"))
        cluster = None
        try:
            self.cluster = cluster = ChaosCluster(self.schedule.shape, self.schedule.seed, folder)
            before.hold(cluster.network.namespaces)
            with contextlib.suppress(Stopped):
                self.run_on_cluster()
        finally:
            with ignoring_signals():
                if cluster is not None:
                    if self.logs is not None:
                        cluster.write_logs(self.logs)
                    cluster.end()
                shutil.rmtree(folder, ignore_errors=True)
        for left in before.left(folder):
            self.findings.violation("left behind", left, time.monotonic())
        return self.outcome(time.monotonic() - began, cpu_seconds() - cpu_before)

    def run_on_cluster(self) -> None:
        self.begin()
        self.follow()
        self.end()

    # ---- the beginning

    def begin(self) -> None:
        cluster, shape = self.cluster, self.schedule.shape
        for fault in self.schedule.faults:
            if fault.kind in IMPAIRMENTS and fault.kind != "link-slow":
                cluster.links.prepare(fault.target)
        cluster.start_control()
        self.wait_for(lambda: cluster.leader(), "a scheduler leads")
        late = {fault.target for fault in self.schedule.faults if fault.kind == SERVER_JOINS_LATER}
        for name in shape.server_names:
            if name not in late:
                cluster.start_server(name)
        for name in set(shape.server_names) - late:
            cluster.running[name].process.wait_for_line("listening on", READY_S)
        self.findings.t0 = time.monotonic()
        for fault in self.schedule.faults:  # absent from the start
            if fault.kind == SERVER_JOINS_LATER:
                self.strike(fault, self.findings.t0)
        for job in shape.jobs:
            cluster.start_job(job)
            watch = OpenJobWatch if job.is_open else JobWatch
            self.watches.append(watch(cluster, self.world, job, self.findings, self.starvation))
        self.wait_for(lambda: all(watch.all_moved() for watch in self.watches), "all groups have begun")
        self.findings.t0 = time.monotonic()
        self.findings.note(f"{len(cluster.running)} processes are at work", self.findings.t0)

    def wait_for(self, condition, what: str) -> None:
        deadline = time.monotonic() + READY_S
        while not condition():
            self.tick()
            if self.findings.violations:
                raise Stopped
            if time.monotonic() > deadline:
                tails = "\n".join(f"{name}: {each.tail(3)}" for name, each in self.cluster.running.items())
                self.findings.violation("not started", f"within {READY_S} s not so: {what}\n{tails}", time.monotonic())
                raise Stopped

    # ---- the middle

    def follow(self) -> None:
        waiting = [fault for fault in self.schedule.faults if fault.kind != SERVER_JOINS_LATER]
        for incident, strike, _ in self.strikes:
            due = self.findings.t0 + strike.fault.at_s
            self.strikes = [(incident, strike, due) if each[1] is strike else each for each in self.strikes]
        while waiting or self.strikes or time.monotonic() < self.findings.t0 + self.schedule.end_s:
            now = time.monotonic()
            while waiting and now >= self.findings.t0 + waiting[0].at_s:
                self.strike(waiting.pop(0), now)
            self.mend_due(now)
            self.tick()
        # What ended its job late still has to be followed by a life that works.
        calm_until = time.monotonic() + promises.works_again_s(self.schedule.shape)
        while time.monotonic() < calm_until or any(watch.failed_at for watch in self.watches):
            self.tick()

    def strike(self, fault: Fault, now: float) -> None:
        strike = Strike(self.cluster, fault)
        began = time.monotonic()  # a part of it may be felt before all of it is done
        if not strike.begin():
            self.void += 1
            self.findings.note(f"void   {fault}", now)
            return
        incident = Incident(fault, began)
        if fault.kind == SERVER_JOINS_LATER:
            incident.began = 0.0
        self.world.incidents.append(incident)
        self.strikes.append((incident, strike, now + fault.for_s))
        self.findings.open_faults.append(short(fault))
        self.findings.count("faults")
        self.findings.note(f"begin  {short(fault)}", now)

    def mend_due(self, now: float) -> None:
        for entry in list(self.strikes):
            incident, strike, due = entry
            if now < due:
                continue
            if not getattr(strike, "mended", False):
                strike.mend()
                strike.mended = True
                strike.mended_at = now
            if strike.done():
                # A rank that was killed is back with its job's next life (watch_jobs).
                incident.mended = time.monotonic()
                self.strikes.remove(entry)
                self.findings.open_faults.remove(short(strike.fault))
                self.findings.note(f"mended {short(strike.fault)}", now)
            elif now - strike.mended_at > MEND_S:
                tail = self.cluster.running[strike.fault.target].tail(4)
                self.findings.violation("not ended", f"{strike.fault} is not made good after {MEND_S} s:\n{tail}", now)
                raise Stopped

    # ---- all the time

    def tick(self) -> None:
        before = time.monotonic()
        time.sleep(TICK_S)
        now = time.monotonic()
        # How late this process itself was lately: so late are the others, for reasons that are not the product's.
        late_s = max(0.0, now - before - TICK_S)
        self.noise_s = max(late_s, self.noise_s * 0.995)
        self.worst_noise_s = max(self.worst_noise_s, self.noise_s)
        self.look_at_leader(now)
        self.look_at_moves(now)
        self.look_at_services(now)
        for watch in self.watches:
            watch.look(now, self.leader_since, self.noise_s + self.patience_s)
            self.look_after(watch, now)
        if now - self.memory_at > MEMORY_INTERVAL_S:
            self.memory_at = now
            for name, running in self.cluster.running.items():
                self.memory.sample(name, running.process.pid, now)
        if now - self.starvation_at > STARVATION_INTERVAL_S:
            self.starvation_at = now
            pids = {running.process.pid for running in self.cluster.running.values()}
            for pid in pids:
                self.starvation.sample(pid, now)
            self.starvation.forget_all_but(pids)
        if self.stop_at_first and self.findings.violations:
            raise Stopped

    def look_at_leader(self, now: float) -> None:
        leader = self.cluster.leader()
        if leader != self.leader:
            self.leader, self.leader_since = leader, now
            self.findings.log.append((now, f"{leader or 'nobody'} leads"))

    def look_at_moves(self, now: float) -> None:
        for name in self.schedule.shape.scheduler_names:
            if name not in self.cluster.running:
                continue
            for line in self.cluster.running[name].new_lines():
                sentence = self.moves.hear(line, now)
                if sentence and MOVES not in self.without:
                    self.findings.violation(MOVES, sentence, now)

    def look_at_services(self, now: float) -> None:
        """Schedulers, servers and etcd members end only by a fault."""
        for name, running in list(self.cluster.running.items()):
            if "/" in name or running.process.running():
                continue
            code = running.process.process.returncode
            expected, by_its_fault = self.world.ends_of(name)
            if code not in by_its_fault:
                self.findings.violation("crash", f"{name} ended with {code}:\n{running.tail(12)}", now)
                if expected:
                    running.process.process.returncode = 0  # said once; its fault starts it again
                else:
                    self.restart_service(name)

    def restart_service(self, name: str) -> None:
        start = {"etcd": self.cluster.start_etcd, "scheduler": self.cluster.start_scheduler}
        start.get(name.rsplit("-", 1)[0], self.cluster.start_server)(name)

    def look_after(self, watch: JobWatch, now: float) -> None:
        if watch.ending or not watch.must_restart(now):
            return
        restarting = [strike for _, strike, due in self.strikes if strike.fault.target == watch.name and now < due]
        if restarting:
            return  # its time to be started again has not come
        self.add_work(watch)
        self.findings.note(f"job {watch.name} is started again", now)
        watch.restart()

    def add_work(self, watch: JobWatch) -> None:
        for what, amount in watch.work_done().items():
            self.findings.count(what, amount)

    # ---- the end

    def end(self) -> None:
        for watch in self.watches:
            watch.ask_to_end()
        deadline = time.monotonic() + END_S
        while not all(watch.is_over() for watch in self.watches):
            self.tick()
            if time.monotonic() > deadline or any(watch.stuck for watch in self.watches):
                self.findings.violation("not ended", f"jobs are not over after {END_S} s", time.monotonic())
                break
        self.tick()
        for watch in self.watches:
            self.add_work(watch)
        self.check_memory_is_free()
        self.end_services("server-", promises.DRAIN_S + 5)
        self.end_services("scheduler-", 15.0)
        self.findings.check_judged(time.monotonic())
        self.findings.count("processes whose memory was judged", self.memory.judged())
        self.findings.count("processes", len(self.memory.samples))
        for line in self.memory.grown():
            if line.startswith("etcd-") and ETCD_MEMORY in self.without:
                continue
            self.findings.violation("memory", line, time.monotonic())

    def check_memory_is_free(self) -> None:
        """Servers have no group open, and the scheduler knows of none."""
        deadline = time.monotonic() + FREE_S
        while True:
            wrong = self.what_is_not_free()
            if not wrong or time.monotonic() > deadline:
                break
            self.tick()
        for line in wrong:
            self.findings.violation("not freed", line, time.monotonic())

    def what_is_not_free(self) -> list[str]:
        try:
            [servers] = self.cluster.shoalctl("servers")
            [jobs] = self.cluster.shoalctl("jobs")
        except (RuntimeError, ValueError) as error:
            return [f"shoalctl: {error}"]
        wrong = []
        for server in servers.get("servers", []):
            load = server.get("load", {})
            for what in ("groups_open", "slot_memory_used_bytes"):
                if server["state"] == "live" and int(load.get(what, 0)):
                    wrong.append(f"{server['name']} has {what} {load[what]} after all jobs have ended")
        if CLOSED_GROUPS not in self.without:
            for job in jobs.get("jobs", []):
                if groups := job.get("groups", []):
                    whose = f"job {job['name']} ({job['state']})"
                    wrong.append(f"the scheduler has {len(groups)} groups of {whose}, all closed")
        return wrong

    def end_services(self, prefix: str, patience_s: float) -> None:
        names = [name for name in self.cluster.running if name.startswith(prefix) and "/" not in name]
        for name in names:
            self.cluster.signal(name, signal.SIGTERM)
        deadline = time.monotonic() + patience_s
        for name in names:
            process = self.cluster.running[name].process
            while process.running() and time.monotonic() < deadline:
                time.sleep(TICK_S)
            code = process.process.returncode
            if code != 0:
                tail = self.cluster.running[name].tail(4)
                state = f"did not end within {patience_s:.0f} s of SIGTERM" if code is None else f"ended with {code}"
                self.findings.violation("not ended", f"{name} {state}:\n{tail}", time.monotonic())
            self.cluster.forget(name)

    def outcome(self, wall_s: float, cpu_s: float) -> Outcome:
        incidents = [
            dataclasses.replace(each, began=each.began - self.findings.t0, mended=each.mended - self.findings.t0)
            for each in self.world.incidents
        ]
        return Outcome(
            self.schedule, incidents, self.findings.violations, self.findings.allowed, dict(self.findings.counts),
            self.memory.summary(), self.findings.longest_pause_s, self.findings.longest_after_kill_s,
            dict(self.findings.pauses), self.void, self.moves.total, wall_s, cpu_s, self.worst_noise_s,
        )  # fmt: skip


def short(fault: Fault) -> str:
    path = f" - {fault.peer}" if fault.peer else ""
    amount = f" {fault.amount:g} {KINDS[fault.kind].unit}" if KINDS[fault.kind].unit else ""
    return f"{fault.kind} {fault.target}{path}{amount}, {fault.for_s:.2f} s"


def cpu_seconds() -> float:
    """Of this process and of all that it started and that has ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


@contextlib.contextmanager
def ignoring_signals():
    """While all is cleaned up: a second Ctrl-C would leave half of it."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
