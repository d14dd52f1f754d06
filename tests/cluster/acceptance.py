"""What operators are told to do before the first job: `shoalctl doctor --bandwidth`, and `shoal-perf` on two pods."""

import json
import re

from doors import fit
from lab import Lab, LabError, wait_until

RANKS = 2
SECONDS = 180.0  # for what takes some ten


def job_of(name: str, image: str, pods: int, role: str, script: str) -> dict:
    """Pods of the server's image, which has both programs, with the environment that the chart gives to trainers."""
    container = {
        "name": name,
        "image": image,
        "command": ["sh", "-ec", script],
        "env": [{"name": "SHOAL_COLOCATE", "value": "off"}],  # all goes through the chart's servers
        "envFrom": [{"configMapRef": {"name": "shoal-client"}}],
        "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}},
        "volumeMounts": [{"name": "results", "mountPath": "/results"}],
    }
    pod = {
        "restartPolicy": "Never",
        "enableServiceLinks": False,
        "containers": [container],
        "volumes": [{"name": "results", "emptyDir": {}}],
    }
    fit(pod, role)
    spec = {
        "completionMode": "Indexed",
        "completions": pods,
        "parallelism": pods,
        "backoffLimit": 0,
        "template": {"spec": pod},
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def run_pods(lab: Lab, name: str, image: str, pods: int, role: str, script: str) -> str:
    """What the first of them said, once all have succeeded. `role`: whose certificate they have."""
    lab.apply([job_of(name, image, pods, role, script)])
    selector = f"batch.kubernetes.io/job-name={name}"

    def have_succeeded() -> bool:
        found = lab.pods(selector)
        for pod_name, pod in found.items():
            if pod["status"]["phase"] == "Failed":
                raise LabError(f"`{script}` failed in pod {pod_name}, which said: {lab.kubectl('logs', pod_name)}")
        return len(found) == pods and all(pod["status"]["phase"] == "Succeeded" for pod in found.values())

    wait_until(f"all pods of job {name} have succeeded; see `kubectl describe` and their logs", have_succeeded, SECONDS)
    [first] = lab.pods(f"{selector},batch.kubernetes.io/job-completion-index=0")
    said = lab.kubectl("logs", first)
    lab.kubectl("delete", "job", name, "--cascade=foreground")
    return said


def see_doctor(lab: Lab, image: str, servers: int) -> dict:
    """The rate to each server, in Mbit/s, and the warnings. A problem makes the doctor's exit status 3."""
    said = run_pods(lab, "doctor", image, 1, "operator", "exec shoalctl doctor --bandwidth --json")
    document = re.search(r'^\{"findings".*$', said, re.MULTILINE)
    if document is None:
        raise LabError(f"shoalctl doctor --json ended well and wrote no document; it said: {said}")
    findings = json.loads(document.group())["findings"]
    texts = [each["text"] for each in findings if each["check"] == "bandwidth"]
    rates = [re.match(r"to server (\S+) on .*?: (\d+) Mbit/s", text) for text in texts]
    by_server = {rate.group(1): int(rate.group(2)) for rate in rates if rate is not None}
    if len(by_server) != servers or 0 in by_server.values():
        raise LabError(f"the doctor measured the ways to {len(by_server)} of {servers} servers; it said: {said}")
    warnings = [f"{each['check']}: {each['text']}" for each in findings if each["verdict"] == "warning"]
    return {"mbit_per_s": by_server, "warnings": warnings}


def see_perf(lab: Lab, image: str, servers: int) -> dict:
    """An all-reduce of two ranks, each in a pod of its own, through all servers. A wrong element makes it fail."""
    script = (
        "exec 2>&1; "
        f'shoal-perf --job=acceptance --world-size={RANKS} --rank="$JOB_COMPLETION_INDEX" --min-servers={servers}'
        " --json=/results/perf.json; "
        "[ ! -e /results/perf.json ] || cat /results/perf.json"  # only rank 0 writes it
    )
    said = run_pods(lab, "acceptance", image, RANKS, "worker", script)
    try:
        report = json.loads(said[said.index("\n{\n") :])
    except ValueError as error:
        raise LabError(f"shoal-perf's rank 0 wrote no results ({error}); it said: {said}") from None
    [result] = report["results"]
    if not result["checked"] or report["wrong"] != 0:
        raise LabError(f"shoal-perf found {report['wrong']} wrong elements, or did not check: {said}")
    used = {each["name"]: each["bytes_pushed"] for each in report["servers"]}
    if len(used) != servers or 0 in used.values():
        raise LabError(f"shoal-perf pushed to these servers, not to all {servers}: {used}")
    return {
        "ranks": RANKS,
        "bytes": result["bytes"],
        "time_us": result["time_us"],
        "algbw_bytes_per_s": result["algbw_bytes_per_s"],
        "bytes_pushed_by_rank_0": used,
    }
