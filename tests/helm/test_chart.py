"""The chart lints, renders valid objects that fit each other, and refuses wrong values with a message that helps."""

import functools
import json
import os
import pathlib
import re
import subprocess

import kubernetes_validate
import pytest

from chart import CHART, NAMESPACE, RELEASE, ROOT, Helm, container, one, selects
from chart_values import PROGRAMS, VALUES

# The library reads all definitions of a version again for every object: most of the time of these tests.
kubernetes_validate.utils.schema_contents = functools.cache(kubernetes_validate.utils.schema_contents)

KUBERNETES_VERSIONS = ["1.27", "1.30", "1.34", "1.37"]


@pytest.fixture(params=VALUES, ids=lambda name: name.replace(" ", "-"))
def values(request) -> dict:
    return VALUES[request.param]


# ---- lint and validity ----


def test_lint_is_content(helm: Helm, values: dict):
    result = helm.run("lint", "--strict", str(CHART), values=values)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "[WARNING]" not in result.stdout


@functools.cache
def complaint(item: str, version: str) -> str:
    """What Kubernetes' schema says of an object in JSON; "" if it is valid. Both Helms render most objects alike."""
    try:
        kubernetes_validate.validate(json.loads(item), version, strict=True)
    except kubernetes_validate.ValidationError as error:
        return f"{'.'.join(map(str, error.path))}: {error.message}"
    return ""


@pytest.mark.parametrize("version", KUBERNETES_VERSIONS)
def test_objects_are_valid_on_supported_kubernetes(helm: Helm, values: dict, version: str):
    for item in helm.render(values, "--kube-version", version):
        if item["apiVersion"] == "cert-manager.io/v1":  # see test_chart_identities.py
            continue
        said = complaint(json.dumps(item, sort_keys=True), version)
        if said:
            pytest.fail(f"{item['kind']} {item['metadata']['name']}: {said}", pytrace=False)


def test_too_old_kubernetes_is_refused(helm: Helm):
    result = helm.run("template", RELEASE, str(CHART), "--kube-version", "1.26")
    assert result.returncode != 0
    assert "kubeVersion" in result.stderr


def test_every_object_is_in_the_releases_namespace_and_labelled(helm: Helm, values: dict):
    for item in helm.render(values):
        labels = item["metadata"]["labels"]
        assert item["metadata"]["namespace"] == NAMESPACE
        assert labels["app.kubernetes.io/instance"] == RELEASE
        assert labels["app.kubernetes.io/managed-by"] == "Helm"


# ---- objects fit each other ----


@pytest.mark.parametrize("role", ["scheduler", "server"])
def test_selectors_meet_the_pods(helm: Helm, values: dict, role: str):
    objects = helm.render(values)
    workload = one(objects, "StatefulSet", role)
    service = one(objects, "Service", role)
    pod_labels = workload["spec"]["template"]["metadata"]["labels"]
    assert selects(workload["spec"]["selector"]["matchLabels"], pod_labels)
    assert selects(service["spec"]["selector"], pod_labels)
    assert workload["spec"]["serviceName"] == service["metadata"]["name"]
    other = one(objects, "StatefulSet", "server" if role == "scheduler" else "scheduler")
    assert not selects(service["spec"]["selector"], other["spec"]["template"]["metadata"]["labels"])
    for constraint in workload["spec"]["template"]["spec"].get("topologySpreadConstraints", []):
        assert selects(constraint["labelSelector"]["matchLabels"], pod_labels)
    assert workload["spec"]["podManagementPolicy"] == "Parallel", "in order, a pod that can't start is never replaced"


def test_members_are_spread_over_nodes(helm: Helm):
    objects = helm.render(VALUES["several schedulers"])
    for role in ("scheduler", "server"):
        [constraint] = one(objects, "StatefulSet", role)["spec"]["template"]["spec"]["topologySpreadConstraints"]
        assert (constraint["topologyKey"], constraint["maxSkew"]) == ("kubernetes.io/hostname", 1)


def test_servers_advertise_their_pods_address_or_that_of_a_second_network(helm: Helm):
    usual = helm.render({})
    assert "--advertise=$(POD_IP)" in container(one(usual, "StatefulSet", "server"))["args"]
    assert "SHOAL_NET_DEVICE" not in one(usual, "ConfigMap", "client")["data"]
    second = helm.render(VALUES["a second network"])
    server = one(second, "StatefulSet", "server")
    assert "--advertise=10.20.0.0/16" in container(server)["args"]
    assert server["spec"]["template"]["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"] == "data"
    assert one(second, "ConfigMap", "client")["data"]["SHOAL_NET_DEVICE"] == "net1"


def test_an_upgrade_of_the_chart_alone_starts_no_pod_anew(helm: Helm):
    for role in ("scheduler", "server"):
        labels = one(helm.render(), "StatefulSet", role)["spec"]["template"]["metadata"]["labels"]
        assert not {"helm.sh/chart", "app.kubernetes.io/version"} & labels.keys()


@pytest.mark.parametrize("role", ["scheduler", "server"])
def test_services_lead_to_named_container_ports(helm: Helm, values: dict, role: str):
    objects = helm.render(values)
    ports = {port["name"]: port["containerPort"] for port in container(one(objects, "StatefulSet", role))["ports"]}
    for port in one(objects, "Service", role)["spec"]["ports"]:
        assert ports[port["targetPort"]] == port["port"]


def test_servers_and_clients_are_told_the_schedulers_address(helm: Helm, values: dict):
    objects = helm.render(values)
    service = one(objects, "Service", "schedulers" if values.get("scheduler", {}).get("store") else "scheduler")
    address = f"{service['metadata']['name']}.{NAMESPACE}.svc:{service['spec']['ports'][0]['port']}"
    server = container(one(objects, "StatefulSet", "server"))
    assert f"--scheduler={address}" in server["args"]
    if values.get("clientConfig", {}).get("enabled", True):
        assert one(objects, "ConfigMap", "client")["data"]["SHOAL_SCHEDULER"] == address


def test_a_server_has_one_port_a_thread_and_says_its_own_address_and_name(helm: Helm):
    server = container(one(helm.render({"server": {"ioThreads": 3, "portBase": 7300}}), "StatefulSet", "server"))
    assert [port["containerPort"] for port in server["ports"]] == [7300, 7301, 7302, 9471]
    assert {"--io-threads=3", "--port-base=7300", "--advertise=$(POD_IP)", "--name=$(POD_NAME)"} <= set(server["args"])
    fields = {item["name"]: item["valueFrom"]["fieldRef"]["fieldPath"] for item in server["env"] if "valueFrom" in item}
    assert fields == {"POD_IP": "status.podIP", "POD_NAME": "metadata.name"}


@pytest.mark.parametrize("role", ["scheduler", "server"])
def test_arguments_are_options_that_the_program_has(helm: Helm, values: dict, role: str):
    """The real program's --help is the judge: an option that was renamed breaks the chart here."""
    text = subprocess.run(
        [PROGRAMS / f"shoal-{role}", "--help"], capture_output=True, text=True, check=True, timeout=30
    ).stdout
    offered = set(re.findall(r"--[a-z][a-z-]*", text))
    for argument in container(one(helm.render(values), "StatefulSet", role))["args"]:
        assert argument.split("=")[0] in offered, f"shoal-{role} has no {argument}"


def test_the_scheduler_is_told_what_ports_hold_where_that_is_known(helm: Helm):
    for port_buffer_bytes, told in [(0, []), (1 << 30, ["--port-buffer=1073741824"])]:
        values = {"scheduler": {"portBufferBytes": port_buffer_bytes}}
        arguments = container(one(helm.render(values), "StatefulSet", "scheduler"))["args"]
        assert [argument for argument in arguments if argument.startswith("--port-buffer")] == told


def test_the_scheduler_is_told_to_encrypt_where_that_is_wanted(helm: Helm):
    for encrypt in (False, True):
        arguments = container(one(helm.render({"scheduler": {"encrypt": encrypt}}), "StatefulSet", "scheduler"))["args"]
        assert ("--encrypt" in arguments) == encrypt


def test_the_scheduler_is_ready_while_its_grpc_port_serves(helm: Helm):
    scheduler = container(one(helm.render({"scheduler": {"port": 9000}}), "StatefulSet", "scheduler"))
    assert "--listen=0.0.0.0:9000" in scheduler["args"]
    assert scheduler["readinessProbe"]["grpc"]["port"] == 9000


@pytest.mark.parametrize("role", ["scheduler", "server"])
def test_probes_ask_the_process_itself_at_its_http_port(helm: Helm, role: str):
    program = container(one(helm.render({role: {"httpPort": 9999}}), "StatefulSet", role))
    assert "--http=0.0.0.0:9999" in program["args"]
    assert {"name": "http", "containerPort": 9999} in program["ports"]
    probes = {"startupProbe": "/healthz"}
    if role == "server":
        probes["readinessProbe"] = "/readyz"
    for probe, path in probes.items():
        assert program[probe]["httpGet"] == {"path": path, "port": "http"}


def test_no_probe_restarts_a_server_and_a_scheduler_that_does_not_listen_is_restarted(helm: Helm):
    objects = helm.render({"scheduler": {"port": 9000}})
    assert "livenessProbe" not in container(one(objects, "StatefulSet", "server"))
    assert container(one(objects, "StatefulSet", "scheduler"))["livenessProbe"]["grpc"]["port"] == 9000


def test_the_log_is_as_the_values_say(helm: Helm):
    objects = helm.render({"logFormat": "json", "scheduler": {"logEvents": False}})
    scheduler = container(one(objects, "StatefulSet", "scheduler"))
    assert {"--log-events=false", "--log-format=json"} <= set(scheduler["args"])
    assert "--log-format=json" in container(one(objects, "StatefulSet", "server"))["args"]


def test_state_is_written_where_a_volume_is(helm: Helm, values: dict):
    workload = one(helm.render(values), "StatefulSet", "scheduler")
    scheduler = container(workload)
    volumes = workload["spec"].get("volumeClaimTemplates", []) + workload["spec"]["template"]["spec"].get("volumes", [])
    names = [volume.get("metadata", volume)["name"] for volume in volumes]
    paths = {mount["name"]: mount["mountPath"] for mount in scheduler.get("volumeMounts", [])}
    assert sorted(names) == sorted(paths), "each volume is mounted once"
    if "store" in values.get("scheduler", {}):
        assert "state" not in paths and "volumeClaimTemplates" not in workload["spec"]
    else:
        assert f"--state-file={paths['state']}/scheduler.state" in scheduler["args"]


# What Kubernetes lets an upgrade change of a StatefulSet's spec.
CHANGEABLE = {
    "replicas", "ordinals", "template", "updateStrategy", "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
    "revisionHistoryLimit",
}  # fmt: skip
A_STORE = {"store": "etcd://etcd:2379/shoal"}


SIZE_OR_CLASS = "*The size, class or access modes of the scheduler's volume*"
WHETHER_THERE_IS_ONE = "*Whether there is a volume* (`scheduler.persistence.enabled`)"
VOLUME_OR_STORE = "*From one scheduler with a volume to several with a store*"


@pytest.mark.parametrize(
    ("before", "after", "item"),
    [
        ({}, {"scheduler": {"persistence": {"size": "2Gi"}}}, SIZE_OR_CLASS),
        ({}, {"scheduler": {"persistence": {"storageClass": "fast"}}}, SIZE_OR_CLASS),
        ({}, {"scheduler": {"persistence": {"accessModes": ["ReadWriteOncePod"]}}}, SIZE_OR_CLASS),
        ({}, {"scheduler": {"persistence": {"enabled": False}}}, WHETHER_THERE_IS_ONE),
        ({}, {"scheduler": A_STORE}, VOLUME_OR_STORE),
        ({"scheduler": A_STORE}, {"scheduler": A_STORE | {"persistence": {"enabled": False}}}, None),
        ({"scheduler": A_STORE}, {"scheduler": A_STORE | {"replicas": 3}}, None),
        ({}, {"server": {"replicas": 5, "ioThreads": 2, "updateStrategy": "OnDelete"}}, None),
    ],
    ids=lambda value: json.dumps(value).replace(" ", "")[:60] if isinstance(value, dict) else "",
)
def test_what_kubernetes_forbids_an_upgrade_is_in_the_readme(helm: Helm, before: dict, after: dict, item: str | None):
    """Both values render; Kubernetes then refuses the upgrade from one to the other, either way."""

    def fixed(values: dict) -> list[dict]:
        objects = helm.render(values)
        specs = [one(objects, "StatefulSet", role)["spec"] for role in ("scheduler", "server")]
        return [{key: value for key, value in spec.items() if key not in CHANGEABLE} for spec in specs]

    assert (fixed(before) != fixed(after)) == (item is not None)
    assert item is None or f"- {item}" in (CHART / "README.md").read_text(encoding="utf-8")


def test_the_readme_says_how_to_upgrade_with_options_that_this_helm_has(helm: Helm):
    readme = (CHART / "README.md").read_text(encoding="utf-8")
    named = ["--reset-then-reuse-values"]
    named += ["--force-conflicts", "--force-replace"] if helm.program.name == "helm4" else ["--force"]
    offered = re.findall(r"--[a-z-]+", helm.run("upgrade", "--help").stdout)
    for option in named:
        assert f"{option}`" in readme and option in offered


def test_another_number_of_schedulers_starts_none_anew(helm: Helm):
    three, one_only = (
        one(helm.render({"scheduler": A_STORE | {"replicas": count}}), "StatefulSet", "scheduler") for count in (3, 1)
    )
    assert three["spec"]["template"] == one_only["spec"]["template"]


def test_flight_records_are_written_where_a_volume_is(helm: Helm):
    volume = {"nfs": {"server": "files", "path": "/records"}}
    workload = one(helm.render({"server": {"flightRecorder": {"volume": volume}}}), "StatefulSet", "server")
    (mount,) = container(workload)["volumeMounts"]
    assert f"--flight-recorder={mount['mountPath']}" in container(workload)["args"]
    assert workload["spec"]["template"]["spec"]["volumes"] == [{"name": mount["name"], **volume}]
    without = one(helm.render(), "StatefulSet", "server")
    assert "volumeMounts" not in container(without) and "volumes" not in without["spec"]["template"]["spec"]
    assert not any(argument.startswith("--flight-recorder") for argument in container(without)["args"])
    assert container(without)["securityContext"]["readOnlyRootFilesystem"], "they say so when a group fails"


def test_one_scheduler_unless_they_share_a_store(helm: Helm):
    alone = one(helm.render(), "StatefulSet", "scheduler")
    assert alone["spec"]["replicas"] == 1
    assert not any(argument.startswith("--store") for argument in container(alone)["args"])
    values = VALUES["several schedulers"]
    objects = helm.render(values)
    several = one(objects, "StatefulSet", "scheduler")
    assert several["spec"]["replicas"] == 3
    scheduler = container(several)
    assert f"--store={values['scheduler']['store']}" in scheduler["args"]
    assert "--advertise=$(POD_IP):7070" in scheduler["args"]
    assert scheduler["env"] == [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]


def test_a_stopping_server_gets_the_time_it_drains_in(helm: Helm):
    workload = one(helm.render({"server": {"drainTimeoutSeconds": 100}}), "StatefulSet", "server")
    assert "--drain-timeout=100000" in container(workload)["args"]
    assert workload["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] > 100


def test_pods_run_with_no_privilege(helm: Helm, values: dict):
    for item in helm.render(values):
        pod = item["spec"] if item["kind"] == "Pod" else item.get("spec", {}).get("template", {}).get("spec")
        if pod is None:
            continue
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        assert pod["enableServiceLinks"] is False
        for each in pod["containers"]:
            assert each["securityContext"]["readOnlyRootFilesystem"] is True
            assert each["securityContext"]["allowPrivilegeEscalation"] is False
            assert each["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert each["resources"]["limits"]["memory"]


def test_switches_remove_objects(helm: Helm):
    kinds = {item["kind"] for item in helm.render(VALUES["one small server"])}
    assert not kinds & {"PodDisruptionBudget", "ServiceAccount", "ConfigMap", "NetworkPolicy"}
    assert "PodDisruptionBudget" in {item["kind"] for item in helm.render()}


def test_images_by_tag_digest_and_default(helm: Helm):
    objects = helm.render(VALUES["guarded"])
    assert container(one(objects, "StatefulSet", "scheduler"))["image"] == "localhost/shoal/scheduler:nightly"
    assert container(one(objects, "StatefulSet", "server"))["image"] == "localhost/shoal/server@sha256:" + "0" * 64
    version = re.search(r"project\(shoal VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"))
    server = container(one(helm.render(), "StatefulSet", "server"))
    assert server["image"] == f"localhost/shoal/server:{version.group(1)}"


def test_jobs_need_one_server_to_begin_unless_the_values_say_more(helm: Helm):
    for values, servers in (({}, "1"), ({"clientConfig": {"minServers": 3}, "server": {"replicas": 4}}, "3")):
        (config,) = [item for item in helm.render(values) if item["kind"] == "ConfigMap"]
        assert config["data"]["SHOAL_MIN_SERVERS"] == servers


def test_members_are_given_the_addresses_of_all_schedulers(helm: Helm):
    objects = helm.render(VALUES["several schedulers"])
    everyone = one(objects, "Service", "schedulers")
    assert everyone["spec"]["clusterIP"] == "None"
    assert everyone["spec"]["publishNotReadyAddresses"] is True
    schedulers = one(objects, "StatefulSet", "scheduler")["spec"]["template"]["metadata"]["labels"]
    assert selects(everyone["spec"]["selector"], schedulers)


def test_budgets_let_nodes_be_drained(helm: Helm):
    objects = helm.render(VALUES["several schedulers"])
    for role in ("scheduler", "server"):
        budget = one(objects, "PodDisruptionBudget", role)["spec"]
        assert budget["maxUnavailable"] == 1
        assert budget["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
    kinds = [item["metadata"]["name"] for item in helm.render() if item["kind"] == "PodDisruptionBudget"]
    assert kinds == [f"{RELEASE}-shoal-server"], "one scheduler alone could never be moved"
    for item in helm.render({"scheduler": {"persistence": {"enabled": False}, "store": "etcd://etcd:2379/shoal"}}):
        volumes = item.get("spec", {}).get("template", {}).get("spec", {}).get("volumes", [])
        assert not volumes, "an emptyDir makes `kubectl drain` ask for --delete-emptydir-data"


def test_slot_memory_as_a_number_reaches_the_server(helm: Helm):
    objects = helm.render({"server": {"slotMemory": 268435456}})
    assert "--slot-memory=268435456" in container(one(objects, "StatefulSet", "server"))["args"]


def test_slot_memory_that_fits_is_taken(helm: Helm):
    for slots, limit in (
        ("256M", "512Mi"), ("4GiB", "8Gi"), ("1G", "2G"), (268435456, "1Gi"), ("1G", "0.002T"), ("256M", "1e9"),
        ("256M", "1000000000000m"), ("3G", "3490M"),
    ):  # fmt: skip
        memory = {"memory": limit}
        helm.render({"server": {"slotMemory": slots, "resources": {"requests": memory, "limits": memory}}})


def run_status_test(helm: Helm, tmp_path: pathlib.Path, live: int, replicas: int) -> subprocess.CompletedProcess:
    """The script of `helm test`, with a shoalctl that prints what the real one does for so many live servers, as many
    in workers' processes, and a lost one."""
    (pod,) = [item for item in helm.render({"server": {"replicas": replicas}}) if item["kind"] == "Pod"]
    (status,) = pod["spec"]["containers"]
    states = [("live", "0")] * live + [("live", "1")] * live + [("lost", "0")]
    document = {
        "cluster": {"cluster_id": "0123", "servers_live": live, "servers_lost": 1, "servers_colocated": live},
        "servers": [{"name": f"s{i}", "state": state, "job_id": job} for i, (state, job) in enumerate(states)],
        "jobs": [],
    }
    as_json, as_text = tmp_path / "status.json", tmp_path / "status.txt"
    as_json.write_text(json.dumps(document, separators=(",", ":")) + "\n", encoding="utf-8")
    as_text.write_text(f"Cluster 0123\nIt has map epoch 1, {live} servers live, 1 lost\n", encoding="utf-8")
    fake = tmp_path / "shoalctl"
    script = f"""#!/bin/sh
case "$*" in
  "status --json") cat {as_json} ;;
  status) cat {as_text} ;;
  *) exit 2 ;;
esac
"""
    fake.write_text(script, encoding="utf-8")
    fake.chmod(0o755)
    (tmp_path / "sleep").write_text("#!/bin/sh\n", encoding="utf-8")
    (tmp_path / "sleep").chmod(0o755)
    return subprocess.run(
        status["command"],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_helm_test_fails_while_servers_are_missing(helm: Helm, tmp_path: pathlib.Path):
    there = run_status_test(helm, tmp_path, live=3, replicas=3)
    assert there.returncode == 0, there.stderr
    assert "3 servers live" in there.stdout
    # The colocated ones would make four.
    missing = run_status_test(helm, tmp_path, live=2, replicas=3)
    assert missing.returncode == 1
    assert "2 of 3 reduction servers are live" in missing.stderr
    assert run_status_test(helm, tmp_path, live=0, replicas=1).returncode == 1


def test_the_pod_of_helm_test_may_run_where_a_scheduler_may(helm: Helm):
    placement = {
        "nodeSelector": {"pool": "control"},
        "tolerations": [{"key": "control", "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "high",
    }
    objects = helm.render({"scheduler": placement})
    (pod,) = [item for item in objects if item["kind"] == "Pod"]
    for spec in (pod["spec"], one(objects, "StatefulSet", "scheduler")["spec"]["template"]["spec"]):
        assert {key: spec.get(key) for key in placement} == placement


# ---- wrong values ----


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"servers": {}}, "servers"),
        ({"server": {"ipcLock": True}}, "ipcLock"),
        ({"server": {"replica": 3}}, "replica"),
        ({"server": {"replicas": 0}}, "replicas"),
        ({"server": {"replicas": "three"}}, "replicas"),
        ({"server": {"ioThreads": 0}}, "ioThreads"),
        ({"server": {"portBase": 70000}}, "portBase"),
        ({"server": {"slotMemory": "256Megs"}}, "slotMemory"),
        ({"server": {"transports": "tcp, rc"}}, "transports"),
        ({"server": {"transports": "rc,tcp"}}, "transports"),
        ({"server": {"transports": "all"}}, "transports"),
        ({"server": {"updateStrategy": "Recreate"}}, "updateStrategy"),
        ({"server": {"image": {"digest": "sha256:12"}}}, "digest"),
        ({"server": {"image": {"pullPolicy": "Sometimes"}}}, "pullPolicy"),
        ({"server": {"resources": {"limits": {"memory": "lots"}}}}, "memory"),
        ({"server": {"extraEnv": [{"value": "1"}]}}, "name"),
        ({"server": {"flightRecorder": {"volume": {"nfs": {}, "hostPath": {}}}}}, "flightRecorder"),
        ({"server": {"flightRecorder": {"folder": "/records"}}}, "folder"),
        ({"scheduler": {"leaseTtlMs": 5}}, "leaseTtlMs"),
        ({"scheduler": {"replicas": 3}}, "replicas 3 without scheduler.store"),
        ({"scheduler": {"replicas": 0}}, "replicas"),
        ({"scheduler": {"store": "redis://cache:6379"}}, "store"),
        ({"scheduler": {"persistence": {"accessModes": ["Anything"]}}}, "accessModes"),
        ({"networkPolicy": {"trainers": [{"pods": {}}]}}, "pods"),
        ({"networkPolicy": {"enabled": True, "trainers": []}}, "trainers"),
        ({"nameOverride": "Has Spaces"}, "nameOverride"),
        ({"server": {"portBase": 65530, "ioThreads": 8}}, "beyond port 65535"),
        ({"server": {"httpPort": 7200}}, "one of the data plane's ports"),
        ({"server": {"ioThreads": 4, "httpPort": 7203}}, "one of the data plane's ports"),
        ({"scheduler": {"httpPort": 7070}}, "are both 7070"),
        ({"logFormat": "xml"}, "logFormat"),
        ({"server": {"slotMemory": "800M"}}, "slotMemory 800M does not fit into the memory limit 1Gi"),
        ({"server": {"slotMemory": 1073741824}}, "does not fit"),
        ({"server": {"slotMemory": "3840M", "resources": {"limits": {"memory": "4G"}}}}, "does not fit"),
        ({"server": {"slotMemory": "3G", "resources": {"limits": {"memory": "3480M"}}}}, "does not fit"),
        ({"clientConfig": {"minServers": 0}}, "minServers"),
        ({"server": {"transports": "rc,ud"}, "scheduler": {"encrypt": True}}, "goes with server.transports tcp"),
        ({"server": {"hostNetwork": True}}, "networkPolicy.nodes names none"),
    ],
    ids=lambda value: str(value).replace(" ", "")[:60] if isinstance(value, dict) else "",
)
def test_wrong_values_are_refused(helm: Helm, values: dict, said: str):
    assert said in helm.refuse(values)


def test_every_value_is_in_the_schema_and_every_level_is_closed(helm: Helm):
    """A value without a schema entry is refused by helm itself (the chart renders); a level that is open is not."""
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))

    def closed(node: dict, path: str) -> list[str]:
        problems = []
        if "properties" in node and node.get("additionalProperties") is not False:
            problems.append(path)
        for name, child in {**node.get("properties", {}), **node.get("definitions", {})}.items():
            problems += closed(child, f"{path}.{name}")
        return problems

    assert schema["$schema"].startswith("http://json-schema.org/draft-07/")
    assert closed(schema, "values") == []
