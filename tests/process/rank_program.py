"""One rank of a job, through the C ABI of libshoal.so alone. Prints what happens; a refusal as its code and text.

Its inputs depend on rank, round and count alone, and their sum on the order in which they are added, so equal digests
mean that the same bits were added in the same order.
"""

import argparse
import array
import ctypes
import hashlib
import os
import random
import select
import signal
import sys
import threading
from ctypes import POINTER, Structure, byref, c_char, c_char_p, c_double, c_int, c_uint32, c_uint64, c_void_p

SUM = 1
NO_LIMIT_MS = 2**64 - 1
signals, signals_in = os.pipe2(os.O_NONBLOCK)  # a byte for each


class Error(Structure):
    _fields_ = [("code", c_int), ("message", c_char * 2044)]


class WorkerOptions(Structure):
    _fields_ = [
        ("scheduler", c_char_p),
        ("job_name", c_char_p),
        ("rank", c_uint32),
        ("world_size", c_uint32),
        ("node_name", c_char_p),
        ("min_servers", c_uint32),
        ("timeout_ms", c_uint64),
        ("net_device", c_char_p),
        ("transports", c_char_p),
        ("network_only", c_uint32),
        ("colocation", c_int),
        ("server_address", c_char_p),
        ("checksums", c_uint32),
        ("without_servers", c_int),
        ("quiet", c_uint32),
        ("node_reduce", c_int),
        ("devices", c_int),
        ("device_memory_bytes", c_uint64),
        ("local_rank", c_uint32),
        ("local_world_size", c_uint32),
        ("check_finite", c_uint32),
        ("flight_recorder", c_char_p),
        ("min_ranks", c_uint32),
        ("identity", c_char_p),
        ("tls_cert", c_char_p),
        ("tls_key", c_char_p),
        ("tls_ca", c_char_p),
    ]

    def __init__(self, **values):
        # Off by itself: these tests are about servers, and their ranks are often on one node.
        super().__init__(**({"node_reduce": NODE_REDUCES["off"]} | values))


COLOCATIONS = {"off": 0, "auto": 1, "on": 2}
WITHOUT_SERVERS = {"wait": 0, "colocate": 1}
NODE_REDUCES = {"auto": 0, "off": 1, "host": 2}
WIRES = {"none": 0, "fp16": 3, "bf16": 4, "int8": 5, "fp8": 10}
TYPES = {"float32": 1, "int32": 7}


class GroupOptions(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("ranks", POINTER(c_uint32)),
        ("rank_count", c_uint32),
        ("max_chunk_bytes", c_uint32),
        ("timeout_ms", c_uint64),
        ("wire", c_int),
        ("node_reduce", c_int),
        ("min_ranks", c_uint32),
        ("scale_sums", c_uint32),
        ("whole_op", c_uint32),
    ]


class AllReduceOptions(Structure):
    _fields_ = [
        ("dtype", c_int),
        ("op", c_int),
        ("premul_factor", c_double),
        ("timeout_ms", c_uint64),
        ("on_device", c_int),
        ("device", c_uint32),
        ("stream", c_void_p),
    ]


class SchedulerOptions(Structure):
    _fields_ = [
        ("listen", c_char_p),
        ("port_buffer_bytes", c_uint64),
        ("encrypt", c_uint32),
        ("tls_cert", c_char_p),
        ("tls_key", c_char_p),
        ("tls_ca", c_char_p),
    ]


class ServerOptions(Structure):
    _fields_ = [
        ("scheduler", c_char_p),
        ("advertise", c_char_p),
        ("name", c_char_p),
        ("io_threads", c_uint32),
        ("slot_memory_bytes", c_uint64),
        ("net_device", c_char_p),
        ("transports", c_char_p),
        ("timeout_ms", c_uint64),
        ("network_only", c_uint32),
        ("flight_recorder", c_char_p),
        ("tls_cert", c_char_p),
        ("tls_key", c_char_p),
        ("tls_ca", c_char_p),
    ]


class Refused(Exception):
    pass


class Library:
    """The calls of worker.h; those that return a code raise Refused with its name and text."""

    def __init__(self, path: str):
        self.handle = ctypes.CDLL(path)
        self.handle.shoal_code_name.restype = c_char_p
        self.handle.shoal_service_address.restype = c_char_p
        self.handle.shoal_service_address.argtypes = [c_void_p]
        for name in ("shoal_op_release", "shoal_group_close", "shoal_worker_close", "shoal_service_stop"):
            getattr(self.handle, name).argtypes = [c_void_p]

    def call(self, name: str, *arguments) -> None:
        error = Error()
        code = getattr(self.handle, name)(*arguments, byref(error))
        if code != 0:
            raise Refused(f"{self.handle.shoal_code_name(code).decode()}: {error.message.decode()}")


# The highest byte of a float is its sign and most of its exponent; these floats are between 2^-13 and 2^13.
AS_HIGHEST_BYTE = bytes(byte & 0x80 | 0x39 + (byte & 0x7F) % 13 for byte in range(256))


def make_input(rank: int, round_number: int, count: int, dtype: str = "float32") -> array.array:
    """Takes milliseconds, so that an op is under way as soon as a held rank is let go on."""
    values = bytearray(random.Random(1000 * round_number + rank).randbytes(4 * count))
    if dtype == "int32":
        return array.array("i", bytes(values))
    values[3::4] = values[3::4].translate(AS_HIGHEST_BYTE)
    return array.array("f", bytes(values))


def all_reduce(
    library: Library, group: c_void_p, data: array.array, dtype: str, timeout_ms: int
) -> tuple[int, int]:
    """Returns how many ranks contributed at least and at most."""
    memory = (ctypes.c_char * (len(data) * data.itemsize)).from_buffer(data)
    options = AllReduceOptions(dtype=TYPES[dtype], op=SUM, timeout_ms=timeout_ms)
    operation = c_void_p()
    library.call("shoal_all_reduce", group, memory, c_uint64(len(data)), byref(options), byref(operation))
    try:
        library.call("shoal_op_wait", operation, c_uint64(NO_LIMIT_MS))
        least, most = c_uint32(), c_uint32()
        library.handle.shoal_op_contributors(operation, byref(least), byref(most))
        return least.value, most.value
    finally:
        library.handle.shoal_op_release(operation)


def start_cluster_inside(library: Library, servers: int) -> tuple[str, list[c_void_p]]:
    """A scheduler and servers inside this process."""
    scheduler = c_void_p()
    library.call("shoal_start_scheduler", byref(SchedulerOptions(listen=b"127.0.0.1:0")), byref(scheduler))
    address = library.handle.shoal_service_address(scheduler)
    services = [scheduler]
    for _ in range(servers):
        server = c_void_p()
        options = ServerOptions(scheduler=address, advertise=b"127.0.0.1")
        library.call("shoal_start_server", byref(options), byref(server))
        services.append(server)
    return address.decode(), services


def wait_for_line() -> None:
    """On stdin. A signal that comes just before the thread sleeps ends the sleep, which it would not in readline()."""
    stdin = sys.stdin.fileno()  # not at import: pytest, which imports this file too, has put something else there
    while True:
        readable, _, _ = select.select([stdin, signals], [], [])
        if signals in readable:
            os.read(signals, 1)
        if stdin in readable and os.read(stdin, 1) in (b"\n", b""):
            return


def reduce_rounds(library: Library, group: c_void_p, options: argparse.Namespace) -> None:
    digest = hashlib.sha256()
    for round_number in range(options.rounds):
        data = make_input(options.rank, round_number, options.count, options.type)
        all_reduce(library, group, data, options.type, options.timeout_ms)
        digest.update(data.tobytes())
        print(f"round {round_number} done", flush=True)
        if options.hold:
            wait_for_line()
    print(f"digest {digest.hexdigest()}", flush=True)


def make_and_close_groups(library: Library, worker: c_void_p, options: argparse.Namespace) -> None:
    """One after the other, beside the group that is open."""
    for number in range(1, options.churn + 1):
        group = c_void_p()
        group_options = GroupOptions(name=b"churn-%d" % number, max_chunk_bytes=options.chunk_bytes)
        library.call("shoal_group_create", worker, byref(group_options), byref(group))
        library.handle.shoal_group_close(group)
        if number % (options.churn // 10) == 0:
            print(f"made and closed {number} groups", flush=True)


def start_closer(library: Library, worker: c_void_p) -> threading.Thread:
    """Closes the worker at a line on stdin, whatever another thread does with it."""

    def close_when_told() -> None:
        wait_for_line()
        library.handle.shoal_worker_close(worker)

    closer = threading.Thread(target=close_when_told)
    closer.start()
    return closer


def run(library: Library, options: argparse.Namespace) -> None:
    services = []
    if options.own_servers:
        options.scheduler, services = start_cluster_inside(library, options.own_servers)
        print(f"scheduler at {options.scheduler}", flush=True)
    worker = c_void_p()
    group = c_void_p()
    closer = None
    worker_options = WorkerOptions(
        scheduler=options.scheduler.encode(),
        job_name=options.job.encode(),
        rank=options.rank,
        world_size=options.world_size,
        min_servers=options.min_servers,
        timeout_ms=options.timeout_ms,
        network_only=options.network_only,
        net_device=options.net_device.encode() or None,
        transports=options.transports.encode() or None,
        node_name=options.node_name.encode() or None,
        colocation=COLOCATIONS[options.colocate],
        checksums=not options.no_checksums,
        without_servers=WITHOUT_SERVERS[options.without_servers],
        node_reduce=NODE_REDUCES[options.node_reduce],
        local_world_size=options.local_world_size,
        flight_recorder=options.flight_recorder.encode() or None,
        tls_cert=options.tls_cert.encode() or None,
        tls_key=options.tls_key.encode() or None,
        tls_ca=options.tls_ca.encode() or None,
    )
    group_options = GroupOptions(name=b"world", max_chunk_bytes=options.chunk_bytes, wire=WIRES[options.wire])
    try:
        library.call("shoal_worker_connect", byref(worker_options), byref(worker))
        print("joined", flush=True)
        closer = start_closer(library, worker) if options.close_when_told else None
        library.call("shoal_group_create", worker, byref(group_options), byref(group))
        print("group open", flush=True)
        make_and_close_groups(library, worker, options)
        reduce_rounds(library, group, options)
    finally:
        if closer is not None:
            closer.join()
        library.handle.shoal_group_close(group)
        library.handle.shoal_worker_close(worker)
        if services:
            wait_for_line()  # the other ranks still need what runs here
        for service in reversed(services):
            library.handle.shoal_service_stop(service)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--scheduler", default="")
    parser.add_argument("--own-servers", type=int, default=0)
    parser.add_argument("--job", default="test")
    parser.add_argument("--world-size", type=int, required=True)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--min-servers", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--type", choices=TYPES, default="float32")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument(
        "--churn", type=int, default=0, help="groups that are made and closed beside the one that stays"
    )
    parser.add_argument("--chunk-bytes", type=int, default=0)
    parser.add_argument("--wire", choices=WIRES, default="none")
    parser.add_argument("--timeout-ms", type=int, default=60000)
    parser.add_argument("--network-only", action="store_true")
    parser.add_argument("--no-checksums", action="store_true")
    parser.add_argument("--net-device", default="")
    parser.add_argument("--transports", default="")
    parser.add_argument("--node-name", default="", help="another than this machine's, for the placement")
    parser.add_argument("--colocate", choices=COLOCATIONS, default="off")
    parser.add_argument("--without-servers", choices=WITHOUT_SERVERS, default="wait")
    parser.add_argument("--node-reduce", choices=NODE_REDUCES, default="off")
    parser.add_argument("--local-world-size", type=int, default=0, help="ranks of its node; 0: it does not say")
    parser.add_argument("--flight-recorder", default="", help="folder for records of failures")
    parser.add_argument("--tls-cert", default="")
    parser.add_argument("--tls-key", default="")
    parser.add_argument("--tls-ca", default="")
    parser.add_argument("--hold", action="store_true", help="wait for a line on stdin after each round")
    parser.add_argument("--close-when-told", action="store_true", help="close the worker at a line on stdin")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts what runs in its background deaf to it
    signal.set_wakeup_fd(signals_in, warn_on_full_buffer=False)
    try:
        run(Library(options.library), options)
    except Refused as refused:
        print(refused, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
