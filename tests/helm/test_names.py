"""Whatever a release, its namespace and its values are called, the objects are those that were meant: with names that
Kubernetes takes, no key twice, and nothing that YAML reads as a number or a truth value where Kubernetes wants text."""

import re

import pytest
import yaml

from chart import LOADER, Helm, container, documents, one

LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
# Of a Service, up to Kubernetes 1.35. The other objects may have any such name as well.
NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
# What YAML 1.1 makes of them, which Kubernetes' own reader follows; Python's reader takes y and n for text.
NOT_TEXT = re.compile(r"(?i)y|n|yes|no|on|off|true|false|null|~")
TEXT_IN = {"labels", "matchLabels", "annotations", "nodeSelector", "selector"}  # all of their values
TEXT_AT = {
    "name", "namespace", "serviceName", "serviceAccountName", "priorityClassName", "storageClassName", "image",
    "topologyKey", "secretName",
}  # fmt: skip
RELEASES = [
    "2024", "y", "true", "shoal.v2", "1st.team", "r" * 53, "r" * 30 + ".2024.shoal.x", "a" * 30 + "-" * 10 + "b" * 13,
]  # fmt: skip
ISSUER = {"name": "2024", "kind": "ClusterIssuer", "group": "cert-manager.io"}
EVERYTHING = {
    "networkPolicy": {"monitoring": [{"podSelector": {}}]},
    "identities": {
        "source": "cert-manager",
        "certManager": {"tenants": [{"name": "2024"}, {"name": "y", "namespace": "true"}], "issuerRef": ISSUER},
        "rules": "grafana.prod.example viewer",
    },
    "monitoring": {part: {"enabled": True} for part in ("podMonitor", "alerts", "dashboard")},
    "imagePullSecrets": [{"name": "2024"}],
    "server": {"flightRecorder": {"volume": {"persistentVolumeClaim": {"claimName": "2024"}}}},
}
STRANGE = {
    part: {
        "priorityClassName": "2024",
        "podLabels": {"y": "true", "2024": "1e3"},
        "podAnnotations": {"on": "off"},
        "nodeSelector": {"true": "y"},
        "image": {"repository": "12", "tag": "30"},
        "tolerations": [{"key": "y", "operator": "Equal", "value": "no", "effect": "NoSchedule"}],
    }
    for part in ("scheduler", "server")
}
STRANGE["scheduler"]["persistence"] = {"storageClass": "2024"}
STRANGE["server"] |= {"topologySpread": {"topologyKey": "on"}, "extraEnv": [{"name": "y", "value": "1e3"}]}
SEVERAL = {"scheduler": {"replicas": 3, "store": "etcd://etcd:2379"}}


def problems(node: yaml.Node, path: str = "") -> list[str]:
    """Keys that an object has twice, and what should be text and is none."""
    if isinstance(node, yaml.SequenceNode):
        return [each for item in node.value for each in problems(item, f"{path}[]")]
    if not isinstance(node, yaml.MappingNode):
        return []
    found = []
    keys = [key.value for key, _ in node.value]
    found += [f"{path}.{key} is there twice" for key in set(keys) if keys.count(key) > 1]
    for key, value in node.value:
        inside = path.rsplit(".", 1)[-1] in TEXT_IN
        if isinstance(value, yaml.ScalarNode) and (inside or key.value in TEXT_AT):
            is_text = value.tag.endswith(":str") and (value.style is not None or not NOT_TEXT.fullmatch(value.value))
            found += [] if is_text else [f"{path}.{key.value} is no text: {value.value}"]
        found += problems(value, f"{path}.{key.value}")
    return found


def examined(helm: Helm, values: dict, release: str) -> list[dict]:
    """The objects, after everything has been looked at that holds for all of them."""
    text = helm.render_text(values, release=release)
    for root in yaml.compose_all(text, Loader=LOADER):
        if root is not None:
            assert problems(root) == []
    objects = documents(text)
    for item in objects:
        metadata = item["metadata"]
        assert NAME.fullmatch(metadata["name"]), metadata["name"]
        template = item.get("spec", {}).get("template", {}).get("metadata", {})
        for value in [*metadata["labels"].values(), *template.get("labels", {}).values()]:
            assert LABEL.fullmatch(value), value
    return objects


@pytest.mark.parametrize("values", [EVERYTHING, EVERYTHING | SEVERAL], ids=["one scheduler", "several"])
@pytest.mark.parametrize("release", RELEASES, ids=lambda name: name[:12])
def test_any_name_of_a_release_gives_objects_that_kubernetes_takes(helm: Helm, values: dict, release: str):
    for item in examined(helm, values, release):
        assert item["metadata"]["labels"]["app.kubernetes.io/instance"] == release
        # A StatefulSet's pods carry a label of its name, a dash and a hash of 10; labels end at 63.
        assert item["kind"] != "StatefulSet" or len(item["metadata"]["name"]) <= 52


def test_values_and_a_namespace_that_look_like_numbers_or_truth_are_text(helm: Helm):
    helm.namespace = "2024"
    objects = examined(helm, EVERYTHING | STRANGE, "y")
    assert {item["metadata"]["namespace"] for item in objects} == {"2024", "true"}
    scheduler = one(objects, "StatefulSet", "scheduler")
    assert scheduler["spec"]["template"]["spec"]["priorityClassName"] == "2024"
    assert container(scheduler)["image"] == "12:30"
    [claim] = scheduler["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["storageClassName"] == "2024"


@pytest.mark.parametrize("override", ["nameOverride", "fullnameOverride"])
@pytest.mark.parametrize("name", ["y", "null", "r" * 60, "n" * 39 + "--x"])
def test_any_name_that_one_gives_oneself_does_as_well(helm: Helm, override: str, name: str):
    examined(helm, EVERYTHING | {override: name}, "y")


@pytest.mark.parametrize("override", ["nameOverride", "fullnameOverride"])
def test_a_name_that_kubernetes_would_not_take_for_a_service_is_refused(helm: Helm, override: str):
    for name in ("2024", "Shoal", "shoal.v2", "-shoal"):
        assert override in helm.refuse({override: name})


@pytest.mark.parametrize("long_name", ["r" * 52, "r" * 45 + ".shoal."])
def test_long_names_that_differ_at_their_end_are_different_installations(helm: Helm, long_name: str):
    one_release, other = (
        {(item["kind"], item["metadata"]["name"]) for item in helm.render(EVERYTHING, release=long_name + end)}
        for end in "ab"
    )
    assert not one_release & other


def test_usual_names_are_as_they_were(helm: Helm):
    for release, name in (("shoal", "shoal"), ("training", "training-shoal"), ("my-shoal", "my-shoal")):
        assert one(helm.render(release=release), "StatefulSet", "server")["metadata"]["name"] == f"{name}-server"
