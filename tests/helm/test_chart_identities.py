"""Certificates: whatever their source, every program finds its own, as files, and nothing is open that they close."""

import copy
import json
import subprocess

import jsonschema
import pytest

from chart import CHART, NAMESPACE, RELEASE, Helm, container, one, selects
from chart_values import PROGRAMS, VALUES

SECRETS, CERT_MANAGER = "certificates in secrets", "certificates of cert-manager"
FOLDER = "/etc/shoal/tls"
KEYS = ("tls.crt", "tls.key", "ca.crt")  # of a Secret, as cert-manager calls them
FILES = {f"SHOAL_TLS_{name}": f"{FOLDER}/{file}" for name, file in zip(("CERT", "KEY", "CA"), KEYS, strict=True)}
# By what runs with it, the role whose Secret it has. An operator's may see the status, as `helm test` does.
ROLES = {"scheduler": "scheduler", "server": "server", "test": "operator"}
A_TEXT = {"type": "string", "minLength": 1}


def of_fields(required: list[str], **fields: dict) -> dict:
    return {"type": "object", "properties": fields, "required": required, "additionalProperties": False}


# What we use of cert-manager's v1, as its resource definitions have it.
ISSUER_REF = of_fields(["name"], name=A_TEXT, kind=A_TEXT, group=A_TEXT)
PRIVATE_KEY = of_fields(
    ["algorithm", "rotationPolicy"],
    algorithm={"enum": ["RSA", "ECDSA", "Ed25519"]},
    size={"enum": [256, 384, 521]},
    rotationPolicy={"enum": ["Never", "Always"]},
)
SPECS = {
    "Issuer": {
        "oneOf": [
            of_fields(["selfSigned"], selfSigned=of_fields([])),
            of_fields(["ca"], ca=of_fields(["secretName"], secretName=A_TEXT)),
        ]
    },
    "Certificate": of_fields(
        ["secretName", "issuerRef", "privateKey", "duration"],
        isCA={"type": "boolean"},
        commonName={"type": "string", "maxLength": 64},
        uris={"type": "array", "items": {"type": "string", "pattern": "^spiffe://[^/]+/shoal/"}, "minItems": 1},
        secretName=A_TEXT,
        secretTemplate=of_fields([], labels={"type": "object", "additionalProperties": A_TEXT}),
        duration={"type": "string", "pattern": "^[0-9]+h$"},
        usages={"type": "array", "items": {"enum": ["digital signature", "client auth", "server auth"]}},
        privateKey=PRIVATE_KEY,
        issuerRef=ISSUER_REF,
    ),
}


def spec_of(objects: list[dict], component: str) -> dict:
    if component == "test":
        return one(objects, "Pod", "test")["spec"]
    return one(objects, "StatefulSet", component)["spec"]["template"]["spec"]


def certificates(objects: list[dict]) -> dict[str, dict]:
    """The specs by the name of their Secret."""
    return {item["spec"]["secretName"]: item["spec"] for item in objects if item["kind"] == "Certificate"}


def environment(program: dict) -> dict[str, str]:
    return {each["name"]: each["value"] for each in program.get("env", []) if "value" in each}


@pytest.mark.parametrize("source", [SECRETS, CERT_MANAGER])
@pytest.mark.parametrize("component", ROLES)
def test_each_program_has_its_certificate_as_files_that_follow_changes(helm: Helm, source: str, component: str):
    values = VALUES[source]
    spec = spec_of(helm.render(values), component)
    [program] = spec["containers"]
    assert FILES.items() <= environment(program).items()
    [mount] = [each for each in program["volumeMounts"] if each["mountPath"] == FOLDER]
    assert mount == {"name": "tls", "mountPath": FOLDER, "readOnly": True}, "a subPath would not follow changes"
    [volume] = [each for each in spec["volumes"] if each["name"] == mount["name"]]
    secret = volume["secret"]
    given = values["identities"].get("secrets", {})
    assert secret["secretName"] == given.get(ROLES[component], f"{RELEASE}-shoal-{ROLES[component]}-tls")
    paths = {f"{FOLDER}/{each['path']}" for each in secret["items"]}
    assert paths == set(FILES.values()) and {each["key"] for each in secret["items"]} == set(KEYS)
    assert all(each["key"] == each["path"] for each in secret["items"])
    assert secret["defaultMode"] == 0o440 and spec["securityContext"]["fsGroup"] == 10001, "user 10001 reads it"


def test_no_secret_is_in_an_environment_or_an_argument(helm: Helm):
    for values in VALUES.values():
        objects = helm.render(values)
        for component in ROLES:
            [program] = spec_of(objects, component)["containers"]
            assert "envFrom" not in program
            assert "secretKeyRef" not in json.dumps(program.get("env", []))
        assert not [item for item in objects if item["kind"] == "Secret"], "a Secret in a release is in Helm's history"


def test_the_variables_are_those_of_the_programs():
    for name, *command in (["shoal-scheduler"], ["shoal-server"], ["shoalctl", "status"]):
        words = [PROGRAMS / name, *command, "--help"]
        said = subprocess.run(words, capture_output=True, text=True, check=True, timeout=30).stdout
        assert all(f"Environment: {variable}" in said for variable in FILES), name


@pytest.mark.parametrize("source", [SECRETS, CERT_MANAGER])
def test_probes_need_no_certificate(helm: Helm, source: str):
    scheduler = container(one(helm.render(VALUES[source]), "StatefulSet", "scheduler"))
    for probe, path in (("startupProbe", "/healthz"), ("readinessProbe", "/readyz"), ("livenessProbe", "/healthz")):
        assert scheduler[probe]["httpGet"] == {"path": path, "port": "http"} and "grpc" not in scheduler[probe]


def test_the_network_is_open_to_http_alone_where_there_are_certificates(helm: Helm):
    """Both programs need the flag for --http. Whether it opens gRPC too is decided by the files."""
    for name, values in VALUES.items():
        objects = helm.render(values)
        for component in ("scheduler", "server"):
            program = container(one(objects, "StatefulSet", component))
            assert "--insecure-network" in program["args"]
            assert (FILES.items() <= environment(program).items()) == (name in (SECRETS, CERT_MANAGER))


def test_trainers_are_told_where_their_certificate_belongs(helm: Helm):
    readme = (CHART / "README.md").read_text(encoding="utf-8")
    assert f"mountPath: {FOLDER}, readOnly: true" in readme and "secretName: shoal-worker-vision-tls" in readme
    for source in (SECRETS, CERT_MANAGER):
        told = FILES | {"SHOAL_COLOCATE": "off"}  # as workers may run no servers
        assert told.items() <= one(helm.render(VALUES[source]), "ConfigMap", "client")["data"].items()
    assert not told.keys() & one(helm.render(), "ConfigMap", "client")["data"].keys()


def test_meshes_are_told_what_the_port_speaks(helm: Helm):
    for name, values in VALUES.items():
        for item in helm.render(values):
            if item["kind"] == "Service" and "scheduler" in item["metadata"]["name"]:
                [port] = [each for each in item["spec"]["ports"] if each["name"] == "grpc"]
                assert (port["appProtocol"] == "https") == (name in (SECRETS, CERT_MANAGER))


# ---- cert-manager ----


def cert_manager(**values: object) -> dict:
    return {"identities": {"source": "cert-manager", "certManager": values}}


def test_without_cert_manager_there_is_nothing_of_it(helm: Helm):
    for name, values in VALUES.items():
        used = any(item["apiVersion"].startswith("cert-manager.io/") for item in helm.render(values))
        assert used == (name == CERT_MANAGER)


@pytest.mark.parametrize("issuer", [{}, {"name": "ours", "kind": "ClusterIssuer", "group": "x.example"}], ids=str)
def test_what_cert_manager_is_asked_for_has_its_form(helm: Helm, issuer: dict):
    found = [
        item
        for item in helm.render(cert_manager(issuerRef=issuer, tenants=[{"name": "vision"}]))
        if item["apiVersion"] == "cert-manager.io/v1"
    ]
    assert len(found) == (4 if issuer else 7)
    for item in found:
        jsonschema.validate(item["spec"], SPECS[item["kind"]])


def test_each_role_and_each_tenant_has_a_certificate_of_its_own(helm: Helm):
    found = certificates(helm.render(VALUES[CERT_MANAGER]))
    domain = "spiffe://prod.example/shoal"
    expected = {role: f"{domain}/{role}" for role in ("scheduler", "server", "operator")}
    expected |= {f"worker-{tenant}": f"{domain}/worker/{tenant}" for tenant in ("vision", "speech")}
    leaves = {secret: spec["uris"] for secret, spec in found.items() if not spec.get("isCA")}
    assert leaves == {f"{RELEASE}-shoal-{name}-tls": [identity] for name, identity in expected.items()}
    for spec in found.values():
        if not spec.get("isCA"):
            assert {"client auth", "server auth"} <= set(spec["usages"]) and spec["duration"] == "168h"
            assert spec["privateKey"]["rotationPolicy"] == "Always"


def test_the_charts_authority_signs_for_all_and_keeps_its_key(helm: Helm):
    objects = helm.render(cert_manager())
    issuers = {item["metadata"]["name"]: item["spec"] for item in objects if item["kind"] == "Issuer"}
    [(secret, authority)] = [(name, spec) for name, spec in certificates(objects).items() if spec.get("isCA")]
    assert "selfSigned" in issuers[authority["issuerRef"]["name"]] and authority["commonName"]
    assert authority["privateKey"]["rotationPolicy"] == "Never", "with another key no program would know the others"
    for spec in certificates(objects).values():
        if not spec.get("isCA"):
            assert issuers[spec["issuerRef"]["name"]] == {"ca": {"secretName": secret}}


def test_an_issuer_of_yours_signs_instead_also_in_other_namespaces(helm: Helm):
    issuer = {"name": "ours", "kind": "ClusterIssuer"}
    tenants = [{"name": "vision", "namespace": "vision-jobs"}, {"name": "speech"}]
    objects = helm.render(cert_manager(issuerRef=issuer, tenants=tenants))
    found = certificates(objects)
    assert len(found) == 5 and all(spec["issuerRef"] == issuer for spec in found.values())
    assert not [item for item in objects if item["kind"] == "Issuer"]
    places = {item["metadata"]["name"]: item["metadata"]["namespace"] for item in objects}
    assert places[f"{RELEASE}-shoal-worker-vision"] == "vision-jobs"
    assert places[f"{RELEASE}-shoal-worker-speech"] == NAMESPACE


# ---- rules ----


def rules_of(helm: Helm, values: dict) -> list[list[str]]:
    objects = helm.render(values)
    workload = one(objects, "StatefulSet", "scheduler")
    spec = workload["spec"]["template"]["spec"]
    program = container(workload)
    config = one(objects, "ConfigMap", "identities")
    [volume] = [each for each in spec["volumes"] if each.get("configMap")]
    assert volume["configMap"] == {"name": config["metadata"]["name"]}
    [mount] = [each for each in program["volumeMounts"] if each["name"] == volume["name"]]
    assert mount["readOnly"] is True
    [key] = config["data"]
    assert f"--identities={mount['mountPath']}/{key}" in program["args"]
    lines = config["data"][key].splitlines()
    return [line.split() for line in lines if line and not line.startswith("#")]


def test_rules_reach_the_scheduler_as_a_file(helm: Helm):
    assert rules_of(helm, VALUES[SECRETS]) == [["spiffe://prod.example/shoal/*", "viewer"]]
    for values in ({}, cert_manager()):
        objects = helm.render(values)
        assert not [item for item in objects if item["metadata"]["name"].endswith("-identities")]
        arguments = container(one(objects, "StatefulSet", "scheduler"))["args"]
        assert not any(argument.startswith("--identities") for argument in arguments)


def test_with_rules_the_charts_own_certificates_keep_their_roles(helm: Helm):
    """With the file the usual form has no role."""
    values = VALUES[CERT_MANAGER]
    [own, *added] = rules_of(helm, values)
    assert own == ["grafana.prod.example", "viewer"]
    identities = [uri for spec in certificates(helm.render(values)).values() for uri in spec.get("uris", [])]
    assert added == [[uri, *uri.removeprefix("spiffe://prod.example/shoal/").split("/")] for uri in identities]


def test_other_rules_start_the_schedulers_anew(helm: Helm):
    values = copy.deepcopy(VALUES[CERT_MANAGER])

    def annotations() -> dict:
        return one(helm.render(values), "StatefulSet", "scheduler")["spec"]["template"]["metadata"]["annotations"]

    before = annotations()
    assert before["team"] == "training"
    values["identities"]["rules"] += "\nb.example operator"
    assert annotations() != before
    values["identities"]["rules"] = ""
    assert annotations() == {"team": "training"}


# ---- etcd ----


def test_etcd_is_called_with_the_files_of_its_secrets(helm: Helm):
    workload = one(helm.render(VALUES[CERT_MANAGER]), "StatefulSet", "scheduler")
    program, spec = container(workload), workload["spec"]["template"]["spec"]
    mounts = {each["name"]: each for each in program["volumeMounts"]}
    files = {}
    for volume in spec["volumes"]:
        for item in volume.get("secret", {}).get("items", []):
            assert volume["secret"]["defaultMode"] == 0o440 and mounts[volume["name"]]["readOnly"]
            path = f"{mounts[volume['name']]['mountPath']}/{item['path']}"
            files[path] = (volume["secret"]["secretName"], item["key"])
    options = dict(word.split("=", 1) for word in program["args"] if word.startswith("--etcd-"))
    assert {option: files[path] for option, path in options.items()} == {
        "--etcd-ca": ("of-etcd", "ca.crt"),
        "--etcd-cert": ("of-etcd", "tls.crt"),
        "--etcd-key": ("of-etcd", "tls.key"),
        "--etcd-login": ("login-of-etcd", "login"),
    }
    plain = one(helm.render(VALUES["several schedulers"]), "StatefulSet", "scheduler")
    assert not any(word.startswith("--etcd-") for word in container(plain)["args"])


# ---- what Helm says afterwards ----


def notes(helm: Helm, values: dict) -> str:
    # Helm 3 asks a cluster before it shows them.
    if helm.program.name != "helm4":
        pytest.skip("only Helm 4 shows notes without a cluster")
    result = helm.run("install", RELEASE, str(CHART), "--dry-run=client", values=values)
    assert result.returncode == 0, result.stderr
    return result.stdout[result.stdout.index("NOTES:") :]


def test_the_notes_warn_while_everybody_is_let_in(helm: Helm):
    assert "WARNING" in notes(helm, {}) and "networkPolicy is off as well" not in notes(helm, {})
    assert "networkPolicy is off as well" in notes(helm, {"networkPolicy": {"enabled": False}})
    for source in (SECRETS, CERT_MANAGER):
        assert "WARNING" not in notes(helm, VALUES[source])
    assert f"{RELEASE}-shoal-worker-vision-tls in namespace {NAMESPACE}" in notes(helm, VALUES[CERT_MANAGER])


def test_the_notes_name_what_an_uninstall_leaves(helm: Helm):
    for values, kinds in (({}, "pod,pvc"), (VALUES[SECRETS], "pod"), (VALUES[CERT_MANAGER], "pod,secret")):
        said = notes(helm, values)
        assert f"delete {kinds} -l app.kubernetes.io/instance={RELEASE}" in said
    for spec in certificates(helm.render(VALUES[CERT_MANAGER])).values():
        wanted = {"app.kubernetes.io/instance": RELEASE}
        assert selects(wanted, spec["secretTemplate"]["labels"]), "so the command finds its Secret"
