"""A bad cable: passes frames between two devices, and loses, delays, doubles, reorders or changes some of them.

`impaired_link.py DEVICE DEVICE SEED`, in the namespace of both. Each line on standard input is a JSON list of what is
wrong from now on: {"kind", "amount"} as in fault.py, and for payload-corrupt "control_ports": connections to those are
left alone. It stands in for the kernel's netem, which not every kernel has. Like netem it treats a burst that the
sender's kernel hands over in one piece (segmentation offload) as one frame. It ends when its standard input does.
"""

import heapq
import json
import os
import random
import select
import socket
import struct
import sys
import time

PACKET_VNET_HDR = 15
PACKET_IGNORE_OUTGOING = 23
SOL_PACKET = 263
ETH_P_ALL = 3
VNET_HEADER = struct.Struct("<BBHHHH")
NEEDS_CHECKSUM = 1
MOST_WAITING_BYTES = 8 << 20  # a port buffer's end: what is beyond is lost
BATCH = 64
ETHERNET_BYTES = 14
LEAST_CORRUPTED_PAYLOAD = 1024
REORDERED_BEHIND_MS = 10.0
IPV4, TCP = 0x0800, 6


def open_device(name: str) -> socket.socket:
    device = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
    device.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    device.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    for option in (33, 32):  # SO_RCVBUFFORCE, SO_SNDBUFFORCE
        device.setsockopt(socket.SOL_SOCKET, option, 4 << 20)
    device.bind((name, ETH_P_ALL))
    return device


class Impairment:
    """Decides what becomes of a frame. No I/O."""

    def __init__(self, seed: int):
        self.source = random.Random(seed)
        self.wrongs: list[dict] = []
        self.changed = 0  # payloads changed so that TCP can't see it

    def copies(self, frame: bytes) -> list[tuple[float, bytes]]:
        """When, in seconds from now, and what is passed on; nothing: it is lost."""
        delay_ms = 0.0
        count = 1
        for wrong in self.wrongs:
            kind, amount = wrong["kind"], wrong["amount"]
            hit = self.source.random() * 100 < amount
            if kind == "link-loss" and hit:
                return []
            if kind == "link-delay":
                delay_ms += amount
            elif kind == "link-reorder" and not hit:  # most wait, and those that are hit overtake them
                delay_ms += REORDERED_BEHIND_MS
            elif kind == "link-duplicate" and hit:
                count += 1
            elif kind == "link-corrupt" and hit:
                frame = self.changed_bit(frame)
            elif kind == "payload-corrupt" and hit:
                frame = self.changed_payload(frame, wrong["control_ports"])
        return [(delay_ms / 1000, frame)] * count

    def changed_bit(self, frame: bytes) -> bytes:
        """Anywhere behind the addresses of the cards. The checksums of IP and TCP see it: the sender's card is set to
        put whole ones into every frame. Those that still come without one, while the card is being switched, stay
        as they are."""
        flags, *_ = VNET_HEADER.unpack_from(frame)
        if flags & NEEDS_CHECKSUM:
            return frame
        changed = bytearray(frame)
        place = self.source.randrange(VNET_HEADER.size + ETHERNET_BYTES, len(frame))
        changed[place] ^= 1 << self.source.randrange(8)
        return bytes(changed)

    def changed_payload(self, frame: bytes, control_ports: list[int]) -> bytes:
        """In the middle of a large piece of the data plane's payload, so that TCP does not see it: the frame asks for
        its checksum to be filled in later. One whose checksum is there already, or that is something else, stays as it
        is."""
        flags, *_ = VNET_HEADER.unpack_from(frame)
        ip = VNET_HEADER.size + ETHERNET_BYTES
        if not flags & NEEDS_CHECKSUM or len(frame) < ip + 40:
            return frame
        if struct.unpack_from("!H", frame, ip - 2)[0] != IPV4 or frame[ip + 9] != TCP:
            return frame
        tcp = ip + 4 * (frame[ip] & 15)
        if set(struct.unpack_from("!HH", frame, tcp)) & set(control_ports):
            return frame
        payload = tcp + 4 * (frame[tcp + 12] >> 4)
        length = len(frame) - payload
        if length < LEAST_CORRUPTED_PAYLOAD:
            return frame
        changed = bytearray(frame)
        place = self.source.randrange(payload + length // 4, payload + 3 * length // 4)
        changed[place] ^= 1 << self.source.randrange(8)
        self.changed += 1
        return bytes(changed)


class Cable:
    def __init__(self, one: str, other: str, seed: int):
        self.devices = [open_device(one), open_device(other)]
        self.impairment = Impairment(seed)
        self.waiting: list[tuple[float, int, int, bytes]] = []  # due, number, device, frame
        self.waiting_bytes = 0
        self.number = 0

    def run(self) -> None:
        poller = select.poll()
        for device in self.devices:
            poller.register(device, select.POLLIN)
        poller.register(sys.stdin, select.POLLIN)
        while True:
            timeout_ms = max(0.0, (self.waiting[0][0] - time.monotonic()) * 1000) if self.waiting else None
            for descriptor, _ in poller.poll(timeout_ms):
                if descriptor == sys.stdin.fileno():
                    line = sys.stdin.readline()
                    if not line:
                        return
                    self.impairment.wrongs = json.loads(line)
                    print("ok", flush=True)
                else:
                    self.receive(0 if descriptor == self.devices[0].fileno() else 1)
            self.send_due()

    def receive(self, number: int) -> None:
        for _ in range(BATCH):
            try:
                frame = self.devices[number].recv(1 << 17)
            except (BlockingIOError, OSError):  # OSError: the device went down for a moment
                return
            now = time.monotonic()
            for delay_s, copy in self.impairment.copies(frame):
                if delay_s == 0 and not self.waiting:
                    self.send(1 - number, copy)
                elif self.waiting_bytes + len(copy) <= MOST_WAITING_BYTES:
                    self.number += 1
                    self.waiting_bytes += len(copy)
                    heapq.heappush(self.waiting, (now + delay_s, self.number, 1 - number, copy))

    def send_due(self) -> None:
        now = time.monotonic()
        while self.waiting and self.waiting[0][0] <= now:
            _, _, number, frame = heapq.heappop(self.waiting)
            self.waiting_bytes -= len(frame)
            self.send(number, frame)

    def send(self, number: int, frame: bytes) -> None:
        try:
            self.devices[number].send(frame)
        except OSError:
            return  # the other device's queue is full or down: lost, as on a real one


def main() -> int:
    # Without a processor it would be a silent link, which is another fault.
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    Cable(sys.argv[1], sys.argv[2], int(sys.argv[3])).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
