"""How often the schedulers moved a group, by their logs. Pure."""

import re
from collections import defaultdict, deque

from chaos.promises import MOST_MOVES_IN_10_S

WINDOW_S = 10.0
# Each rail moves by itself.
MOVED = re.compile(r'^\S+ INFO scheduler group-moved ((?:rail \d+ of )?group ".*?" of job ".*?")')


class MoveWatch:
    def __init__(self) -> None:
        self.recent: dict[str, deque[float]] = defaultdict(deque)
        self.total = 0
        self.said: set[str] = set()

    def hear(self, line: str, now: float) -> str:
        """A sentence if a group is moved too often: once for each group."""
        match = MOVED.match(line)
        if not match:
            return ""
        self.total += 1
        group = match.group(1)
        times = self.recent[group]
        times.append(now)
        while times[0] < now - WINDOW_S:
            times.popleft()
        if len(times) <= MOST_MOVES_IN_10_S or group in self.said:
            return ""
        self.said.add(group)
        return f"{group} was moved {len(times)} times within {now - times[0]:.1f} s: {line[:300]}"
