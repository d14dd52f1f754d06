"""One node's part of the calibration: sends to a neighbour and receives from another, both as fast as the links let it.

Started on every node by calibration.py. Prints the bytes received and the seconds of the window in which they came.
"""

import argparse
import socket
import threading
import time

PORT = 7000  # in a namespace of its own
BLOCK_BYTES = 1 << 18
CONNECT_TIMEOUT_S = 10


def send_until(address: str, end: float) -> None:
    while True:
        try:
            connection = socket.create_connection((address, PORT), timeout=CONNECT_TIMEOUT_S)
            break
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)  # the neighbour's process has not come up yet
    block = bytes(BLOCK_BYTES)
    try:
        while time.monotonic() < end:
            connection.sendall(block)
    except ConnectionError:
        pass  # the receiver has seen enough
    connection.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listen", required=True, help="address to receive at")
    parser.add_argument("--to", required=True, help="address to send to")
    parser.add_argument("--begin", type=float, required=True, help="of the window, on the machine's monotonic clock")
    parser.add_argument("--end", type=float, required=True)
    arguments = parser.parse_args()
    listener = socket.create_server((arguments.listen, PORT))
    sender = threading.Thread(target=send_until, args=(arguments.to, arguments.end), daemon=True)
    sender.start()
    listener.settimeout(CONNECT_TIMEOUT_S)
    connection, _ = listener.accept()
    connection.settimeout(CONNECT_TIMEOUT_S)
    block = bytearray(BLOCK_BYTES)
    received = 0
    window_start = 0.0
    while True:
        count = connection.recv_into(block)
        now = time.monotonic()
        if count == 0 or now >= arguments.end:
            break
        if window_start:
            received += count
        elif now >= arguments.begin:
            window_start = now
    print(received, now - window_start)


if __name__ == "__main__":
    main()
