"""What is broken at a moment, and whom that concerns: the model that failures and stalls are judged by. Pure.

Times are seconds on one clock. It is fed with what was done to the cluster, not with what the cluster says.
"""

import dataclasses
import functools
import math
import signal
from collections.abc import Sequence

from chaos import promises
from chaos.fault import NETWORK_CUTS, PROCESS_GONE, PROCESS_STOPPED, RANK_GONE, RANK_STOPPED, Fault
from chaos.shape import Job, Shape

# For which a rank may be lost: its process ended, stood still or was not heard (F11), or nobody was there to move its
# group ("Not survived").
REASONS = ("ended", "stopped", "unheard", "not survived")
# A fatal error of its own, a panic, and a bus error at a page of its mapped file that can't be made.
ETCD_CANNOT_WRITE = {1, 2, -signal.SIGBUS}


@dataclasses.dataclass
class Incident:
    """A fault that was done, and when it was made good: a killed process counts until its successor is there."""

    fault: Fault
    began: float
    mended: float = math.inf

    @property
    def kind(self) -> str:
        return self.fault.kind

    @property
    def at_s(self) -> float:
        return self.began

    @property
    def for_s(self) -> float:
        return self.mended - self.began

    def open_at(self, when: float) -> bool:
        return self.began <= when < self.mended

    def touches(self, begin: float, end: float) -> bool:
        return self.began <= end and self.mended >= begin

    def open_within(self, begin: float, end: float) -> float:
        """For how long."""
        return max(0.0, min(self.mended, end) - max(self.began, begin))


class World:
    def __init__(self, shape: Shape):
        self.shape = shape
        self.incidents: list[Incident] = []

    # ---- one moment

    def open_at(self, when: float) -> list[Incident]:
        return [incident for incident in self.incidents if incident.open_at(when)]

    def blocked(self, sender: str, receiver: str, open_now: list[Incident]) -> bool:
        """Whether what one node sends does not arrive at the other."""
        if sender == receiver:
            return False
        return any(blocks(incident.fault, sender, receiver) for incident in open_now)

    def reach(self, one: str, other: str, open_now: list[Incident]) -> bool:
        """Both ways."""
        return not self.blocked(one, other, open_now) and not self.blocked(other, one, open_now)

    def is_up(self, process: str, open_now: list[Incident]) -> bool:
        return not any(
            incident.fault.target == process and incident.kind in PROCESS_GONE | PROCESS_STOPPED
            for incident in open_now
        )

    def queue_s(self, incident: Incident, open_now: list[Incident]) -> float:
        """How long a link that is slow takes for all that jobs may have under way over it, in one direction: an op can
        be the last of that. 0: it is not slow."""
        if incident.kind != "link-slow":
            return 0.0
        node, under_way_bytes = incident.fault.target, 0.0
        for job in self.shape.jobs:
            of_rank = job.most_bytes_under_way
            under_way_bytes += of_rank * sum(1 for each in job.nodes if each == node)
            if node in self.shape.server_nodes:
                servers = len(self.usable_servers(sorted(set(job.nodes)), open_now))
                under_way_bytes += of_rank * len(job.nodes) / max(servers, 1)
        return under_way_bytes * 8 / (incident.fault.amount * 1e6)

    def control_members(self, nodes: list[str], open_now: list[Incident]) -> list[str]:
        """Control nodes whose scheduler (and etcd) run and can save, and which all the nodes reach."""
        full = {incident.fault.target for incident in open_now if incident.kind == "disk-full"}
        found = []
        for node in self.shape.control_nodes:
            number = node.rsplit("-", 1)[1]
            processes = [f"scheduler-{number}"] + ([self.shape.etcd_on(node)] if self.shape.has_etcd else [])
            runs = node not in full and all(self.is_up(process, open_now) for process in processes)
            if runs and all(self.reach(node, other, open_now) for other in nodes):
                found.append(node)
        return found

    def control_works(self, nodes: list[str], open_now: list[Incident]) -> bool:
        """A majority that can save and reaches each other and all the nodes."""
        members = self.control_members(nodes, open_now)
        together = [node for node in members if all(self.reach(node, other, open_now) for other in members)]
        return len(together) > len(self.shape.control_nodes) // 2

    def usable_servers(self, nodes: list[str], open_now: list[Incident]) -> list[str]:
        return [
            server
            for server in self.shape.server_names
            if self.is_up(server, open_now)
            and all(self.reach(node, self.shape.node_of(server), open_now) for node in nodes)
            and self.control_works([self.shape.node_of(server)], open_now)
        ]

    def works_for(self, job: Job, open_now: list[Incident], members: Sequence[int] = ()) -> bool:
        """All parts that a group needs can reach each other: its ranks (none given: all), the control plane, and one
        server unless they are all on one node. In an open job: those of its ranks that it does not go on without."""
        members = members or job.ranks
        if job.is_open:
            members = [rank for rank in members if not self.is_missed(job, rank, open_now)]
        stopped = any(
            incident.kind == "rank-stop" and incident.fault.target.split("/")[0] == job.name for incident in open_now
        )
        nodes = sorted({job.nodes[rank] for rank in members})
        if stopped or not nodes or not self.control_works(nodes, open_now):
            return False
        return not job.needs_servers(members) or bool(self.usable_servers(nodes, open_now))

    def is_missed(self, job: Job, rank: int, open_now: list[Incident]) -> bool:
        """If this lasts for a lease, the rank is lost."""
        gone = any(
            incident.fault.target == job.rank_name(rank) and incident.kind in RANK_STOPPED | {"open-rank-kill"}
            for incident in open_now
        )
        return gone or self.is_missed_by_control(job.nodes[rank], open_now)

    def ends_of(self, process: str) -> tuple[bool, set[int]]:
        """Whether a fault is open that starts the process again when it is mended, and the exit codes that it has by
        such a fault: a signal, its own end in good order, or that of an etcd member which can't write."""
        codes: set[int] = set()
        fault_open = False
        for incident in self.incidents:
            if incident.mended != math.inf:
                continue
            if incident.fault.target == process:
                fault_open = True
                codes |= {0, -signal.SIGKILL}
            elif incident.kind == "disk-full" and process == self.shape.etcd_on(incident.fault.target):
                fault_open = True
                codes |= ETCD_CANNOT_WRITE
        return fault_open, codes

    # ---- a stretch of time

    def moments(self, begin: float, end: float) -> list[float]:
        """Between two of them nothing changes."""
        times = {begin, end}
        for incident in self.incidents:
            times |= {when for when in (incident.began, incident.mended) if begin < when < end}
        return sorted(times)

    def longest(self, begin: float, end: float, holds) -> float:
        """The longest stretch without a break in which holds(open incidents) is true."""
        times = self.moments(begin, end)
        longest = current = 0.0
        for start, stop in zip(times, times[1:]):
            current = current + stop - start if holds(self.open_at(start)) else 0.0
            longest = max(longest, current)
        return longest

    def longest_working(self, job: Job, begin: float, end: float, members: Sequence[int] = ()) -> float:
        return self.longest(begin, end, functools.partial(self.works_for, job, members=members))

    def concerns(self, fault: Fault, job: Job) -> bool:
        """Whether the job may notice."""
        if "/" in fault.target or fault.kind == "job-restart":
            return fault.target.split("/")[0] == job.name
        servers = self.shape.server_names if job.needs_servers(job.ranks) else []
        services = [*servers, *self.shape.scheduler_names, *self.shape.etcd_names]
        needed = {*services, *self.shape.control_nodes, *job.nodes}
        return fault.target in needed and (not fault.peer or fault.peer in needed)

    def concerning(self, job: Job, begin: float, end: float) -> list[Incident]:
        return [
            incident
            for incident in self.incidents
            if incident.touches(begin, end) and self.concerns(incident.fault, job)
        ]

    # ---- who may be called lost

    def lost_ranks(self, job: Job, begin: float, end: float) -> dict[int, str]:
        """Ranks that may be lost in that time, and why: one of REASONS, and what happened."""
        found: dict[int, str] = {}
        for rank in job.ranks:
            reason = self.why_lost(job, rank, begin, end)
            if reason:
                found[rank] = reason
        return found

    def why_lost(self, job: Job, rank: int, begin: float, end: float) -> str:
        harmless_s = promises.harmless_silence_s(self.shape)
        for incident in self.incidents:
            mine = incident.fault.target in (job.rank_name(rank), job.name)
            if mine and incident.kind in RANK_GONE and incident.touches(begin, end):
                return f"ended: {incident.fault}"
            if mine and incident.kind in RANK_STOPPED and incident.open_within(begin, end) > harmless_s:
                return f"stopped: {incident.fault}"
        node = job.nodes[rank]
        has_servers = job.needs_servers(job.ranks)
        if self.longest(begin, end, functools.partial(self.is_missed_by_control, node)) > harmless_s:
            return f"unheard: {node} reached no scheduler"
        no_scheduler = functools.partial(self.broken_and_nobody_leads, node)
        if has_servers and self.is_last_resort(begin, end, no_scheduler):
            return "not survived: a connection was broken, and the scheduler away until servers gave the rank up"
        return ""

    def is_last_resort(self, begin: float, end: float, holds) -> bool:
        """Whether holds(open incidents), by which a server hears no scheduler, is true for so long that the server
        gives absent ranks up. A scheduler that is back is heard when one leads and its members have come to it."""
        longest_s = promises.last_resort_s(self.shape)
        replaced_s = promises.leader_replaced_s(self.shape)
        away_s = max(longest_s - replaced_s, promises.harmless_silence_s(self.shape))
        return self.longest(min(begin, end - longest_s - replaced_s), end, holds) > away_s

    def is_missed_by_control(self, node: str, open_now: list[Incident]) -> bool:
        """F12: a scheduler that hears nobody takes nobody for lost; so others must be heard."""
        if self.control_members([node], open_now):
            return False
        others = [other for other in self.shape.server_nodes + self.shape.worker_names if other != node]
        return any(self.control_works([other], open_now) for other in others)

    def broken_and_nobody_leads(self, node: str, open_now: list[Incident]) -> bool:
        broken = [server for server in self.shape.server_nodes if not self.reach(node, server, open_now)]
        return bool(broken) and not self.control_works([node], open_now)

    def parties_at_fault(self, job: Job, begin: float, end: float) -> set[str]:
        """Words, one of which a message about a failure has: "rank 2", "server-1", "scheduler"."""
        words = {f"rank {rank}" for rank in self.lost_ranks(job, begin, end)}
        for incident in self.concerning(job, begin, end):
            for node in (incident.fault.target, incident.fault.peer):
                if node.startswith("server-"):
                    words.add(node)
                if node.startswith(("control-", "scheduler-", "etcd-")):
                    words.add("scheduler")
                words |= {f"rank {rank}" for rank in job.ranks if node in (job.nodes[rank], job.rank_name(rank))}
        return words


def blocks(fault: Fault, sender: str, receiver: str) -> bool:
    """Whether the fault, while it is open, takes what the sender sends to the receiver."""
    if fault.kind not in NETWORK_CUTS:
        return False
    ends = (sender, receiver)
    if fault.kind in ("node-silent", "node-pulled"):
        return fault.target in ends
    if fault.kind == "node-mute":
        return fault.target == sender
    if fault.kind == "node-deaf":
        return fault.target == receiver
    if fault.kind == "path-silent":
        return set(ends) == {fault.target, fault.peer}
    return ends == (fault.target, fault.peer)
