"""How busy the machine's processors were, from /proc/stat."""

import dataclasses
import pathlib


@dataclasses.dataclass(frozen=True)
class ProcessorTimes:
    """Since the machine's start, in ticks."""

    total: int
    idle: int
    stolen: int  # that other guests of the machine below got

    @staticmethod
    def now() -> "ProcessorTimes":
        fields = [int(field) for field in pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
        return ProcessorTimes(total=sum(fields), idle=fields[3] + fields[4], stolen=fields[7])

    def idle_share_since(self, earlier: "ProcessorTimes") -> float:
        return (self.idle - earlier.idle) / max(1, self.total - earlier.total)

    def stolen_share_since(self, earlier: "ProcessorTimes") -> float:
        return (self.stolen - earlier.stolen) / max(1, self.total - earlier.total)
