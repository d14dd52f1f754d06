"""Memory of processes: what they have for themselves, sampled, and whether it stays flat."""

import pathlib
import statistics
from collections import defaultdict

MIB = 1 << 20
# A process has what it needs after this time; then it may grow by no more than this, however long it runs.
WARM_UP_S = 30.0
MOST_GROWTH_BYTES = 48 * MIB
LEAST_SAMPLES = 20
# UCX takes a message into a segment of its pool (docs/adr/0017), and a pool keeps its pages. A server lets messages lie
# there until it is their turn: it may have grown by what all ranks can have in flight, however late it came to that
# (after a move). A rank with many small chunks in flight uses as many segments, and large ones fill them later, one by
# one: it may have grown by all of them. That comes to an end; in the last quarter neither grows by more than others.
SEGMENT_BYTES = 576 << 10


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


def growth(samples: list[tuple[float, int]], since_quarter: int = 0) -> int | None:
    """From that quarter of the time after warming up to the last one, by their medians. None: too few samples."""
    if not samples:
        return None
    values = [value for when, value in samples if when - samples[0][0] > WARM_UP_S]
    if len(values) < LEAST_SAMPLES:
        return None
    quarter = len(values) // 4
    earlier = values[since_quarter * quarter :][:quarter]
    return int(statistics.median(values[-quarter:]) - statistics.median(earlier))


class MemoryWatch:
    """By process: a restarted one is another."""

    def __init__(self, in_flight_bytes: int, chunks_in_flight: dict[str, int]) -> None:
        self.in_flight_bytes = in_flight_bytes  # of all jobs
        self.chunks_in_flight = chunks_in_flight  # of a rank, at most, by the name of its job
        self.samples: dict[tuple[str, int], list[tuple[float, int]]] = defaultdict(list)

    def sample(self, name: str, pid: int, now: float) -> None:
        if value := own_memory(pid):
            self.samples[name, pid].append((now, value))

    def grown(self) -> list[str]:
        """A line for each process that did not stay flat."""
        found = []
        for (name, pid), samples in self.samples.items():
            more, lately = growth(samples), growth(samples, since_quarter=2)
            if more is None or lately is None:
                continue
            if more > MOST_GROWTH_BYTES + self.held_bytes(name) or lately > MOST_GROWTH_BYTES:
                found.append(
                    f"{name} (pid {pid}) grew by {more / MIB:.0f} MiB, {lately / MIB:.0f} MiB of them since the third"
                    f" quarter of its life, to {samples[-1][1] / MIB:.0f} MiB"
                )
        return found

    def held_bytes(self, name: str) -> int:
        """What the process may hold in UCX's pool."""
        if name.startswith("server-"):
            return self.in_flight_bytes
        return self.chunks_in_flight.get(name.split("/")[0], 0) * SEGMENT_BYTES if "/" in name else 0

    def summary(self) -> dict[str, dict[str, float]]:
        """By role: the most that a process had, and the most that one grew; in MiB."""
        roles: dict[str, dict[str, float]] = {}
        for (name, _), samples in self.samples.items():
            role = "rank" if "/" in name else name.rsplit("-", 1)[0]
            entry = roles.setdefault(role, {"most_mib": 0.0, "most_growth_mib": 0.0})
            entry["most_mib"] = max(entry["most_mib"], *(value / MIB for _, value in samples))
            entry["most_growth_mib"] = max(entry["most_growth_mib"], (growth(samples) or 0) / MIB)
        return roles
