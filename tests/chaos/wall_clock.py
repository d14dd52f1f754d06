"""A wall clock for each node that can be set while programs run: wall_clock.c in front of the C library."""

import pathlib
import shutil
import struct
import subprocess

SOURCE = pathlib.Path(__file__).with_name("wall_clock.c")


class WallClocks:
    """Compiles the shim into the folder, and keeps a file with each node's shift beside it."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.library = folder / "wall_clock.so"
        compiler = shutil.which("gcc") or "cc"
        command = [compiler, "-O1", "-shared", "-fPIC", "-o", str(self.library), str(SOURCE)]
        subprocess.run(command, check=True, timeout=60)
        self.shifts_s: dict[str, float] = {}

    def environment(self, node: str) -> dict[str, str]:
        """For a program on the node."""
        path = self.folder / f"{node}.clock"
        if not path.exists():
            self.write(node)
        return {"LD_PRELOAD": str(self.library), "SHOAL_CHAOS_CLOCK": str(path)}

    def jump(self, node: str, by_s: float) -> None:
        self.shifts_s[node] = self.shifts_s.get(node, 0.0) + by_s
        self.write(node)

    def write(self, node: str) -> None:
        with (self.folder / f"{node}.clock").open("r+b" if (self.folder / f"{node}.clock").exists() else "wb") as file:
            file.write(struct.pack("<q", round(self.shifts_s.get(node, 0.0) * 1e9)))
