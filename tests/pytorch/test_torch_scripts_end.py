"""How scripts end whose process group can be reconfigured: what the others hear, and the exit status."""

import pathlib
import subprocess
import sys

import pytest
import torch.distributed as dist

from hosts.process import TIME_FACTOR
from torch_cluster import Cluster, clean_environment

if not hasattr(dist.ProcessGroup, "reconfigure"):
    pytest.skip("this torch has no reconfigure", allow_module_level=True)

# The interpreter of the process that has raised ends its threads and modules first.
ENDED_WITHIN_S = 5 * TIME_FACTOR

SCRIPT = """
import datetime, os, sys, time
import torch, torch.distributed as dist
import shoal

process, port, way, elements = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
store = dist.TCPStore("127.0.0.1", port, is_master=False)
options = shoal.GroupOptions(on_rank_loss="continue") if way == "continue" else None
dist.init_process_group("shoal", store=dist.HashStore(), rank=process, world_size=3, enable_reconfigure=True,
                        timeout=datetime.timedelta(seconds=60), pg_options=options)
store.set(f"handle {process}", dist._get_reconfigure_handle())
handles = [store.get(f"handle {each}").decode() for each in range(3)]
dist._reconfigure(1, handles, timeout=datetime.timedelta(seconds=60)).wait()
dist.all_reduce(torch.ones(1000))
store.set(f"all are there {process}", "")
if process == 2:
    store.wait([f"all are there {each}" for each in range(3)])
    if elements:
        work = dist.all_reduce(torch.ones(elements), async_op=True)
    store.set("raised", str(time.time()))
    raise MemoryError("no memory for a batch of 4096")
store.wait(["raised"])
try:
    work = dist.all_reduce(torch.ones(elements or 1000), async_op=True)
    work.wait()
    dist.all_reduce(torch.ones(1000))
    print("went on with", work.contributors, time.time() - float(store.get("raised")))
except dist.DistBackendError as error:
    print("failed:", error, time.time() - float(store.get("raised")))
dist.destroy_process_group()
"""


def run_script(cluster: Cluster, tmp_path: pathlib.Path, text: str, *arguments: object, processes: int = 1) -> list:
    """(exit status, output) of each process, which gets its number first."""
    script = tmp_path / "script.py"
    script.write_text(text)
    environment = clean_environment(**cluster.environment())
    started = [
        subprocess.Popen(
            [sys.executable, str(script), str(process), *map(str, arguments)],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for process in range(processes)
    ]  # fmt: skip
    outputs = [process.communicate(timeout=90)[0] for process in started]
    return [(process.returncode, output) for process, output in zip(started, outputs)]


@pytest.fixture
def store() -> dist.TCPStore:
    return dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)


@pytest.mark.parametrize("elements", [0, 3_000_000], ids=["between ops", "inside an op"])
@pytest.mark.parametrize("way", ["continue", "fail"])
def test_nobody_waits_for_a_script_that_raised(cluster, store, tmp_path, way, elements):
    ended = run_script(cluster, tmp_path, SCRIPT, store.port, way, elements, processes=3)
    assert [status for status, _ in ended] == [0, 0, 1], ended
    assert "MemoryError" in ended[2][1]
    for _, output in ended[:2]:
        words = output.splitlines()[-1]
        assert float(words.split()[-1]) < ENDED_WITHIN_S
        if way == "continue":
            assert words.startswith("went on with ("), output
        else:
            assert words.startswith("failed: ") and "its script raised MemoryError: no memory for a batch" in words, (
                output
            )


LATE_SCRIPT = """
import datetime, sys
import torch, torch.distributed as dist
from torch._C._distributed_c10d import ReconfigureOptions
from shoal import _C, inner, roster

described = inner.GroupDescription()
described.group_rank, described.group_size = 0, 1
described.timeout, described.group_id = datetime.timedelta(seconds=20), "late"
backend = roster.create_backend(described, _C.GroupOptions(wire=None, node_reduce=None, inner=None))
options = ReconfigureOptions()
options.handles, options.timeout = [backend.get_reconfigure_handle()], datetime.timedelta(seconds=20)
for options.uuid in (1, 2):
    backend.reconfigure(options)
if sys.argv[1] == "0" and "shutdown" in sys.argv:
    backend.shutdown()
    options.uuid = 3
    try:
        backend.reconfigure(options)
    except dist.DistBackendError as error:
        print("refused:", error)
"""


@pytest.mark.parametrize("way", ["shutdown", "nothing"])
def test_a_script_may_end_with_a_backend_that_was_reconfigured(cluster, tmp_path, way):
    ((status, output),) = run_script(cluster, tmp_path, LATE_SCRIPT, way)
    assert status == 0, output
    assert ("refused: shoal: the process group is destroyed" in output) == (way == "shutdown")
