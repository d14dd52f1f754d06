"""How long programs waited for a processor: what a busy machine costs them, and no fault of theirs."""

import pathlib
from collections import defaultdict, deque

KEPT_S = 120.0


def waited_by_thread(pid: int) -> dict[str, float]:
    """Seconds that each thread was ready to run and did not, since it began; empty: the process has ended."""
    found = {}
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            found[path.parent.name] = int(path.read_text(encoding="ascii").split()[1]) / 1e9
        except (OSError, IndexError):
            continue  # it has just ended
    return found


class Starvation:
    """Sampled every few seconds; asked when somebody seems to stand still."""

    def __init__(self) -> None:
        self.samples: dict[int, deque[tuple[float, dict[str, float]]]] = defaultdict(deque)

    def sample(self, pid: int, now: float) -> None:
        samples = self.samples[pid]
        samples.append((now, waited_by_thread(pid)))
        while samples[0][0] < now - KEPT_S:
            samples.popleft()

    def forget_all_but(self, pids: set[int]) -> None:
        for pid in set(self.samples) - pids:
            del self.samples[pid]

    def waited_s(self, pids: list[int], since: float, now: float) -> float:
        """The most that one thread of these processes waited in that time."""
        most = 0.0
        for pid in pids:
            self.sample(pid, now)
            samples = self.samples[pid]
            before = next((waited for when, waited in reversed(samples) if when <= since), samples[0][1])
            after = samples[-1][1]
            most = max([most, *(value - before.get(thread, 0.0) for thread, value in after.items())])
        return most
