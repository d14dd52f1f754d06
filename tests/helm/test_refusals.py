"""What Kubernetes would refuse, often when half of a release is there already, the chart refuses before that, and says
why. What Kubernetes takes, the chart takes as well."""

import copy

import pytest
import yaml

from chart import CHART, NAMESPACE, Helm, container, one

ROLES = ("scheduler", "server")
HIGH_REQUEST = "requests.memory {} is greater than limits.memory {}"
RDMA = "rdma/hca_shared_devices_a"


def of_each_role(values: dict, said: str) -> list[tuple[dict, str]]:
    return [({role: values}, said) for role in ROLES]


def resources(requests: dict, limits: dict) -> dict:
    return {"server": {"resources": {"requests": requests, "limits": limits}}}


def environment(*variables: dict) -> dict:
    return {"server": {"extraEnv": [{"name": "X", **variable} for variable in variables]}}


def cert_manager(**values: object) -> dict:
    return {"identities": {"source": "cert-manager", "certManager": values}}


def rules(text: str) -> dict:
    return {"identities": {"source": "cert-manager", "rules": text}}


THREE = {"scheduler": "a", "server": "b", "operator": "c"}
WRONG = [
    # Resources. Those that are not given have the chart's own values.
    ({"server": {"resources": {"limits": {"memory": "768Mi"}}}}, HIGH_REQUEST.format("1Gi", "768Mi")),
    ({"scheduler": {"resources": {"limits": {"memory": "64Mi"}}}}, HIGH_REQUEST.format("128Mi", "64Mi")),
    ({"server": {"resources": {"limits": {"cpu": "500m"}}}}, "requests.cpu 1 is greater than limits.cpu 500m"),
    ({"server": {"resources": {"limits": {"cpu": 0.5}}}}, "requests.cpu 1 is greater than limits.cpu 0.5"),
    (resources({"memory": 2e9}, {"memory": "1999M"}), HIGH_REQUEST.format("2000000000", "1999M")),
    (resources({RDMA: 1}, {}), f"{RDMA} belongs in limits"),
    (resources({RDMA: 1}, {RDMA: 2}), f"requests and limits of {RDMA} are equal"),
    (resources({}, {RDMA: "500m"}), f"limits.{RDMA} 500m is no whole number"),
    (resources({"hugepages-2Mi": "4Mi"}, {}), "hugepages-2Mi belongs in limits"),
    (resources({"gpu": 1}, {}), "gpu"),
    (resources({"cpu": -1}, {}), "cpu"),
    *[({"scheduler": {"persistence": {"size": size}}}, "size") for size in ("0", "0Gi", "0.00G", 0, -1)],
    ({"scheduler": {"persistence": {"accessModes": ["ReadWriteOnce", "ReadWriteOncePod"]}}}, "ReadWriteOncePod"),
    ({"scheduler": {"persistence": {"storageClass": "Fast Disks"}}}, "storageClass"),
    *[
        ({"server": {"podDisruptionBudget": {"maxUnavailable": some}}}, "maxUnavailable")
        for some in ("200%", "101%", "", -1)
    ],
    # The environment.
    (environment({"value": "1"}, {"value": "2"}), "server.extraEnv has X twice"),
    (environment({"value": "1", "valueFrom": {"fieldRef": {}}}), "X has both value and valueFrom"),
    (environment({"valueFrom": {"secret": {}}}), "secret"),
    (environment({"valueFrom": {}}), "valueFrom"),
    ({"imagePullSecrets": [{"name": "registry"}, {"name": "registry"}]}, "imagePullSecrets has registry twice"),
    ({"imagePullSecrets": [{"name": "My Registry"}]}, "imagePullSecrets"),
    # Labels.
    *of_each_role({"podLabels": {"app.kubernetes.io/part-of": "x"}}, "podLabels sets app.kubernetes.io/part-of"),
    *of_each_role({"podLabels": {"app.kubernetes.io/component": "x"}}, "podLabels sets app.kubernetes.io/component"),
    ({"scheduler": {"podLabels": {"team": "A and B"}}}, "team"),
    ({"server": {"podLabels": {"team of": "A"}}}, "team of"),
    ({"scheduler": {"podLabels": {"x/y/z": "A"}}}, "x/y/z"),
    ({"server": {"podAnnotations": {"-team": "A"}}}, "-team"),
    ({"scheduler": {"nodeSelector": {"pool": "-"}}}, "pool"),
    *[
        ({"monitoring": {part: {"labels": {"helm.sh/chart": "x"}}}}, f"monitoring.{part}.labels sets helm.sh/chart")
        for part in ("podMonitor", "alerts", "dashboard")
    ],
    # Where pods run.
    ({"server": {"priorityClassName": "Very High"}}, "priorityClassName"),
    ({"scheduler": {"affinity": {"nodes": {}}}}, "nodes"),
    ({"server": {"tolerations": [{"keys": "x"}]}}, "keys"),
    ({"scheduler": {"tolerations": [{"key": "x", "operator": "Is"}]}}, "operator"),
    ({"server": {"tolerations": [{"key": "x", "effect": "NoEntry"}]}}, "effect"),
    *of_each_role({"tolerations": [{"operator": "Equal", "value": "x"}]}, "has no key"),
    *of_each_role({"tolerations": [{"key": "x", "operator": "Exists", "value": "y"}]}, "has a value"),
    *of_each_role({"tolerations": [{"key": "x", "tolerationSeconds": 5, "effect": "NoSchedule"}]}, "tolerationSeconds"),
    ({"server": {"topologySpread": {"topologyKey": "host name"}}}, "topologyKey"),
    ({"server": {"flightRecorder": {"volume": {"persistentVolume": {}}}}}, "persistentVolume"),
    # Who may reach them.
    ({"networkPolicy": {"trainers": [{"ipBlock": {"cidr": "10.0.0.0/8"}, "podSelector": {}}]}}, "trainers"),
    ({"networkPolicy": {"operators": [{"ipBlock": {"cidr": "10.0.0.0"}}]}}, "cidr"),
    ({"networkPolicy": {"monitoring": [{"ipBlock": {}}]}}, "cidr"),
    ({"networkPolicy": {"trainers": [{"podSelector": {"labels": {}}}]}}, "labels"),
    ({"networkPolicy": {"nodes": [{"cidr": "10.0.0.0/8"}]}}, "nodes"),
    ({"networkPolicy": {"nodes": [{"podSelector": {}}]}}, "networkPolicy.nodes is for server.hostNetwork"),
    ({"networkPolicy": {"store": [{"podSelector": {}}]}}, "networkPolicy.store is for scheduler.store"),
    ({"networkPolicy": {"etcd": []}}, "etcd"),
    ({"monitoring": {"podMonitor": {"enabled": True}}}, "networkPolicy.monitoring names nobody"),
    # Certificates.
    ({"identities": {"mode": "none"}}, "mode"),
    ({"identities": {"source": "certManager"}}, "source"),
    ({"identities": {"source": False}}, "source"),
    ({"identities": {"secrets": {"worker": "x"}}}, "worker"),
    ({"identities": {"secrets": {"server": "Of Servers"}}}, "server"),
    ({"identities": {"certManager": {"trustDomain": "prod/example"}}}, "trustDomain"),
    ({"identities": {"certManager": {"trustDomain": ""}}}, "trustDomain"),
    ({"identities": {"certManager": {"duration": "7d"}}}, "duration"),
    ({"identities": {"certManager": {"duration": "0h"}}}, "duration"),
    (cert_manager(tenants=["vision"]), "tenants"),
    (cert_manager(tenants=[{"tenant": "vision"}]), "tenant"),
    (cert_manager(tenants=[{"name": "a/b"}]), "name"),
    (cert_manager(tenants=[{"name": "vision"}, {"name": "vision"}]), "tenants has vision twice"),
    (cert_manager(tenants=[{"name": "vision", "namespace": "else"}]), "give an issuerRef of kind ClusterIssuer"),
    (
        cert_manager(tenants=[{"name": "vision", "namespace": "else"}], issuerRef={"name": "x"}),
        "give an issuerRef of kind ClusterIssuer",
    ),
    (cert_manager(issuerRef={"kind": "ClusterIssuer"}), "issuerRef"),
    (cert_manager(issuerRef={"name": "x", "namespace": "y"}), "namespace"),
    *[
        ({"identities": {"source": "secrets", "secrets": {**THREE, role: ""}}}, f"without identities.secrets.{role}")
        for role in ("scheduler", "server", "operator")
    ],
    ({"identities": {"source": "secrets", "secrets": {**THREE, "operator": "b"}}}, "a certificate has one role"),
    *[
        ({"identities": {"source": source, "secrets": THREE}}, f"and the source is {source}")
        for source in ("none", "cert-manager")
    ],
    *[
        (
            {"identities": {"source": source, "secrets": secrets, "certManager": {key: value}}},
            f"identities.source is {source}",
        )
        for source, secrets in (("none", {}), ("secrets", THREE))
        for key, value in (("tenants", [{"name": "vision"}]), ("issuerRef", {"name": "x"}))
    ],
    ({"identities": {"rules": "a viewer"}}, "identities.rules without certificates"),
    *[
        (rules(f"# who\na.example viewer\n{line}\n"), said)
        for line, said in (
            ("b.example", "line 3 (b.example)"),
            ("b.example reader", "line 3"),
            ("b.example worker", "line 3"),
            ("b.example worker vision speech", "line 3"),
            ("b.example viewer # a person", "line 3"),
        )
    ],
    *[
        ({"scheduler": {"storeSecrets": {which: "x"}}}, f"scheduler.storeSecrets.{which} is for scheduler.store")
        for which in ("certificates", "login")
    ],
    ({"scheduler": {"storeSecrets": {"password": "x"}}}, "password"),
]  # fmt: skip


def short(value: object) -> str:
    return str(value).replace(" ", "")[:60] if isinstance(value, dict) else ""


@pytest.mark.parametrize(("values", "said"), WRONG, ids=short)
def test_what_kubernetes_would_refuse_is_refused_before(helm: Helm, values: dict, said: str):
    assert said in helm.refuse(values)


def test_the_servers_own_environment_is_not_set_once_more(helm: Helm):
    for values, count in (({}, 2), (cert_manager(), 5)):
        own = [variable["name"] for variable in container(one(helm.render(values), "StatefulSet", "server"))["env"]]
        assert len(own) == count
        for name in own:
            said = helm.refuse(values | {"server": {"extraEnv": [{"name": name, "value": "1"}]}})
            assert f"server.extraEnv sets {name}, which the chart sets itself" in said


def test_labels_that_the_chart_sets_are_all_guarded(helm: Helm):
    for role in ROLES:
        own = one(helm.render(), "StatefulSet", role)["spec"]["template"]["metadata"]["labels"]
        assert len(own) == 4
        for name in own:
            said = helm.refuse({role: {"podLabels": {name: "x"}}})
            assert f"{role}.podLabels sets {name}, which the chart sets itself" in said


@pytest.mark.parametrize(
    "values",
    [
        resources({"cpu": 0.5}, {"cpu": 0.5}),
        resources({"cpu": 0.5, "memory": 1073741824}, {"cpu": 1.5, "memory": "1Gi"}),
        resources({"memory": "0.5Gi"}, {"memory": "512Mi"}),
        resources({"cpu": "250m"}, {"cpu": "0.25"}),
        resources({RDMA: 1}, {RDMA: "1"}),
        resources({}, {RDMA: 2, "hugepages-2Mi": "4Mi"}),
        {"scheduler": {"persistence": {"size": "0.5Gi", "accessModes": ["ReadWriteOnce", "ReadWriteMany"]}}},
        {"server": {"podDisruptionBudget": {"maxUnavailable": "100%"}}},
        {"server": {"podDisruptionBudget": {"maxUnavailable": 0}}},
        environment({"value": ""}),
        environment({"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}),
        {"server": {"tolerations": [{"operator": "Exists"}, {"key": "x.example/y", "value": "z"}]}},
        {"server": {"tolerations": [{"key": "x", "effect": "NoExecute", "tolerationSeconds": 5}]}},
        {"server": {"podLabels": {"x.example/team": "A_b.c", "empty": ""}}},
        {"server": {"podAnnotations": {"x.example/y": "any text: at all"}}},
        {"server": {"affinity": {"podAntiAffinity": {}}}},
        {"networkPolicy": {"store": [{"podSelector": {}}]}, "scheduler": {"store": "etcd://etcd:2379"}},
        {"networkPolicy": {"enabled": False}, "server": {"hostNetwork": True}},
        {"networkPolicy": {"enabled": False}, "monitoring": {"podMonitor": {"enabled": True}}},
        cert_manager(),
        cert_manager(
            issuerRef={"name": "x", "kind": "ClusterIssuer", "group": "x.example"},
            tenants=[{"name": "vision", "namespace": "else"}],
        ),
        cert_manager(tenants=[{"name": "vision", "namespace": NAMESPACE}]),
        rules("\n # who\n\ta.example* worker \t x\r\n"),
        {"networkPolicy": {"operators": [{"ipBlock": {"cidr": "fd00::/8", "except": ["fd00:1::/32"]}}]}},
    ],
    ids=short,
)  # fmt: skip
def test_what_kubernetes_takes_is_taken(helm: Helm, values: dict):
    helm.render(values)


def leaves(values: dict, path: tuple = ()) -> list[tuple]:
    """The paths of the values that are empty, or may be."""
    found = []
    for key, value in values.items():
        if isinstance(value, dict) and value:
            found += leaves(value, (*path, key))
        elif value in ("", [], {}):
            found.append((*path, key))
    return found


def test_a_key_with_nothing_after_it_is_as_empty_as_the_default(helm: Helm):
    """`extraEnv:` in a values file is null, by which Helm takes the chart's own value away as well."""
    defaults = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    paths = leaves(defaults)
    assert ("server", "extraEnv") in paths and ("imagePullSecrets",) in paths and len(paths) > 25
    everything = {"networkPolicy": {"monitoring": [{"podSelector": {}}]}}
    everything |= {"monitoring": {part: {"enabled": True} for part in defaults["monitoring"]}}
    values = copy.deepcopy(everything)
    paths.remove(("networkPolicy", "monitoring"))  # without it Prometheus has no way in
    for path in paths:
        folder = values
        for key in path[:-1]:
            folder = folder.setdefault(key, {})
        folder[path[-1]] = None
    assert helm.render(values) == helm.render(everything)
