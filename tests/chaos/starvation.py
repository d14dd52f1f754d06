"""How long programs waited for a processor: what a busy machine costs them, and no fault of theirs.

Two measures. The sum of all waits makes work slower. A stretch in which a thread gets hardly any processor silences it:
no heartbeat goes out, and a lease may end. On busy processors the sum of ten seconds is seconds, of waits of a few
milliseconds that silence nobody.
"""

import dataclasses
import pathlib
from collections import defaultdict, deque

KEPT_S = 120.0
# Of the time between two samples. A wait counts when it ends, so a long one may show as more than all of that time.
HARDLY_ANY_PROCESSOR = 0.8
# What a thread has waited in less time than that says nothing of a stretch.
LEAST_BETWEEN_SAMPLES_S = 0.2


def waited_by_thread(pid: int) -> dict[str, float]:
    """Seconds that each thread was ready to run and did not, since it began; empty: the process has ended."""
    found = {}
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            found[path.parent.name] = int(path.read_text(encoding="ascii").split()[1]) / 1e9
        except (OSError, IndexError):
            continue  # it has just ended
    return found


@dataclasses.dataclass(frozen=True)
class Sample:
    at: float
    waited_s: dict[str, float]  # by thread, since it began
    stretch_s: dict[str, float]  # by thread: for how long it has got hardly any processor, if it gets none now

    def next(self, at: float, waited_s: dict[str, float]) -> "Sample":
        stretches = {}
        for thread, waited in waited_s.items():
            more = waited - self.waited_s.get(thread, waited)
            if more >= HARDLY_ANY_PROCESSOR * (at - self.at):
                stretches[thread] = self.stretch_s.get(thread, 0.0) + more
        return Sample(at, waited_s, stretches)


class Starvation:
    """Sampled a few times a second; asked when somebody seems to stand still. Knows also those that have ended, until
    they are forgotten."""

    def __init__(self) -> None:
        self.samples: dict[int, deque[Sample]] = defaultdict(deque)

    def sample(self, pid: int, now: float) -> None:
        last = self.samples[pid][-1] if pid in self.samples else None
        if last is not None and now - last.at < LEAST_BETWEEN_SAMPLES_S:
            return
        waited_s = waited_by_thread(pid)
        if not waited_s:
            return
        samples = self.samples[pid]
        samples.append(samples[-1].next(now, waited_s) if samples else Sample(now, waited_s, {}))
        while samples[0].at < now - KEPT_S:
            samples.popleft()

    def forget_all_but(self, pids: set[int]) -> None:
        for pid in set(self.samples) - pids:
            del self.samples[pid]

    def waited_s(self, pids: list[int], since: float, now: float) -> float:
        """The most that one thread of these processes waited in that time, all waits together."""
        most = 0.0
        for samples in self.sampled(pids, now):
            before = next((each for each in reversed(samples) if each.at <= since), samples[0]).waited_s
            after = samples[-1].waited_s
            most = max([most, *(value - before.get(thread, 0.0) for thread, value in after.items())])
        return most

    def silenced_s(self, pids: list[int], since: float, now: float) -> float:
        """The longest stretch in that time in which one thread of these processes got hardly any processor."""
        stretches = [0.0]
        for samples in self.sampled(pids, now):
            for each in samples:
                if each.at >= since:
                    stretches += each.stretch_s.values()
        return max(stretches)

    def sampled(self, pids: list[int], now: float) -> list[deque[Sample]]:
        for pid in pids:
            self.sample(pid, now)
        return [self.samples[pid] for pid in pids if pid in self.samples]
