"""A full disk under the scheduler's state file: who can't be let in says so, and is not taken for live. Real processes;
a file system of 64 KiB is full."""

import contextlib
import os
import pathlib
import subprocess
from collections.abc import Iterator

import pytest

from hosts.cluster import Cluster


@contextlib.contextmanager
def small_disk(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    if os.geteuid() != 0:
        pytest.skip("A FULL DISK IS NOT TESTED: mounting one needs root")
    disk = folder / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "shoal-test", str(disk)], check=True)
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def fill(disk: pathlib.Path) -> pathlib.Path:
    filler = disk / "filler"
    with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    return filler


def status(cluster: Cluster) -> str:
    return " ".join(cluster.shoalctl_text("status").split())


def test_a_server_that_can_not_be_saved_says_why_and_ends_as_its_process_does(cluster: Cluster, tmp_path: pathlib.Path):
    with small_disk(tmp_path) as disk:
        cluster.start_scheduler("--state-file", str(disk / "state"), lease_ttl_ms=3000)
        cluster.start_server("alpha")
        filler = fill(disk)
        late = cluster.launch_server("--name", "late", "--timeout", "5000")
        cluster.wait_until(lambda: "Saves have failed" in status(cluster), "that is shown")
        assert "No space left on device" in status(cluster)
        assert late.wait() == 1
        assert "No space left on device" in late.output.splitlines()[-1], f"{late}"
        cluster.wait_for_server("late", "lost")
        assert cluster.servers()["alpha"]["state"] == "live"
        filler.unlink()
        cluster.wait_for_event("saved-again", "")
        assert "No space left" not in status(cluster) and "failed, the newest one" in status(cluster), status(cluster)
        [document] = cluster.shoalctl("map")
        assert {shard["server_name"] for shard in document["shards"]} == {"alpha"}
        failures = [event for event in cluster.events() if event["kind"] == "save-failed"]
        assert len(failures) == 1, "one in each second was tried, and one was told"
        cluster.end()
