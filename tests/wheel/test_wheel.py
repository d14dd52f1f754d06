"""The wheel that `make wheel` makes, in an environment of its own beside the torch of build/venv: what is in it, its
commands, training with it, and the plugin that it compiles where it has none."""

import importlib.util
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator

import pytest
import torch
from hosts.process import TIME_FACTOR, Process, Processes

ROOT = pathlib.Path(__file__).resolve().parents[2]
TORCH = torch.__version__.partition("+")[0]
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node", "2")
pytestmark = pytest.mark.timeout(1800)  # it compiles
NAME = rf"shoal-[\d.]+-py3-none-manylinux_2_35_{os.uname().machine}\.whl"
PROGRAMS = ("shoal-scheduler", "shoal-server", "shoal-perf", "shoalctl")
# What every Linux has that the platform tag names.
OF_THE_PLATFORM = re.compile(r"^(ld-linux.*|lib(c|m|dl|rt|pthread|resolv|stdc\+\+|gcc_s|z|mvec))\.so")
SUMS = """
import os, sys, time, torch, torch.distributed as dist, shoal
dist.init_process_group("shoal")
tensor = torch.ones(100_003)
for step in range(int(sys.argv[1])):
    tensor.fill_(dist.get_rank() + step)
    dist.all_reduce(tensor)
    assert (tensor == 1 + 2 * step).all()
    if dist.get_rank() == 0:
        print("step", step, "with", shoal.statistics()["server_count"], "servers", flush=True)
    time.sleep(0.1)
if dist.get_rank() == 0:
    print("plugin", shoal._C.__file__)
dist.destroy_process_group()
"""


def call(*command: object, environment: dict[str, str] | None = None, timeout_s: float = 120) -> str:
    """The output, of both streams. The process is to end well."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SHOAL_", "PYTHONPATH"))}
    done = subprocess.run(
        [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        env=kept | (environment or {}), timeout=timeout_s * TIME_FACTOR, cwd="/",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("wheel")
    said = call(sys.executable, ROOT / "scripts/wheel.py", "--torch", TORCH, "--output", folder, timeout_s=900)
    (made,) = folder.glob("*.whl")
    assert made.name in said
    return made


@pytest.fixture(scope="module")
def venv(wheel: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Has the wheel, and torch from the environment of this test."""
    folder = tmp_path_factory.mktemp("venv")
    call(sys.executable, "-m", "venv", "--without-pip", folder)
    call(sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", folder / "bin/python",
         "install", "--no-deps", "--no-index", wheel)  # fmt: skip
    (packages,) = folder.glob("lib/python3*/site-packages")
    (packages / "torch.pth").write_text(str(pathlib.Path(torch.__file__).parents[1]), encoding="utf-8")
    return folder


def plugin_module() -> object:
    spec = importlib.util.spec_from_file_location("plugin", ROOT / "pytorch/shoal/plugin.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def processes() -> Iterator[Processes]:
    with Processes() as started:
        yield started


def test_it_is_for_all_pythons_of_the_lowest_platform(wheel):
    assert re.fullmatch(NAME, wheel.name)
    said = call(sys.executable, "-m", "auditwheel", "show", wheel)
    assert '"manylinux_2_35_x86_64"' in re.sub(r"\s+", " ", said), said
    assert wheel.stat().st_size < 16 << 20  # with one plugin


def test_nothing_of_torch_and_no_library_twice_is_in_it(wheel):
    names = [pathlib.PurePath(name).name for name in zipfile.ZipFile(wheel).namelist()]
    libraries = [re.sub(r"-[0-9a-f]{8}", "", name) for name in names if ".so" in name]
    assert sorted(libraries) == sorted(set(libraries))
    assert not [name for name in libraries if name.startswith(("libtorch", "libc10", "libuc"))]
    assert {"libshoal.so", "_C.so", *PROGRAMS} <= set(names)


def test_what_it_is_made_of_is_listed_beside_it(wheel):
    """Each library that was put into the wheel, by the package and the version of it that this machine has."""
    listed = json.loads(wheel.with_suffix(".spdx.json").read_text(encoding="utf-8"))
    assert listed["spdxVersion"].startswith("SPDX-2")
    assert any("syft" in tool for tool in listed["creationInfo"]["creators"])
    versions = {package["name"]: package.get("versionInfo") for package in listed["packages"]}
    assert versions["shoal"] == wheel.name.split("-")[1]
    names = [pathlib.PurePath(name) for name in zipfile.ZipFile(wheel).namelist()]
    libraries = {name.name for name in names if ".libs" in name.parent.name and ".so" in name.name}
    assert len(libraries) > 20
    for library in libraries:
        name = re.sub(r"-[0-9a-f]{8}(?=\.so)", "", library)
        owners = subprocess.run(["dpkg", "-S", f"*/{name}"], capture_output=True, text=True, check=False).stdout
        packages = {line.partition(":")[0] for line in owners.splitlines()}
        assert packages & set(versions), f"{library} of {packages or 'no package'} is not in {sorted(versions)}"
    installed = call("dpkg-query", "--show", "--showformat", "${Version}", "libssl3")
    assert versions["libssl3"] == installed


def test_its_commands_run(venv):
    version = re.search(r'version = "(.*)"', (ROOT / "pytorch/pyproject.toml").read_text(encoding="utf-8")).group(1)
    for name in PROGRAMS:
        assert call(venv / "bin" / name, "--version") == f"{name} {version}\n"
    assert "servers" in call(venv / "bin/shoal-cluster", "--help")


def test_its_files_need_nothing_else_of_the_machine(venv):
    (packages,) = venv.glob("lib/python3*/site-packages")
    files = [*(packages / "shoal_programs/bin" / name for name in PROGRAMS), packages / "shoal/lib/libshoal.so"]
    for file in files:
        for line in call("ldd", file).splitlines():
            name, _, place = line.strip().partition(" => ")
            assert place.startswith(str(venv)) or OF_THE_PLATFORM.match(pathlib.PurePath(name.split()[0]).name) or (
                name.startswith("linux-vdso")
            ), f"{file.name}: {line}"  # fmt: skip


def test_torch_finds_the_backend_by_itself(venv):
    script = "import torch.distributed as dist, importlib.metadata as m; print(m.entry_points(name='shoal'))"
    assert "shoal:register" in call(venv / "bin/python", "-c", script)


def test_commands_need_no_torch(venv):
    call(venv / "bin/python", "-c",
         "import sys, shoal_programs.cluster; assert not {'torch', 'shoal', 'numpy'} & set(sys.modules)")  # fmt: skip


def start_cluster(venv: pathlib.Path, processes: Processes, *arguments: str) -> tuple[Process, str]:
    cluster = processes.start([venv / "bin/shoal-cluster", "--port", "0", *arguments])
    address = cluster.wait_for_line(r"SHOAL_SCHEDULER=(\S+)").group(1)
    return cluster, address


def train(venv: pathlib.Path, tmp_path: pathlib.Path, steps: int) -> list[object]:
    script = tmp_path / "sums.py"
    script.write_text(SUMS, encoding="utf-8")
    return [venv / "bin/python", *TORCHRUN, script, str(steps)]


def children(cluster: Process | subprocess.Popen) -> list[int]:
    return [int(number) for number in call("pgrep", "--parent", cluster.pid).split()]


def running(numbers: list[int]) -> list[int]:
    return [number for number in numbers if pathlib.Path(f"/proc/{number}").exists()]


def test_two_ranks_train_while_a_server_dies(venv, tmp_path, processes):
    cluster, address = start_cluster(venv, processes)
    job = processes.start(train(venv, tmp_path, 40), environment={"SHOAL_SCHEDULER": address})
    job.wait_for_line(r"step 5 with 2 servers", 120 * TIME_FACTOR)  # torch is imported first
    os.kill(int(call("pgrep", "-f", f"name server-1 --scheduler {address}")), signal.SIGKILL)
    cluster.wait_for_line(r"server-1 has ended \(exit status -9\) and is started again in 1 s")
    assert job.wait(120 * TIME_FACTOR) == 0, job
    ask = [venv / "bin/shoalctl", "--scheduler", address, "status"]
    processes.wait_until(lambda: len(re.findall(r"server-[01] +live", call(*ask))) == 2, "both servers to be live")
    started = children(cluster)
    assert len(started) == 3
    cluster.send(signal.SIGINT)
    assert cluster.wait() == 0, cluster
    assert not running(started)


def test_a_cluster_ends_with_its_program(venv, processes):
    cluster, _ = start_cluster(venv, processes, "--servers", "1")
    started = children(cluster)
    assert len(started) == 2
    cluster.send(signal.SIGKILL)
    cluster.wait()
    processes.wait_until(lambda: not running(started), "the end of scheduler and server")


def test_a_cluster_whose_output_nobody_reads_ends(venv, processes):
    cluster = subprocess.Popen([venv / "bin/shoal-cluster", "--port", "0"], stdout=subprocess.PIPE, text=True)
    for line in cluster.stdout:
        if "Ctrl-C ends it" in line:
            break
    started = children(cluster)
    cluster.stdout.close()
    os.kill(started[-1], signal.SIGKILL)  # this is what it has to say something about
    cluster.wait(60 * TIME_FACTOR)
    assert not running(started)


def test_servers_that_do_not_run_are_an_error(venv, processes):
    cluster = processes.start(
        [venv / "bin/shoal-cluster", "--port", "0"], environment={"SHOAL_SERVER_IO_THREADS": "none"}
    )
    assert cluster.wait() == 1
    assert re.search(r"server-\d does not run", cluster.output) and "SHOAL_SERVER_IO_THREADS: " in cluster.output
    assert "A cluster of" not in cluster.output


def test_a_port_that_is_taken_is_an_error(venv, processes):
    _, address = start_cluster(venv, processes, "--servers", "1")
    second = processes.start([venv / "bin/shoal-cluster", "--port", address.rpartition(":")[2]])
    assert second.wait() == 1
    assert address in second.output and "shoal-cluster: scheduler does not run" in second.output


@pytest.mark.parametrize("arguments", [["--servers", "0"], ["--port", "70000"], ["--servers", "x"]])
def test_wrong_arguments_of_a_cluster_are_errors(venv, arguments):
    done = subprocess.run([venv / "bin/shoal-cluster", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and arguments[0] in done.stderr


@pytest.mark.parametrize("other", ["grpc", "google.protobuf.descriptor_pb2", "sklearn"])
@pytest.mark.parametrize("is_first", [True, False])
def test_it_lives_beside_other_native_packages(venv, other, is_first):
    modules = [other, "shoal"] if is_first else ["shoal", other]
    script = f"""
import {modules[0]}, {modules[1]}
import torch, torch.distributed as dist
dist.init_process_group("shoal", init_method="tcp://127.0.0.1:0", rank=0, world_size=1)
import shoal.membership
shoal.membership.load_library()
tensor = torch.ones(3)
dist.all_reduce(tensor)
if "{other}" == "grpc":
    from concurrent import futures
    server = grpc.server(futures.ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    grpc.channel_ready_future(grpc.insecure_channel(f"127.0.0.1:{{port}}")).result(timeout=60)
    server.stop(None)
dist.destroy_process_group()
"""
    call(venv / "bin/python", "-c", script)


@pytest.fixture
def without_plugins(venv: pathlib.Path) -> Iterator[pathlib.Path]:
    (folder,) = venv.glob("lib/python3*/site-packages/shoal/plugins")
    folder.rename(folder.with_name("plugins_away"))
    yield venv
    folder.with_name("plugins_away").rename(folder)


IMPORT = "import shoal; print('plugin', shoal._C.__file__)"


@pytest.mark.long
def test_a_plugin_for_another_torch_is_compiled_once(without_plugins, tmp_path, processes):
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": f"/usr/lib/ccache:{os.environ['PATH']}"}
    plugin = plugin_module()
    (sources,) = without_plugins.glob("lib/python3*/site-packages/shoal/source")
    name = f"torch-{torch.__version__}-{plugin.python_abi()}-{plugin._digest(sources)}"
    left_over = tmp_path / "cache/shoal" / name / "compile-of-a-process-that-was-killed"
    left_over.mkdir(parents=True)
    (left_over / "session.o").touch()
    python = without_plugins / "bin/python"
    both = [processes.start([python, "-c", IMPORT], environment=environment) for _ in range(2)]
    for process in both:
        assert process.wait(800 * TIME_FACTOR) == 0, process
    said = "\n".join(process.output for process in both)
    assert said.count("compiling it once") == 1 and "waiting for another process" in said
    (compiled,) = set(re.findall("^plugin (.*)$", said, re.MULTILINE))
    assert pathlib.Path(compiled).parent == left_over.parent
    assert sorted(path.name for path in left_over.parent.iterdir()) == ["_C.so", "lock"]
    again = call(python, "-c", IMPORT, environment=environment | {"CXX": "/nonexistent", "PATH": "/nonexistent"})
    assert again == f"plugin {compiled}\n"


def refused(venv: pathlib.Path, environment: dict[str, str]) -> str:
    done = subprocess.run([venv / "bin/python", "-c", IMPORT], env=environment, capture_output=True, text=True,
                          check=False)  # fmt: skip
    assert done.returncode == 1
    assert f"no compiled plugin for torch {torch.__version__}" in done.stderr
    return done.stderr.splitlines()[-1]


def test_without_a_compiler_it_says_what_to_do(without_plugins, tmp_path):
    said = refused(without_plugins, {"PATH": "/nonexistent", "XDG_CACHE_HOME": str(tmp_path)})
    assert "needs a C++ compiler (Debian, Ubuntu: g++" in said


def test_a_compiler_that_is_named_and_missing_is_told(without_plugins, tmp_path):
    environment = {"PATH": os.environ["PATH"], "CXX": "/nonexistent/c++", "XDG_CACHE_HOME": str(tmp_path)}
    assert "CXX=/nonexistent/c++, which is not there" in refused(without_plugins, environment)


def test_a_compiler_may_be_named_with_what_starts_it(monkeypatch):
    monkeypatch.setenv("CXX", "env c++ -pipe")
    assert plugin_module().find_compiler(sysconfig.get_path("include")) == (["env", "c++", "-pipe"], [])


def test_a_plugin_that_does_not_load_is_told(without_plugins, tmp_path):
    plugin = plugin_module()
    (package,) = without_plugins.glob("lib/python3*/site-packages/shoal")
    damaged = package / "plugins" / plugin.fitting_name(torch.__version__, plugin.python_abi()) / "_C.so"
    damaged.parent.mkdir(parents=True)
    damaged.write_text("no library", encoding="utf-8")
    done = subprocess.run([without_plugins / "bin/python", "-c", IMPORT], capture_output=True, text=True, check=False)
    shutil.rmtree(package / "plugins")
    assert done.returncode == 1 and f"plugin {damaged} does not load with torch" in done.stderr.splitlines()[-1]


def test_what_does_not_compile_is_told_with_the_compilers_words(without_plugins, tmp_path):
    compiler = tmp_path / "c++"
    compiler.write_text("#!/bin/sh\necho that is no C++ >&2\nexit 1\n", encoding="utf-8")
    compiler.chmod(0o755)
    said = refused(without_plugins, {"CXX": str(compiler), "PATH": os.environ["PATH"], "XDG_CACHE_HOME": str(tmp_path)})
    assert "that is no C++" in said


def test_a_cache_that_cannot_be_written_is_told(without_plugins, tmp_path):
    (tmp_path / "shoal").write_text("a file", encoding="utf-8")
    said = refused(without_plugins, {"PATH": os.environ["PATH"], "XDG_CACHE_HOME": str(tmp_path)})
    assert "can't be kept" in said and "XDG_CACHE_HOME" in said


def test_a_program_that_is_missing_is_told(tmp_path):
    shutil.copytree(ROOT / "pytorch/shoal_programs", tmp_path / "shoal_programs")
    done = subprocess.run(
        [sys.executable, "-c", "import shoal_programs; shoal_programs.shoalctl()"], capture_output=True, text=True,
        check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 1 and "shoalctl is missing" in done.stderr


def test_a_plugins_name_says_what_it_fits():
    fitting_name = plugin_module().fitting_name
    assert fitting_name("2.15.0+cu132", "cpython-311-x86_64-linux-gnu") == "torch-2.15-cpython-311-x86_64-linux-gnu"
    assert fitting_name("2.15.1", "cpython-313t-x86_64-linux-gnu") == "torch-2.15-cpython-313t-x86_64-linux-gnu"
    for version in ["2.16.0a0+git12", "2.16.0.dev20261101+cu132", "2.16.0rc1"]:  # none that was compiled for a release
        assert fitting_name(version, "cpython-313-x86_64-linux-gnu") is None
