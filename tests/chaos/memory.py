"""Memory of processes: what they have for themselves, sampled, and whether it stays flat."""

import array
import dataclasses
import pathlib
import re
import statistics
from collections import defaultdict
from collections.abc import Sequence

MIB = 1 << 20
PAGE_BYTES = 4096
# A process has what it needs after this time; then it may grow by no more than this, however long it runs.
WARM_UP_S = 30.0
# By role, about twice what three hours showed.
MOST_GROWTH_BYTES = {"scheduler": 12 * MIB, "server": 16 * MIB, "rank": 40 * MIB, "etcd": 48 * MIB}
LEAST_SAMPLES = 20
# UCX takes a message into a segment of its pool (docs/adr/0017), and a pool keeps its pages: it comes to hold as many
# segments as there ever were chunks in flight, and large chunks fill them one by one. So it is looked at by itself, and
# may hold that much. It consists of anonymous mappings of 128 segments each, which the kernel shows as one where they
# are neighbours; nothing else of a rank or server is as large.
SEGMENT_BYTES = 576 << 10
POOL_BYTES = 128 * SEGMENT_BYTES
# etcd keeps its newest writes in memory (docs/operating.md): up to so many, and 5000 more, until it takes a snapshot.
# 8500 saves of the schedulers made one grow by 68 MiB, its garbage included.
ETCD_SNAPSHOT_COUNT = 1000
ETCD_LOG_BYTES = (ETCD_SNAPSHOT_COUNT + 5000) * (8 << 10)
# Each connection has a segment that is being filled, and the first page of every segment holds its place in the list.
POOL_SLACK_BYTES = 16 * SEGMENT_BYTES
MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) rw-p 0+ 00:00 0\s*$")


@dataclasses.dataclass(frozen=True)
class Memory:
    own_bytes: int  # what is the process's alone, without its pool
    pool_bytes: int = 0


def pools(maps: str) -> list[tuple[int, int]]:
    """First and end address of each mapping that is UCX's pool, from /proc/PID/maps."""
    mappings = [(int(found[1], 16), int(found[2], 16)) for found in map(MAPPING.match, maps.splitlines()) if found]
    return [(start, end) for start, end in mappings if end - start >= POOL_BYTES]


def pool_memory(process: pathlib.Path) -> int:
    """Bytes of UCX's pool that are there. OSError: it has ended."""
    there = 0
    with (process / "pagemap").open("rb") as pagemap:
        for start, end in pools((process / "maps").read_text(encoding="ascii", errors="replace")):
            pagemap.seek(start // PAGE_BYTES * 8)
            entries = array.array("Q", pagemap.read((end - start) // PAGE_BYTES * 8))
            there += sum(entry >> 63 for entry in entries) * PAGE_BYTES  # the highest bit: it is in memory
    return there


def memory_of(pid: int, has_pool: bool) -> Memory | None:
    """None: it has ended."""
    process = pathlib.Path(f"/proc/{pid}")
    try:
        pool_bytes = pool_memory(process) if has_pool else 0
        status = (process / "status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    for line in status.splitlines():
        if line.startswith("RssAnon:"):
            return Memory(max(0, int(line.split()[1]) * 1024 - pool_bytes), pool_bytes)
    return None


def growth(samples: Sequence[tuple[float, int]]) -> int | None:
    """Between the time after warming up and the end, by medians of a quarter each. None: too few samples to tell."""
    if not samples:
        return None
    values = [value for when, value in samples if when - samples[0][0] > WARM_UP_S]
    if len(values) < LEAST_SAMPLES:
        return None
    quarter = len(values) // 4
    return int(statistics.median(values[-quarter:]) - statistics.median(values[:quarter]))


def role_of(name: str) -> str:
    return "rank" if "/" in name else name.rsplit("-", 1)[0]


class MemoryWatch:
    """By process: a restarted one is another."""

    def __init__(self, chunks_in_flight: dict[str, int], with_large_tensors: frozenset[str] = frozenset()) -> None:
        self.chunks_in_flight = chunks_in_flight  # at most, by the name of a process that has a pool
        # These are not watched: a tensor that is as large as a pool can't be told from one, and it comes and goes.
        self.with_large_tensors = with_large_tensors
        self.samples: dict[tuple[str, int], list[tuple[float, Memory]]] = defaultdict(list)

    def sample(self, name: str, pid: int, now: float) -> None:
        if name in self.with_large_tensors:
            return
        if memory := memory_of(pid, name in self.chunks_in_flight):
            self.samples[name, pid].append((now, memory))

    def grown(self) -> list[str]:
        """A line for each process that did not stay flat."""
        found = []
        for (name, pid), samples in self.samples.items():
            more = growth([(when, memory.own_bytes) for when, memory in samples])
            last = samples[-1][1]
            role = role_of(name)
            most_bytes = MOST_GROWTH_BYTES[role] + (ETCD_LOG_BYTES if role == "etcd" else 0)
            if more is not None and more > most_bytes:
                found.append(f"{name} (pid {pid}) grew by {more / MIB:.0f} MiB, to {last.own_bytes / MIB:.0f} MiB")
            most_pool_bytes = self.chunks_in_flight.get(name, 0) * SEGMENT_BYTES + POOL_SLACK_BYTES
            if last.pool_bytes > most_pool_bytes:
                found.append(
                    f"UCX's pool of {name} (pid {pid}) holds {last.pool_bytes / MIB:.0f} MiB, and all that may be in"
                    f" flight takes {most_pool_bytes / MIB:.0f} MiB"
                )
        return found

    def judged(self) -> int:
        """How many processes lived long enough for growth to be told from warming up."""
        every = self.samples.values()
        return sum(growth([(when, memory.own_bytes) for when, memory in samples]) is not None for samples in every)

    def summary(self) -> dict[str, dict[str, float]]:
        """By role: the most that a process had, and the most that one grew; in MiB."""
        roles: dict[str, dict[str, float]] = {}
        for (name, _), samples in self.samples.items():
            role = role_of(name)
            entry = roles.setdefault(role, {"most_mib": 0.0, "most_growth_mib": 0.0, "most_pool_mib": 0.0})
            more = growth([(when, memory.own_bytes) for when, memory in samples]) or 0
            memories = [memory for _, memory in samples]
            most = max(memory.own_bytes + memory.pool_bytes for memory in memories)
            entry["most_mib"] = max(entry["most_mib"], most / MIB)
            entry["most_growth_mib"] = max(entry["most_growth_mib"], more / MIB)
            entry["most_pool_mib"] = max(entry["most_pool_mib"], *(memory.pool_bytes / MIB for memory in memories))
        return roles
