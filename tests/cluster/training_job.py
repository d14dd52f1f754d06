"""The job that trains meanwhile: examples/kubernetes/job.yaml with the script train.py."""

import dataclasses
import re

import yaml
from doors import fit
from lab import HERE, PATIENCE_S, ROOT, Lab, LabError, is_ready, wait_until

PODS = 4
TRAINERS_NODE = "node1"  # the other one is drained


def job_documents(name: str, options: list[str], image: str) -> list[dict]:
    """examples/kubernetes/job.yaml, with another name, the test's image and script, one rank a pod."""
    text = (ROOT / "examples/kubernetes/job.yaml").read_text(encoding="utf-8")
    documents = [document for document in yaml.safe_load_all(re.sub(r"\btrain\b(?!\.py)", name, text)) if document]
    [job] = [document for document in documents if document["kind"] == "Job"]
    pod = job["spec"]["template"]["spec"]
    [container] = pod["containers"]
    container["image"] = image
    changed = {"--nproc-per-node=2": "--nproc-per-node=1", "train.py": "/script/train.py"}
    if not set(changed) <= set(container["command"]):
        raise LabError(f"the command of job.yaml has no {' or no '.join(changed)}: change training_job.py with it")
    container["command"] = [changed.get(word, word) for word in container["command"]] + options
    # All goes through the chart's servers, fewer than ranks though they are.
    container["env"].append({"name": "SHOAL_COLOCATE", "value": "off"})
    container["resources"] = {"requests": {"cpu": "100m", "memory": "512Mi"}, "limits": {"memory": "2Gi"}}
    container["volumeMounts"] = [{"name": "script", "mountPath": "/script"}]
    pod["volumes"] = [{"name": "script", "configMap": {"name": "script"}}]
    fit(pod, "worker")
    pod["nodeSelector"] = {"kubernetes.io/hostname": TRAINERS_NODE}
    script = {"train.py": (HERE / "train.py").read_text(encoding="utf-8")}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "script"}, "data": script}
    return [config, *documents]


@dataclasses.dataclass(frozen=True)
class Step:
    number: int
    ended: float  # Unix time, in seconds
    took_s: float


class Job:
    def __init__(self, lab: Lab, name: str, image: str, *options: str):
        self.lab, self.name = lab, name
        self.selector = f"batch.kubernetes.io/job-name={name}"
        self.done = 0  # steps
        self.documents = job_documents(name, list(options), image)
        lab.apply(self.documents)

    def pod_of(self, index: int) -> str:
        [name] = self.lab.pods(f"{self.selector},batch.kubernetes.io/job-completion-index={index}")
        return name

    def logs(self, index: int, *options: str) -> str:
        return self.lab.kubectl("logs", self.pod_of(index), *options)

    def check(self) -> None:
        """That no pod of it failed."""
        for name, pod in self.lab.pods(self.selector).items():
            if pod["status"]["phase"] == "Failed":
                raise LabError(f"pod {name} failed: {self.lab.kubectl('logs', name, '--tail=60')}")

    def steps_done(self) -> int:
        self.check()
        found = re.findall(r"^step (\d+) ", self.logs(0, "--tail=200"), re.MULTILINE)
        self.done = max([self.done, *(int(number) + 1 for number in found)])
        return self.done

    def wait_for_steps(self, count: int, seconds: float = PATIENCE_S) -> None:
        wait_until(f"job {self.name} has done {count} steps", lambda: self.steps_done() >= count, seconds)

    def goes_on(self, steps: int, seconds: float) -> tuple[bool, str]:
        """Whether it does so many more steps in this time; if not, why."""
        try:
            self.wait_for_steps(self.steps_done() + steps, seconds)
        except LabError as error:
            return False, str(error)
        return True, ""

    def start_again(self) -> None:
        """Under its name, once its old pods are gone."""
        self.lab.kubectl("delete", "job", self.name, "--cascade=foreground")
        wait_until(f"the old pods of job {self.name} are gone", lambda: not self.lab.pods(self.selector))
        self.done = 0
        self.lab.apply(self.documents)
        self.wait_for_start()

    def stop(self) -> None:
        """Of one with --until=/tmp/stop: it ends with its next step."""
        self.lab.kubectl("exec", self.pod_of(0), "--", "touch", "/tmp/stop")

    def wait_for_start(self) -> None:
        def has_pods() -> bool:
            pods = self.lab.pods(self.selector)
            return len(pods) == PODS and all(is_ready(pod) for pod in pods.values())

        wait_until(f"all pods of job {self.name} run", has_pods)
        self.wait_for_steps(1)

    def finish(self, seconds: float) -> tuple[list[Step], str, int]:
        """Its steps, and the digest of all ranks after how many. LabError if it does not end within `seconds`."""

        def has_ended() -> bool:
            self.check()
            [job] = [each for each in self.lab.objects("jobs") if each["metadata"]["name"] == self.name]
            return job["status"].get("succeeded", 0) == PODS

        wait_until(f"job {self.name} ends", has_ended, seconds)
        logs = [self.logs(index) for index in range(PODS)]
        found = [re.findall(r"^digest ([0-9a-f]{64}) after (\d+) steps$", log, re.MULTILINE) for log in logs]
        if len(set(map(tuple, found))) != 1 or len(found[0]) != 1:
            raise LabError(f"the ranks of job {self.name} ended with different parameters: {found}")
        lines = re.findall(r"^step (\d+) ([0-9.]+) ([0-9.]+)$", logs[0], re.MULTILINE)
        steps = [Step(int(number), float(ended), float(took)) for number, ended, took in lines]
        digest, count = found[0][0]
        if len(steps) != int(count):
            raise LabError(f"job {self.name} did {count} steps, and its log has {len(steps)}")
        return steps, digest, int(count)
