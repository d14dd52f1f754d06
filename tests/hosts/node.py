"""Nodes: this machine, and network namespaces of it that have no name.

A namespace is held by a file descriptor of this process, so the kernel removes it, its devices and its shaping as soon
as this process and those it started in the namespace are gone, whatever ended them. Needs root. One thread: a program
on a node ends with the thread that started it.
"""

import ctypes
import dataclasses
import os
import pathlib
import signal
import subprocess
import threading
import uuid

from hosts.left_over import FOLDER_PREFIX, own_mark

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWNET = 0x40000000
MS_BIND = 1 << 12
MS_PRIVATE = 1 << 18
MS_REC = 1 << 14
PR_SET_PDEATHSIG = 1
LOOPBACK = "127.0.0.1"

libc = ctypes.CDLL(None, use_errno=True)


class HostError(RuntimeError):
    """A node, a link or a program did not do what is asked of it; the text says which, and how."""


def call_libc(function: str, *arguments) -> None:
    if getattr(libc, function)(*arguments) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{function}: {os.strerror(error)}")


def open_new_namespace() -> int:
    """A descriptor that holds a new network namespace. HostError without the right to make one."""
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
        raise HostError(f"no network namespace ({errors[0]}): it needs root, or CAP_SYS_ADMIN and CAP_NET_ADMIN")
    return made[0]


@dataclasses.dataclass(frozen=True)
class Node:
    name: str
    address: str = ""
    device: str = ""  # that carries the address; with several networks "eth0,eth1", the first of which carries it
    namespace: int = -1  # descriptor; -1: that of this process, and then the name is not set either
    more_addresses: tuple[str, ...] = ()  # of the further devices

    def namespace_path(self) -> str:
        """For tools that take a file, such as nsenter; valid while this process holds the namespace."""
        return f"/proc/{os.getpid()}/fd/{self.namespace}"

    def enter(self) -> None:
        """Runs in a child before exec: puts it on this node, with the node's name and boot id, and ends it with its
        parent."""
        call_libc("prctl", PR_SET_PDEATHSIG, signal.SIGKILL)
        if self.namespace < 0:
            return
        call_libc("setns", self.namespace, CLONE_NEWNET)
        call_libc("unshare", CLONE_NEWNS)
        call_libc("mount", b"none", b"/", None, MS_REC | MS_PRIVATE, None)
        # By these Shoal tells the nodes of a job apart, and all nodes here have one kernel.
        mount_boot_id(uuid.uuid5(uuid.NAMESPACE_OID, str(os.fstat(self.namespace).st_ino)))
        if self.more_addresses:
            # The devices in /sys: there is an eth0 in most nodes, and an eth1 in few.
            mount_own_sys()
        call_libc("unshare", CLONE_NEWUTS)
        name = self.name.encode()
        call_libc("sethostname", name, len(name))

    def run(self, command: list[str], text: str = "", timeout_s: float = 60) -> str:
        """What a short command says that reads the text. HostError if it fails."""
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, preexec_fn=self.enter, timeout=timeout_s, check=False
        )
        if done.returncode != 0:
            raise HostError(f"{' '.join(command)} failed:\n{text}\n{done.stderr.strip()}")
        return done.stdout

    def run_batch(self, tool: str, *lines: str) -> None:
        """`ip` or `tc` does each line, for which it starts once."""
        self.run([tool, "-batch", "-"], "".join(f"{line}\n" for line in lines))


THIS_MACHINE = Node("this machine", LOOPBACK, "lo")


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
