"""What happens to the chart's release on real nodes."""

import dataclasses
import json
import re
import time
from collections.abc import Callable
from typing import TypeVar

import yaml
from acceptance import see_doctor, see_perf
from doors import make_namespace, see_closed_doors
from lab import PATIENCE_S, Lab, LabError, is_ready, restarts, wait_until
from release import (
    DRAIN_S,
    ETCD,
    NAMESPACE,
    OF_RELEASE,
    OTHER_SCHEDULER_VALUES,
    OTHER_SERVER_VALUES,
    RELEASE,
    SCHEDULERS,
    SCHEDULERS_WANTED,
    SERVERS,
    Release,
    Wanted,
    objects_of_release,
)
from training_job import Job

STEPS_MEANWHILE = 20  # of the job, after each of the things that are done, before the next
STEPS_WITHOUT_SCHEDULER = 1000  # some 40 s: many leases
COMPUTE_MS = 30
# The old servers wait for the job, and then end; Kubernetes tries to make pods of the same names after pauses that
# double, so at most after twice as long; and the new ones start.
NEW_SERVERS_WITHIN_S = 2 * (DRAIN_S + 15) + 30
# A job that waits for no longer than this goes on by itself; if not, it is started again.
JOB_GOES_ON_WITHIN_S = 30.0
SERVED_AGAIN_WITHIN_S = NEW_SERVERS_WITHIN_S + JOB_GOES_ON_WITHIN_S + 90


Outcome = TypeVar("Outcome")


@dataclasses.dataclass
class Event:
    what: str
    began: float  # Unix time, in seconds
    took_s: float
    ended: float = 0.0  # when the job had gone on for a while


class Walk(Release):
    """One cluster with the chart, a job, and what happens to them."""

    def __init__(self, lab: Lab):
        super().__init__(lab)
        self.job: Job | None = None
        self.events: list[Event] = []

    def do(self, what: str, action: Callable[[], Outcome]) -> Outcome:
        """Does it, and lets the job go on for some steps. What it found."""
        began = time.time()
        outcome = action()
        event = Event(what, began, time.time() - began)
        if self.job is not None:
            self.job.wait_for_steps(self.job.steps_done() + STEPS_MEANWHILE)
        event.ended = time.time()
        self.events.append(event)
        print(f"    {what}: {event.took_s:.1f} s", flush=True)
        return outcome

    def bytes_from_ranks(self) -> dict[str, int]:
        """By server: payload that has landed since it was started."""
        landed = {}
        for name, pod in self.lab.pods(SERVERS).items():
            page = self.lab.inside("curl", "-fsS", f"http://{pod['status']['podIP']}:9471/metrics")
            [value] = re.findall(r"^shoal_server_received_bytes_total (\S+)$", page, re.MULTILINE)
            landed[name] = int(float(value))
        return landed

    def see_servers_at_work(self) -> None:
        """That the job's data goes through all of them."""
        before = self.bytes_from_ranks()

        def have_all_more() -> bool:
            return all(landed > before[name] for name, landed in self.bytes_from_ranks().items())

        wait_until("all servers have got more of the job's data", have_all_more, 60)

    def kill_server(self, name: str) -> None:
        before = restarts(self.lab.pods(SERVERS)[name])
        self.lab.inside("pkill", "-KILL", "-f", "--", f"^shoal-server .*--name={name} ")
        wait_until(f"{name} was started again", lambda: restarts(self.lab.pods(SERVERS)[name]) > before)
        self.wait_for_servers(3)

    def evict_server(self, name: str) -> None:
        before = self.lab.pods(SERVERS)[name]["metadata"]["uid"]
        self.lab.evict_when_allowed(name)

        def is_replaced() -> bool:
            pod = self.lab.pods(SERVERS).get(name)
            return pod is not None and pod["metadata"]["uid"] != before

        wait_until(f"{name} is another pod", is_replaced)
        self.wait_for_servers(3)

    def pods_on(self, node: str) -> list[str]:
        pods = {**self.lab.pods(SERVERS), **self.lab.pods(SCHEDULERS)}
        return [name for name, pod in pods.items() if pod["spec"].get("nodeName") == node]

    def drain_node(self, node: str) -> None:
        before = self.pods_on(node)
        if not any("-server-" in name for name in before):
            raise LabError(f"no server was on {node}, only {before}: to drain it shows nothing")
        self.lab.kubectl("drain", node, "--ignore-daemonsets", "--timeout=240s")
        self.wait_for_servers(3)
        if left := self.pods_on(node):
            raise LabError(f"{', '.join(left)} are still on {node}, which was drained")

    def leading_scheduler(self) -> str:
        """Empty while none says so."""
        for name, pod in self.lab.pods(SCHEDULERS).items():
            if "podIP" in pod["status"] and is_ready(pod):
                try:
                    page = self.lab.inside("curl", "-fsS", f"http://{pod['status']['podIP']}:9470/metrics")
                except LabError:  # it has just been killed
                    continue
                if re.search(r"^shoal_scheduler_leads 1$", page, re.MULTILINE):
                    return name
        return ""

    def kill_leader(self) -> None:
        leader = self.leading_scheduler()
        if not leader:
            raise LabError("no scheduler says that it leads")
        pod = self.lab.pods(SCHEDULERS)[leader]
        address, before = pod["status"]["podIP"], restarts(pod)
        self.lab.inside("pkill", "-KILL", "-f", "--", f"^shoal-scheduler .*--advertise={re.escape(address)}:7070 ")
        wait_until(f"{leader} was started again", lambda: restarts(self.lab.pods(SCHEDULERS)[leader]) > before)
        wait_until("a scheduler leads again", lambda: self.leading_scheduler() != "", 60)  # it may be the same
        self.wait_for_servers(3)

    def see_page(self) -> None:
        """Through the Service, from inside the cluster."""
        address = f"http://{RELEASE}-scheduler.{NAMESPACE}.svc.cluster.local:9470"
        if "<title>" not in self.lab.inside("curl", "-fsS", f"{address}/"):
            raise LabError("the page has no title")
        document = json.loads(self.lab.inside("curl", "-fsS", f"{address}/cluster.json"))
        seen = sorted(each["name"] for each in document["servers"] if each["state"] == "live")
        if seen != sorted(self.lab.pods(SERVERS)):
            raise LabError(f"the page shows the servers {seen}")

    def addresses_of(self, name: str) -> set[str]:
        """As the cluster's DNS knows them."""
        said = self.lab.inside("getent", "ahostsv4", f"{name}.{NAMESPACE}.svc.cluster.local")
        return {line.split()[0] for line in said.splitlines()}

    def see_names(self) -> None:
        """Of the headless Services: that of all schedulers, by which members find them, and one for each server."""
        expected = {f"{name}.{RELEASE}-server": [pod] for name, pod in self.lab.pods(SERVERS).items()}
        expected[f"{RELEASE}-scheduler-all"] = list(self.lab.pods(SCHEDULERS).values())
        for name, pods in expected.items():
            wanted = {pod["status"]["podIP"] for pod in pods}
            if (found := self.addresses_of(name)) != wanted:
                raise LabError(f"the name {name} has the addresses {found}, its pods have {wanted}")

    def upgrade_on_delete(self, tag: str) -> None:
        """With OnDelete an upgrade replaces no server until its pod is deleted."""
        before = self.lab.pods(SERVERS)
        settings = self.settings()[SERVERS]
        wanted = Wanted(tag, server_values=OTHER_SERVER_VALUES | {"updateStrategy": "OnDelete"})
        self.upgrade(wanted)

        def is_seen() -> bool:
            [statefulset] = self.lab.objects("statefulsets", SERVERS)
            status = statefulset["status"]
            is_current = status["observedGeneration"] == statefulset["metadata"]["generation"]
            return is_current and status["updateRevision"] != status["currentRevision"]

        wait_until("Kubernetes has seen that the StatefulSet of the servers was changed", is_seen)
        if replaced := [name for name, pod in self.lab.pods(SERVERS).items() if not is_same(pod, before[name])]:
            raise LabError(f"with updateStrategy OnDelete the upgrade replaced {replaced}")
        deleted = f"{RELEASE}-server-0"
        self.lab.kubectl("delete", "pod", deleted)
        self.expect(wanted)
        for name, now in self.settings_of_pods(SERVERS).items():
            if (now == settings) == (name == deleted):
                raise LabError(f"{deleted} alone was deleted and is to have others than {settings}; {name} has {now}")

    def let_another_lead(self, name: str) -> None:
        if self.leading_scheduler() == name:
            self.lab.kubectl("delete", "pod", name)
            wait_until(f"another scheduler than {name} leads", lambda: self.leading_scheduler() not in ("", name), 60)
            self.wait_for_schedulers(SCHEDULERS_WANTED)

    def change_schedulers(self, wanted: Wanted) -> None:
        """The first one stays, and is not started again; where others are taken away, one of them leads."""
        stays = f"{RELEASE}-scheduler-0"
        if wanted.schedulers < SCHEDULERS_WANTED:
            self.let_another_lead(stays)
        before = self.lab.pods(SCHEDULERS)[stays]
        self.upgrade(wanted)
        if not is_same(self.lab.pods(SCHEDULERS)[stays], before):
            raise LabError(f"{stays} was started again, although others came or went: see its StatefulSet's template")
        wait_until("a scheduler says that it leads", lambda: self.leading_scheduler() != "", 60)

    def be_without_schedulers(self) -> None:
        """Meanwhile the job goes on, and servers stay ready."""
        statefulset = f"statefulset/{RELEASE}-scheduler"
        before = self.lab.pods(SERVERS)
        self.lab.kubectl("scale", statefulset, "--replicas=0")
        wait_until("no scheduler is left", lambda: not self.lab.pods(SCHEDULERS))
        if self.job is not None:
            self.job.wait_for_steps(self.job.steps_done() + STEPS_WITHOUT_SCHEDULER)
        for name, pod in self.lab.pods(SERVERS).items():
            self.lab.inside("curl", "-fsS", f"http://{pod['status']['podIP']}:9471/readyz")
            if not is_ready(pod) or not is_same(pod, before[name]):
                raise LabError(f"{name} is not ready, or was started again, while no scheduler was there: see its log")
        self.lab.kubectl("scale", statefulset, f"--replicas={SCHEDULERS_WANTED}")
        self.wait_for_schedulers(SCHEDULERS_WANTED)
        self.wait_for_servers(len(before))

    def reinstall_under_job(self, tag: str, trainer: str) -> dict:
        """An uninstall under a running job, and at once a new installation of the same name: when that serves the job,
        which is started again if it does not go on."""
        job = Job(self.lab, "again", trainer, "--until=/tmp/stop", f"--compute-ms={COMPUTE_MS}")
        job.wait_for_start()
        began = time.monotonic()
        self.lab.helm("uninstall", RELEASE)
        self.install(Wanted(tag))
        servers_s = time.monotonic() - began
        went_on, why = job.goes_on(STEPS_MEANWHILE, JOB_GOES_ON_WITHIN_S)
        if not went_on:
            print(f"    job {job.name} does not go on, and is started again: {why}", flush=True)
            job.start_again()
            job.wait_for_steps(STEPS_MEANWHILE)
        served_s = time.monotonic() - began
        for what, took_s, most_s in (
            ("has three live servers", servers_s, NEW_SERVERS_WITHIN_S),
            ("serves the job", served_s, SERVED_AGAIN_WITHIN_S),
        ):
            if took_s > most_s:
                raise LabError(
                    f"a new installation {what} {took_s:.0f} s after the uninstall of the old one, not within"
                    f" {most_s:.0f}: see how long the old servers waited (`kubectl get events`), and the new ones' logs"
                )
        job.stop()
        job.finish(PATIENCE_S)
        return {
            "drain_timeout_s": DRAIN_S,
            "servers_live_s": round(servers_s, 1),
            "job_served_s": round(served_s, 1),
            "job_went_on": went_on,
            "servers_live_within_s": NEW_SERVERS_WITHIN_S,
            "job_served_within_s": SERVED_AGAIN_WITHIN_S,
        }

    def uninstall(self) -> None:
        """All that may stay is the pod of the last `helm test`, which Helm keeps for its log, as the chart's notes say.
        A drain may have taken it."""
        self.lab.helm("uninstall", RELEASE, "--wait", "--timeout=3m")
        kept = f"pod/{RELEASE}-status"
        wait_until("the release's pods are gone", lambda: set(self.lab.pods(OF_RELEASE)) <= {f"{RELEASE}-status"})
        if left := set(objects_of_release(self.lab)) - {kept}:
            raise LabError(f"the release has left {', '.join(sorted(left))}")
        self.lab.kubectl("delete", kept, "--ignore-not-found")


def is_same(pod: dict, before: dict) -> bool:
    """Neither replaced nor started again."""
    return pod["metadata"]["uid"] == before["metadata"]["uid"] and restarts(pod) == restarts(before)


def on_real_nodes(lab: Lab, tree: str, other: str, server: str, trainer: str) -> dict:
    """`tree`, `other`: tags of the two builds. `server`, `trainer`: images of the first."""
    make_namespace(lab, NAMESPACE)
    walk = Walk(lab)
    with_own_values(walk, tree, other, trainer)
    wanted = Wanted(tree)
    lab.apply([each for each in yaml.safe_load_all(ETCD) if each])
    walk.do("an etcd of three members", lambda: lab.kubectl("rollout", "status", "statefulset/etcd", "--timeout=280s"))
    walk.do("`helm install --wait`: three schedulers, three servers", lambda: walk.install(wanted))
    walk.do("`helm test`", lambda: lab.helm("test", RELEASE, "--logs"))
    walk.do(
        "strangers and pods that are not restricted are refused",
        lambda: see_closed_doors(lab, f"{RELEASE}-scheduler-0", server),
    )
    walk.do("names of schedulers and servers", walk.see_names)
    doctor = walk.do("`shoalctl doctor --bandwidth` in a pod", lambda: see_doctor(lab, server, wanted.servers))
    perf = walk.do("`shoal-perf` with two ranks in two pods", lambda: see_perf(lab, server, wanted.servers))
    job = Job(lab, "train", trainer, "--until=/tmp/stop", f"--compute-ms={COMPUTE_MS}")
    walk.do("a Job of four pods trains", job.wait_for_start)
    walk.job = job
    break_it(walk)
    change_it(walk, wanted, Wanted(other, server_values=OTHER_SERVER_VALUES, scheduler_values=OTHER_SCHEDULER_VALUES))
    job.stop()
    steps, digest, count = job.finish(PATIENCE_S)
    walk.job = None
    undisturbed = Job(lab, "undisturbed", trainer, f"--steps={count}")
    _, expected, _ = undisturbed.finish(PATIENCE_S + 2 * (steps[-1].ended - steps[0].ended))
    if digest != expected:
        raise LabError(f"after {count} steps the parameters have the digest {digest}; undisturbed it is {expected}")
    reinstalled = walk.do(
        "`helm uninstall` under another job, and at once `helm install --wait`, until it is served",
        lambda: walk.reinstall_under_job(tree, trainer),
    )
    walk.do("`helm uninstall`", walk.uninstall)
    return {
        "steps": count,
        "digest": digest,
        "doctor": doctor,
        "perf": perf,
        "reinstalled": reinstalled,
        "events": [
            {
                "what": event.what,
                "took_s": round(event.took_s, 1),
                "steps": len(meanwhile := [step for step in steps if event.began <= step.ended <= event.ended]),
                "longest_step_s": max((step.took_s for step in meanwhile), default=None),
            }
            for event in walk.events
        ],
    }


def with_own_values(walk: Walk, tree: str, other: str, trainer: str) -> None:
    """Before there is an etcd, with a job of its own."""
    walk.do(
        "`helm install --wait` of servers whose image is missing fails; `helm uninstall`",
        lambda: walk.install_missing_image(tree),
    )
    walk.do(
        "`helm install --wait` with the chart's own values: one scheduler with a volume, two servers",
        lambda: walk.install_with_own_values(tree),
    )
    job = Job(walk.lab, "first", trainer, "--until=/tmp/stop", f"--compute-ms={COMPUTE_MS}")
    walk.do("another Job of four pods trains", job.wait_for_start)
    walk.job = job
    walk.do(
        f"`helm upgrade` to the build of {other}, of the scheduler and both servers",
        lambda: walk.upgrade_build_with_own_values(other),
    )
    walk.do("`helm rollback`", lambda: walk.rollback_own_values(tree))
    walk.do("`helm upgrade` to a scheduler's image that is missing fails", walk.mistype_scheduler)
    walk.do("`helm rollback` from it", lambda: walk.rollback_own_values(tree))
    job.stop()
    job.finish(PATIENCE_S)
    walk.job = None
    walk.do(
        "another size of the volume: `kubectl delete statefulset --cascade=orphan`, `helm upgrade`",
        walk.change_volume,
    )
    walk.do("no volume any more: `kubectl delete statefulset`, `helm upgrade`", walk.turn_volume_off)
    walk.do("`helm uninstall`, and the volume is deleted", walk.remove_with_volume)


def break_it(walk: Walk) -> None:
    walk.do("the page is seen through the Service", walk.see_page)
    walk.do("all three servers get the job's data", walk.see_servers_at_work)
    walk.do("SIGKILL of a server", lambda: walk.kill_server("shoal-server-1"))
    walk.do("eviction of a server", lambda: walk.evict_server("shoal-server-2"))
    walk.do("`kubectl drain` of node2", lambda: walk.drain_node("node2"))
    walk.do("`kubectl uncordon` of node2", lambda: walk.lab.kubectl("uncordon", "node2"))


def change_it(walk: Walk, wanted: Wanted, other: Wanted) -> None:
    """From `wanted`, which is installed, and back to it each time: with its arguments and environment, too."""
    settings = walk.settings()

    def upgrade(to: Wanted) -> None:
        walk.upgrade(to)
        if to is other:
            walk.expect_other_settings(settings)
        else:
            walk.expect_settings(settings)

    more, fewer = dataclasses.replace(wanted, servers=5), dataclasses.replace(wanted, servers=2)
    one_scheduler = dataclasses.replace(wanted, schedulers=1)
    walk.do(f"`helm upgrade` to the build of {other.tag}, with other arguments", lambda: upgrade(other))
    walk.do("`helm rollback`", lambda: walk.rollback(wanted, settings))
    walk.do("`helm upgrade`: 5 servers", lambda: upgrade(more))
    walk.do("`helm upgrade`: 2 servers", lambda: upgrade(fewer))
    walk.do("`helm upgrade`: 3 servers", lambda: upgrade(wanted))
    walk.do("`helm upgrade` to an image that is missing fails", lambda: walk.upgrade_to_missing_image(wanted.tag))
    walk.do("`helm rollback` from it", lambda: walk.rollback(wanted, settings))
    walk.do("`helm upgrade` with `OnDelete`, and a server is deleted", lambda: walk.upgrade_on_delete(wanted.tag))
    walk.do("`helm upgrade` with `RollingUpdate`", lambda: upgrade(wanted))
    walk.do("SIGKILL of the leading scheduler", walk.kill_leader)
    walk.do("`helm upgrade`: 1 scheduler", lambda: walk.change_schedulers(one_scheduler))
    walk.do("`helm upgrade`: 3 schedulers", lambda: walk.change_schedulers(wanted))
    walk.do("no scheduler for a while: `kubectl scale`", walk.be_without_schedulers)
