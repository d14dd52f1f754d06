"""What strangers may send to a port: bytes that are no message of ours, and how they come and go (invariant I7)."""

import random
import socket
import struct

HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
RANDOM_BYTES = random.Random(20).randbytes(4096)  # the same in every run

# What a port scanner, a lost client or a broken peer may send.
GARBAGE = [
    b"",
    RANDOM_BYTES[:1],
    RANDOM_BYTES,
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + RANDOM_BYTES[:500],  # TLS
    HTTP2_PREFACE[:12],
    HTTP2_PREFACE + b"\xff\xff\xff\x00\x00\x00\x00\x00\x00" + RANDOM_BYTES[:512],
]


def pour_garbage(address: str) -> list[socket.socket]:
    """Sends each of GARBAGE on a connection of its own, some cut off at once, and returns those that stay open."""
    host, port = address.rsplit(":", 1)
    held = []
    for number, stream in enumerate(GARBAGE):
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
