"""What happens to the chart's release on real and on simulated nodes."""

import dataclasses
import json
import re
import time
from collections.abc import Callable

import yaml
from lab import CHART, ROOT, Lab, LabError, is_ready, restarts, wait_until
from training_job import Job

NAMESPACE = "training"
RELEASE = "shoal"
OF_RELEASE = f"app.kubernetes.io/instance={RELEASE}"
SERVERS = f"{OF_RELEASE},app.kubernetes.io/component=server"
SCHEDULERS = f"{OF_RELEASE},app.kubernetes.io/component=scheduler"
STORE = "etcd://etcd-0.etcd:2379,etcd-1.etcd:2379,etcd-2.etcd:2379/shoal"
STEPS_MEANWHILE = 20  # of the job, after each of the things that are done, before the next
COMPUTE_MS = 30
KINDS_LEFT = "statefulsets,pods,services,configmaps,serviceaccounts,poddisruptionbudgets,persistentvolumeclaims,secrets"


@dataclasses.dataclass
class Event:
    what: str
    began: float  # Unix time, in seconds
    took_s: float
    ended: float = 0.0  # when the job had gone on for a while


class Walk:
    """One cluster with the chart, a job, and what happens to them."""

    def __init__(self, lab: Lab, image: str):
        self.lab, self.image = lab, image
        self.job: Job | None = None
        self.events: list[Event] = []

    def do(self, what: str, action: Callable[[], object]) -> None:
        """Does it, and lets the job go on for some steps."""
        began = time.time()
        action()
        event = Event(what, began, time.time() - began)
        if self.job is not None:
            self.job.wait_for_steps(self.job.steps_done() + STEPS_MEANWHILE)
        event.ended = time.time()
        self.events.append(event)
        print(f"    {what}: {event.took_s:.1f} s", flush=True)

    # -- the chart

    def values(self, tag: str, servers: int) -> list[str]:
        chosen = {
            "scheduler.replicas": 3,
            "scheduler.store": STORE.replace(",", r"\,"),
            "scheduler.resources.requests.cpu": "50m",
            "scheduler.image.tag": tag,
            "server.replicas": servers,
            "server.image.tag": tag,
            "server.resources.requests.cpu": "100m",
            "server.resources.requests.memory": "512Mi",
            "server.drainTimeoutSeconds": 30,
        }
        words = []
        for name, value in chosen.items():
            words += ["--set-string" if name.endswith("tag") else "--set", f"{name}={value}"]
        return words

    def install(self, tag: str) -> None:
        self.lab.helm("install", RELEASE, CHART, "--wait", "--timeout=5m", *self.values(tag, 3), seconds=330)
        self.wait_for_servers(3)

    def upgrade(self, tag: str, servers: int) -> None:
        self.lab.helm("upgrade", RELEASE, CHART, "--wait", "--timeout=8m", *self.values(tag, servers), seconds=500)
        self.wait_for_servers(servers)
        self.expect_image(tag)

    def rollback(self, tag: str) -> None:
        self.lab.helm("rollback", RELEASE, "--wait", "--timeout=8m", seconds=500)
        self.wait_for_servers(3)
        self.expect_image(tag)

    def expect_image(self, tag: str) -> None:
        for selector in (SERVERS, SCHEDULERS):
            for name, pod in self.lab.pods(selector).items():
                image = pod["spec"]["containers"][0]["image"]
                if not image.endswith(f":{tag}"):
                    raise LabError(f"pod {name} runs {image}, not the build {tag}")

    def wait_for_servers(self, count: int) -> None:
        """That so many are ready, and that the scheduler has just those live."""

        def are_there() -> bool:
            pods = self.lab.pods(SERVERS)
            if len(pods) != count or not all(is_ready(pod) for pod in pods.values()):
                return False
            live = [each["name"] for each in self.servers() if each["state"] == "live"]
            return sorted(live) == sorted(pods)

        wait_until(f"{count} servers are ready and live", are_there)

    def servers(self) -> list[dict]:
        """As the scheduler knows them; empty while none answers."""
        for name, pod in self.lab.pods(SCHEDULERS).items():
            if is_ready(pod):
                try:
                    shoalctl = ("shoalctl", "--scheduler=127.0.0.1:7070", "servers", "--json")
                    return json.loads(self.lab.kubectl("exec", name, "--", *shoalctl))["servers"]
                except LabError:
                    continue
        return []

    # -- what happens

    def kill_server(self, name: str) -> None:
        before = restarts(self.lab.pods(SERVERS)[name])
        self.lab.inside("pkill", "-KILL", "-f", "--", f"^shoal-server .*--name={name} ")
        wait_until(f"{name} was started again", lambda: restarts(self.lab.pods(SERVERS)[name]) > before)
        self.wait_for_servers(3)

    def evict_server(self, name: str) -> None:
        before = self.lab.pods(SERVERS)[name]["metadata"]["uid"]
        self.lab.evict(name)

        def is_replaced() -> bool:
            pod = self.lab.pods(SERVERS).get(name)
            return pod is not None and pod["metadata"]["uid"] != before

        wait_until(f"{name} is another pod", is_replaced)
        self.wait_for_servers(3)

    def drain_node(self, name: str) -> None:
        self.lab.kubectl("drain", name, "--ignore-daemonsets", "--timeout=240s")
        self.wait_for_servers(3)
        for selector in (SERVERS, SCHEDULERS):
            left = [pod for pod, each in self.lab.pods(selector).items() if each["spec"].get("nodeName") == name]
            if left:
                raise LabError(f"{', '.join(left)} are still on {name}, which was drained")

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
        address = self.lab.pods(SCHEDULERS)[leader]["status"]["podIP"]
        self.lab.inside("pkill", "-KILL", "-f", "--", f"^shoal-scheduler .*--advertise={re.escape(address)}:7070 ")
        wait_until("another scheduler leads", lambda: self.leading_scheduler() not in ("", leader), 60)
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

    def uninstall(self) -> None:
        self.lab.helm("uninstall", RELEASE, "--wait", "--timeout=3m")
        wait_until("the release's pods are gone", lambda: not self.lab.pods(OF_RELEASE))
        left = [f"{each['kind']} {each['metadata']['name']}" for each in self.lab.objects(KINDS_LEFT, OF_RELEASE)]
        if left:
            raise LabError(f"the release has left {', '.join(left)}")


def on_real_nodes(lab: Lab, tree: str, other: str, trainer: str) -> dict:
    lab.kubectl("create", "namespace", NAMESPACE)
    lab.namespace = NAMESPACE
    lab.apply([each for each in yaml.safe_load_all((ROOT / "examples/kubernetes/etcd.yaml").read_text()) if each])
    walk = Walk(lab, trainer)
    walk.do("an etcd of three members", lambda: lab.kubectl("rollout", "status", "statefulset/etcd", "--timeout=280s"))
    walk.do("`helm install --wait`: three schedulers, three servers", lambda: walk.install(tree))
    walk.do("`helm test`", lambda: lab.helm("test", RELEASE, "--logs"))
    job = Job(lab, "train", trainer, "--until=/tmp/stop", f"--compute-ms={COMPUTE_MS}")
    walk.do("a Job of four pods trains", job.wait_for_start)
    walk.job = job
    walk.do("the page, through the Service", walk.see_page)
    walk.do("SIGKILL of a server", lambda: walk.kill_server("shoal-server-1"))
    walk.do("eviction of a server", lambda: walk.evict_server("shoal-server-2"))
    walk.do("`kubectl drain` of node2", lambda: walk.drain_node("node2"))
    walk.do("`kubectl uncordon` of node2", lambda: lab.kubectl("uncordon", "node2"))
    walk.do(f"`helm upgrade` to the build of {other}", lambda: walk.upgrade(other, 3))
    walk.do("`helm rollback`", lambda: walk.rollback(tree))
    walk.do("`helm upgrade`: 5 servers", lambda: walk.upgrade(tree, 5))
    walk.do("`helm upgrade`: 2 servers", lambda: walk.upgrade(tree, 2))
    walk.do("`helm upgrade`: 3 servers", lambda: walk.upgrade(tree, 3))
    walk.do("SIGKILL of the leading scheduler", walk.kill_leader)
    lab.kubectl("exec", job.pod_of(0), "--", "touch", "/tmp/stop")
    steps, digest, count = job.finish()
    walk.job = None
    undisturbed = Job(lab, "undisturbed", trainer, f"--steps={count}")
    _, expected, _ = undisturbed.finish()
    if digest != expected:
        raise LabError(f"after {count} steps the parameters have the digest {digest}; undisturbed it is {expected}")
    walk.do("`helm uninstall`", walk.uninstall)
    return {
        "steps": count,
        "digest": digest,
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


def on_simulated_nodes(lab: Lab, nodes: int) -> dict:
    """One server on each node; while one has no node, no other may be evicted."""
    lab.kubectl("create", "namespace", NAMESPACE)
    lab.namespace = NAMESPACE
    lab.helm("install", RELEASE, CHART, "--wait", "--timeout=4m", "--set", f"server.replicas={nodes}")
    used = {pod["spec"]["nodeName"] for pod in lab.pods(SERVERS).values()}
    if len(used) != nodes:
        raise LabError(f"{nodes} servers are on {len(used)} nodes")
    names = [node["metadata"]["name"] for node in lab.objects("nodes")]
    lab.kubectl("cordon", *names)
    lab.evict("shoal-server-0")

    def waits_for_a_node() -> bool:
        pod = lab.pods(SERVERS).get("shoal-server-0")
        return pod is not None and pod["status"]["phase"] == "Pending" and "deletionTimestamp" not in pod["metadata"]

    wait_until("the evicted server waits for a node", waits_for_a_node)
    try:
        lab.evict("shoal-server-1")
    except LabError as refusal:
        if "disruption budget" not in str(refusal):
            raise
    else:
        raise LabError("two servers were evicted at once, against the budget")
    lab.kubectl("uncordon", *names)
    wait_until("the server has a node again", lambda: is_ready(lab.pods(SERVERS)["shoal-server-0"]))
    lab.evict("shoal-server-1")
    lab.helm("uninstall", RELEASE, "--wait", "--timeout=3m")
    return {"nodes": nodes, "servers_on_nodes": len(used)}
