"""What must hold on many nodes, which are simulated: spread and budgets."""

from lab import CHART, OVER_BUDGET, Lab, LabError, is_ready, wait_until
from release import NAMESPACE, RELEASE, SCHEDULERS, SCHEDULERS_WANTED, SERVERS, objects_of_release


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
