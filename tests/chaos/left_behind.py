"""What a run must not leave behind: its processes, namespaces, mounts, shared memory, files."""

import os
import pathlib

from hosts.left_over import processes_of

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


def processes_in(namespaces: list[int]) -> list[str]:
    """What is in these network namespaces, which are descriptors: the kernel gives the number of a namespace that is
    gone to the next one that somebody makes, so a number says whose a process is only while it is held."""
    numbers = {f"net:[{os.fstat(each).st_ino}]" for each in namespaces}
    found = []
    for entry in sorted(pathlib.Path("/proc").glob("[0-9]*/ns/net")):
        process = entry.parent.parent
        try:
            number = os.readlink(entry)
            if number in numbers:
                command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                found.append(f"process {process.name} in {number}: {command}")
        except OSError:
            continue
    return found


class Before:
    """Made before a run; `left()` after it names what is there now and was not."""

    def __init__(self) -> None:
        self.processes = set(processes_of(os.getpid()))
        self.shared_memory = set(SHARED_MEMORY.iterdir())
        self.namespaces: list[int] = []

    def hold(self, namespaces: list[int]) -> None:
        """Those of the run, as descriptors, until left()."""
        self.namespaces = [os.dup(each) for each in namespaces]

    def left(self, folder: pathlib.Path) -> list[str]:
        found = [f"process {pid}" for pid in processes_of(os.getpid()) if pid not in self.processes]
        found += processes_in(self.namespaces)
        # Other programs use the machine too: theirs is mapped by somebody who lives.
        found += [
            f"shared memory {path}" for path in sorted(set(SHARED_MEMORY.iterdir()) - self.shared_memory)
            if str(path) not in mapped_files()
        ]  # fmt: skip
        if folder.exists():
            found.append(f"folder {folder}")
        for each in self.namespaces:
            os.close(each)
        self.namespaces.clear()
        return found
