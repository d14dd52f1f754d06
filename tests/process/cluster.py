"""A small cluster of the real programs on loopback, for tests: processes whose output is watched, and what they say."""

import atexit
import contextlib
import functools
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = pathlib.Path(os.environ.get("SHOAL_BIN", ROOT / "build" / "bin"))
LIBRARY = PROGRAMS.parent / "lib" / "libshoal.so"
RANK_PROGRAM = pathlib.Path(__file__).with_name("rank_program.py")
LOOPBACK = "127.0.0.1"
# Of a build with a sanitizer (scripts/test_sanitizers.sh): its programs take longer, and Python has to load the
# sanitizer's runtime before the library.
TIME_FACTOR = float(os.environ.get("SHOAL_TEST_TIME_FACTOR", "1"))
SANITIZER_RUNTIME = os.environ.get("SHOAL_SANITIZER_RUNTIME", "")
PATIENCE_S = 30.0 * TIME_FACTOR  # for what takes a second on an idle machine
POLL_INTERVAL_S = 0.05

SCHEDULER_LISTENS = r"^shoal-scheduler listening on (\S+)$"
SERVER_LISTENS = r"^shoal-server (\S+) listening on (\S+)$"


def program(name: str) -> str:
    path = PROGRAMS / name
    assert path.exists(), f"{path} is missing: run make build, or set SHOAL_BIN to the folder of the programs"
    return str(path)


def sanitizer_environment() -> dict[str, str]:
    """Of a Python program that loads the library."""
    if not SANITIZER_RUNTIME:
        return {}
    # Python itself frees little at its end.
    return {"LD_PRELOAD": SANITIZER_RUNTIME, "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}


@functools.cache
def temporary_folder() -> str:
    """Of all programs that are started here, until this process ends: where groups fail, members write files to it."""
    folder = tempfile.TemporaryDirectory(prefix="shoal-tests-", ignore_cleanup_errors=True)
    atexit.register(folder.cleanup)
    return folder.name


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago, for programs that can't choose their own."""
    sockets = [socket.create_server((LOOPBACK, 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Process:
    """A started program. Its output (both streams) is read as it comes; waiting is always bounded.

    `before_exec` runs in the child."""

    def __init__(
        self,
        command: list[str],
        environment: dict[str, str] | None = None,
        before_exec: Callable[[], None] | None = None,
    ):
        self.command = command
        hidden = ("SHOAL_", "WORLD_SIZE", "RANK")
        surroundings = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
        surroundings["SHOAL_NODE_REDUCE"] = "off"  # these tests are about servers, and all ranks are on one node
        surroundings["TMPDIR"] = temporary_folder()
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=surroundings | (environment or {}),
            start_new_session=True,
            preexec_fn=before_exec,
        )
        self._lines: list[str] = []
        self._changed = threading.Condition()
        self._ended = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout:
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
                assert not self._ended, f"ended without a line like {pattern!r}:\n{self}"
                assert self._changed.wait(max(deadline - time.monotonic(), 0)), f"no line like {pattern!r}:\n{self}"

    def http_address(self) -> str:
        """HOST:PORT of a daemon that was started with --http."""
        line = r"http-listening: (?:page, )?metrics and health on http://(\S+)$"
        return self.wait_for_line(line).group(1)

    def wait(self, timeout_s: float = PATIENCE_S) -> int:
        """The exit code; -N after signal N. The output is complete then."""
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {timeout_s} s:\n{self}") from None
        self._reader.join(timeout_s)
        return code

    def running(self) -> bool:
        return self.process.poll() is None

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
        """Gives the program a line on its standard input."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def end_group(self) -> None:
        """Kills the process and all that it started."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self._reader.join(PATIENCE_S)
        self.process.stdout.close()
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass

    def __str__(self) -> str:
        return f"$ {' '.join(self.command)}\n" + "\n".join(self._lines)


class Cluster:
    """Starts programs of one cluster and asks its scheduler. Everything that was started dies with it."""

    def __init__(self) -> None:
        self._processes: list[Process] = []
        self.before_exec: Callable[[], None] | None = None  # runs in each child
        self.environment: dict[str, str] = {}  # of each program, beside what the call says
        self.scheduler: Process | None = None  # that was started last
        self.scheduler_address = ""

    def start(self, command: list[str], environment: dict[str, str] | None = None) -> Process:
        process = Process(command, self.environment | (environment or {}), self.before_exec)
        self._processes.append(process)
        return process

    def start_scheduler(self, *options: str, listen: str = f"{LOOPBACK}:0", lease_ttl_ms: int = 5000) -> Process:
        command = [program("shoal-scheduler"), "--listen", listen, "--lease-ttl", str(lease_ttl_ms), *options]
        self.scheduler = self.start(command)
        self.scheduler_address = self.scheduler.wait_for_line(SCHEDULER_LISTENS).group(1)
        return self.scheduler

    def launch_server(self, *options: str, scheduler: str = "", advertise: str = LOOPBACK) -> Process:
        """Without waiting for it."""
        address = scheduler or self.scheduler_address
        return self.start([program("shoal-server"), "--scheduler", address, "--advertise", advertise, *options])

    def start_server(self, name: str, *options: str) -> Process:
        """Registered when this returns."""
        server = self.launch_server("--name", name, *options)
        server.wait_for_line(SERVER_LISTENS)
        return server

    def start_rank(self, rank: int, world_size: int, *options: str) -> Process:
        """A rank of the job "test" (rank_program.py), without waiting for it."""
        return self.start(
            [sys.executable, str(RANK_PROGRAM), "--library", str(LIBRARY), "--scheduler", self.scheduler_address]
            + ["--rank", str(rank), "--world-size", str(world_size), *options],
            sanitizer_environment(),
        )

    def start_ranks(self, world_size: int, *options: str) -> list[Process]:
        return [self.start_rank(rank, world_size, *options) for rank in range(world_size)]

    def start_perf_rank(self, rank: int, world_size: int, *options: str) -> Process:
        """Of the job "perf"."""
        command = [program("shoal-perf"), "--scheduler", self.scheduler_address, "--job", "perf"]
        return self.start([*command, "--world-size", str(world_size), "--rank", str(rank), *options])

    def shoalctl_text(self, *arguments: str) -> str:
        command = [program("shoalctl"), "--scheduler", self.scheduler_address, *arguments]
        result = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE_S, check=False, preexec_fn=self.before_exec
        )
        assert result.returncode == 0, f"{' '.join(command)}: {result.stderr}"
        return result.stdout

    def shoalctl(self, *arguments: str) -> list[dict]:
        """The JSON documents that the command prints: one, but for `events --follow`."""
        return parse_documents(self.shoalctl_text(*arguments, "--json"))

    def scheduler_metrics(self) -> dict[str, float]:
        """Of a scheduler that was started with --http: each sample by its name with labels. Asked for as shoalctl asks,
        from where the scheduler is reached."""
        get = "import sys, urllib.request; sys.stdout.write(urllib.request.urlopen(sys.argv[1]).read().decode())"
        command = [sys.executable, "-c", get, f"http://{self.scheduler.http_address()}/metrics"]
        result = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE_S, check=True, preexec_fn=self.before_exec
        )
        return parse_samples(result.stdout)

    def servers(self) -> dict[str, dict]:
        """By name."""
        (document,) = self.shoalctl("servers")
        return {server["name"]: server for server in document.get("servers", [])}

    def bytes_out(self, server: str) -> int:
        """What the server has sent, as it told the scheduler last."""
        return int(self.servers()[server].get("load", {}).get("bytes_out", 0))

    def least_ops(self, job: str) -> int:
        """What each rank has completed at least, as the scheduler has heard; 0 also where there is no such job."""
        (document,) = self.shoalctl("jobs")
        if job not in {each["name"] for each in document.get("jobs", [])}:
            return 0
        (found,) = self.shoalctl("job", job)
        return min((int(rank.get("load", {}).get("ops_completed", 0)) for rank in found["ranks"]), default=0)

    def epoch(self) -> int:
        (document,) = self.shoalctl("map")
        return int(document.get("epoch", 0))

    def events(self) -> list[dict]:
        (document,) = self.shoalctl("events")
        return document["events"]

    def wait_until(self, condition: Callable[[], object], what: str, timeout_s: float = PATIENCE_S) -> object:
        """What the condition returned when it was true for the first time."""
        deadline = time.monotonic() + timeout_s
        while True:
            result = condition()
            if result:
                return result
            assert time.monotonic() < deadline, f"within {timeout_s} s not so: {what}\n{self}"
            time.sleep(POLL_INTERVAL_S)

    def wait_for_server(self, name: str, state: str, timeout_s: float = PATIENCE_S) -> dict:
        def server_in_state() -> dict | None:
            server = self.servers().get(name)
            return server if server and server["state"] == state else None

        return self.wait_until(server_in_state, f"server {name} is {state}", timeout_s)

    def wait_for_event(self, kind: str, subject: str, timeout_s: float = PATIENCE_S) -> dict:
        def matching_event() -> dict | None:
            events = [e for e in self.events() if e["kind"] == kind and subject in e.get("subject", "")]
            return events[-1] if events else None

        return self.wait_until(matching_event, f"an event {kind} about {subject}", timeout_s)

    def told(self, clause: str, kind: str, text: str, by: Process | None = None) -> None:
        """A clause of docs/failover.md can be told from an event of the scheduler: its kind, and what is found in
        "SUBJECT: REASON". `by`: from what that process says instead, in a line with the event's key (none: any line).
        test_clauses_are_told.py wants each clause to be told somewhere."""
        if by is not None:
            by.wait_for_line(f"{kind}.*{text}")
            return

        def is_told() -> bool:
            events = [event for event in self.events() if event["kind"] == kind]
            return any(re.search(text, f"{event.get('subject', '')}: {event.get('reason', '')}") for event in events)

        self.wait_until(is_told, f"{clause} is told: an event {kind} with {text!r}")

    def wait_for_move(self, job: str, count: int) -> list[dict]:
        """The moves of the job's group, at least so many."""

        def moves() -> list[dict] | None:
            found = [e for e in self.events() if e["kind"] == "group-moved" and f'job "{job}"' in e["subject"]]
            return found if len(found) >= count else None

        return self.wait_until(moves, f"{count} moves of the group of {job}")

    def end(self) -> None:
        for process in reversed(self._processes):
            process.end_group()

    def __str__(self) -> str:
        return "\n\n".join(str(process) for process in self._processes)


def parse_samples(text: str) -> dict[str, float]:
    """Of Prometheus' text format: each sample by its name with labels."""
    samples = [line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, value in samples}


def parse_documents(text: str) -> list[dict]:
    decoder = json.JSONDecoder()
    documents = []
    rest = text.strip()
    while rest:
        document, end = decoder.raw_decode(rest)
        documents.append(document)
        rest = rest[end:].strip()
    return documents
