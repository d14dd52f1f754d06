"""shoal-cluster: a scheduler and servers on this machine as one program in the foreground, to try Shoal with.

Ctrl-C ends it, and what it started. A server that ends by itself is started again under its name: jobs go on without it
meanwhile.
"""

import argparse
import ctypes
import re
import signal
import subprocess
import sys
import threading
import time
from typing import IO

import shoal_programs

LISTENS = re.compile(r"listening on (\S+:\d+)")
START_SECONDS = 30
END_SECONDS = 15  # what a server takes for groups that are open
PAUSE_SECONDS = (1, 30)  # before a server is started again, at first and at most
STEP_SECONDS = 0.1
PR_SET_PDEATHSIG = 1


class Child:
    """A program whose output goes on to this one's, each line after its name. Threads: one, beside its own reader."""

    def __init__(self, name: str, command: list[str], ends: threading.Event):
        self.name = name
        self.address = ""  # where it listens, once it has said so
        self._command = command
        self._ends = ends  # set if nobody hears this program's output any more
        self._process: subprocess.Popen | None = None
        self._reader: threading.Thread | None = None
        self._pause_seconds = PAUSE_SECONDS[0]
        self._next_start = 0.0

    def start(self) -> None:
        self._next_start = 0.0
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", preexec_fn=_end_with_parent, start_new_session=True,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reader.start()

    def _read(self, output: IO[str]) -> None:
        is_heard = True
        for line in output:
            if match := LISTENS.search(line):
                self.address = self.address or match.group(1)
            try:
                if is_heard:
                    print(f"[{self.name}] {line}", end="", flush=True)
            except (OSError, ValueError):
                is_heard = False  # but the program is read on, or it would wait
                self._ends.set()

    def exit_status(self) -> int | None:
        return self._process.poll()

    def start_again(self) -> None:
        """After a pause that becomes longer each time."""
        if self._next_start == 0.0:
            print(
                f"shoal-cluster: {self.name} has ended (exit status {self.exit_status()}) and is started again in"
                f" {self._pause_seconds} s",
                flush=True,
            )
            self._next_start = time.monotonic() + self._pause_seconds
            self._pause_seconds = min(2 * self._pause_seconds, PAUSE_SECONDS[1])
        elif time.monotonic() >= self._next_start:
            self.start()

    def end(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def wait(self, seconds: float) -> None:
        """For its end and its last line."""
        if self._process is None:
            return
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._reader is not None:
            self._reader.join(STEP_SECONDS * 10)


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="shoal-cluster",
        description="Runs a scheduler and servers on this machine until Ctrl-C, to try Shoal with.",
        epilog="On several machines run shoal-scheduler on one and shoal-server on each.",
    )
    parser.add_argument("--servers", type=int, default=2, metavar="N", help="how many servers (2)")
    parser.add_argument("--port", type=int, default=7070, help="of the scheduler, on 127.0.0.1 (7070); 0: any free one")
    options = parser.parse_args(arguments)
    if not 1 <= options.servers <= 64:
        parser.error(f"--servers {options.servers}: 1 to 64")
    if not 0 <= options.port <= 65535:
        parser.error(f"--port {options.port}: 0 to 65535")
    return options


def main(arguments: list[str] | None = None) -> int:
    options = _parse(arguments)
    ends = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ends.set())
    listen = ["--listen", f"127.0.0.1:{options.port}"]
    scheduler = Child("scheduler", [shoal_programs.program("shoal-scheduler"), *listen], ends)
    servers: list[Child] = []
    try:
        if not _start([scheduler], ends):
            return 0 if ends.is_set() else 1
        program = shoal_programs.program("shoal-server")
        for number in range(options.servers):
            name = f"server-{number}"
            command = [program, "--name", name, "--scheduler", scheduler.address, "--advertise", "127.0.0.1"]
            servers.append(Child(name, command, ends))
        if not _start(servers, ends):
            return 0 if ends.is_set() else 1
        print(
            f"\nA cluster of {options.servers} servers runs. In another terminal:\n"
            f"  export SHOAL_SCHEDULER={scheduler.address}\n"
            "  export SHOAL_NODE_REDUCE=off    # otherwise ranks of one machine do not need the servers\n"
            '  torchrun --nproc-per-node 2 train.py    # with init_process_group("shoal")\n'
            "  shoalctl top\n"
            "Ctrl-C ends it.\n",
            flush=True,
        )
        return _watch(scheduler, servers, ends)
    except BrokenPipeError:
        return 1  # nobody hears it any more
    finally:
        for server in servers:
            server.end()
        until = time.monotonic() + END_SECONDS
        for server in servers:
            server.wait(max(until - time.monotonic(), 0))
        scheduler.end()
        scheduler.wait(END_SECONDS)


def _start(children: list[Child], ends: threading.Event) -> bool:
    """False: Ctrl-C, or one does not run, which is said."""
    for child in children:
        child.start()
    until = time.monotonic() + START_SECONDS
    while not ends.wait(STEP_SECONDS):
        if all(child.address for child in children):
            return True
        for child in children:
            if not child.address and (child.exit_status() is not None or time.monotonic() > until):
                child.end()
                child.wait(END_SECONDS)
                print(f"shoal-cluster: {child.name} does not run; its own lines above say why", file=sys.stderr)
                return False
    return False


def _watch(scheduler: Child, servers: list[Child], ends: threading.Event) -> int:
    """Until Ctrl-C, or the scheduler's end."""
    while not ends.wait(STEP_SECONDS):
        if (code := scheduler.exit_status()) is not None:
            print(f"shoal-cluster: the scheduler has ended (exit status {code})", file=sys.stderr)
            return 1
        for server in servers:
            if server.exit_status() is not None:
                server.start_again()
    return 0


if __name__ == "__main__":
    sys.exit(main())
