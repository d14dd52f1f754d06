"""What a run must not leave behind: its processes, namespaces, mounts, shared memory, files."""

import os
import pathlib

from chaos import paths  # noqa: F401  (rig is found by it)

from rig.nodes import marked_processes, own_mark

SHARED_MEMORY = pathlib.Path("/dev/shm")


def mapped_files() -> set[str]:
    """Under /dev/shm, by any process."""
    found: set[str] = set()
    for entry in pathlib.Path("/proc").glob("[0-9]*/maps"):
        try:
            found |= {
                line.split()[-1] for line in entry.read_text(errors="replace").splitlines() if "/dev/shm/" in line
            }
        except OSError:
            continue
    return found


def namespaces_in_use() -> set[str]:
    """Network namespaces that some process is in."""
    found = set()
    for entry in pathlib.Path("/proc").glob("[0-9]*/ns/net"):
        try:
            found.add(os.readlink(entry))
        except OSError:
            continue
    return found


class Before:
    """Made before a run; `left()` after it names what is there now and was not."""

    def __init__(self) -> None:
        self.shared_memory = set(SHARED_MEMORY.iterdir())

    def left(self, namespaces: set[str], folder: pathlib.Path) -> list[str]:
        """`namespaces`: those of the run."""
        found = [f"process {pid}" for pid, mark in marked_processes() if mark == own_mark()]
        found += [f"a process in {name}" for name in sorted(namespaces & namespaces_in_use())]
        # Other programs use the machine too: theirs is mapped by somebody who lives.
        found += [
            f"shared memory {path}" for path in sorted(set(SHARED_MEMORY.iterdir()) - self.shared_memory)
            if str(path) not in mapped_files()
        ]  # fmt: skip
        if folder.exists():
            found.append(f"folder {folder}")
        return found
