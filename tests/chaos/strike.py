"""Does a fault to a cluster, and makes it good again. Which fault, when: experiment.py."""

import signal
import subprocess

from chaos.chaos_cluster import CONTROL_PORTS, ChaosCluster
from chaos.fault import OPEN_RANK_GONE, Fault
from chaos.shape import SERVER_JOINS_LATER

TERM_PATIENCE_S = 20.0  # --drain-timeout, and to spare
SERVER_PATIENCE_S = 60.0


class Strike:
    """One fault under way. `begin` and `mend` return at once; `done` says when it is made good."""

    def __init__(self, cluster: ChaosCluster, fault: Fault):
        self.cluster, self.fault = cluster, fault
        self.asking: subprocess.Popen | None = None
        self.restarted = False
        self.struck = cluster.running.get(fault.target)
        self.wrong: dict = {}

    def begin(self) -> bool:
        """False if there is nothing that it could be done to (the process is gone already)."""
        fault, links, cluster = self.fault, self.cluster.links, self.cluster
        if is_of_process(fault) and not cluster.is_up(fault.target):
            return False
        match fault.kind:
            case "node-silent":
                links.silence(fault.target, True)
            case "node-pulled":
                links.pull(fault.target, True)
            case "node-deaf" | "node-mute" | "path-silent" | "path-one-way":
                for sender, receiver in self.ways():
                    links.block(sender, receiver, True)
            case "link-slow":
                links.slow(fault.target, fault.amount, True)
            case "link-loss" | "link-delay" | "link-reorder" | "link-duplicate" | "link-corrupt" | "payload-corrupt":
                self.wrong = {"kind": fault.kind, "amount": fault.amount}
                if fault.kind == "payload-corrupt":
                    self.wrong["control_ports"] = CONTROL_PORTS
                links.impair(fault.target, self.wrong, True)
            case "server-stop" | "scheduler-stop" | "etcd-stop" | "rank-stop" | "open-rank-stop":
                cluster.signal(fault.target, signal.SIGSTOP)
            case "server-kill" | "scheduler-kill" | "etcd-kill" | "rank-kill" | "open-rank-kill":
                cluster.signal(fault.target, signal.SIGKILL)
            case "server-term" | "scheduler-term" | "rank-term" | "open-rank-leave":
                cluster.signal(fault.target, signal.SIGTERM)
            case "server-drain":
                self.asking = cluster.ask("drain", fault.target)
            case "job-restart":
                for rank in cluster.shape.job(fault.target).ranks:
                    cluster.signal(cluster.shape.job(fault.target).rank_name(rank), signal.SIGKILL)
            case "clock-jump":
                cluster.clocks.jump(fault.target, fault.amount)
            case "disk-full":
                cluster.disks[fault.target].fill()
        return True

    def ways(self) -> list[tuple[str, str]]:
        """That are blocked: from, to."""
        target, peer = self.fault.target, self.fault.peer
        others = [node for node in self.cluster.shape.nodes if node != target]
        match self.fault.kind:
            case "node-deaf":
                return [(other, target) for other in others]
            case "node-mute":
                return [(target, other) for other in others]
            case "path-silent":
                return [(target, peer), (peer, target)]
            case _:
                return [(target, peer)]

    def mend(self) -> None:
        fault, links, cluster = self.fault, self.cluster.links, self.cluster
        match fault.kind:
            case "node-silent":
                links.silence(fault.target, False)
            case "node-pulled":
                links.pull(fault.target, False)
            case "node-deaf" | "node-mute" | "path-silent" | "path-one-way":
                for sender, receiver in self.ways():
                    links.block(sender, receiver, False)
            case "link-slow":
                links.slow(fault.target, fault.amount, False)
            case "link-loss" | "link-delay" | "link-reorder" | "link-duplicate" | "link-corrupt" | "payload-corrupt":
                links.impair(fault.target, self.wrong, False)
            case "server-stop" | "scheduler-stop" | "etcd-stop" | "rank-stop" | "open-rank-stop":
                cluster.signal(fault.target, signal.SIGCONT)
            case "clock-jump":
                cluster.clocks.jump(fault.target, -fault.amount)
            case "disk-full":
                cluster.disks[fault.target].make_room()

    def done(self) -> bool:
        """Asked after mend(), again and again: whether all is as before. Starts what was ended as soon as it can."""
        fault, cluster = self.fault, self.cluster
        if self.asking is not None and not self.was_heard():
            return False
        if fault.kind in ("server-kill", "server-term", "server-drain", SERVER_JOINS_LATER):
            return self.back(cluster.start_server, r"listening on")
        if fault.kind in ("scheduler-kill", "scheduler-term"):
            return self.back(cluster.start_scheduler, r"listening on")
        if fault.kind == "etcd-kill":
            return self.back(cluster.start_etcd, None)
        if fault.kind in OPEN_RANK_GONE:
            return self.back(cluster.start_open_rank, None)
        if fault.kind == "disk-full" and cluster.shape.has_etcd:
            etcd = cluster.shape.etcd_on(fault.target)
            if not cluster.running[etcd].process.running():
                cluster.start_etcd(etcd)
        return True

    def was_heard(self) -> bool:
        """Whether the scheduler took the order to drain; asks again if it could not be reached."""
        if self.asking.poll() is None:
            return False
        failed = self.asking.returncode != 0
        self.asking.stderr.close()
        self.asking = self.cluster.ask("drain", self.fault.target) if failed else None
        return not failed

    def back(self, start, says: str | None) -> bool:
        running = self.cluster.running.get(self.fault.target)
        # A process that is killed while it ends in good order is started again once, by whichever fault is over first.
        self.restarted = self.restarted or (running is not None and running is not self.struck)
        if not self.restarted:
            if running is not None and running.process.running():
                return False  # it is still ending in good order
            start(self.fault.target)
            self.restarted = True
            return False
        return says is None or (running is not None and says in running.process.output)


def is_of_process(fault: Fault) -> bool:
    of_process = fault.kind.startswith(("server-", "scheduler-", "etcd-", "rank-", "open-rank-"))
    return of_process and fault.kind != SERVER_JOINS_LATER
