"""shoalctl's completion in the real shells: what a person gets who presses the tab key."""

import fcntl
import os
import pathlib
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterator

import pytest

from hosts.cluster import PROGRAMS, Cluster
from hosts.process import PATIENCE_S

READY = "ready> "
SHELLS = {"bash": ["bash", "--noprofile", "--norc", "-i"], "zsh": ["zsh", "--no-rcs", "-i"]}
# What a terminal does with the cursor and the colours is not looked at.
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|[\x07\x0d]|.\x08")


class Shell:
    """An interactive shell in a terminal of its own, which has read the script."""

    def __init__(self, name: str):
        terminal, inner = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 50, 1000, 0, 0))  # nothing is wrapped or scrolled
        self._terminal = terminal
        self._shown = ""
        path = f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}"
        environment = {"PATH": path, "TERM": "dumb", "HOME": "/nonexistent", "PS1": READY, "LANG": "C.UTF-8"}
        self._process = subprocess.Popen(
            SHELLS[name], stdin=inner, stdout=inner, stderr=inner, env=environment, start_new_session=True
        )
        os.close(inner)
        # Neither shell is to ask a person; the marks at the end of half a line are zsh's.
        settings = "unsetopt prompt_sp beep; " if name == "zsh" else ""
        self.type(f"{settings}PS1='{READY}'; source <(shoalctl completion {name})\n")
        self.type("echo so' 'far\n")
        self.wait_for(r"so far\n")  # the command's own words have quotes

    def type(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    def wait_for(self, pattern: str) -> None:
        """That what has been shown since the last call has it."""
        deadline = time.monotonic() + PATIENCE_S
        while re.search(pattern, self._shown) is None:
            left = deadline - time.monotonic()
            assert left > 0, f"{pattern} is not in {self._shown!r}"
            if select.select([self._terminal], [], [], left)[0]:
                self._shown = CONTROL.sub("", self._shown + os.read(self._terminal, 65536).decode(errors="replace"))
        self._shown = ""

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._terminal)


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> Iterator[Shell]:
    shell = Shell(request.param)
    yield shell
    shell.end()


def test_a_shell_completes_commands_options_names_and_files(cluster: Cluster, shell: Shell, tmp_path: pathlib.Path):
    cluster.start_scheduler()
    cluster.start_server("alpha-1")
    (tmp_path / "drawing.json").touch()
    for typed, completed in (
        ("shoalctl undr\t", "shoalctl undrain"),
        ("shoalctl servers --sched\t", "shoalctl servers --scheduler"),
        ("shoalctl events --kind rank-lo\t", "shoalctl events --kind rank-lost"),
        (f"shoalctl --scheduler {cluster.scheduler_address} drain al\t", "drain alpha-1"),
        (f"shoalctl trace gpt -o {tmp_path}/draw\t", f"-o {tmp_path}/drawing.json"),
    ):
        shell.type(typed)
        shell.wait_for(re.escape(completed))
        shell.type("\x15")  # the line is not wanted
