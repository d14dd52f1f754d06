"""Who is in the next group of an open job: what torchft's lighthouse does for trainers. Pure.

Shoal does not bring that agreement (docs/adr/0029). It is by time alone, as anybody's would be: whoever is late is in
the group after the next one.
"""

from collections.abc import Set

# The last group is over for some, and others of it do not come.
LATE_S = 2.0
# Nobody of the last group has come.
NOBODY_S = 10.0


class Gathering:
    """Of one slot: groups follow each other."""

    def __init__(self) -> None:
        self.ready: dict[int, float] = {}  # since when a place waits for its next group
        self.last: tuple[int, ...] = ()

    def come(self, place: int, now: float) -> None:
        self.ready[place] = now

    def leave(self, place: int) -> None:
        self.ready.pop(place, None)

    def next_members(self, live: Set[int], now: float) -> tuple[int, ...]:
        """Of `live` places, which have joined and run; empty: it is to be waited for more."""
        here = sorted(set(self.ready) & live)
        if not here:
            return ()
        if live - set(here):
            over_since = min((self.ready[place] for place in here if place in self.last), default=now)
            nobody_since = min(self.ready[place] for place in here)
            if now - over_since < LATE_S and now - nobody_since < NOBODY_S:
                return ()
        for place in here:
            del self.ready[place]
        self.last = tuple(here)
        return self.last
