"""Gloo among the ranks of a roster, who tell each other where they listen by one sum in their group.

A Gloo that connects lazily needs little of its store. It writes the address of its own rank while it is made, and reads
a peer's when it connects to that one. So each rank makes its Gloo over a store that nobody else reaches, and then puts
the others' addresses there. With a store that all ranks reach, torch's TCPStore, 64 ranks on one node took 10 s.
"""

import struct
import threading
import time

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Backend as C10dBackend

from shoal import _C

PLACE_BYTES = 256  # of an address in the sum: its lengths, its key, Gloo's 152 bytes, and a host name of up to 64
_LENGTHS = struct.Struct("<HH")  # of key and value
FEW_RANKS = 8
PAUSE_SECONDS = 1
TAG_OF_NOBODY = 2**31 - 1  # the highest that torch takes


def exchange_addresses(store: dist.HashStore, group: _C.Group, rank: int, size: int, timeout_ms: int) -> None:
    """Adds to the store, in which this rank's Gloo has written, what the other ranks' have written in theirs. Raises
    DistBackendError, on all ranks if one of them is lost meanwhile."""
    keys = store.list_keys()
    own = b"".join(_place(key, store.get(key)) for key in keys)
    gathered = group.sum_bytes((bytes(rank * len(own)) + own).ljust(size * len(own), b"\0"), timeout_ms)
    for begin in range(0, len(gathered), PLACE_BYTES):
        key, value = _parse(gathered, begin)
        if key not in keys:
            store.set(key, value)


class Connections:
    """Of one member: connects its Gloo of the newest roster with all other ranks', which do the same. An operation
    connects whom it needs by itself, but a peer that is lost before would not be seen to be."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._due: tuple[float, C10dBackend, int] | None = None
        self._running = False

    def begin(self, gloo: C10dBackend, rank: int, size: int, devices: int, deadline: float) -> None:
        """Returns when few ranks are connected. Many are after a pause, when the first operations are over, and nobody
        waits for that. Raises DistBackendError. `deadline`: of time.monotonic."""
        if size <= FEW_RANKS:
            try:
                _touch_all(gloo, devices)
            except RuntimeError as error:
                raise dist.DistBackendError(f"shoal: Gloo can't connect the ranks: {error}") from None
            # Gloo itself waits five times the timeout for a rank that was lost meanwhile.
            peers = [peer for peer in range(size) if peer != rank]
            waiting = threading.Thread(target=_await_all, args=(gloo, peers, devices), daemon=True)
            waiting.start()
            waiting.join(max(deadline - time.monotonic(), 0))
            if waiting.is_alive():
                raise dist.DistBackendError("shoal: Gloo has not connected the ranks in time; one may be lost")
            return
        with self._lock:
            self._due = time.monotonic() + PAUSE_SECONDS, gloo, devices
            if self._running:
                return
            self._running = True
        # Not one for each roster: to start a thread is to wait until it runs, and that is 20 ms among 64 processes on
        # two processors.
        threading.Thread(target=self._run, daemon=True).start()

    def cancel(self) -> None:
        """The roster is over."""
        with self._lock:
            self._due = None

    def _run(self) -> None:
        while True:
            with self._lock:
                if self._due is None:
                    self._running = False
                    return
                left = self._due[0] - time.monotonic()
                due, self._due = (None, self._due) if left > 0 else (self._due, None)
            if due is None:
                time.sleep(left)  # and keeps no Gloo meanwhile
                continue
            try:
                _touch_all(*due[1:])
            except RuntimeError:
                pass  # operations that need the connection say it
            del due


def _touch_all(gloo: C10dBackend, devices: int) -> None:
    # A receive from any rank connects all of them first. It is dropped, and its tag is nobody's. Tags take turns with
    # the devices.
    for device in range(devices):
        gloo.recv_anysource([torch.zeros(1)], TAG_OF_NOBODY - device)


def _await_all(gloo: C10dBackend, peers: list[int], devices: int) -> None:
    # A receive from one rank waits until that is connected. Until then, nothing tells the side that the other connects
    # to that its peer is lost.
    for device in range(devices):
        for peer in peers:
            try:
                gloo.recv([torch.zeros(1)], peer, TAG_OF_NOBODY - device)
            except RuntimeError:
                pass  # it is lost, or has ended already: operations that need it say so


def _place(key: str, value: bytes) -> bytes:
    place = _LENGTHS.pack(len(key), len(value)) + key.encode() + value
    if len(place) > PLACE_BYTES:
        raise dist.DistBackendError(
            f"shoal: Gloo's address {key!r} has {len(place)} bytes, and no more than {PLACE_BYTES} can be told"
        )
    return place.ljust(PLACE_BYTES, b"\0")


def _parse(gathered: bytes, begin: int) -> tuple[str, bytes]:
    key_length, value_length = _LENGTHS.unpack_from(gathered, begin)
    key_begin = begin + _LENGTHS.size
    value_begin = key_begin + key_length
    return gathered[key_begin:value_begin].decode(), gathered[value_begin : value_begin + value_length]
