"""Runs a program that may not make shared memory, as under a container's security profile that lacks memfd_create:

without_shared_memory.py PROGRAM ARGUMENT...
"""

import ctypes
import os
import platform
import struct
import sys

MEMFD_CREATE = 319  # x86-64
NO_NEW_PRIVILEGES, SECCOMP, FILTER = 38, 22, 2  # of prctl
LOAD_NUMBER, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06  # of the filter's language
REFUSE, ALLOW = 0x00050001, 0x7FFF0000  # with EPERM


class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


def main() -> None:
    if platform.machine() != "x86_64":
        sys.exit("the number of memfd_create is known for x86-64 alone: add that of this machine")
    instructions = [(LOAD_NUMBER, 0, 0, 0), (JUMP_IF_EQUAL, 0, 1, MEMFD_CREATE), (RETURN, 0, 0, REFUSE)]
    instructions.append((RETURN, 0, 0, ALLOW))
    text = b"".join(struct.pack("HBBI", *instruction) for instruction in instructions)
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0 or prctl(SECCOMP, FILTER, ctypes.byref(Filter(4, text))) != 0:
        sys.exit(f"the filter was refused: {os.strerror(ctypes.get_errno())}")
    os.execv(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
