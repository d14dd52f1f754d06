"""Memory of processes: what they have for themselves, sampled, and whether it stays flat."""

import pathlib
import statistics
from collections import defaultdict
from collections.abc import Sequence

MIB = 1 << 20
# A rank with larger tensors is not watched.
LARGE_TENSOR_BYTES = 64 * MIB
# A process has what it needs after this time; then it may grow by no more than this, however long it runs.
WARM_UP_S = 30.0
# By role, about twice what three hours showed.
MOST_GROWTH_BYTES = {"scheduler": 12 * MIB, "server": 16 * MIB, "rank": 40 * MIB, "etcd": 48 * MIB}
LEAST_SAMPLES = 20
# etcd keeps its newest writes in memory (docs/operating.md): up to so many, and 5000 more, until it takes a snapshot.
# By its own counters a save is 6.6 KiB once an open job lists twenty ranks that were lost; it lists 64 at most. Go has
# as much garbage as it keeps. In two hours with 414 such deaths the nine that wrote the most grew by 96 to 144 MiB.
ETCD_SNAPSHOT_COUNT = 1000
ETCD_SAVE_BYTES = 9 << 10
ETCD_LOG_BYTES = (ETCD_SNAPSHOT_COUNT + 5000) * 2 * ETCD_SAVE_BYTES


def memory_of(pid: int) -> int | None:
    """Bytes that are the process's alone. None: it has ended."""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    for line in status.splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
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

    def __init__(self, with_large_tensors: frozenset[str] = frozenset()) -> None:
        # These are not watched: their tensors come and go, and are more than what would be noticed.
        self.with_large_tensors = with_large_tensors
        self.samples: dict[tuple[str, int], list[tuple[float, int]]] = defaultdict(list)

    def sample(self, name: str, pid: int, now: float) -> None:
        if name in self.with_large_tensors:
            return
        if (own_bytes := memory_of(pid)) is not None:
            self.samples[name, pid].append((now, own_bytes))

    def grown(self) -> list[str]:
        """A line for each process that did not stay flat."""
        found = []
        for (name, pid), samples in self.samples.items():
            more = growth(samples)
            role = role_of(name)
            most_bytes = MOST_GROWTH_BYTES[role] + (ETCD_LOG_BYTES if role == "etcd" else 0)
            if more is not None and more > most_bytes:
                last_bytes = samples[-1][1]
                found.append(f"{name} (pid {pid}) grew by {more / MIB:.0f} MiB, to {last_bytes / MIB:.0f} MiB")
        return found

    def judged(self) -> int:
        """How many processes lived long enough for growth to be told from warming up."""
        return sum(growth(samples) is not None for samples in self.samples.values())

    def summary(self) -> dict[str, dict[str, float]]:
        """By role: the most that a process had, and the most that one grew; in MiB."""
        roles: dict[str, dict[str, float]] = {}
        for (name, _), samples in self.samples.items():
            entry = roles.setdefault(role_of(name), {"most_mib": 0.0, "most_growth_mib": 0.0})
            entry["most_mib"] = max(entry["most_mib"], *(own_bytes / MIB for _, own_bytes in samples))
            entry["most_growth_mib"] = max(entry["most_growth_mib"], (growth(samples) or 0) / MIB)
        return roles
