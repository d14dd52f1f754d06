"""Programs on nodes: what they say is read as they run, and none is left behind, nor what it started."""

import contextlib
import itertools
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import IO

from hosts.left_over import FOLDER_PREFIX, OWNER_VARIABLE, kill_marked, own_mark, temporary_folder
from hosts.node import THIS_MACHINE, HostError, Node

# Programs of a build with a sanitizer take longer (scripts/test_sanitizers.sh).
TIME_FACTOR = float(os.environ.get("SHOAL_TEST_TIME_FACTOR", "1"))
PATIENCE_S = 30.0 * TIME_FACTOR  # for what takes a second on an idle machine
POLL_INTERVAL_S = 0.05
LISTENS = r"listening on ([\w.:\[\]-]+:\d+)"  # what each daemon says first


class Process:
    """A started program. Its output (both streams) is read as it comes; waiting is always bounded.

    `before_exec` runs in the child. `errors`: where the standard error goes, if not to the output. `on_line` is given
    each line as it comes, on a thread of its own."""

    def __init__(
        self,
        command: list[str],
        environment: dict[str, str] | None = None,
        before_exec: Callable[[], None] = THIS_MACHINE.enter,
        errors: IO | int = subprocess.STDOUT,
        on_line: Callable[[str], None] | None = None,
    ):
        self.command = [str(word) for word in command]
        hidden = ("SHOAL_", "WORLD_SIZE", "RANK")
        surroundings = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
        surroundings["SHOAL_NODE_REDUCE"] = "off"  # these tests are about servers, and all ranks are on one node
        surroundings |= {"TMPDIR": temporary_folder(), OWNER_VARIABLE: own_mark()}
        self.process = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            errors="replace",
            env=surroundings | (environment or {}),
            start_new_session=True,
            preexec_fn=before_exec,
        )
        self._lines: list[str] = []
        self._changed = threading.Condition()
        self._ended = False
        self._on_line = on_line
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout:
            if self._on_line is not None:
                self._on_line(line.rstrip("\n"))
            with self._changed:
                self._lines.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    @property
    def output(self) -> str:
        with self._changed:
            return "\n".join(self._lines)

    def lines_after(self, count: int) -> list[str]:
        """The lines that came after the first `count` ones."""
        with self._changed:
            return self._lines[count:]

    @property
    def pid(self) -> int:
        return self.process.pid

    def wait_for_line(self, pattern: str, timeout_s: float = PATIENCE_S, after: int = 0) -> re.Match[str]:
        """The first line of the output in which the pattern is found, also when it came before the call. `after`: how
        many lines, which have come, are passed over."""
        expression = re.compile(pattern)
        deadline = time.monotonic() + timeout_s
        seen = after
        with self._changed:
            while True:
                for line in self._lines[seen:]:
                    match = expression.search(line)
                    if match:
                        return match
                seen = len(self._lines)
                if self._ended:
                    raise HostError(f"ended without a line like {pattern!r}:\n{self}")
                if not self._changed.wait(max(deadline - time.monotonic(), 0)):
                    raise HostError(f"no line like {pattern!r}:\n{self}")

    def listens_at(self) -> str:
        """The first address of a daemon, which may have a port that the kernel chose."""
        return self.wait_for_line(LISTENS).group(1)

    def http_address(self) -> str:
        """HOST:PORT of a daemon that was started with --http."""
        line = r"http-listening: (?:page, )?metrics and health on http://(\S+)$"
        return self.wait_for_line(line).group(1)

    def wait(self, timeout_s: float | None = PATIENCE_S) -> int:
        """The exit code; -N after signal N. The output is complete then."""
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise HostError(f"still running after {timeout_s} s:\n{self}") from None
        self._reader.join(timeout_s)
        return code

    @property
    def code(self) -> int | None:
        """The exit code; None: it runs."""
        return self.process.poll()

    def running(self) -> bool:
        return self.code is None

    def resident_bytes(self) -> int:
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text(encoding="ascii", errors="replace")
        return int(re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE).group(1)) << 10

    def send(self, number: int) -> None:
        """Returns when the process has stopped, if that is what the signal asks for: the kernel only notes it, and a
        thread that runs on another processor goes on for a while."""
        self.process.send_signal(number)
        if number == signal.SIGSTOP:
            deadline = time.monotonic() + PATIENCE_S
            while not self.has_stopped() and time.monotonic() < deadline:
                time.sleep(0.001)
            assert self.has_stopped(), f"does not stop: {self}"

    @contextlib.contextmanager
    def stopped_in_turns(self, turn_s: float) -> Iterator[None]:
        """It runs for half of the time, as under a CPU limit."""
        over = threading.Event()

        def take_turns() -> None:
            while not over.wait(turn_s):
                self.process.send_signal(signal.SIGSTOP)
                over.wait(turn_s)
                self.process.send_signal(signal.SIGCONT)

        thread = threading.Thread(target=take_turns)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def has_stopped(self) -> bool:
        """All of its threads stand still."""
        for thread in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            # "1234 (name) T ...", where the name may have any characters.
            if (thread / "stat").read_text().rpartition(") ")[2][:1] != "T":
                return False
        return True

    def say(self, line: str = "go on") -> None:
        """Gives the program a line on its standard input. One that has ended by itself hears nothing: its exit code and
        its output say why."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()

    def kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def end_group(self) -> None:
        """Kills the process and all of its group."""
        self.kill_group()
        self.process.wait()
        self._reader.join(PATIENCE_S)
        self.process.stdout.close()
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass

    def __str__(self) -> str:
        return f"$ {' '.join(self.command)}\n{self.output}"

    __repr__ = __str__


class Processes:
    """Programs that end together. `with Processes() as processes:` leaves none of them, nor what they started, behind;
    and what they said is shown where an exception ends it."""

    _numbers = itertools.count()

    def __init__(self) -> None:
        self._processes: list[Process] = []
        self._mark = f"{own_mark()}.{next(self._numbers)}"
        self._folder = tempfile.TemporaryDirectory(prefix=f"{FOLDER_PREFIX}{own_mark()}-", ignore_cleanup_errors=True)
        self.folder = pathlib.Path(self._folder.name)  # for their files; it ends with them
        self.node = THIS_MACHINE  # where programs start if nothing else is said
        self.environment: dict[str, str] = {}  # of each program, beside what the call says
        self.before_exec: Callable[[], None] | None = None  # runs in each child, on its node

    def __enter__(self):
        return self

    def __exit__(self, kind: type | None, *_exception) -> None:
        if kind is not None and issubclass(kind, Exception):
            print(self, file=sys.stderr)  # pytest shows it with the failure
        self.end()

    def start(
        self,
        command: list[str],
        environment: dict[str, str] | None = None,
        node: Node | None = None,
        errors: IO | int = subprocess.STDOUT,
        on_line: Callable[[str], None] | None = None,
    ) -> Process:
        # Last: `environment` may have the mark of who runs this program.
        surroundings = self.environment | (environment or {}) | {OWNER_VARIABLE: self._mark}
        with self.on(node or self.node):
            process = Process(command, surroundings, self.enter, errors, on_line)
        self._processes.append(process)
        return process

    def enter(self) -> None:
        """In a child, before exec."""
        self.node.enter()
        if self.before_exec is not None:
            self.before_exec()

    def call(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        """Of a short one, where programs start now."""
        return subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE_S, check=False, preexec_fn=self.enter
        )

    def run(
        self, commands: list[tuple[Node, list[str]]], timeout_s: float, environment: dict[str, str] | None = None
    ) -> list[str]:
        """Runs the commands side by side and gives their standard outputs. HostError if one fails or takes too long:
        as soon as it has failed, since the others may wait for it in vain."""
        with contextlib.ExitStack() as files:
            started = []
            for node, command in commands:
                errors = files.enter_context(tempfile.TemporaryFile("w+", dir=self.folder))
                started.append((node, self.start(command, environment, node, errors), errors))
            try:
                wait_for_all(started, timeout_s)
                return [process.output for _, process, _ in started]
            finally:
                for _, process, _ in started:
                    self.end_one(process)

    @contextlib.contextmanager
    def on(self, node: Node) -> Iterator[None]:
        """What is started meanwhile is on the node."""
        before, self.node = self.node, node
        try:
            yield
        finally:
            self.node = before

    def wait_until(self, condition: Callable[[], object], what: str, timeout_s: float = PATIENCE_S) -> object:
        """What the condition returned when it was true for the first time."""
        deadline = time.monotonic() + timeout_s
        while not (result := condition()):
            if time.monotonic() > deadline:
                raise HostError(f"within {timeout_s} s not so: {what}\n{self}")
            time.sleep(POLL_INTERVAL_S)
        return result

    def end_one(self, process: Process) -> None:
        """Kills it and its group; what it said is forgotten."""
        process.end_group()
        self._processes.remove(process)

    def end(self) -> None:
        """Kills all of them, and what they started that left their groups."""
        for process in reversed(self._processes):
            process.kill_group()
        kill_marked(self._mark)
        for process in self._processes:
            process.end_group()
        self._folder.cleanup()

    def __str__(self) -> str:
        return "\n\n".join(str(process) for process in self._processes)


def said_by(done: subprocess.CompletedProcess[str]) -> str:
    """HostError if it failed."""
    if done.returncode != 0:
        raise HostError(f"{' '.join(done.args)}: {done.stderr}")
    return done.stdout


def wait_for_all(started: list[tuple[Node, Process, IO]], timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    waiting = list(started)
    while waiting:
        for each in list(waiting):
            node, process, errors = each
            late = time.monotonic() > deadline
            if process.code is None and not late:
                continue
            if process.code != 0:
                errors.seek(0)
                how = f"was not done after {timeout_s} s" if process.running() else f"ended with {process.code}"
                said = errors.read().strip()[-3000:]
                raise HostError(f"on {node.name}, {' '.join(process.command)} {how}:\n{said}")
            process.wait()  # until its output is complete
            waiting.remove(each)
        time.sleep(0.02)
