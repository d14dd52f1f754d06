"""What strangers may send to a port: bytes that are no message of ours, and how they come and go (invariant I7)."""

import random
import socket
import struct

HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
RANDOM_BYTES = random.Random(20).randbytes(4096)  # the same in every run


def with_length(length: int, rest: bytes) -> bytes:
    """As UCX's connection manager has it: a length of 64 bits and 8 bytes more before the message."""
    return struct.pack("<QQ", length, 0) + rest


# What a port scanner, a lost client or a broken peer may send.
GARBAGE = [
    b"",
    RANDOM_BYTES[:1],
    RANDOM_BYTES,
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + RANDOM_BYTES[:500],  # TLS
    HTTP2_PREFACE[:12],
    HTTP2_PREFACE + b"\xff\xff\xff\x00\x00\x00\x00\x00\x00" + RANDOM_BYTES[:512],
    struct.pack("<II", 1 << 20, 7) + RANDOM_BYTES[:300],
    with_length(0, b""),
    with_length(300, RANDOM_BYTES[:100]),  # cut short
    with_length(0xFFFFFFFF, RANDOM_BYTES[:300]),
]
# What UCX's connection manager takes for a whole message.
GARBAGE_WITH_A_LENGTH = {
    "zeros": b"\0" * 65536,
    "ones": b"\xff" * 4096,
    "longer than its length": with_length(8, RANDOM_BYTES[:300]),
    "of its length": with_length(300, RANDOM_BYTES[:300]),
}


def pour_garbage(address: str, streams: list[bytes]) -> list[socket.socket]:
    """Sends each stream on a connection of its own, some cut off at once, and returns those that stay open."""
    host, port = address.rsplit(":", 1)
    held = []
    for number, stream in enumerate(streams):
        connection = socket.create_connection((host, int(port)), timeout=10)
        try:
            connection.sendall(stream)
        except OSError:
            pass  # it hung up, as it should
        if number % 3 == 2:
            # A reset instead of an orderly end.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
        else:
            held.append(connection)
    return held
