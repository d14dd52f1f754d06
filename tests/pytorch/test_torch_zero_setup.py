"""init_process_group("shoal") under plain torchrun, with nothing else running; and the demo as people run it."""

import importlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
from shoal import _C, membership
from simulated_device import DRIVER
from torch_cluster import TORCHRUN, clean_environment

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUN_SECONDS = 300
HAS_LINKS = os.geteuid() == 0 and shutil.which("ip") is not None and shutil.which("tc") is not None

SCRIPT = """
import os, torch, torch.distributed as dist, shoal
dist.init_process_group("shoal")
tensor = torch.full((100_000,), float(dist.get_rank()))
dist.all_reduce(tensor)
assert (tensor == sum(range(dist.get_world_size()))).all()
statistics = shoal.statistics()
assert statistics["server_count"] == 1 and statistics["ops_completed"] == 1, statistics
assert os.environ["SHOAL_CUDA_LIBRARY"] not in open("/proc/self/maps").read(), "CUDA's driver where there is no device"
if os.environ["SHOAL_NODE_REDUCE"] == "off":
    assert "127.0.0.1" in statistics["shards"][0]["address"], statistics
{end}
"""


def with_servers(**more: str) -> dict[str, str]:
    # Most of this is about the servers that a job runs itself; SHOAL_NODE_REDUCE=auto would do without them.
    assert DRIVER.is_file(), "a driver that can be opened"
    without_devices = {"CUDA_VISIBLE_DEVICES": "", "SHOAL_CUDA_LIBRARY": str(DRIVER)}
    return clean_environment(**({"SHOAL_NODE_REDUCE": "off"} | without_devices | more))


def torchrun(*arguments: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [*TORCHRUN, *arguments], capture_output=True, text=True, timeout=RUN_SECONDS, env=with_servers(**environment),
        check=False,
    )  # fmt: skip


@pytest.mark.parametrize("node_reduce", ["off", "auto"])
@pytest.mark.parametrize("end", ["dist.destroy_process_group()", "pass  # atexit has to do it"])
def test_plain_torchrun_needs_nothing_else(tmp_path, end, node_reduce):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(end=end))
    started = time.monotonic()
    result = torchrun("--nproc-per-node", "3", str(script), SHOAL_NODE_REDUCE=node_reduce)
    assert result.returncode == 0, result.stderr
    assert time.monotonic() - started < 60


SPY = """
from shoal import _C
start = _C.start_scheduler
def spy(**options):
    print("started with:", options["port_buffer_bytes"])
    return start(**options)
_C.start_scheduler = spy
"""


def test_the_jobs_own_scheduler_is_told_what_ports_hold(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SPY + SCRIPT.format(end=""))
    result = torchrun("--nproc-per-node", "2", str(script), SHOAL_PORT_BUFFER="64K")
    assert result.returncode == 0, result.stderr
    assert re.findall(r"^started with: (\d+)$", result.stdout, re.MULTILINE) == ["65536"], "by rank 0 alone"
    membership.load_library()
    with pytest.raises(RuntimeError, match="port_buffer_bytes is 2147483648"):
        _C.start_scheduler(listen="127.0.0.1:0", port_buffer_bytes=2 << 30)


def test_an_error_in_one_rank_ends_the_job(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        SCRIPT.format(end="if dist.get_rank() == 1: raise ValueError('on purpose')\ndist.all_reduce(tensor)")
    )
    result = torchrun("--nproc-per-node", "2", str(script))
    assert result.returncode != 0 and "on purpose" in result.stderr


def test_url_with_settings(tmp_path):
    script = tmp_path / "script.py"
    text = SCRIPT.format(end="").replace('"shoal")', '"shoal", init_method="shoal://?chunk_bytes=64K&job_name=named")')
    script.write_text(text)
    result = torchrun("--nproc-per-node", "2", str(script))
    assert result.returncode == 0, result.stderr
    script.write_text(text.replace("job_name", "jobname"))
    result = torchrun("--nproc-per-node", "2", str(script))
    assert result.returncode != 0 and "did you mean job_name" in result.stderr


def test_info_prints_what_is_in_effect():
    command = [sys.executable, "-m", "shoal.info"]
    environment = with_servers(SHOAL_MIN_SERVERS="3")
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)
    assert result.returncode == 0, result.stdout
    header = (ROOT / "worker/include/shoal/worker.h").read_text(encoding="utf-8")
    [abi] = re.findall(r"#define SHOAL_ABI_VERSION (\d+)", header)
    assert f"ABI {abi}" in result.stdout and "SHOAL_MIN_SERVERS" in result.stdout
    environment["SHOAL_MIN_SERVERS"] = "none"
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)
    assert result.returncode == 1 and "SHOAL_MIN_SERVERS='none'" in result.stdout


def test_backend_is_found_without_import(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import torch, torch.distributed as dist\n"
        'dist.init_process_group("shoal")\ntensor = torch.ones(3)\ndist.all_reduce(tensor)\n'
        "assert (tensor == 2).all()\n"
    )
    result = torchrun("--nproc-per-node", "2", str(script))
    assert result.returncode == 0, result.stderr


def test_example_trains_without_a_cluster(tmp_path):
    text, summary = tmp_path / "text", tmp_path / "summary.json"
    text.write_bytes(
        b"".join((ROOT / name).read_bytes() for name in ("worker/include/shoal/worker.h", "examples/train_gpt.py")) * 8
    )
    result = torchrun(
        "--nproc-per-node", "2", str(ROOT / "examples/train_gpt.py"), "--text", str(text), "--steps", "6",
        "--report-every", "2", "--width", "48", "--layers", "2", "--heads", "2", "--summary", str(summary),
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    measured = json.loads(summary.read_text())
    assert len(set(measured["digests"])) == 1 and measured["losses"][-1] < measured["losses"][0]
    assert measured["shards"][0]["bytes_pushed"] > 0
    assert "step    6/6" in result.stdout and "pushed:" in result.stdout


def children_of_session(marker: str) -> list[str]:
    """Command lines of running processes whose environment has the marker."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if marker.encode() in (entry / "environ").read_bytes():
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
            except OSError:
                continue  # ended meanwhile, or not ours
    return [line for line in found if line]


def let_be_interrupted() -> None:
    """In the child. A shell has what it starts in the background ignore SIGINT, and that is inherited: of the tests as
    well."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start_demo(marker: str, *arguments: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, str(ROOT / "examples/demo.py"), "--ranks", "2", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=with_servers(TEST_MARKER=marker),
        start_new_session=True, preexec_fn=let_be_interrupted,
    )  # fmt: skip


def test_demo_compares_and_leaves_nothing_behind(cluster):
    marker = f"demo-{os.getpid()}-whole"
    process = start_demo(marker, "--steps", "20", "--rounds", "2")
    output, _ = process.communicate(timeout=RUN_SECONDS)
    assert process.returncode == 0, output
    curves = "The loss curves of [0-9]+ steps differ by at most"
    assert "The loss curves of 20 steps differ by at most" in output and "Where to look next" in output
    assert children_of_session(marker) == []
    # A round of each contender in turns, and the first is not always the same.
    turns = re.findall(r"^step +(?:2|11|20)/20 +(shoal|gloo)", output, re.MULTILINE)
    assert turns == ["shoal", "gloo", "shoal", "gloo", "gloo", "shoal"], output
    # The server died in the middle, and the weights are those of the training without that.
    [steps_after_kill] = re.findall(r"^(\d+) of 20 steps ended after the kill", output, re.MULTILINE)
    assert 0 < int(steps_after_kill) < 20, output
    [(undisturbed, killed)] = re.findall(
        r"^weights, sha256: undisturbed (\w+), with the kill (\w+)", output, re.MULTILINE
    )
    assert undisturbed == killed and "1 server live, 1 lost" in output
    if HAS_LINKS:
        # The curves on the links come after those on loopback.
        assert "A ring has to move" in output and len(re.findall(curves, output)) == 2, output
    else:
        assert len(re.findall("^Not shown here: ", output, re.MULTILINE)) == 1


def test_demo_says_in_a_line_why_it_shows_no_links(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    shaped_links = importlib.import_module("shaped_links")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(shaped_links.NotHere, match="need root"):
        shaped_links.Links()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(shaped_links.NotHere, match="apt-get install iproute2"):
        shaped_links.Links()
    monkeypatch.undo()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name: name)

    def refuse(*_links):
        raise shaped_links.HostError("RTNETLINK answers:\nOperation not permitted")

    monkeypatch.setattr(shaped_links, "make_linked_nodes", refuse)
    with pytest.raises(shaped_links.NotHere) as refused:
        shaped_links.Links()
    assert "Operation not permitted" in str(refused.value) and "\n" not in str(refused.value)


def interrupt_demo(marker: str, number: signal.Signals, steps: int, part: str) -> None:
    """While the ranks of that part are at work."""
    process = start_demo(marker, "--steps", str(steps))
    seen = []
    in_part = False
    for line in process.stdout:
        seen.append(line)
        in_part = in_part or line.startswith(f"== {part}/4")
        if in_part and line.startswith("step "):
            process.send_signal(number)
            break
    try:
        rest, _ = process.communicate(timeout=60)
    finally:
        process.kill()  # all that it started ends with it
    assert process.returncode == 130, "".join(seen) + rest
    assert children_of_session(marker) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_demo_interrupted_leaves_nothing_behind(cluster, number):
    interrupt_demo(f"demo-{os.getpid()}-{number.name}", number, steps=100000, part="2")


@pytest.mark.long
@pytest.mark.skipif(not HAS_LINKS, reason="needs root, ip and tc")
def test_demo_interrupted_on_its_links_leaves_nothing_behind(cluster):
    interrupt_demo(f"demo-{os.getpid()}-links", signal.SIGINT, steps=3, part="4")
