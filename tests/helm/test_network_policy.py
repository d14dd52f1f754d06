"""The NetworkPolicies let through what docs/operating.md lists (Ports), in both directions, and nothing else."""

import dataclasses
import ipaddress

import kubernetes_validate
import pytest
import yaml

from chart import NAMESPACE, RELEASE, ROOT, Helm, container, one, selects

NAMES = "kubernetes.io/metadata.name"
TRAINING = "training-jobs"
STORE = {"replicas": 3, "store": "etcd://etcd-0.etcd:2379,etcd-1.etcd:2381/shoal:99"}
ETCD = ROOT / "examples/kubernetes/etcd.yaml"


@dataclasses.dataclass(frozen=True)
class Party:
    """Who may be at an end of a connection. Pods on the nodes' network have no labels that a policy sees."""

    labels: dict = dataclasses.field(default_factory=dict)
    namespace: str = NAMESPACE
    address: str = "10.244.0.9"
    ports: dict = dataclasses.field(default_factory=dict)  # by name


TRAINER = Party({"job": "train"})
ELSEWHERE = Party({"job": "train"}, TRAINING)
PROMETHEUS = Party({"app": "prometheus"}, "monitoring")
DNS = Party({"k8s-app": "kube-dns"}, "kube-system")
OUTSIDE = Party(namespace="", address="203.0.113.5")
NODE = Party(namespace="", address="10.0.0.7")


def member(objects: list[dict], role: str) -> Party:
    workload = one(objects, "StatefulSet", role)
    ports = {port["name"]: port["containerPort"] for port in container(workload)["ports"]}
    return Party(workload["spec"]["template"]["metadata"]["labels"], ports=ports)


def meets(selector: dict, labels: dict) -> bool:
    assert selector.keys() <= {"matchLabels"}, "nothing else is used"
    return selector.get("matchLabels", {}).items() <= labels.items()


def is_peer(peer: dict, party: Party, namespace: str) -> bool:
    """As Kubernetes reads an entry of `from` or `to` in a policy of this namespace."""
    if "ipBlock" in peer:
        return ipaddress.ip_address(party.address) in ipaddress.ip_network(peer["ipBlock"]["cidr"])
    if "namespaceSelector" in peer:
        in_place = bool(party.namespace) and meets(peer["namespaceSelector"], {NAMES: party.namespace})
    else:
        in_place = party.namespace == namespace
    return in_place and meets(peer.get("podSelector", {}), party.labels)


def has_port(rule: dict, target: Party, port: int, protocol: str) -> bool:
    def fits(each: dict) -> bool:
        first = target.ports.get(each["port"], 0) if isinstance(each["port"], str) else each["port"]
        return each.get("protocol", "TCP") == protocol and first <= port <= each.get("endPort", first)

    return not rule.get("ports") or any(fits(each) for each in rule["ports"])


def lets_through(policies: list[dict], direction: str, own: Party, other: Party, port: int, protocol: str) -> bool:
    """`own`: the one whose policies are asked."""
    chosen = [
        policy["spec"]
        for policy in policies
        if own.namespace == policy["metadata"].get("namespace", NAMESPACE)
        and meets(policy["spec"]["podSelector"], own.labels)
        and direction in policy["spec"]["policyTypes"]
    ]
    key, peers = ("ingress", "from") if direction == "Ingress" else ("egress", "to")
    target = own if direction == "Ingress" else other
    return not chosen or any(
        has_port(rule, target, port, protocol)
        and (not rule.get(peers) or any(is_peer(peer, other, NAMESPACE) for peer in rule[peers]))
        for spec in chosen
        for rule in spec.get(key) or []
    )


def may_connect(objects: list[dict], source: Party, target: Party, port: int, protocol: str = "TCP") -> bool:
    policies = [item for item in objects if item["kind"] == "NetworkPolicy"]
    out = lets_through(policies, "Egress", source, target, port, protocol)
    return out and lets_through(policies, "Ingress", target, source, port, protocol)


def test_by_default_there_is_a_policy_for_both_directions_of_both_programs(helm: Helm):
    objects = helm.render()
    for role in ("scheduler", "server"):
        spec = one(objects, "NetworkPolicy", role)["spec"]
        assert spec["policyTypes"] == ["Ingress", "Egress"]
        labels = one(objects, "StatefulSet", role)["spec"]["template"]["metadata"]["labels"]
        assert selects(spec["podSelector"]["matchLabels"], labels)
    off = helm.render({"networkPolicy": {"enabled": False}})
    assert not [item for item in off if item["kind"] == "NetworkPolicy"]


def test_with_the_charts_own_values_all_that_is_needed_works_in_the_namespace(helm: Helm):
    objects = helm.render({"server": {"ioThreads": 2}})
    scheduler, server = member(objects, "scheduler"), member(objects, "server")
    helm_test = Party(one(objects, "Pod", "test")["metadata"]["labels"])
    for source, target, port in (
        (server, scheduler, 7070),
        (TRAINER, scheduler, 7070),
        (helm_test, scheduler, 7070),
        (TRAINER, server, 7200),
        (TRAINER, server, 7201),
    ):
        assert may_connect(objects, source, target, port), (source, target, port)
    for protocol in ("UDP", "TCP"):
        assert may_connect(objects, server, DNS, 53, protocol)


def test_nothing_else_goes_in_or_out(helm: Helm):
    objects = helm.render()
    scheduler, server = member(objects, "scheduler"), member(objects, "server")
    for source, target, port in (
        (ELSEWHERE, scheduler, 7070),
        (ELSEWHERE, server, 7200),
        (OUTSIDE, scheduler, 7070),
        (TRAINER, scheduler, 9470),
        (TRAINER, server, 9471),
        (PROMETHEUS, scheduler, 9470),
        (TRAINER, server, 7201),
        (server, server, 7200),
        (server, scheduler, 9470),
        (server, TRAINER, 7200),
        (server, OUTSIDE, 443),
        (scheduler, server, 7200),
        (scheduler, scheduler, 7070),
        (scheduler, OUTSIDE, 443),
        (scheduler, OUTSIDE, 2379),
        (scheduler, DNS, 53),
    ):
        assert not may_connect(objects, source, target, port), (source, target, port)


def test_trainers_of_another_namespace_operators_and_prometheus_are_let_in_by_name(helm: Helm):
    trainers = [{"namespaceSelector": {"matchLabels": {NAMES: TRAINING}}, "podSelector": {}}]
    policy = {
        "trainers": trainers,
        "operators": [{"ipBlock": {"cidr": "203.0.113.0/24"}}],
        "monitoring": [{"namespaceSelector": {"matchLabels": {NAMES: "monitoring"}}}],
    }
    objects = helm.render({"networkPolicy": policy})
    scheduler, server = member(objects, "scheduler"), member(objects, "server")
    for party, ports in (
        (ELSEWHERE, {(scheduler.ports["grpc"], "scheduler"), (7200, "server")}),
        # Operators too reach the data ports: shoalctl doctor tries them.
        (OUTSIDE, {(7070, "scheduler"), (9470, "scheduler"), (7200, "server")}),
        (PROMETHEUS, {(9470, "scheduler"), (9471, "server")}),
        (TRAINER, set()),
    ):
        reached = {
            (port, role)
            for role, target in (("scheduler", scheduler), ("server", server))
            for port in target.ports.values()
            if may_connect(objects, party, target, port)
        }
        assert reached == ports, party


def test_schedulers_reach_each_other_and_their_etcd(helm: Helm):
    objects = helm.render({"scheduler": STORE})
    scheduler = member(objects, "scheduler")
    assert may_connect(objects, scheduler, scheduler, 7070)
    assert may_connect(objects, scheduler, DNS, 53, "UDP")
    reached = [port for port in (99, 443, 2379, 2380, 2381) if may_connect(objects, scheduler, OUTSIDE, port)]
    assert reached == [2379, 2381]
    assert not may_connect(objects, member(objects, "server"), OUTSIDE, 2379)


def test_etcd_may_be_named(helm: Helm):
    etcd = {"podSelector": {"matchLabels": {"app.kubernetes.io/name": "etcd"}}}
    objects = helm.render({"scheduler": STORE, "networkPolicy": {"store": [etcd]}})
    scheduler = member(objects, "scheduler")
    assert may_connect(objects, scheduler, Party({"app.kubernetes.io/name": "etcd"}), 2379)
    assert not may_connect(objects, scheduler, OUTSIDE, 2379)


def test_servers_on_the_nodes_network_are_let_in_by_its_addresses(helm: Helm):
    policy = {"nodes": [{"ipBlock": {"cidr": "10.0.0.0/16"}}]}
    objects = helm.render({"server": {"hostNetwork": True}, "networkPolicy": policy})
    scheduler = member(objects, "scheduler")
    assert may_connect(objects, NODE, scheduler, 7070) and not may_connect(objects, NODE, scheduler, 9470)
    assert not may_connect(objects, OUTSIDE, scheduler, 7070)
    policies = [item["metadata"]["name"] for item in objects if item["kind"] == "NetworkPolicy"]
    assert policies == [f"{RELEASE}-shoal-scheduler"], "one for such servers would have no effect"


@pytest.mark.parametrize("release", ["shoal", "training"])
def test_the_example_of_etcd_is_reached_by_schedulers_alone(helm: Helm, release: str):
    etcd = [each for each in yaml.safe_load_all(ETCD.read_text(encoding="utf-8")) if each]
    [policy] = [each for each in etcd if each["kind"] == "NetworkPolicy"]
    kubernetes_validate.validate(policy, "1.34", strict=True)
    [members] = [each for each in etcd if each["kind"] == "StatefulSet"]
    template = members["spec"]["template"]
    ports = {port["name"]: port["containerPort"] for port in template["spec"]["containers"][0]["ports"]}
    one_member = Party(template["metadata"]["labels"], ports=ports)
    objects = helm.render({"scheduler": STORE}, release=release) + [policy]
    scheduler, server = member(objects, "scheduler"), member(objects, "server")
    assert may_connect(objects, scheduler, one_member, 2379)
    assert may_connect(objects, one_member, one_member, 2380)
    # By its own policy: the chart's may be off, or another release's.
    for source, port in ((TRAINER, 2379), (server, 2379), (scheduler, 2380), (ELSEWHERE, 2379), (OUTSIDE, 2379)):
        assert not may_connect([policy], source, one_member, port), (source, port)
    assert not may_connect([policy], one_member, OUTSIDE, 443)
