"""A disk in memory for a node's state, which can be made full to the last byte and have room again."""

import os
import pathlib
import subprocess

MOST_TRIES = 50


class StateDisk:
    def __init__(self, folder: pathlib.Path, size_bytes: int):
        self.folder, self.size_bytes = folder, size_bytes

    def mount(self) -> None:
        self.folder.mkdir()
        options = f"size={self.size_bytes}"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "chaos", str(self.folder)], check=True, timeout=30)

    def fill(self) -> None:
        """Makes it as small as what is on it. RuntimeError if that grows all the time."""
        for _ in range(MOST_TRIES):
            usage = os.statvfs(self.folder)
            if self.resize((usage.f_blocks - usage.f_bfree) * usage.f_frsize):
                return
        raise RuntimeError(f"{self.folder} was written to so fast that it could not be made full")

    def make_room(self) -> None:
        if not self.resize(self.size_bytes):
            raise RuntimeError(f"{self.folder} did not get its size back")

    def resize(self, size_bytes: int) -> bool:
        """False: more than that is on it by now."""
        options = f"remount,size={size_bytes}"
        command = ["mount", "-o", options, str(self.folder)]
        return subprocess.run(command, check=False, capture_output=True, timeout=30).returncode == 0

    def unmount(self) -> None:
        """Safe at any time, also twice."""
        if os.path.ismount(self.folder):
            subprocess.run(["umount", str(self.folder)], check=False, timeout=30)
