"""The chart's release: how it is installed and changed, and what must hold afterwards."""

import dataclasses
import json
import pathlib
import re
import time

import yaml
from doors import VALUES
from lab import CHART, ROOT, WORK, Lab, LabError, is_ready, wait_until

NAMESPACE = "training"
RELEASE = "shoal"
OF_RELEASE = f"app.kubernetes.io/instance={RELEASE}"
SERVERS = f"{OF_RELEASE},app.kubernetes.io/component=server"
SCHEDULERS = f"{OF_RELEASE},app.kubernetes.io/component=scheduler"
ETCD = (ROOT / "examples/kubernetes/etcd.yaml").read_text(encoding="utf-8")
[STORE] = re.findall(r"^#\s+store: (etcd://\S+)$", ETCD, re.MULTILINE)
SCHEDULERS_WANTED = 3
DRAIN_S = 30
# Values that change arguments and environment, and nothing that a job notices.
OTHER_SERVER_VALUES = {"registerTimeoutSeconds": 60, "extraEnv": [{"name": "UCX_LOG_LEVEL", "value": "warn"}]}
OTHER_SCHEDULER_VALUES = {"reflection": True}
CLAIM = f"state-{RELEASE}-scheduler-0"
MISTYPED = "mistyped"  # the namespace of an installation whose image is missing
MISSING_TAG = "missing"  # of an image that nobody has built
HELM_GIVES_UP_S = 15
HELM_ENDS_S = 30  # after it has given up, at most


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What a release is to have: a build, so many members, and values of theirs beside those that all have here."""

    tag: str
    servers: int = 3
    schedulers: int = SCHEDULERS_WANTED
    server_values: dict = dataclasses.field(default_factory=dict)
    scheduler_values: dict = dataclasses.field(default_factory=dict)


class Release:
    def __init__(self, lab: Lab):
        self.lab = lab
        self.builds: dict[str, str] = {}  # by the id of an image, its tag

    # -- changes

    def values(self, wanted: Wanted) -> pathlib.Path:
        """A file with the chart's values: all doors closed, and little, since the two nodes share two cores."""
        scheduler = {
            "encrypt": True,
            "replicas": wanted.schedulers,
            "store": STORE,
            "image": {"tag": wanted.tag},
            "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
        }
        server = {
            "replicas": wanted.servers,
            "image": {"tag": wanted.tag},
            "resources": {"requests": {"cpu": "100m", "memory": "512Mi"}, "limits": {"memory": "1Gi"}},
            "drainTimeoutSeconds": DRAIN_S,
        }
        chosen = {
            **VALUES,
            "scheduler": scheduler | wanted.scheduler_values,
            "server": server | wanted.server_values,
        }
        file = WORK / "values.yaml"
        file.write_text(yaml.safe_dump(chosen), encoding="utf-8")
        return file

    def install(self, wanted: Wanted) -> None:
        values = self.values(wanted)
        self.lab.helm("install", RELEASE, CHART, "--wait", "--timeout=5m", "--values", values, seconds=330)
        self.expect(wanted)

    def upgrade(self, wanted: Wanted) -> None:
        values = self.values(wanted)
        self.lab.helm("upgrade", RELEASE, CHART, "--wait", "--timeout=8m", "--values", values, seconds=500)
        self.expect(wanted)

    def rollback(self, wanted: Wanted, settings: dict[str, dict]) -> None:
        """To the revision before, which was `wanted`, with these settings."""
        self.lab.helm("rollback", RELEASE, "--wait", "--timeout=8m", seconds=500)
        self.expect(wanted)
        self.expect_settings(settings)

    def fail_without_image(self, selector: str, *arguments: object) -> None:
        """That `helm install` or `helm upgrade` of an image that is nowhere fails by itself, within its timeout.
        `selector`: of the pods that it is for."""
        began = time.monotonic()
        limit_s = HELM_GIVES_UP_S + HELM_ENDS_S
        try:
            self.lab.helm(*arguments, "--wait", f"--timeout={HELM_GIVES_UP_S}s", seconds=limit_s)
        except LabError as refusal:
            if time.monotonic() - began >= limit_s:
                raise
            said = str(refusal)
        else:
            raise LabError(
                f"helm {arguments[0]} --wait succeeded with pods of the image :{MISSING_TAG}, which does not exist:"
                " see `kubectl get pods`"
            )

        def image_is_missing() -> bool:
            statuses = [each for pod in self.lab.pods(selector).values() for each in statuses_of(pod)]
            reasons = [each.get("state", {}).get("waiting", {}).get("reason") for each in statuses]
            return bool({"ErrImagePull", "ImagePullBackOff"} & set(reasons))

        wait_until(f"a pod waits for the image :{MISSING_TAG}; helm said: {said}", image_is_missing)

    # -- what must hold

    def expect(self, wanted: Wanted) -> None:
        """That so many pods are ready and known, and run the build."""
        self.wait_for_schedulers(wanted.schedulers)
        self.wait_for_servers(wanted.servers)
        self.expect_image(wanted)

    def expect_image(self, wanted: Wanted) -> None:
        """That all pods run the build, and that no other build has the same images."""
        tag = wanted.tag
        for selector, count in ((SERVERS, wanted.servers), (SCHEDULERS, wanted.schedulers)):
            pods = self.lab.pods(selector)
            if len(pods) != count:
                raise LabError(f"there are {len(pods)} pods of {selector}, not {count}: see `kubectl get pods`")
            for name, pod in pods.items():
                [container] = pod["status"]["containerStatuses"]
                if not container["image"].endswith(f":{tag}"):
                    raise LabError(f"pod {name} runs {container['image']}, not the build {tag}")
                built = self.builds.setdefault(container["imageID"], tag)
                if built != tag:
                    raise LabError(f"the builds {built} and {tag} have the same image: --other must differ")

    def settings_of_pods(self, selector: str) -> dict[str, dict]:
        """By pod: the arguments and the environment with which its container was started."""
        found = {}
        for name, pod in self.lab.pods(selector).items():
            [container] = pod["spec"]["containers"]
            found[name] = {what: container.get(what, []) for what in ("args", "env")}
        return found

    def settings(self) -> dict[str, dict]:
        """By selector: what all servers have, and what all schedulers have."""
        common = {}
        for selector in (SERVERS, SCHEDULERS):
            found = self.settings_of_pods(selector)
            common[selector], *others = found.values()
            if any(other != common[selector] for other in others):
                raise LabError(f"pods of {selector} were started with different arguments or environment: {found}")
        return common

    def expect_settings(self, expected: dict[str, dict]) -> None:
        for selector, found in self.settings().items():
            for what, words in found.items():
                lacks = [word for word in expected[selector][what] if word not in words]
                kept = [word for word in words if word not in expected[selector][what]]
                if words != expected[selector][what]:
                    raise LabError(
                        f"the {what} of pods of {selector} are not those of the first installation: they lack {lacks}"
                        f" and have {kept} instead; see `helm get values` and the pods' label controller-revision-hash"
                    )

    def expect_other_settings(self, settings: dict[str, dict]) -> None:
        """That an upgrade has changed all that a rollback is to bring back."""
        now = self.settings()
        same = [f"env of {SERVERS}"] if now[SERVERS]["env"] == settings[SERVERS]["env"] else []
        same += [f"args of {each}" for each in (SERVERS, SCHEDULERS) if now[each]["args"] == settings[each]["args"]]
        if same:
            raise LabError(f"the upgrade did not change the {' and the '.join(same)}: see OTHER_SERVER_VALUES")

    def wait_for_schedulers(self, count: int) -> None:
        def are_there() -> bool:
            pods = self.lab.pods(SCHEDULERS)
            return len(pods) == count and all(is_ready(pod) for pod in pods.values())

        wait_until(f"{count} schedulers are ready, and no more are there", are_there)

    def wait_for_servers(self, count: int) -> None:
        """That so many are ready, and that the scheduler has just those live."""

        def are_there() -> bool:
            pods = self.lab.pods(SERVERS)
            if len(pods) != count or not all(is_ready(pod) for pod in pods.values()):
                return False
            live = [each["name"] for each in self.servers() if each["state"] == "live"]
            return sorted(live) == sorted(pods)

        wait_until(f"{count} servers are ready and live", are_there)

    def servers(self) -> list[dict]:
        """As the scheduler knows them; empty while none answers."""
        for name, pod in self.lab.pods(SCHEDULERS).items():
            if is_ready(pod):
                try:
                    shoalctl = ("shoalctl", "--scheduler=127.0.0.1:7070", "servers", "--json")
                    return json.loads(self.lab.kubectl("exec", name, "--", *shoalctl))["servers"]
                except LabError:
                    continue
        return []

    # -- the chart's own values, and an image that is missing

    def install_with_own_values(self, tag: str) -> None:
        """The chart's own ones, but for the build: one scheduler with a volume, and two servers."""
        images = images_of(tag)
        self.lab.helm("install", RELEASE, CHART, "--wait", "--timeout=5m", "--set", images, seconds=330)
        self.expect(own_values(tag))

    def upgrade_build_with_own_values(self, tag: str) -> None:
        """Scheduler and servers at once."""
        self.upgrade_own_values(images_of(tag))
        self.expect(own_values(tag))

    def rollback_own_values(self, tag: str) -> None:
        """To the revision before, which was of this build."""
        self.lab.helm("rollback", RELEASE, "--wait", "--timeout=5m", seconds=330)
        self.expect(own_values(tag))

    def mistype_scheduler(self) -> None:
        """An upgrade to a scheduler's image that is missing, which fails."""
        missing = f"scheduler.image.tag={MISSING_TAG}"
        self.fail_without_image(SCHEDULERS, "upgrade", RELEASE, CHART, "--reuse-values", "--set", missing)

    def upgrade_own_values(self, change: str) -> None:
        upgrade = ("upgrade", RELEASE, CHART, "--reuse-values", "--wait", "--timeout=5m", "--set")
        self.lab.helm(*upgrade, change, seconds=330)

    def see_refusal(self, change: str) -> None:
        """As the chart's README tells, Kubernetes forbids this upgrade."""
        try:
            self.upgrade_own_values(change)
        except LabError as error:
            if "Forbidden" not in str(error):
                raise
        else:
            raise LabError(f"Kubernetes takes {change} now: the chart's README need not tell how to change it")

    def size_of_claim(self) -> str:
        [claim] = [each for each in self.lab.objects("pvc", OF_RELEASE) if each["metadata"]["name"] == CLAIM]
        return claim["spec"]["resources"]["requests"]["storage"]

    def change_volume(self) -> None:
        """As the chart's README tells: the claim of a StatefulSet can't be changed by an upgrade."""
        [before] = self.lab.pods(SCHEDULERS).values()
        size = self.size_of_claim()
        self.see_refusal("scheduler.persistence.size=2Gi")
        self.lab.kubectl("delete", "statefulset", f"{RELEASE}-scheduler", "--cascade=orphan")
        self.upgrade_own_values("scheduler.persistence.size=2Gi")
        self.wait_for_servers(2)
        [statefulset] = self.lab.objects("statefulsets", SCHEDULERS)
        [claim] = statefulset["spec"]["volumeClaimTemplates"]
        [after] = self.lab.pods(SCHEDULERS).values()
        if claim["spec"]["resources"]["requests"]["storage"] != "2Gi":
            raise LabError("the StatefulSet has the old claim")
        if not is_ready(after) or after["metadata"]["name"] != before["metadata"]["name"]:
            raise LabError(f"the scheduler's pod is {after['metadata']['name']}")
        if self.size_of_claim() != size:
            raise LabError(f"{CLAIM}, which had {size}, has {self.size_of_claim()}: the chart's README says it stays")

    def turn_volume_off(self) -> None:
        """As the chart's README tells: the volume stays, and the new scheduler does not have its state."""
        self.see_refusal("scheduler.persistence.enabled=false")
        self.lab.kubectl("delete", "statefulset", f"{RELEASE}-scheduler")
        self.upgrade_own_values("scheduler.persistence.enabled=false")
        self.wait_for_servers(2)
        [scheduler] = self.lab.pods(SCHEDULERS).values()
        claims = [each for each in scheduler["spec"].get("volumes", []) if "persistentVolumeClaim" in each]
        if claims:
            raise LabError(f"the scheduler's pod still has a volume: {claims}")
        self.size_of_claim()  # it is there

    def remove_with_volume(self) -> None:
        """As the chart's notes tell."""
        self.lab.helm("uninstall", RELEASE, "--wait", "--timeout=3m")
        wait_until("the release's pods are gone", lambda: not self.lab.pods(OF_RELEASE))
        self.lab.kubectl("delete", "pod,pvc", "--selector", OF_RELEASE)
        if left := objects_of_release(self.lab):
            raise LabError(f"the release has left {', '.join(sorted(left))}")

    def install_missing_image(self, tag: str) -> None:
        """In a namespace of its own, which is gone afterwards."""
        self.lab.namespace = MISTYPED
        images = f"scheduler.image.tag={tag},server.image.tag={MISSING_TAG}"
        chosen = ("--create-namespace", "--set", images, "--set", "scheduler.persistence.enabled=false")
        self.fail_without_image(SERVERS, "install", RELEASE, CHART, *chosen)
        self.lab.helm("uninstall", RELEASE, "--wait", "--timeout=3m")
        wait_until("nothing of the release is left", lambda: not objects_of_release(self.lab))
        self.lab.kubectl("delete", "namespace", MISTYPED)
        self.lab.namespace = NAMESPACE  # only now: after a failure one wants to see the other one's pods

    def upgrade_to_missing_image(self, tag: str) -> None:
        """It fails, and takes one server only."""
        values = self.values(Wanted(tag, server_values={"image": {"tag": MISSING_TAG}}))
        self.fail_without_image(SERVERS, "upgrade", RELEASE, CHART, "--values", values)
        ready = [name for name, pod in self.lab.pods(SERVERS).items() if is_ready(pod)]
        if len(ready) != 2:
            raise LabError(f"of 3 servers only {ready} are ready: an upgrade must go on only when a new server is")


def images_of(tag: str) -> str:
    """As values for --set."""
    return f"scheduler.image.tag={tag},server.image.tag={tag}"


def own_values(tag: str) -> Wanted:
    """What a release of the chart's own values has, of that build."""
    return Wanted(tag, servers=2, schedulers=1)


def statuses_of(pod: dict) -> list[dict]:
    return pod["status"].get("containerStatuses", [])


def objects_of_release(lab: Lab) -> list[str]:
    return [name for name in lab.names_of_all_objects() if f"/{RELEASE}-" in name or f".{RELEASE}." in name]
