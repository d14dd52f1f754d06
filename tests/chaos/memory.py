"""Memory of processes: what they have for themselves, sampled, and whether it stays flat."""

import pathlib
import statistics
from collections import defaultdict

MIB = 1 << 20
# A process has what it needs after this time; then it may grow by no more than this, however long it runs.
WARM_UP_S = 30.0
MOST_GROWTH_BYTES = 48 * MIB
# UCX takes a message into a segment of its pool, where a server lets it lie until it is its turn, and a pool keeps its
# pages. A server may have grown by what all ranks can have in flight, however late it came to that (after a move).
LEAST_SAMPLES = 20


def own_memory(pid: int) -> int:
    """Bytes that are the process's alone (RssAnon); 0: it has ended."""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0
    for line in status.splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


def growth(samples: list[tuple[float, int]]) -> int | None:
    """Between the time after warming up and the end, by medians of a quarter each. None: too few samples to tell."""
    if not samples:
        return None
    values = [value for when, value in samples if when - samples[0][0] > WARM_UP_S]
    if len(values) < LEAST_SAMPLES:
        return None
    quarter = len(values) // 4
    return int(statistics.median(values[-quarter:]) - statistics.median(values[:quarter]))


class MemoryWatch:
    """By process: a restarted one is another."""

    def __init__(self, in_flight_bytes: int) -> None:
        self.in_flight_bytes = in_flight_bytes  # of all jobs
        self.samples: dict[tuple[str, int], list[tuple[float, int]]] = defaultdict(list)

    def sample(self, name: str, pid: int, now: float) -> None:
        if value := own_memory(pid):
            self.samples[name, pid].append((now, value))

    def grown(self) -> list[str]:
        """A line for each process that did not stay flat."""
        found = []
        for (name, pid), samples in self.samples.items():
            more = growth(samples)
            held_bytes = self.in_flight_bytes if name.startswith("server-") else 0
            if more is not None and more > MOST_GROWTH_BYTES + held_bytes:
                found.append(f"{name} (pid {pid}) grew by {more / MIB:.0f} MiB, to {samples[-1][1] / MIB:.0f} MiB")
        return found

    def summary(self) -> dict[str, dict[str, float]]:
        """By role: the most that a process had, and the most that one grew; in MiB."""
        roles: dict[str, dict[str, float]] = {}
        for (name, _), samples in self.samples.items():
            role = "rank" if "/" in name else name.rsplit("-", 1)[0]
            entry = roles.setdefault(role, {"most_mib": 0.0, "most_growth_mib": 0.0})
            entry["most_mib"] = max(entry["most_mib"], *(value / MIB for _, value in samples))
            entry["most_growth_mib"] = max(entry["most_growth_mib"], (growth(samples) or 0) / MIB)
        return roles
