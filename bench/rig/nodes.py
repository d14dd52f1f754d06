"""Nodes for a measurement: network namespaces without a name, and the processes in them.

A namespace is held by a file descriptor of this process, so the kernel removes it, its devices and its shaping as soon
as this process and those it started in the namespace are gone, whatever ended them. Needs root. One thread.
"""

import ctypes
import dataclasses
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import uuid

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWNET = 0x40000000
MS_BIND = 1 << 12
MS_PRIVATE = 1 << 18
MS_REC = 1 << 14
PR_SET_PDEATHSIG = 1
# Marks each process that a rig starts, and what those start: VALUE is the pid and start time of the rig's owner.
OWNER_VARIABLE = "SHOAL_BENCH_RIG"
FOLDER_PREFIX = "shoal-bench-"  # in the folder for temporary files; the mark follows
LISTENING = re.compile(r"listening on (\S+)")
START_TIMEOUT_S = 30
STOP_TIMEOUT_S = 10

libc = ctypes.CDLL(None, use_errno=True)


class RigError(RuntimeError):
    """The rig or a program in it failed; the text says which, and how."""


def call_libc(function: str, *arguments) -> None:
    if getattr(libc, function)(*arguments) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{function}: {os.strerror(error)}")


def open_new_namespace() -> int:
    """A descriptor that holds a new network namespace. RigError without the right to make one."""
    made: list[int] = []
    errors: list[OSError] = []

    def unshare_in_thread() -> None:
        # A namespace belongs to a thread: this one's end leaves the process where it was.
        try:
            call_libc("unshare", CLONE_NEWNET)
            made.append(os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            errors.append(error)

    thread = threading.Thread(target=unshare_in_thread)
    thread.start()
    thread.join()
    if errors:
        raise RigError(f"no network namespace ({errors[0]}): the rig needs root, or CAP_SYS_ADMIN and CAP_NET_ADMIN")
    return made[0]


@dataclasses.dataclass(frozen=True)
class Node:
    name: str
    address: str
    device: str  # that carries the address; with several networks "eth0,eth1", the first of which carries it
    namespace: int  # descriptor
    more_addresses: tuple[str, ...] = ()  # of the further devices

    def namespace_path(self) -> str:
        """For tools that take a file, such as nsenter; valid while this process holds the namespace."""
        return f"/proc/{os.getpid()}/fd/{self.namespace}"

    def enter(self) -> None:
        """Runs in a child before exec: puts it on this node, with the node's name and boot id, and ends it with its
        parent."""
        call_libc("setns", self.namespace, CLONE_NEWNET)
        call_libc("unshare", CLONE_NEWNS)
        call_libc("mount", b"none", b"/", None, MS_REC | MS_PRIVATE, None)
        # By these Shoal tells the nodes of a job apart, and all of the rig's have one kernel.
        mount_boot_id(uuid.uuid5(uuid.NAMESPACE_OID, str(os.fstat(self.namespace).st_ino)))
        if self.more_addresses:
            # UCX looks for devices in /sys: there is an eth0 in most, and an eth1 in few.
            mount_own_sys()
        call_libc("unshare", CLONE_NEWUTS)
        name = self.name.encode()
        call_libc("sethostname", name, len(name))
        call_libc("prctl", PR_SET_PDEATHSIG, signal.SIGKILL)


def mount_own_sys() -> None:
    """For this process: /sys shows the network devices of the namespace in which it was mounted."""
    call_libc("mount", b"none", b"/sys", b"sysfs", 0, None)


def mount_boot_id(boot_id: uuid.UUID) -> None:
    """For this process, in its own mount namespace."""
    # Not by tempfile, which has a lock: this runs between fork and exec.
    path = pathlib.Path(f"/tmp/{FOLDER_PREFIX}{own_mark()}-boot-id")
    path.write_text(f"{boot_id}\n", encoding="ascii")
    call_libc("mount", bytes(path), b"/proc/sys/kernel/random/boot_id", None, MS_BIND, None)
    path.unlink()


def start_time_of(pid: int) -> str:
    """Tells apart two processes that had the same pid one after the other; empty if there is none."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
    except OSError:
        return ""


def own_mark() -> str:
    return f"{os.getpid()}.{start_time_of(os.getpid())}"


def marked_processes() -> list[tuple[int, str]]:
    """Pid and mark of all living processes that some rig started."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            environment = (entry / "environ").read_bytes()
        except OSError:
            continue
        if match := re.search(rb"(?:^|\0)" + OWNER_VARIABLE.encode() + rb"=([\d.]+)", environment):
            found.append((int(entry.name), match.group(1).decode()))
    return found


def owner_is_gone(mark: str) -> bool:
    owner, _, start_time = mark.partition(".")
    return start_time_of(int(owner)) != start_time


def clean_left_over() -> int:
    """Ends and removes what rigs left whose owner was killed before it could; says how many processes that were."""
    count = 0
    for pid, mark in marked_processes():
        if owner_is_gone(mark):
            try:
                os.kill(pid, signal.SIGKILL)
                count += 1
            except ProcessLookupError:
                pass
    for folder in pathlib.Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}*"):
        mark = re.match(r"\d+\.\d+", folder.name.removeprefix(FOLDER_PREFIX))
        if mark and owner_is_gone(mark.group()):
            shutil.rmtree(folder, ignore_errors=True)
    return count


@dataclasses.dataclass(frozen=True)
class Service:
    address: str  # where it says that it listens
    process: subprocess.Popen
    log: pathlib.Path


class Processes:
    """Programs on nodes. `with Processes() as processes:` leaves none of them, nor what they started, behind."""

    def __init__(self):
        self.running: list[subprocess.Popen] = []
        self.logs = tempfile.TemporaryDirectory(prefix=f"{FOLDER_PREFIX}{own_mark()}-")

    def __enter__(self) -> "Processes":
        return self

    def __exit__(self, *_exception) -> None:
        self.stop()

    def start(self, node: Node, command: list[str], env: dict[str, str] | None = None, **pipes) -> subprocess.Popen:
        # What is measured here are servers, also where all ranks are on one node.
        environment = {**os.environ, "SHOAL_NODE_REDUCE": "off", **(env or {}), OWNER_VARIABLE: own_mark()}
        process = subprocess.Popen(command, env=environment, preexec_fn=node.enter, **pipes)
        self.running.append(process)
        return process

    def start_service(self, node: Node, name: str, command: list[str], env: dict[str, str] | None = None) -> Service:
        """A program that says where it listens; `name` is its log's. RigError if it ends or stays silent."""
        log = pathlib.Path(self.logs.name) / f"{name}.log"
        with log.open("w") as sink:
            process = self.start(node, command, env, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            text = log.read_text()
            if match := LISTENING.search(text):
                return Service(match.group(1), process, log)
            if process.poll() is not None:
                raise RigError(f"{name} ended with {process.returncode}:\n{text[-3000:]}")
            time.sleep(0.02)
        raise RigError(f"{name} did not start within {START_TIMEOUT_S} s:\n{log.read_text()[-3000:]}")

    def run(
        self, commands: list[tuple[Node, list[str]]], timeout_s: float, env: dict[str, str] | None = None
    ) -> list[str]:
        """Runs the commands side by side and gives their standard outputs. RigError if one fails or takes too long."""
        with tempfile.TemporaryDirectory(dir=self.logs.name) as folder:
            outputs = [pathlib.Path(folder) / f"{number}.out" for number in range(len(commands))]
            errors = [pathlib.Path(folder) / f"{number}.err" for number in range(len(commands))]
            processes = []
            try:
                for (node, command), output, error in zip(commands, outputs, errors):
                    with output.open("w") as out, error.open("w") as err:
                        processes.append(
                            self.start(node, command, env, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
                        )
                wait_for_all(processes, commands, errors, timeout_s)
                return [output.read_text() for output in outputs]
            finally:
                for process in processes:
                    process.kill()
                    process.wait()
                    self.running.remove(process)

    def stop(self) -> None:
        """Asks every process to end, kills those that don't, and also what they started that outlived them."""
        for process in reversed(self.running):
            if process.poll() is None:
                process.terminate()
        deadline = time.monotonic() + STOP_TIMEOUT_S
        for process in self.running:
            try:
                process.wait(timeout=max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
        self.running.clear()
        for pid, mark in marked_processes():
            if mark == own_mark():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        self.logs.cleanup()


def wait_for_all(
    processes: list[subprocess.Popen],
    commands: list[tuple[Node, list[str]]],
    errors: list[pathlib.Path],
    timeout_s: float,
) -> None:
    """RigError as soon as one has failed: the others may wait for it in vain."""
    deadline = time.monotonic() + timeout_s
    open_ones = list(range(len(processes)))
    while open_ones:
        for index in list(open_ones):
            node, command = commands[index]
            code = processes[index].poll()
            if code is None:
                continue
            if code != 0:
                text = errors[index].read_text().strip()[-3000:]
                raise RigError(f"on {node.name}, {' '.join(command)} ended with {code}:\n{text}")
            open_ones.remove(index)
        if open_ones and time.monotonic() > deadline:
            node, command = commands[open_ones[0]]
            text = errors[open_ones[0]].read_text().strip()[-3000:]
            raise RigError(f"on {node.name}, not done after {timeout_s} s: {' '.join(command)}\n{text}")
        time.sleep(0.02)
