"""Kubernetes' Pod Security Standards as rules on a pod: what the level `restricted` wants, which includes `baseline`
(https://kubernetes.io/docs/concepts/security/pod-security-standards/), field by field as that page lists them."""

from collections.abc import Iterator

CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
VOLUMES = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret",
}  # fmt: skip
SECCOMP = {"RuntimeDefault", "Localhost"}
APPARMOR = {"RuntimeDefault", "Localhost"}
SELINUX_TYPES = {"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}
SYSCTLS = {
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
}


def violations(spec: dict) -> list[str]:
    """Of a pod's spec, each with the field that is wrong. Empty: it is `restricted`."""
    found = [f"spec.{field}" for field in ("hostNetwork", "hostPID", "hostIPC") if spec.get(field)]
    found += [
        f"spec.volumes[{volume['name']}].{kind}"
        for volume in spec.get("volumes", [])
        for kind in volume.keys() - {"name"} - VOLUMES
    ]
    of_pod = spec.get("securityContext", {})
    found += [f"spec.securityContext.{each}" for each in of_anybody(of_pod)]
    found += [f"spec.securityContext.sysctls[{each['name']}]" for each in of_pod.get("sysctls", []) if unsafe(each)]
    for kind in CONTAINERS:
        for container in spec.get(kind, []):
            path = f"spec.{kind}[{container['name']}]"
            found += [f"{path}.{each}" for each in of_container(container, of_pod)]
    return found


def unsafe(sysctl: dict) -> bool:
    return sysctl["name"] not in SYSCTLS


def of_anybody(context: dict) -> Iterator[str]:
    """What a securityContext may not say, of a pod or of a container."""
    if context.get("windowsOptions", {}).get("hostProcess"):
        yield "windowsOptions.hostProcess"
    if context.get("runAsUser") == 0:
        yield "runAsUser"
    if context.get("appArmorProfile", {}).get("type", "RuntimeDefault") not in APPARMOR:
        yield "appArmorProfile.type"
    selinux = context.get("seLinuxOptions", {})
    if selinux.get("type", "") not in SELINUX_TYPES:
        yield "seLinuxOptions.type"
    yield from (f"seLinuxOptions.{field}" for field in ("user", "role") if selinux.get(field))


def of_container(container: dict, of_pod: dict) -> Iterator[str]:
    context = container.get("securityContext", {})
    yield from (f"securityContext.{each}" for each in of_anybody(context))
    if context.get("privileged"):
        yield "securityContext.privileged"
    if context.get("allowPrivilegeEscalation") is not False:
        yield "securityContext.allowPrivilegeEscalation"
    if context.get("procMount", "Default") != "Default":
        yield "securityContext.procMount"
    # The container's own word counts, and without one the pod's.
    if context.get("runAsNonRoot", of_pod.get("runAsNonRoot")) is not True:
        yield "securityContext.runAsNonRoot"
    if context.get("seccompProfile", of_pod.get("seccompProfile", {})).get("type") not in SECCOMP:
        yield "securityContext.seccompProfile.type"
    capabilities = context.get("capabilities", {})
    if "ALL" not in capabilities.get("drop", []):
        yield "securityContext.capabilities.drop"
    if set(capabilities.get("add", [])) - {"NET_BIND_SERVICE"}:
        yield "securityContext.capabilities.add"
    ports = container.get("ports", [])
    yield from (f"ports[{port['containerPort']}].hostPort" for port in ports if port.get("hostPort"))
    hooks = container.get("lifecycle", {})
    actions = {name: container.get(name, {}) for name in ("livenessProbe", "readinessProbe", "startupProbe")}
    actions |= {f"lifecycle.{name}": hooks.get(name, {}) for name in ("postStart", "preStop")}
    for name, action in actions.items():
        yield from (f"{name}.{kind}.host" for kind in ("httpGet", "tcpSocket") if action.get(kind, {}).get("host"))
