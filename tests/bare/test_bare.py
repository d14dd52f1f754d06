"""The wheel where users are: bare roots of Debian 12 and 13 with Python and nothing else, and pip's torch. They stay in
build/bare (22 GB, most of it torch's libraries for GPUs); a test sees its own changes alone."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from hosts.network import make_one_node
from hosts.node import THIS_MACHINE, Node
from hosts.process import Process, Processes

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
SCRIPTS = ROOT / "scripts"
PYTHONS = {"bookworm": "3.11", "trixie": "3.13"}
TORCH_VERSIONS = ("2.11.0", "2.15.0")
VENV = "/opt/venv"
STEPS, KILL_AT_STEP = 100, 20
NODE_NAME = "node"  # that of make_one_node
INSTALL_S = 900  # it fetches 3 GB
ENVIRONMENT = {"PATH": f"{VENV}/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(2400),
    pytest.mark.skipif(os.geteuid() != 0, reason="a root folder of another system needs root"),
    pytest.mark.skipif(shutil.which("mmdebstrap") is None, reason="mmdebstrap is missing: apt-get install mmdebstrap"),
]


def call(*command: object, timeout_s: float = 120, status: int = 0, cwd: pathlib.Path = ROOT) -> str:
    done = subprocess.run(
        [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        timeout=timeout_s, cwd=cwd,
    )  # fmt: skip
    assert done.returncode == status, f"$ {' '.join(map(str, command))}\n{done.stdout[-6000:]}"
    return done.stdout


class Machine:
    """A root with torch in VENV. What changes goes with it. Its programs run side by side, with a loopback device
    alone; what is installed comes over this machine's network."""

    def __init__(self, root: pathlib.Path, changes: pathlib.Path, node: Node, processes: Processes) -> None:
        self._processes = processes
        self._node = node
        # All that runs there ends with it.
        command = [SCRIPTS / "in_root.sh", "--changes", changes, root, "sh", "-c", "echo is made; exec sleep infinity"]
        holder = processes.start(command)
        holder.wait_for_line("is made")
        self._init = call("pgrep", "--parent", holder.pid).strip()

    def _start(self, node: Node, settings: dict[str, str], *command: object) -> Process:
        """With nothing of this machine's environment."""
        enter = ["nsenter", "--target", self._init, "--mount", "--pid", "--root", "--wd"]
        words = [f"{name}={value}" for name, value in (ENVIRONMENT | settings).items()]
        return self._processes.start([*enter, "env", "-i", *words, *command], node=node)

    def start(self, *command: object, **settings: str) -> Process:
        return self._start(self._node, settings, *command)

    def call(self, *command: object, **settings: str) -> str:
        """The output. The program is to end well."""
        return output_of(self.start(*command, **settings), 0)

    def refused(self, *command: object) -> str:
        return output_of(self.start(*command), 1)

    def install(self, *command: object, status: int = 0) -> str:
        """As a line: pip breaks and indents what a build says."""
        process = self._start(THIS_MACHINE, pip_settings(), *command)
        return " ".join(output_of(process, status, INSTALL_S).split())

    def pid_of(self, command: str) -> int:
        return int(call("pgrep", "--ns", self._init, "--nslist", "pid", "--full", command))

    def train(self, scheduler: str) -> Process:
        return self.start(
            "torchrun", "--nproc-per-node", 2, "/root/train.py", STEPS,
            SHOAL_SCHEDULER=scheduler, SHOAL_NODE_REDUCE="off",
        )  # fmt: skip


def output_of(process: Process, status: int, timeout_s: float = 120) -> str:
    assert process.wait(timeout_s) == status, process
    return process.output


def pip_settings() -> dict[str, str]:
    """How this machine's pip reaches its servers."""
    own = {name: value for name, value in os.environ.items() if re.match("(?i)pip_|.*_proxy$", name)}
    return own | {"PIP_NO_CACHE_DIR": "1", "PIP_NO_COMPILE": "1", "DEBIAN_FRONTEND": "noninteractive"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """With plugins for the Pythons of both systems, if a Python of Debian 13's version is here."""
    folder = tmp_path_factory.mktemp("wheel")
    others = [word for version in PYTHONS.values() for word in python_arguments(version)]
    versions = [word for version in TORCH_VERSIONS for word in ("--torch", version)]
    call(sys.executable, SCRIPTS / "wheel.py", *versions, *others, "--output", folder, timeout_s=INSTALL_S)
    (made,) = folder.iterdir()
    return made


def python_arguments(version: str) -> list[str]:
    if version == ".".join(map(str, sys.version_info[:2])):
        return []  # that of build/venv
    return ["--python", str(find_python(version))]


def find_python(version: str) -> pathlib.Path:
    """Skips the test if there is none."""
    pyenv = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv"))
    found = [*pathlib.Path("/usr/bin").glob(f"python{version}"), *pyenv.glob(f"versions/{version}.*/bin/python3")]
    for python in found:
        include = call(python, "-c", "import sysconfig; print(sysconfig.get_path('include'))").strip()
        if pathlib.Path(include, "Python.h").is_file():
            return python
    pytest.skip(f"no Python {version} with headers is here, so the wheel has no plugin for it")


def made_once(name: str, make: Callable[[pathlib.Path], None]) -> pathlib.Path:
    folder = BUILD / "bare" / name
    if not folder.exists():
        half_made = folder.with_name(f"{name}.new")
        shutil.rmtree(half_made, ignore_errors=True)
        half_made.parent.mkdir(parents=True, exist_ok=True)
        make(half_made)
        half_made.rename(folder)
    return folder


def root_with_torch(suite: str, torch_version: str) -> pathlib.Path:
    def make_bare(folder: pathlib.Path) -> None:
        call(SCRIPTS / "bare_root.sh", folder, suite, "python3", "python3-venv", timeout_s=INSTALL_S)

    def add_torch(folder: pathlib.Path) -> None:
        call("cp", "-a", made_once(suite, make_bare), folder)
        enter = [SCRIPTS / "in_root.sh", folder, "env", "-i"]
        enter += [f"{name}={value}" for name, value in (ENVIRONMENT | pip_settings()).items()]
        call(*enter, "python3", "-m", "venv", VENV)
        call(*enter, "pip", "install", "--quiet", f"torch=={torch_version}", timeout_s=INSTALL_S)

    return made_once(f"{suite}-torch-{torch_version}", add_torch)


@pytest.fixture(params=[(suite, version) for suite in PYTHONS for version in TORCH_VERSIONS], ids="-torch-".join)
def machine(request: pytest.FixtureRequest, wheel: pathlib.Path, tmp_path: pathlib.Path) -> Iterator[Machine]:
    """With the wheel, installed as its users do."""
    root = root_with_torch(*request.param)
    home, etc = tmp_path / "upper/root", tmp_path / "upper/etc"
    for folder in (home, etc):
        folder.mkdir(parents=True, exist_ok=True)
    shutil.copy2(wheel, home)
    shutil.copy2(pathlib.Path(__file__).with_name("train.py"), home)
    # As on a machine that was set up. torchrun waits for minutes where the node's own name leads nowhere.
    (etc / "hosts").write_text(f"127.0.0.1 localhost\n127.0.1.1 {NODE_NAME}\n", encoding="ascii")
    with make_one_node(1, 0) as network, Processes() as processes:
        made = Machine(root, tmp_path, network.control, processes)
        made.call("pip", "install", "--quiet", f"/root/{wheel.name}")  # with nothing but torch, which is there
        yield made


def weights_of(job: Process) -> list[str]:
    """By rank."""
    assert job.wait(120) == 0, job
    return [digest for _, digest in sorted(re.findall(r"rank (\d) has weights ([0-9a-f]{64})", job.output))]


def test_two_ranks_train_while_a_server_dies(machine):
    machine.refused("sh", "-c", "ls /usr/bin/*g++* /usr/bin/*gcc /usr/include/python3*/Python.h || exit 1")
    cluster = machine.start("shoal-cluster")
    scheduler = cluster.wait_for_line(r"SHOAL_SCHEDULER=(\S+)").group(1)
    undisturbed = weights_of(machine.train(scheduler))
    job = machine.train(scheduler)
    job.wait_for_line(f"step {KILL_AT_STEP}:", 120)
    os.kill(machine.pid_of("shoal-server --name server-1 "), signal.SIGKILL)
    cluster.wait_for_line(r"group-moved .*rank [01] lost server server-1")
    top = machine.call("shoalctl", "top", "--rounds", 1, SHOAL_SCHEDULER=scheduler)
    assert re.search(r"server-0 +live", top) and "1 job, 2 workers" in top and f"step {STEPS - 1}:" not in job.output
    disturbed = weights_of(job)
    assert len(disturbed) == 2 and disturbed[0] == disturbed[1]
    assert disturbed == undisturbed
    events = machine.call("shoalctl", "events", "--since", "1h", SHOAL_SCHEDULER=scheduler)
    assert re.search(r"group-moved .*rank [01] lost server server-1", events), events
    assert re.search(r"server-replaced +server server-1", events), events
    assert re.search(r"server-1 +live", machine.call("shoalctl", "status", SHOAL_SCHEDULER=scheduler))


@pytest.fixture
def source_distribution(tmp_path: pathlib.Path) -> str:
    """The name of the file in /root."""
    home = tmp_path / "upper/root"
    home.mkdir(parents=True)
    call(sys.executable, "setup.py", "-q", "egg_info", "--egg-base", tmp_path, "sdist", "--dist-dir", home,
         cwd=ROOT / "pytorch")  # fmt: skip
    (archive,) = home.glob("shoal-*.tar.gz")
    return archive.name


@pytest.mark.parametrize("machine", [("trixie", "2.15.0")], indirect=True, ids=["trixie-torch-2.15.0"])
def test_what_has_to_be_compiled_says_what_it_lacks_and_then_is(source_distribution, machine):
    lacks = (
        "a C++ compiler (Debian, Ubuntu: g++) and Python's headers in /usr/include/python3.13 (Debian, Ubuntu:"
        " python3-dev)"
    )
    machine.call("sh", "-c", f"rm -r {VENV}/lib/python3*/site-packages/shoal/plugins")
    assert f"needs {lacks}" in machine.refused("python", "-c", "import shoal")
    install = ("pip", "install", "--no-deps", "--force-reinstall", f"/root/{source_distribution}")
    isolated = machine.install(*install, status=1)
    assert "install torch, and then this with `pip install --no-build-isolation`" in isolated
    assert f"needs {lacks}" in machine.install(*install, "--no-build-isolation", status=1)

    machine.install("apt-get", "update", "-q")
    machine.install("apt-get", "install", "-q", "-y", "--no-install-recommends", "g++", "python3-dev")
    job = machine.start("torchrun", "--nproc-per-node", 2, "/root/train.py", 3)
    job.wait_for_line("compiling it once", 60)
    assert job.wait(600) == 0, job
    # It is the plugin alone: for programs and library there is the wheel.
    machine.install(*install, "--no-build-isolation")
    assert "Set SHOAL_LIBRARY to the path of libshoal.so" in machine.refused("python", "-m", "shoal.info")
