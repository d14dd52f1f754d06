"""What `make dist` packs works where there is nothing else: in a root that has glibc and libstdc++ alone, and beside
any torch."""

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tarfile

import pytest
import torch
from gpu_checks import CHECKS

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST_MIB = 60
ON_EVERY_LINUX = re.compile(r"^(ld-linux|lib(c|m|dl|rt|pthread|resolv|stdc\+\+|gcc_s)\.so)")
# What such a root has of a system.
LOADER = "/lib64/ld-linux-x86-64.so.2"
FROM_SYSTEM = ("libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "libresolv.so.2", "libdl.so.2",
               "libpthread.so.0", "librt.so.1")  # fmt: skip
IN_ROOT = """
for folder in /dev /sys; do mount --rbind "$folder" "$0$folder"; done
mount -t proc proc "$0/proc"
exec chroot "$0" "$@"
"""


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Unpacked, elsewhere."""
    made = tmp_path_factory.mktemp("dist")
    subprocess.run([ROOT / "scripts/dist.py", made], check=True)
    [packed] = made.glob("*.tar.xz")
    assert packed.stat().st_size < MOST_MIB << 20
    folder = tmp_path_factory.mktemp("bundle")
    with tarfile.open(packed) as archive:
        archive.extractall(folder)
    [unpacked] = folder.iterdir()
    return unpacked


def needed(file: pathlib.Path) -> set[str]:
    said = subprocess.run(["readelf", "-d", file], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"\(NEEDED\).*\[(.+)\]", said))


def test_it_has_every_library_but_those_of_every_linux(bundle: pathlib.Path):
    compiled = [path for path in (bundle / "build").rglob("*") if path.is_file()]
    assert len(compiled) > 20
    for path in compiled:
        names = {name for name in needed(path) if not ON_EVERY_LINUX.match(name)}
        assert {name for name in names if not (bundle / "build/lib" / name).is_file()} == set(), path


@pytest.mark.skipif(os.geteuid() != 0, reason="chroot wants root")
def test_a_job_runs_in_a_root_that_has_nothing_else(bundle: pathlib.Path, tmp_path: pathlib.Path):
    root = tmp_path / "root"
    for folder in ("dev", "proc", "sys", "tmp"):
        (root / folder).mkdir(parents=True)
    known = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    paths = [pathlib.Path(LOADER)]
    for name in FROM_SYSTEM:
        paths.append(pathlib.Path(re.findall(rf"^\s*{re.escape(name)} \(.*x86-64.*\) => (\S+)$", known, re.M)[0]))
    for path in paths:
        (root / path.parent.relative_to("/")).mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, root / path.relative_to("/"))
    shutil.copytree(bundle / "build", root / "build")

    def start(name: str, *options: str) -> subprocess.Popen[str]:
        command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", IN_ROOT, str(root)]
        return subprocess.Popen(
            [*command, f"/build/bin/{name}", *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def listening(process: subprocess.Popen[str]) -> str:
        output = []
        for line in process.stdout:
            output.append(line)
            if match := re.search(r"listening on (\S+)", line):
                return match[1]
        raise AssertionError("".join(output))

    processes = []
    try:
        processes.append(start("shoal-scheduler", "--listen", "127.0.0.1:0"))
        scheduler = listening(processes[0])
        processes.append(start("shoal-server", "--scheduler", scheduler, "--advertise", "127.0.0.1"))
        listening(processes[1])
        job = ["--scheduler", scheduler, "--world-size", "2", "--node-reduce", "off", "-b", "1M", "-n", "20", "-c", "3"]
        ranks = [start("shoal-perf", *job, "--rank", str(rank)) for rank in range(2)]
        processes += ranks
        outputs = [rank.communicate(timeout=60)[0] for rank in ranks]
        assert [rank.returncode for rank in ranks] == [0, 0], outputs
        status = start("shoalctl", "--scheduler", scheduler, "status")
        assert "1 server live" in status.communicate(timeout=30)[0]
    finally:
        for process in processes:
            process.kill()
            process.wait()
            process.stdout.close()


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.skipif(torch.cuda.is_available(), reason="with a CUDA device the checks are to be run, not this")
def test_one_command_compiles_the_plugin_and_says_what_can_not_run_here(bundle: pathlib.Path, tmp_path: pathlib.Path):
    command = [sys.executable, "tests/gpu/run_checks.py", "--output", tmp_path]
    environment = os.environ | {"PATH": f"/usr/lib/ccache:{os.environ['PATH']}"}
    done = subprocess.run(command, cwd=bundle, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    [result] = tmp_path.glob("gpu_checks_*.json")
    outcomes = json.loads(result.read_text(encoding="utf-8"))["outcomes"]
    states = [(outcome["state"], outcome["why"]) for outcome in outcomes]
    assert states[:2] == [("passed", ""), ("passed", "")], states
    assert set(states[2:]) == {("not run", "no CUDA device here")} and len(states) > 10
    assert (bundle / "build/site/shoal").is_dir()
    # The tests ran with that plugin, not with one that is installed here.
    assert any(re.search(r"\d+ passed", line) for line in outcomes[1]["output"]), outcomes[1]["output"]
    page = result.with_suffix(".md").read_text(encoding="utf-8")
    assert page.count("not run: no CUDA device here") == len(states) - 2


def test_the_tests_of_its_checks_can_be_collected(bundle: pathlib.Path):
    for check in CHECKS:
        if "pytest" in check.command:
            words = shlex.split(check.command.format(python=sys.executable))
            words = [*words[words.index(sys.executable) :], "--collect-only", "-q"]
            done = subprocess.run(words, cwd=bundle, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
            assert re.search(r"\d+(/\d+)? tests? collected", done.stdout), done.stdout


@pytest.mark.long
def test_the_rates_are_measured_on_a_cpu_as_well(tmp_path: pathlib.Path):
    command = [sys.executable, ROOT / "bench/gpu/all_reduce_rates.py", "--largest", str(1 << 20)]
    subprocess.run([*command, "--output", tmp_path / "rates.json"], check=True, timeout=300)
    rates = json.loads((tmp_path / "rates.json").read_text(encoding="utf-8"))
    assert rates["errors"] == {}
    assert rates["verdict"] == "256 MiB not judged: the tensors are in host memory"
    assert all(len(rates["median_us"][backend]) == 2 for backend in ("shoal", "gloo"))
