"""The example jobs are valid, fit the chart's ConfigMap, and their parts fit each other."""

import copy
import pathlib
import re

import kubernetes_validate
import pytest
import yaml

from chart import ROOT, Helm

FOLDER = ROOT / "examples" / "kubernetes"
STORE = FOLDER / "etcd.yaml"
EXAMPLES = sorted(path for path in FOLDER.glob("*.yaml") if path != STORE)
VERSION = "1.34"
PODS, RANKS_PER_POD = 4, 2


def documents(path: pathlib.Path) -> dict[str, dict]:
    """By kind."""
    return {document["kind"]: document for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))}


def jobs(path: pathlib.Path) -> list[dict]:
    """As Jobs, whatever makes them: their pods by number and their template."""
    found = documents(path)
    if "Job" in found:
        return [found["Job"]]
    if "JobSet" in found:
        return [
            {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, "spec": each["template"]["spec"]}
            for each in found["JobSet"]["spec"]["replicatedJobs"]
        ]
    if "TrainJob" in found:
        return [job_of_train_job(found["TrainJob"]["spec"]["trainer"], found["TrainingRuntime"]["spec"])]
    replicas = found["PyTorchJob"]["spec"]["pytorchReplicaSpecs"].values()
    made = []
    for each in replicas:
        template = copy.deepcopy(each["template"])
        template["spec"]["restartPolicy"] = each["restartPolicy"]
        spec = {"completions": each["replicas"], "parallelism": each["replicas"], "template": template}
        made.append({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, "spec": spec})
    return made


def job_of_train_job(trainer: dict, runtime: dict) -> dict:
    """As Kubeflow Trainer puts it together from the job's part and its runtime's."""
    [node] = copy.deepcopy(runtime["template"]["spec"]["replicatedJobs"])
    spec = node["template"]["spec"] | {"completions": trainer["numNodes"], "parallelism": trainer["numNodes"]}
    [of_node] = spec["template"]["spec"]["containers"]
    of_node |= {"command": trainer["command"], "env": trainer["env"], "resources": trainer["resourcesPerNode"]}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, "spec": spec}


def container(job: dict) -> dict:
    [only] = job["spec"]["template"]["spec"]["containers"]
    return only


def torchrun_options(job: dict) -> dict[str, str]:
    command = container(job)["command"]
    assert command[0] == "torchrun" and command[-1] == "train.py"
    return dict(option.removeprefix("--").split("=", 1) for option in command[1:-1])


def test_there_are_four():
    assert [path.stem for path in EXAMPLES] == ["job", "jobset", "pytorchjob", "trainjob"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_they_are_valid_and_as_many_pods_as_they_say(path: pathlib.Path):
    for job in jobs(path):
        kubernetes_validate.validate(job, VERSION, strict=True)
    assert sum(job["spec"]["completions"] for job in jobs(path)) == PODS
    assert all(job["spec"]["completions"] == job["spec"]["parallelism"] for job in jobs(path))
    if "Service" in documents(path):
        kubernetes_validate.validate(documents(path)["Service"], VERSION, strict=True)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_their_pods_take_the_charts_settings_and_nothing_of_kubernetes_own(path: pathlib.Path, helm: Helm):
    [config] = [
        item
        for item in helm.render(release="shoal")
        if item["kind"] == "ConfigMap" and "SHOAL_SCHEDULER" in item.get("data", {})
    ]
    for job in jobs(path):
        assert job["spec"]["template"]["spec"]["enableServiceLinks"] is False
        assert container(job)["envFrom"] == [{"configMapRef": {"name": config["metadata"]["name"]}}]
        names = {variable["name"] for variable in container(job)["env"]}
        assert "SHOAL_JOB_NAME" in names and not names & config["data"].keys()


@pytest.mark.parametrize("path", EXAMPLES[:2], ids=lambda path: path.stem)
def test_torchrun_is_told_how_many_there_are_and_where_the_first_one_is(path: pathlib.Path):
    [job] = jobs(path)
    options = torchrun_options(job)
    assert int(options["nnodes"]) == PODS and int(options["nproc-per-node"]) == RANKS_PER_POD
    [index] = re.fullmatch(r"\$\((\w+)\)", options["node-rank"]).groups()
    [variable] = [variable for variable in container(job)["env"] if variable["name"] == index]
    assert variable["valueFrom"]["fieldRef"]["fieldPath"].endswith("['batch.kubernetes.io/job-completion-index']")
    assert job["spec"]["completionMode"] == "Indexed"


def test_the_first_pods_names_are_those_that_kubernetes_gives():
    job, service = documents(EXAMPLES[0])["Job"], documents(EXAMPLES[0])["Service"]
    name = job["metadata"]["name"]
    assert job["spec"]["template"]["spec"]["subdomain"] == service["metadata"]["name"]
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == {"batch.kubernetes.io/job-name": name}
    assert torchrun_options(job)["master-addr"] == f"{name}-0.{service['metadata']['name']}"
    job_set = documents(EXAMPLES[1])["JobSet"]
    [of_pods] = job_set["spec"]["replicatedJobs"]
    name = job_set["metadata"]["name"]
    assert job_set["spec"]["network"]["enableDNSHostnames"]
    assert torchrun_options(jobs(EXAMPLES[1])[0])["master-addr"] == f"{name}-{of_pods['name']}-0-0.{name}"


def test_a_pytorch_job_leaves_to_its_operator_what_torchrun_needs():
    spec = documents(EXAMPLES[2])["PyTorchJob"]["spec"]
    assert int(spec["nprocPerNode"]) == RANKS_PER_POD
    for job in jobs(EXAMPLES[2]):
        assert container(job)["name"] == "pytorch" and torchrun_options(job) == {}


def test_a_train_job_fits_its_runtime_and_leaves_to_trainer_what_torchrun_needs():
    found = documents(EXAMPLES[3])
    assert {document["apiVersion"] for document in found.values()} == {"trainer.kubeflow.org/v1alpha1"}
    job, runtime = found["TrainJob"]["spec"], found["TrainingRuntime"]
    assert job["runtimeRef"] == {"kind": runtime["kind"], "name": runtime["metadata"]["name"]}
    assert "torch" in runtime["spec"]["mlPolicy"] and job["trainer"]["numProcPerNode"] == RANKS_PER_POD
    # By these names Trainer finds the pods that are nodes of torchrun, and their container.
    [node] = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    labels = node["template"]["metadata"]["labels"]
    assert labels == {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"} and node["name"] == "node"
    for made in jobs(EXAMPLES[3]):
        assert container(made)["name"] == "node" and torchrun_options(made) == {}


def test_the_store_is_valid_and_its_members_find_each_other():
    found = documents(STORE)
    for document in found.values():
        kubernetes_validate.validate(document, VERSION, strict=True)
    members = found["StatefulSet"]
    service = found["Service"]["metadata"]["name"]
    assert members["spec"]["serviceName"] == service
    labels = members["spec"]["template"]["metadata"]["labels"].items()
    assert found["Service"]["spec"]["selector"].items() <= labels
    assert found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"].items() <= labels
    names = [f"{members['metadata']['name']}-{number}" for number in range(members["spec"]["replicas"])]
    command = members["spec"]["template"]["spec"]["containers"][0]["command"]
    options = dict(option.removeprefix("--").split("=", 1) for option in command[1:])
    assert options["initial-cluster"] == ",".join(f"{name}=http://{name}.{service}:2380" for name in names)
    store = "etcd://" + ",".join(f"{name}.{service}:2379" for name in names) + "/shoal"
    assert f"store: {store}\n" in STORE.read_text(encoding="utf-8")
