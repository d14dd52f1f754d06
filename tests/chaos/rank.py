"""One rank of a job under chaos: makes groups, reduces in several at a time, checks every bit, closes them, goes on.

`rank.py JSON`. Says on standard output what its watcher must know, a JSON object a line: joined, failed (with the code
and text that the library gave), wrong (a result that is not the independent sum), ended. A line on standard input asks
it to end: the ranks agree on when, by all-reduces between the others. Exit code 0: ended in good order; 1: an
op failed; 2: a result was wrong.
"""

import ctypes
import dataclasses
import json
import os
import pathlib
import sys
import threading
import time

import numpy

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[0] = str(TESTS)  # not this folder: its modules are chaos.*
sys.path.append(str(TESTS / "process"))

from chaos import numerics
from chaos.progress import Progress
from chaos.shape import Job, job_from_document
from chaos.work import Generation, Op, generation_of, members_of, node_layout

from rank_program import (  # isort: skip
    NO_LIMIT_MS,
    NODE_REDUCES,
    WIRES,
    AllReduceOptions,
    GroupOptions,
    Library,
    Refused,
    WorkerOptions,
)

POOL_BYTES = 160 << 10
OPS_BETWEEN_VOTES = 25
INT32, MAX = 7, numerics.MAX


class WorkerLibrary(Library):
    """The calls of a worker alone, which older libraries have under the same names."""

    def __init__(self, path: str):
        self.handle = ctypes.CDLL(path)
        self.handle.shoal_code_name.restype = ctypes.c_char_p
        for name in ("shoal_op_release", "shoal_group_close", "shoal_worker_close"):
            getattr(self.handle, name).argtypes = [ctypes.c_void_p]


@dataclasses.dataclass(frozen=True)
class Settings:
    job: Job
    rank: int
    seed: int
    scheduler: str
    incarnation: int
    op_timeout_ms: int
    progress: str
    library: str


class Telling:
    """Lines for the watcher, from several threads."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def __call__(self, what: str, **fields) -> None:
        with self.lock:
            sys.stdout.write(json.dumps({"what": what, **fields}) + "\n")
            sys.stdout.flush()


class Rank:
    def __init__(self, settings: Settings):
        self.settings, self.job = settings, settings.job
        self.tell = Telling()
        self.progress = Progress(pathlib.Path(settings.progress))
        self.library = WorkerLibrary(settings.library)
        self.worker = ctypes.c_void_p()
        self.asked_to_end = threading.Event()
        self.failed = threading.Event()
        self.wrong = threading.Event()
        self.pools: dict[tuple[int, int], numpy.ndarray] = {}
        self.pools_lock = threading.Lock()

    def run(self) -> int:
        threading.Thread(target=self.listen, daemon=True).start()
        self.tell("started", incarnation=self.settings.incarnation)
        if not self.join():
            return 1
        slots = [slot for slot in range(self.job.group_slots) if self.settings.rank in self.members(slot)]
        threads = [threading.Thread(target=self.work, args=(slot,)) for slot in slots]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        code = 2 if self.wrong.is_set() else 1 if self.failed.is_set() else 0
        if code == 0:
            self.library.handle.shoal_worker_close(self.worker)
        self.tell("ended", code=code)
        return code

    def listen(self) -> None:
        sys.stdin.readline()
        self.asked_to_end.set()

    def members(self, slot: int) -> tuple[int, ...]:
        return members_of(self.job, self.settings.seed, slot)

    def join(self) -> bool:
        options = WorkerOptions(
            scheduler=self.settings.scheduler.encode(),
            job_name=self.job.name.encode(),
            rank=self.settings.rank,
            world_size=len(self.job.nodes),
            min_servers=self.job.min_servers,
            timeout_ms=self.settings.op_timeout_ms,
            network_only=self.job.network_only,
            checksums=1,
            node_reduce=NODE_REDUCES[self.job.node_reduce],
        )
        began = time.monotonic()
        try:
            self.library.call("shoal_worker_connect", ctypes.byref(options), ctypes.byref(self.worker))
        except Refused as refused:
            self.tell("failed", where="join", slot=-1, text=str(refused), waited_s=time.monotonic() - began)
            return False
        self.tell("joined", after_s=time.monotonic() - began)
        return True

    def work(self, slot: int) -> None:
        number = 0
        try:
            while self.live(slot, generation_of(self.job, self.settings.seed, slot, number)):
                number += 1
        except Refused:
            self.failed.set()  # said where it happened
        except Wrong as wrong:
            self.wrong.set()
            self.tell("wrong", slot=slot, generation=number, text=str(wrong))

    def churn(self) -> None:
        for number in range(self.job.churn):
            self.progress.set_doing(0, "makes a group")
            group = self.open_group(0, Generation(f"churn.{number}", tuple(self.job.ranks), 0, "none", ()))
            self.progress.set_doing(0, "closes a group")
            self.library.handle.shoal_group_close(group)
            self.progress.set_doing(0, "pauses")
            self.progress.add(0, steps=1, groups=1)

    def live(self, slot: int, generation: Generation) -> bool:
        """One group, from making to closing; False when all ranks know that one of them was asked to end."""
        self.progress.set_doing(slot, "makes a group")
        group = self.open_group(slot, generation)
        self.progress.set_doing(slot, "pauses")
        self.progress.add(slot, steps=1)
        if slot == 0 and generation.name == "0.0":
            self.churn()  # beside this group, which is the oldest one then
        # If this fails the group is left as it is: the process ends soon, and closing would wait for the others.
        goes_on = self.reduce(slot, group, generation)
        self.progress.set_doing(slot, "closes a group")
        self.library.handle.shoal_group_close(group)
        self.progress.set_doing(slot, "pauses")
        self.progress.add(slot, steps=1, groups=1)
        return goes_on

    def open_group(self, slot: int, generation: Generation) -> ctypes.c_void_p:
        members = (ctypes.c_uint32 * len(generation.members))(*generation.members)
        group = ctypes.c_void_p()
        options = GroupOptions(
            name=generation.name.encode(),
            ranks=members,
            rank_count=len(generation.members),
            max_chunk_bytes=generation.chunk_bytes,
            wire=WIRES[generation.wire],
        )
        arguments = (self.worker, ctypes.byref(options), ctypes.byref(group))
        self.checked(slot, generation, "group", "shoal_group_create", *arguments)
        return group

    def checked(self, slot: int, generation: Generation, where: str, function: str, *arguments) -> None:
        """Calls the library; a refusal is told with how long the call took, and raised."""
        began = time.monotonic()
        try:
            self.library.call(function, *arguments)
        except Refused as refused:
            waited_s = time.monotonic() - began
            self.tell("failed", where=where, slot=slot, group=generation.name, text=str(refused), waited_s=waited_s)
            raise

    def reduce(self, slot: int, group: ctypes.c_void_p, generation: Generation) -> bool:
        """Whether nobody was asked to end."""
        under_way: list[tuple[Op, numpy.ndarray, ctypes.c_void_p]] = []
        place = generation.members.index(self.settings.rank)
        for number, op in enumerate(generation.ops):
            if self.job.late_ms and place == 0:
                time.sleep(self.job.late_ms / 1000)
            data = self.contribution(op, self.settings.rank, place)
            under_way.append((op, data, self.submit(slot, group, generation, op, data)))
            if len(under_way) >= 1 + number % self.job.in_flight:
                self.finish(slot, generation, *under_way.pop(0))
            time.sleep(self.job.pause_ms / 1000)
            if number % OPS_BETWEEN_VOTES == OPS_BETWEEN_VOTES - 1 and self.vote(slot, group, generation):
                break
        while under_way:
            self.finish(slot, generation, *under_way.pop(0))
        return not self.vote(slot, group, generation)

    def submit(self, slot: int, group, generation: Generation, op: Op, data: numpy.ndarray) -> ctypes.c_void_p:
        operation = ctypes.c_void_p()
        options = AllReduceOptions(
            dtype=op.dtype, op=op.op, premul_factor=op.factor, timeout_ms=self.settings.op_timeout_ms
        )
        self.progress.set_doing(slot, "submits an op")
        pointer = data.ctypes.data_as(ctypes.c_void_p)
        self.checked(
            slot, generation, "submit", "shoal_all_reduce", group, pointer, ctypes.c_uint64(op.count),
            ctypes.byref(options), ctypes.byref(operation),
        )  # fmt: skip
        self.progress.set_doing(slot, "pauses")
        return operation

    def wait(self, slot: int, generation: Generation, operation: ctypes.c_void_p) -> None:
        self.progress.set_doing(slot, "waits for an op")
        self.checked(slot, generation, "op", "shoal_op_wait", operation, ctypes.c_uint64(NO_LIMIT_MS))
        self.progress.set_doing(slot, "pauses")
        self.library.handle.shoal_op_release(operation)

    def finish(
        self, slot: int, generation: Generation, op: Op, data: numpy.ndarray, operation: ctypes.c_void_p
    ) -> None:
        self.wait(slot, generation, operation)
        inputs = [self.contribution(op, rank, place) for place, rank in enumerate(generation.members)]
        nodes = node_layout(self.job, generation.members)
        right = numerics.expected(inputs, op.dtype, op.op, op.factor, generation.wire, nodes)
        if not numerics.same_bits(data, right):
            index = numerics.first_difference(data, right)
            name = numerics.DTYPES[op.dtype][0]
            raise Wrong(
                f"group {generation.name}: op {op.op} on {op.count} {name} (wire {generation.wire}), element {index}:"
                f" {data[index]!r} instead of {right[index]!r} from {[values[index] for values in inputs]!r}"
            )
        self.progress.add(slot, steps=1, ops=1, bytes=data.nbytes)

    def vote(self, slot: int, group: ctypes.c_void_p, generation: Generation) -> bool:
        """Whether a rank of the group ends: a maximum, so all have the same answer."""
        ends = self.asked_to_end.is_set() or self.failed.is_set() or self.wrong.is_set()
        data = numpy.array([int(ends)], numpy.int32)
        op = Op(INT32, MAX, 0.0, 1, ())
        self.wait(slot, generation, self.submit(slot, group, generation, op, data))
        if data[0] not in (0, 1) or (ends and data[0] == 0):
            raise Wrong(f"group {generation.name}: the maximum of zeros and ones with a {int(ends)} is {data[0]}")
        return bool(data[0])

    def contribution(self, op: Op, rank: int, place: int) -> numpy.ndarray:
        """A new array: numbers of the rank's pool from the op's offset on, over and over."""
        pool = self.pool(rank, op.dtype)
        start = op.offsets[place] % len(pool)
        repeats = -(-(start + op.count) // len(pool))
        return numpy.tile(pool, repeats)[start : start + op.count].copy()

    def pool(self, rank: int, dtype: int) -> numpy.ndarray:
        with self.pools_lock:
            if (rank, dtype) not in self.pools:
                elements = POOL_BYTES // numerics.DTYPES[dtype][1]().itemsize - 17 * rank
                self.pools[rank, dtype] = numerics.make_pool(1000 * self.settings.seed + rank, dtype, elements)
            return self.pools[rank, dtype]


class Wrong(Exception):
    """A result is not the independent sum; the text says which."""


def main() -> int:
    document = json.loads(sys.argv[1])
    settings = Settings(**{**document, "job": job_from_document(document["job"])})
    code = Rank(settings).run()
    sys.stdout.flush()
    # Groups that failed may hold the library for as long as their deadlines; a trainer would end here as well.
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
