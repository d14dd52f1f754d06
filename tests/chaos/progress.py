"""A rank's counters in a file that its watcher maps as well: what moved, without a message for each op."""

import mmap
import pathlib
import struct

MOST_SLOTS = 16
FIELDS = ("steps", "ops", "groups", "bytes", "doing")  # of a slot; steps: anything that shows that the slot goes on
WAITS_FOR_MEMBERS = "waits for members"  # until the watcher says who is in the next group
DOING = ("pauses", "makes a group", "submits an op", "waits for an op", "closes a group", WAITS_FOR_MEMBERS)
SIZE = MOST_SLOTS * len(FIELDS) * 8


class Progress:
    """Each slot is written by one thread of one process. The file is made by whoever comes first."""

    def __init__(self, path: pathlib.Path):
        with path.open("a+b") as file:
            file.truncate(SIZE)
            self.memory = mmap.mmap(file.fileno(), SIZE)

    def add(self, slot: int, **amounts: int) -> None:
        for name, amount in amounts.items():
            place = (slot * len(FIELDS) + FIELDS.index(name)) * 8
            (value,) = struct.unpack_from("<Q", self.memory, place)
            struct.pack_into("<Q", self.memory, place, value + amount)

    def set_doing(self, slot: int, what: str) -> None:
        place = (slot * len(FIELDS) + FIELDS.index("doing")) * 8
        struct.pack_into("<Q", self.memory, place, DOING.index(what))

    def doing(self, slot: int) -> str:
        return DOING[self.read(slot)["doing"]]

    def read(self, slot: int) -> dict[str, int]:
        place = slot * len(FIELDS) * 8
        return dict(zip(FIELDS, struct.unpack_from(f"<{len(FIELDS)}Q", self.memory, place)))

    def steps(self, slot: int) -> int:
        return struct.unpack_from("<Q", self.memory, slot * len(FIELDS) * 8)[0]

    def close(self) -> None:
        self.memory.close()
