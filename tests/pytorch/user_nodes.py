"""Nodes that are user namespaces of this one, which is what makes nodes differ for Shoal (process/node_identity.h)."""

import contextlib
import ctypes
import os
import subprocess
from collections.abc import Iterator

CLONE_NEWUSER = 0x10000000


@contextlib.contextmanager
def make_user_nodes(count: int) -> Iterator[list[str]]:
    """Their namespaces, as paths."""
    holders = []
    try:
        for _ in range(count):
            command = ["unshare", "--user", "sh", "-c", "echo; exec sleep infinity"]
            holders.append(subprocess.Popen(command, stdout=subprocess.PIPE))
            holders[-1].stdout.read(1)  # it is in its namespace
        yield [f"/proc/{holder.pid}/ns/user" for holder in holders]
    finally:
        for holder in holders:
            holder.kill()
            holder.wait()


def join_user_node(namespaces: list[str], ranks_of_a_node: int) -> None:
    """In a process of rank_processes.py, before it has threads."""
    descriptor = os.open(namespaces[int(os.environ["TEST_RANK"]) // ranks_of_a_node], os.O_RDONLY)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, CLONE_NEWUSER) != 0:
        raise OSError(ctypes.get_errno(), "setns")
    os.close(descriptor)
