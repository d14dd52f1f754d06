"""The images that the cluster test runs: built by images.sh, and kept as archives."""

import dataclasses
import os
import pathlib
import shutil
import subprocess

from lab import HERE, ROOT, TOOLS, WORK, LabError, run

MOST_MB = 130  # of the scheduler's and the server's image


@dataclasses.dataclass(frozen=True)
class Image:
    target: str
    tag: str

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


def build_image(name: str, archive: pathlib.Path, *options: object) -> None:
    """A second time it takes seconds, if nothing was changed."""
    print(f"    {name}", flush=True)
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
    run(HERE / "images.sh", "save", name, archive, seconds=1800)


def build_images(tree: pathlib.Path, tag: str, targets: list[str]) -> list[Image]:
    """Of the sources in `tree`, by the Dockerfile that they have."""
    images = [Image(target, tag) for target in targets]
    jobs = os.environ.get("SHOAL_JOBS", str(os.cpu_count()))
    for image in images:
        options = ["--build-arg", f"JOBS={jobs}", "--file", tree / "docker/Dockerfile", "--target", image.target]
        build_image(image.name, image.archive, *options, tree)
        if image.target != "trainer" and image.size_mb > MOST_MB:
            raise LabError(f"{image.name} has {image.size_mb} MB; {MOST_MB} are allowed")
    return images


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
