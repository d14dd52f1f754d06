"""What happens to the chart's release on real and on simulated nodes."""

import dataclasses
import json
import pathlib
import re
import time
from collections.abc import Callable

import yaml
from lab import CHART, OVER_BUDGET, PATIENCE_S, ROOT, WORK, Lab, LabError, is_ready, restarts, wait_until
from training_job import Job

NAMESPACE = "training"
RELEASE = "shoal"
OF_RELEASE = f"app.kubernetes.io/instance={RELEASE}"
SERVERS = f"{OF_RELEASE},app.kubernetes.io/component=server"
SCHEDULERS = f"{OF_RELEASE},app.kubernetes.io/component=scheduler"
ETCD = (ROOT / "examples/kubernetes/etcd.yaml").read_text(encoding="utf-8")
[STORE] = re.findall(r"^#\s+store: (etcd://\S+)$", ETCD, re.MULTILINE)
STEPS_MEANWHILE = 20  # of the job, after each of the things that are done, before the next
COMPUTE_MS = 30
SCHEDULERS_WANTED = 3


@dataclasses.dataclass
class Event:
    what: str
    began: float  # Unix time, in seconds
    took_s: float
    ended: float = 0.0  # when the job had gone on for a while


class Walk:
    """One cluster with the chart, a job, and what happens to them."""

    def __init__(self, lab: Lab):
        self.lab = lab
        self.job: Job | None = None
        self.events: list[Event] = []
        self.builds: dict[str, str] = {}  # by the id of an image, its tag

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

    def values(self, tag: str, servers: int) -> pathlib.Path:
        """A file with the chart's values: little, since the two nodes share two cores."""
        chosen = {
            "networkPolicy": {"enabled": True, "operators": [{"podSelector": {}}]},
            "scheduler": {
                "replicas": SCHEDULERS_WANTED,
                "store": STORE,
                "image": {"tag": tag},
                "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
            },
            "server": {
                "replicas": servers,
                "image": {"tag": tag},
                "resources": {"requests": {"cpu": "100m", "memory": "512Mi"}, "limits": {"memory": "1Gi"}},
                "drainTimeoutSeconds": 30,
            },
        }
        file = WORK / "values.yaml"
        file.write_text(yaml.safe_dump(chosen), encoding="utf-8")
        return file

    def install(self, tag: str) -> None:
        self.lab.helm("install", RELEASE, CHART, "--wait", "--timeout=5m", "--values", self.values(tag, 3), seconds=330)
        self.wait_for_servers(3)
        self.expect_image(tag, 3)

    def install_with_own_values(self, tag: str) -> None:
        """The chart's own ones, but for the build: one scheduler with a volume, and two servers."""
        images = f"scheduler.image.tag={tag},server.image.tag={tag}"
        self.lab.helm("install", RELEASE, CHART, "--wait", "--timeout=5m", "--set", images, seconds=330)
        self.wait_for_servers(2)

    def change_volume(self) -> None:
        """As the chart's README tells: the claim of a StatefulSet can't be changed by an upgrade."""
        [before] = self.lab.pods(SCHEDULERS).values()
        upgrade = ("upgrade", RELEASE, CHART, "--reuse-values", "--wait", "--timeout=5m", "--set")
        try:
            self.lab.helm(*upgrade, "scheduler.persistence.size=2Gi", seconds=330)
        except LabError as error:
            if "Forbidden" not in str(error):
                raise
        else:
            raise LabError("Kubernetes takes another claim now: the chart's README need not tell how to change it")
        self.lab.kubectl("delete", "statefulset", f"{RELEASE}-scheduler", "--cascade=orphan")
        self.lab.helm(*upgrade, "scheduler.persistence.size=2Gi", seconds=330)
        self.wait_for_servers(2)
        [statefulset] = self.lab.objects("statefulsets", SCHEDULERS)
        [claim] = statefulset["spec"]["volumeClaimTemplates"]
        [after] = self.lab.pods(SCHEDULERS).values()
        if claim["spec"]["resources"]["requests"]["storage"] != "2Gi":
            raise LabError("the StatefulSet has the old claim")
        if not is_ready(after) or after["metadata"]["name"] != before["metadata"]["name"]:
            raise LabError(f"the scheduler's pod is {after['metadata']['name']}")

    def remove_with_volume(self) -> None:
        """As the chart's notes tell."""
        self.lab.helm("uninstall", RELEASE, "--wait", "--timeout=3m")
        wait_until("the release's pods are gone", lambda: not self.lab.pods(OF_RELEASE))
        self.lab.kubectl("delete", "pod,pvc", "--selector", OF_RELEASE)
        if left := objects_of_release(self.lab):
            raise LabError(f"the release has left {', '.join(sorted(left))}")

    def upgrade(self, tag: str, servers: int) -> None:
        values = self.values(tag, servers)
        self.lab.helm("upgrade", RELEASE, CHART, "--wait", "--timeout=8m", "--values", values, seconds=500)
        self.wait_for_servers(servers)
        self.expect_image(tag, servers)

    def rollback(self, tag: str) -> None:
        self.lab.helm("rollback", RELEASE, "--wait", "--timeout=8m", seconds=500)
        self.wait_for_servers(3)
        self.expect_image(tag, 3)

    def expect_image(self, tag: str, servers: int) -> None:
        """That all pods run the build `tag`, and that no other build has the same images."""
        for selector, count in ((SERVERS, servers), (SCHEDULERS, SCHEDULERS_WANTED)):
            pods = self.lab.pods(selector)
            if len(pods) != count:
                raise LabError(f"there are {len(pods)} pods of {selector}, not {count}")
            for name, pod in pods.items():
                [container] = pod["status"]["containerStatuses"]
                if not container["image"].endswith(f":{tag}"):
                    raise LabError(f"pod {name} runs {container['image']}, not the build {tag}")
                built = self.builds.setdefault(container["imageID"], tag)
                if built != tag:
                    raise LabError(f"the builds {built} and {tag} have the same image: --other must differ")

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

    def uninstall(self) -> None:
        """All that may stay is the pod of the last `helm test`, which Helm keeps for its log, as the chart's notes say.
        A drain may have taken it."""
        self.lab.helm("uninstall", RELEASE, "--wait", "--timeout=3m")
        kept = f"pod/{RELEASE}-status"
        wait_until("the release's pods are gone", lambda: set(self.lab.pods(OF_RELEASE)) <= {f"{RELEASE}-status"})
        if left := set(objects_of_release(self.lab)) - {kept}:
            raise LabError(f"the release has left {', '.join(sorted(left))}")
        self.lab.kubectl("delete", kept, "--ignore-not-found")


def objects_of_release(lab: Lab) -> list[str]:
    return [name for name in lab.names_of_all_objects() if f"/{RELEASE}-" in name or f".{RELEASE}." in name]


def on_real_nodes(lab: Lab, tree: str, other: str, trainer: str) -> dict:
    lab.kubectl("create", "namespace", NAMESPACE)
    lab.namespace = NAMESPACE
    walk = Walk(lab)
    walk.do(
        "`helm install --wait` with the chart's own values: one scheduler with a volume, two servers",
        lambda: walk.install_with_own_values(tree),
    )
    walk.do(
        "another size of the volume: `kubectl delete statefulset --cascade=orphan`, `helm upgrade`",
        walk.change_volume,
    )
    walk.do("`helm uninstall`, and the volume is deleted", walk.remove_with_volume)
    lab.apply([each for each in yaml.safe_load_all(ETCD) if each])
    walk.do("an etcd of three members", lambda: lab.kubectl("rollout", "status", "statefulset/etcd", "--timeout=280s"))
    walk.do("`helm install --wait`: three schedulers, three servers", lambda: walk.install(tree))
    walk.do("`helm test`", lambda: lab.helm("test", RELEASE, "--logs"))
    job = Job(lab, "train", trainer, "--until=/tmp/stop", f"--compute-ms={COMPUTE_MS}")
    walk.do("a Job of four pods trains", job.wait_for_start)
    walk.job = job
    walk.do("the page is seen through the Service", walk.see_page)
    walk.do("all three servers get the job's data", walk.see_servers_at_work)
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
    steps, digest, count = job.finish(PATIENCE_S)
    walk.job = None
    undisturbed = Job(lab, "undisturbed", trainer, f"--steps={count}")
    _, expected, _ = undisturbed.finish(PATIENCE_S + 2 * (steps[-1].ended - steps[0].ended))
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
    """One server or scheduler on a node, also where half of the nodes are busy; while one of either has no node, no
    other is evicted."""
    lab.apply(busy_pods(nodes // 2))
    lab.kubectl("create", "namespace", NAMESPACE)
    lab.namespace = NAMESPACE
    counts = f"server.replicas={nodes},scheduler.replicas={SCHEDULERS_WANTED},scheduler.store=etcd://etcd:2379/shoal"
    install = ("install", RELEASE, CHART, "--wait", "--timeout=4m", "--set", counts)
    lab.helm(*install, "--set", "server.topologySpread.enabled=false")
    unconstrained = nodes_of(lab, SERVERS)
    if unconstrained == nodes:
        raise LabError("Kubernetes spreads the servers by itself: this shows nothing of the chart's constraint")
    remove_release(lab)
    # The default, ScheduleAnyway, is a wish, which busy nodes may outweigh.
    lab.helm(*install, "--set", "server.topologySpread.whenUnsatisfiable=DoNotSchedule")
    used = {}
    for what, selector, count in (("server", SERVERS, nodes), ("scheduler", SCHEDULERS, SCHEDULERS_WANTED)):
        used[what] = nodes_of(lab, selector)
        if used[what] != count:
            raise LabError(f"{count} pods of {selector} are on {used[what]} nodes")
        check_budget(lab, selector, f"{RELEASE}-{what}")
    remove_release(lab)
    return {
        "nodes": nodes,
        "servers_on_nodes": used["server"],
        "unconstrained_servers_on_nodes": unconstrained,
        "schedulers_on_nodes": used["scheduler"],
    }


def busy_pods(count: int) -> list[dict]:
    """On node1, node2, ... each, so that Kubernetes would rather take other nodes."""
    resources = {"requests": {"cpu": "24", "memory": "192Gi"}}
    container = {"name": "busy", "image": "localhost/busy:1", "resources": resources}
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"busy-{number}"},
            "spec": {"nodeName": f"node{number}", "containers": [container]},
        }
        for number in range(1, count + 1)
    ]


def nodes_of(lab: Lab, selector: str) -> int:
    return len({pod["spec"]["nodeName"] for pod in lab.pods(selector).values()})


def remove_release(lab: Lab) -> None:
    lab.helm("uninstall", RELEASE, "--wait", "--timeout=3m")
    wait_until("nothing of the release is left", lambda: not objects_of_release(lab))


def check_budget(lab: Lab, selector: str, name: str) -> None:
    nodes = [node["metadata"]["name"] for node in lab.objects("nodes")]
    lab.kubectl("cordon", *nodes)
    lab.evict_when_allowed(f"{name}-0")

    def waits_for_a_node() -> bool:
        pod = lab.pods(selector).get(f"{name}-0")
        return pod is not None and pod["status"]["phase"] == "Pending" and "deletionTimestamp" not in pod["metadata"]

    wait_until(f"{name}-0, which was evicted, waits for a node", waits_for_a_node)
    try:
        lab.evict(f"{name}-1")
    except LabError as refusal:
        if OVER_BUDGET not in str(refusal):
            raise
    else:
        raise LabError(f"{name}-0 and {name}-1 were evicted at once, against the budget")
    lab.kubectl("uncordon", *nodes)
    wait_until(f"{name}-0 has a node again", lambda: is_ready(lab.pods(selector)[f"{name}-0"]))
    lab.evict_when_allowed(f"{name}-1")
