"""`offloads.py DEVICE on|off`, in the device's namespace: whether frames leave it large and without their checksum.

Off: the kernel cuts them to size and puts a whole checksum into each, which a changed bit then does not fit. What
`ethtool -K DEVICE tx on|off tso on|off` does, where there is no ethtool.
"""

import ctypes
import fcntl
import socket
import struct
import sys

SIOCETHTOOL = 0x8946
SET_SEND_CHECKSUM, SET_SEGMENTATION = 0x17, 0x1F


def set_feature(device: str, command: int, on: bool) -> None:
    """OSError if the device can't."""
    value = ctypes.create_string_buffer(struct.pack("II", command, int(on)))
    request = struct.pack("16sQ8x", device.encode(), ctypes.addressof(value))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCETHTOOL, request)


def main() -> int:
    on = sys.argv[2] == "on"
    for command in (SET_SEND_CHECKSUM, SET_SEGMENTATION) if on else (SET_SEGMENTATION, SET_SEND_CHECKSUM):
        set_feature(sys.argv[1], command, on)
    return 0


if __name__ == "__main__":
    sys.exit(main())
