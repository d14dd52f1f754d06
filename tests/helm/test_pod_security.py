"""All pods of the chart, and of the etcd beside it, fit the Pod Security Standard `restricted`."""

import copy

import pytest
import yaml

from chart import ROOT, Helm, one
from pod_security import violations
from chart_values import VALUES


def pods(objects: list[dict]) -> dict[str, dict]:
    """The specs, by kind and name of what makes them."""
    found = {}
    for item in objects:
        spec = item["spec"] if item["kind"] == "Pod" else item.get("spec", {}).get("template", {}).get("spec")
        if spec is not None:
            found[f"{item['kind']} {item['metadata']['name']}"] = spec
    return found


@pytest.mark.parametrize("name", VALUES, ids=lambda name: name.replace(" ", "-"))
def test_every_pod_is_restricted_but_those_on_the_nodes_network(helm: Helm, name: str):
    found = {which: violations(spec) for which, spec in pods(helm.render(VALUES[name])).items()}
    assert len(found) == 3, "schedulers, servers and the pod of helm test"
    allowed = ["spec.hostNetwork"] if VALUES[name].get("server", {}).get("hostNetwork") else []
    assert [each for wrong in found.values() for each in wrong] == allowed
    assert not allowed or found["StatefulSet training-shoal-server"] == allowed


def test_the_readme_says_which_volumes_are_not_restricted(helm: Helm):
    for kind, named in (("nfs", True), ("hostPath", True), ("persistentVolumeClaim", False), ("csi", False)):
        values = {"server": {"flightRecorder": {"volume": {kind: {}}}}}
        spec = one(helm.render(values), "StatefulSet", "server")["spec"]["template"]["spec"]
        assert violations(spec) == ([f"spec.volumes[flight-records].{kind}"] if named else [])


def test_the_pods_of_etcd_are_restricted():
    text = (ROOT / "examples/kubernetes/etcd.yaml").read_text(encoding="utf-8")
    [spec] = pods(list(yaml.safe_load_all(text))).values()
    assert violations(spec) == []


@pytest.mark.parametrize(
    ("part", "field", "value"),
    [
        ("pod", "hostNetwork", True),
        ("pod", "hostPID", True),
        ("pod", "hostIPC", True),
        ("pod", "volumes", [{"name": "x", "hostPath": {"path": "/"}}]),
        ("pod", "volumes", [{"name": "x", "nfs": {}}]),
        ("pod context", "runAsUser", 0),
        ("pod context", "runAsNonRoot", None),
        ("pod context", "runAsNonRoot", False),
        ("pod context", "seccompProfile", None),
        ("pod context", "seccompProfile", {"type": "Unconfined"}),
        ("pod context", "appArmorProfile", {"type": "Unconfined"}),
        ("pod context", "seLinuxOptions", {"type": "spc_t"}),
        ("pod context", "seLinuxOptions", {"user": "root"}),
        ("pod context", "windowsOptions", {"hostProcess": True}),
        ("pod context", "sysctls", [{"name": "kernel.msgmax", "value": "1"}]),
        ("container", "securityContext", None),
        ("container", "ports", [{"containerPort": 1, "hostPort": 1}]),
        ("container", "livenessProbe", {"httpGet": {"host": "127.0.0.1"}}),
        ("container", "lifecycle", {"preStop": {"tcpSocket": {"host": "127.0.0.1"}}}),
        ("container context", "privileged", True),
        ("container context", "allowPrivilegeEscalation", None),
        ("container context", "allowPrivilegeEscalation", True),
        ("container context", "capabilities", None),
        ("container context", "capabilities", {"drop": ["NET_RAW"]}),
        ("container context", "capabilities", {"drop": ["ALL"], "add": ["IPC_LOCK"]}),
        ("container context", "procMount", "Unmasked"),
        ("container context", "runAsNonRoot", False),
        ("container context", "runAsUser", 0),
        ("container context", "seccompProfile", {"type": "Unconfined"}),
    ],
    ids=str,
)
def test_the_rules_find_what_is_not_restricted(part: str, field: str, value: object):
    of_pod = {"runAsNonRoot": True, "runAsUser": 1, "seccompProfile": {"type": "RuntimeDefault"}}
    of_container = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    container = {"name": "x", "securityContext": of_container}
    for kind in ("containers", "initContainers"):
        pod = copy.deepcopy({"securityContext": of_pod, "containers": [container], kind: [container]})
        assert violations(pod) == []
        changed = {
            "pod": pod,
            "pod context": pod["securityContext"],
            "container": pod[kind][0],
            "container context": pod[kind][0]["securityContext"],
        }[part]
        changed[field] = value
        if value is None:
            del changed[field]
        assert violations(pod) != []
