"""All doors closed: certificates for everybody, made by openssl, and pods that the Pod Security Standard `restricted`
lets in."""

import pathlib
import shutil
import sys

from lab import ROOT, WORK, Lab, LabError

sys.path.insert(0, str(ROOT / "tests"))
from hosts.authority import Authority

TENANT = "lab"
# Paths of the identities, and the Secrets with their certificates.
PATHS = {"scheduler": "scheduler", "server": "server", "operator": "operator", "worker": f"worker/{TENANT}"}
SECRETS = {role: f"certificate-of-{role}" for role in PATHS}
VALID_S = 24 * 3600
# The chart's values for them.
VALUES = {
    "identities": {
        "source": "secrets",
        "secrets": {role: SECRETS[role] for role in ("scheduler", "server", "operator")},
    },
    "networkPolicy": {"operators": [{"podSelector": {}}], "store": [{"podSelector": {}}]},
}
VARIABLES = ("SHOAL_TLS_CERT", "SHOAL_TLS_KEY", "SHOAL_TLS_CA")
USER = 10001  # of the images
ENFORCED = "pod-security.kubernetes.io/enforce=restricted"


def certificates() -> list[dict]:
    """Secrets of an authority that is new each time."""
    folder = WORK / "authority"
    shutil.rmtree(folder, ignore_errors=True)
    authority = Authority(folder)
    secrets = []
    for role, path in PATHS.items():
        options = authority.member(path, VALID_S)
        files = dict(zip(options[::2], options[1::2], strict=True))
        keys = {"tls.crt": "--tls-cert", "tls.key": "--tls-key", "ca.crt": "--tls-ca"}
        data = {key: pathlib.Path(files[option]).read_text(encoding="utf-8") for key, option in keys.items()}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRETS[role]}, "stringData": data}
        secrets.append(secret | {"type": "kubernetes.io/tls"})
    return secrets


def make_namespace(lab: Lab, name: str) -> None:
    """One that lets in restricted pods alone, with the certificates of everybody."""
    lab.kubectl("create", "namespace", name)
    lab.kubectl("label", "namespace", name, ENFORCED)
    lab.namespace = name
    lab.apply(certificates())


def fit(pod: dict, role: str) -> None:
    """Gives a pod the certificate of the role, where the ConfigMap shoal-client says, and makes it restricted."""
    profile = {"type": "RuntimeDefault"}
    of_images = {"runAsNonRoot": True, "runAsUser": USER, "runAsGroup": USER}
    pod["securityContext"] = {**of_images, "fsGroup": USER, "seccompProfile": profile}
    pod.setdefault("volumes", []).append({"name": "tls", "secret": {"secretName": SECRETS[role], "defaultMode": 0o440}})
    for container in pod["containers"]:
        container["securityContext"] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
        mount = {"name": "tls", "mountPath": "/etc/shoal/tls", "readOnly": True}
        container.setdefault("volumeMounts", []).append(mount)


def see_closed_doors(lab: Lab, scheduler: str, image: str) -> None:
    """Who has no certificate gets no answer, and the namespace lets in no pod that is not restricted. `scheduler`: the
    name of a pod."""
    without = [word for variable in VARIABLES for word in ("-u", variable)]
    command = ("shoalctl", "--scheduler=127.0.0.1:7070", "status")
    lab.kubectl("exec", scheduler, "--", *command)
    try:
        said = lab.kubectl("exec", scheduler, "--", "env", *without, *command)
    except LabError as refusal:
        if "--tls-cert" not in str(refusal):
            raise
    else:
        raise LabError(f"shoalctl without a certificate was answered by {scheduler}: {said}")
    container = {"name": "open", "image": image, "command": ["true"]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "open"}, "spec": {"containers": [container]}}
    try:
        lab.apply([pod])
    except LabError as refusal:
        if "PodSecurity" not in str(refusal):
            raise
    else:
        raise LabError(f"a pod that is not restricted was let in: see the label {ENFORCED} of {lab.namespace}")
