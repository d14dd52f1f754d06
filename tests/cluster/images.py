"""The images that the cluster test runs: built by images.sh, and kept as archives."""

import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import tarfile
import time

from lab import HERE, ROOT, TOOLS, WORK, LabError, run

MOST_MB = 130  # of the scheduler's and the server's image
PROGRAMS = ("shoal-scheduler", "shoal-server", "shoal-perf", "shoalctl", "libshoal.so")


@dataclasses.dataclass(frozen=True)
class Image:
    target: str
    tag: str
    built_s: float = 0.0  # with what layers of an earlier build are kept, and without saving it

    @property
    def name(self) -> str:
        return f"localhost/shoal/{self.target}:{self.tag}"

    @property
    def archive(self) -> pathlib.Path:
        return WORK / f"{self.target}-{self.tag}.tar"

    @property
    def size_mb(self) -> int:
        """Of its layers, which the archive has without compression."""
        return self.archive.stat().st_size // 1_000_000


def build_image(name: str, archive: pathlib.Path, *options: object) -> float:
    """How long that took, in seconds. A second time it takes few, if nothing was changed."""
    print(f"    {name}", flush=True)
    began = time.monotonic()
    log = WORK / "images.log"
    with log.open("a") as output:
        done = subprocess.run(
            [str(HERE / "images.sh"), "build", name, *map(str, options)],
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    if done.returncode != 0:
        raise LabError(f"{name} could not be built: {log.read_text()[-3000:]}")
    took_s = time.monotonic() - began
    run(HERE / "images.sh", "save", name, archive, seconds=1800)
    return took_s


def build_images(tree: pathlib.Path, tag: str, targets: list[str]) -> list[Image]:
    """Of the sources in `tree`, by the Dockerfile that they have."""
    images = []
    jobs = os.environ.get("SHOAL_JOBS", str(os.cpu_count()))
    for target in targets:
        image = Image(target, tag)
        options = ["--build-arg", f"JOBS={jobs}", "--file", tree / "docker/Dockerfile", "--target", target]
        image = dataclasses.replace(image, built_s=build_image(image.name, image.archive, *options, tree))
        if target in ("scheduler", "server") and image.size_mb > MOST_MB:
            raise LabError(
                f"{image.name} has {image.size_mb} MB; {MOST_MB} are allowed: see which layer has grown, and what"
                " docker/collect.sh has put into /usr/share/shoal/packages.txt"
            )
        images.append(image)
    return images


def check_symbols(image: Image) -> None:
    """That the target `symbols` has those of each program, and nothing else."""
    found = {}
    with tarfile.open(image.archive) as archive:
        [manifest] = json.load(archive.extractfile("manifest.json"))
        for name in manifest["Layers"]:
            with tarfile.open(fileobj=archive.extractfile(name)) as layer:
                found |= {pathlib.PurePosixPath(file.name).name: file.size for file in layer if file.isfile()}
    if found.keys() != {f"{program}.debug" for program in PROGRAMS} or 0 in found.values():
        raise LabError(f"{image.name} has not just one file for each of {PROGRAMS}, see docker/collect.sh: {found}")


def tree_of(commit: str) -> pathlib.Path:
    tree = WORK / f"tree-{commit}"
    if not tree.is_dir():
        unfinished, packed = WORK / "tree-unfinished", WORK / "tree.tar"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        run("git", "archive", "--output", packed, commit, cwd=ROOT)
        run("tar", "-x", "-f", packed, "-C", unfinished)
        packed.unlink()
        unfinished.rename(tree)
    return tree


def build_etcd() -> pathlib.Path:
    folder = WORK / "etcd"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(TOOLS / "kubernetes/kubernetes", folder / "etcd")
    archive = WORK / "etcd.tar"
    build_image("localhost/etcd:1", archive, "--file", HERE / "etcd.Dockerfile", folder)
    return archive
