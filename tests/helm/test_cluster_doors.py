"""What the cluster test (tests/cluster) installs and starts fits the chart: that test runs too seldom to tell."""

import pathlib
import sys

import kubernetes_validate

from chart import ROOT, Helm, one
from pod_security import violations

sys.path.append(str(ROOT / "tests/cluster"))
import doors
from acceptance import job_of
from training_job import job_documents

PODS = {
    "trainer": next(each for each in job_documents("train", [], "x") if each["kind"] == "Job"),
    "acceptance": job_of("doctor", "x", 1, "operator", "true"),
}


def test_its_pods_are_restricted_and_have_their_certificate_where_they_are_told(helm: Helm):
    told = one(helm.render(doors.VALUES | {"scheduler": {"store": "etcd://etcd:2379"}}), "ConfigMap", "client")["data"]
    for name, job in PODS.items():
        kubernetes_validate.validate(job, "1.34", strict=True)
        spec = job["spec"]["template"]["spec"]
        assert violations(spec) == [], name
        [mount] = [each for each in spec["containers"][0]["volumeMounts"] if each["name"] == "tls"]
        assert {told[variable].rpartition("/")[0] for variable in doors.VARIABLES} == {mount["mountPath"]}


def test_its_secrets_have_what_the_chart_mounts(helm: Helm, tmp_path: pathlib.Path, monkeypatch):
    monkeypatch.setattr(doors, "WORK", tmp_path)
    made = {each["metadata"]["name"]: each["stringData"].keys() for each in doors.certificates()}
    objects = helm.render(doors.VALUES | {"scheduler": {"store": "etcd://etcd:2379"}})
    specs = [one(objects, "StatefulSet", role)["spec"]["template"]["spec"] for role in ("scheduler", "server")]
    specs += [one(objects, "Pod", "test")["spec"], *(job["spec"]["template"]["spec"] for job in PODS.values())]
    mounted = [each["secret"] for spec in specs for each in spec["volumes"] if "secret" in each]
    assert {secret["secretName"] for secret in mounted} == made.keys()
    for secret in mounted:
        assert {item["key"] for item in secret.get("items", [])} <= made[secret["secretName"]]
