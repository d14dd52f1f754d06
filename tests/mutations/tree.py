"""The copy of the sources in build/mutants that deliberate bugs are put into, and what is built of it."""

import contextlib
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator

from mutation import ROOT, Mutation

TREE = ROOT / "build" / "mutants"
SITE = TREE / "build" / "site"  # where the plugin is installed
COMPILED = (".cc", ".h", ".proto", ".txt", ".cmake")
IN_PYTHON = (".py", ".toml")
CCACHE = "/usr/lib/ccache"


def copy_sources() -> tuple[str, str]:
    """Brings the copy up to date; what did not change keeps its time, so that little is compiled. A digest of what is
    compiled but for tests, and one of tests and Python as well."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
    product, everything = hashlib.sha256(), hashlib.sha256()
    for name in sorted(filter(None, names)):
        source, target = ROOT / name, TREE / name
        if not source.is_file():
            continue
        content = source.read_bytes()
        line = name.encode() + b"\0" + hashlib.sha256(content).digest()
        if source.suffix in COMPILED and not name.startswith("tests/"):
            product.update(line)
        if source.suffix in COMPILED + IN_PYTHON and not name.startswith("tests/mutations/"):
            everything.update(line)
        if not target.is_file() or target.read_bytes() != content:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            target.chmod(source.stat().st_mode)
    return product.hexdigest(), everything.hexdigest()


@contextlib.contextmanager
def with_bug(mutation: Mutation) -> Iterator[None]:
    originals = {edit.file: (TREE / edit.file).read_text(encoding="utf-8") for edit in mutation.edits}
    try:
        for edit in mutation.edits:
            file = TREE / edit.file
            file.write_text(edit.apply(file.read_text(encoding="utf-8")), encoding="utf-8")
        yield
    finally:
        for name, text in originals.items():
            (TREE / name).write_text(text, encoding="utf-8")


def _environment() -> dict[str, str]:
    return {**os.environ, "CCACHE_BASEDIR": str(TREE), "CCACHE_NOHASHDIR": "1"}


def build(targets: Iterable[str], jobs: int) -> None:
    if not (TREE / "build" / "build.ninja").is_file():
        # A mutant changes one source: it alone is compiled again.
        command = ["cmake", "--preset", "release", "-D", "SHOAL_JOINED_SOURCES=OFF"]
        subprocess.run(command, cwd=TREE, env=_environment(), check=True, capture_output=True)
    command = ["ninja", "-j", str(jobs), "-C", "build", *targets]
    done = subprocess.run(command, cwd=TREE, env=_environment(), check=False, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"it does not compile:\n{done.stdout[-4000:]}")


def build_plugin(jobs: int) -> None:
    """Compiles it (as scripts/plugin.sh does), unless what is installed is of the same sources."""
    files = sorted(path for folder in ("pytorch", "worker/include") for path in (TREE / folder).rglob("*"))
    digest = hashlib.sha256()
    for file in files:
        if file.is_file():
            digest.update(str(file).encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    stamp = SITE.with_suffix(".made_of")
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == digest.hexdigest():
        return
    stamp.unlink(missing_ok=True)
    work = TREE / "build" / "pytorch"
    work.mkdir(parents=True, exist_ok=True)
    for made in [SITE, *work.glob("lib*"), *work.glob("bdist*")]:
        shutil.rmtree(made, ignore_errors=True)
    settings = work / "setuptools.cfg"
    settings.write_text(f"[build]\nbuild_base = {work}\n[egg_info]\negg_base = {work}\n", encoding="utf-8")
    environment = _environment() | {
        "PATH": os.pathsep.join([CCACHE, str(pathlib.Path(sys.executable).parent), os.environ["PATH"]]),
        "MAX_JOBS": str(jobs),
        "DIST_EXTRA_CONFIG": str(settings),
    }
    options = ["--disable-pip-version-check", "--no-build-isolation", "--no-compile", "--no-deps", "--no-index"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(SITE), str(TREE / "pytorch")]
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"the plugin does not compile:\n{done.stdout[-4000:]}{done.stderr[-1000:]}")
    stamp.write_text(digest.hexdigest(), encoding="utf-8")
