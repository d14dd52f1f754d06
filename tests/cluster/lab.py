"""The lab's cluster (lab.sh), as the cluster test uses it."""

import json
import os
import pathlib
import subprocess
import time
from collections.abc import Callable

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
TOOLS = ROOT / "build/tools"
CHART = ROOT / "helm/shoal"
WORK = ROOT / "build/cluster"
OVER_BUDGET = "disruption budget"  # in what Kubernetes says
PATIENCE_S = 300.0  # for what takes seconds; a busy machine may be slow


class LabError(Exception):
    """Something was not as it must be, or was not in time."""


def run(*command: object, text: str | None = None, seconds: float = PATIENCE_S, **options) -> str:
    """What it wrote to standard output. LabError with all that it said if it failed."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words, input=text, capture_output=True, text=True, check=False, timeout=seconds, **options
        )
    except subprocess.TimeoutExpired as late:
        raise LabError(f"{' '.join(words)}: not done after {seconds:.0f} s: {late.output} {late.stderr}") from None
    if done.returncode != 0:
        raise LabError(f"{' '.join(words)}: status {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def wait_until(what: str, condition: Callable[[], bool], seconds: float = PATIENCE_S) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise LabError(f"not after {seconds:.0f} s: {what}")
        time.sleep(0.2)


class Lab:
    """A running cluster; `end` takes all of it down. One owner thread."""

    def __init__(self, *nodes: str):
        """`nodes`: what `lab.sh up` is given."""
        self.namespace = "default"
        try:
            run(HERE / "lab.sh", "up", *nodes, seconds=600)
        except BaseException:
            self.end()
            raise
        folder = pathlib.Path(os.environ.get("SHOAL_LAB", WORK / "lab"))
        self.environment = {**os.environ, "KUBECONFIG": str(folder / "kubeconfig")}

    def end(self) -> None:
        run(HERE / "lab.sh", "down")

    def load(self, archive: pathlib.Path, *node: str) -> None:
        """Puts an image on all nodes, or on one."""
        run(HERE / "lab.sh", "load", archive, *node, seconds=1800)

    def inside(self, *command: object) -> str:
        """Runs a command in the lab: its processes, network and names are the cluster's."""
        return run(HERE / "lab.sh", "exec", *command)

    def kubectl(self, *arguments: object, text: str | None = None, seconds: float = PATIENCE_S) -> str:
        command = [TOOLS / "kubernetes/kubectl", "--namespace", self.namespace, *arguments]
        return run(*command, text=text, seconds=seconds, env=self.environment)

    def helm(self, *arguments: object, seconds: float = PATIENCE_S) -> str:
        return run(TOOLS / "helm", "--namespace", self.namespace, *arguments, seconds=seconds, env=self.environment)

    def objects(self, kind: str, selector: str = "") -> list[dict]:
        return json.loads(self.kubectl("get", kind, "--selector", selector, "--output", "json"))["items"]

    def pods(self, selector: str) -> dict[str, dict]:
        """By name."""
        return {pod["metadata"]["name"]: pod for pod in self.objects("pods", selector)}

    def apply(self, documents: list[dict]) -> None:
        """As the server takes them: with no field that it does not know."""
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})
        self.kubectl("apply", "--validate=strict", "--filename", "-", text=text)

    def evict_when_allowed(self, pod: str) -> None:
        """A budget learns a moment later than its pods that they are ready."""

        def is_evicted() -> bool:
            try:
                self.evict(pod)
            except LabError as refusal:
                if OVER_BUDGET not in str(refusal):
                    raise
                return False
            return True

        wait_until(f"the budget lets {pod} be evicted", is_evicted, 60)

    def evict(self, pod: str) -> None:
        """Asks for it once. LabError with OVER_BUDGET in its text where a budget forbids it."""
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": self.namespace},
        }
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod}/eviction"
        self.kubectl("create", "--raw", path, "--filename", "-", text=json.dumps(eviction))

    def names_of_all_objects(self) -> list[str]:
        """In the namespace, as KIND/NAME, but for events."""
        kinds = self.kubectl("api-resources", "--verbs=list", "--namespaced", "--output=name").split()
        kinds = [kind for kind in kinds if not kind.startswith("events")]
        return self.kubectl("get", ",".join(kinds), "--output=name", "--ignore-not-found").split()

    def save_logs(self, folder: pathlib.Path) -> None:
        """What all pods of the namespace said, also before they were started again."""
        folder.mkdir(parents=True, exist_ok=True)
        for name in self.pods(""):
            for suffix, options in (("", []), ("_before", ["--previous"])):
                try:
                    (folder / f"{name}{suffix}.log").write_text(self.kubectl("logs", name, *options))
                except LabError:  # it has not begun, or was not started again
                    continue


def is_ready(pod: dict) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]


def restarts(pod: dict) -> int:
    return sum(each["restartCount"] for each in pod["status"].get("containerStatuses", []))
