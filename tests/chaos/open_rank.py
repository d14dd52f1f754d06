"""One rank of an open job under chaos: reduces in groups that go on without lost ranks, and checks every bit (F22-F24).

`open_rank.py JSON`. Who is in a group its watcher says, a JSON object a line on standard input: a generation, or that
the job ends. Beside what rank.py says it says ready (a slot waits for its next group), smaller (an op has the sum of
fewer ranks: of which, in each chunk), closed (all ops of a group are done, with a digest of them), fenced (it was taken
for lost, and joins again). SIGTERM asks it to leave after the ops that it has called, whatever the others do. Exit code
0: left in good order; 1: it could not join; 2: a result was wrong.
"""

import ctypes
import hashlib
import json
import os
import pathlib
import queue
import signal
import sys
import threading
import time

import numpy

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[0] = str(TESTS)  # not this folder: its modules are chaos.*

from chaos import numerics, rosters
from chaos.progress import WAITS_FOR_MEMBERS
from chaos.rank import Rank, Settings, Wrong
from chaos.shape import job_from_document
from chaos.work import Generation, Op, open_generation

from rank_program import NO_LIMIT_MS, NODE_REDUCES, WIRES, GroupOptions, Refused, WorkerOptions  # isort: skip

LOOK_S = 0.1


class OpenRank(Rank):
    def __init__(self, settings: Settings):
        super().__init__(settings)
        handle = self.library.handle
        handle.shoal_worker_rank.argtypes = [ctypes.c_void_p]
        handle.shoal_op_duration_ns.argtypes = [ctypes.c_void_p]
        handle.shoal_op_duration_ns.restype = ctypes.c_uint64
        self.number = -1  # in the job; another one each time it joins
        self.told: list[queue.SimpleQueue] = [queue.SimpleQueue() for _ in range(self.job.group_slots)]
        # By slot: tensors belong to the library until their ops are complete, also after an error.
        self.under_way: list[list[tuple[int, Op, numpy.ndarray, ctypes.c_void_p]]] = [[] for _ in self.told]
        self.leaves = threading.Event()
        self.fenced = threading.Event()

    def run(self) -> int:
        signal.signal(signal.SIGTERM, lambda number, frame: self.leaves.set())
        threading.Thread(target=self.listen, daemon=True).start()
        self.tell("started", incarnation=self.settings.incarnation)
        while True:
            self.fenced.clear()
            if not self.join():
                return 1
            threads = [threading.Thread(target=self.work, args=(slot,)) for slot in range(self.job.group_slots)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            if self.wrong.is_set():
                return 2
            self.library.handle.shoal_worker_close(self.worker)
            if not self.fenced.is_set() or self.leaves.is_set() or self.asked_to_end.is_set():
                self.tell("left")
                return 0
            self.tell("fenced")

    def listen(self) -> None:
        for line in sys.stdin:
            said = json.loads(line)
            if said.get("end"):
                self.asked_to_end.set()
            else:
                self.told[said["slot"]].put(said)

    def join(self) -> bool:
        options = WorkerOptions(
            scheduler=self.settings.scheduler.encode(),
            job_name=self.job.name.encode(),
            min_servers=self.job.min_servers,
            timeout_ms=self.settings.op_timeout_ms,
            network_only=self.job.network_only,
            checksums=1,
            node_reduce=NODE_REDUCES[self.job.node_reduce],
            min_ranks=self.job.min_ranks,
            identity=self.job.rank_name(self.settings.rank).encode(),
        )
        began = time.monotonic()
        self.worker = ctypes.c_void_p()
        try:
            self.library.call("shoal_worker_connect", ctypes.byref(options), ctypes.byref(self.worker))
        except Refused as refused:
            self.tell("failed", where="join", slot=-1, text=str(refused), waited_s=time.monotonic() - began)
            return False
        self.number = self.library.handle.shoal_worker_rank(self.worker)
        self.tell("joined", after_s=time.monotonic() - began, number=self.number)
        return True

    def work(self, slot: int) -> None:
        while (said := self.next_group(slot)) is not None:
            numbers = [number for number, _ in said["members"]]
            members = tuple(place for _, place in said["members"])
            generation = open_generation(self.job, self.settings.seed, said["group"], members)
            try:
                self.live_in(slot, generation, numbers)
            except Refused as refused:  # said where it happened
                if str(refused).startswith("FAILED_PRECONDITION"):
                    self.fenced.set()
            except Wrong as wrong:
                self.wrong.set()
                self.tell("wrong", slot=slot, group=generation.name, text=str(wrong))
        self.progress.set_doing(slot, WAITS_FOR_MEMBERS)

    def goes(self) -> bool:
        return self.leaves.is_set() or self.fenced.is_set() or self.wrong.is_set()

    def next_group(self, slot: int) -> dict | None:
        """None: there is none for this rank, which leaves."""
        if self.goes():
            return None
        self.progress.set_doing(slot, WAITS_FOR_MEMBERS)
        self.tell("ready", slot=slot)
        while not self.goes():
            ends = self.asked_to_end.is_set()  # asked first: what was said before that has been put there
            try:
                said = self.told[slot].get(timeout=0 if ends else LOOK_S)
            except queue.Empty:
                if ends:
                    return None
                continue
            if [self.number, self.settings.rank] in said["members"]:  # not one from before it joined again
                self.progress.add(slot, steps=1)
                return said
        return None

    def live_in(self, slot: int, generation: Generation, numbers: list[int]) -> None:
        self.progress.set_doing(slot, "makes a group")
        group = self.make_group(slot, generation, numbers)
        self.progress.set_doing(slot, "pauses")
        self.progress.add(slot, steps=1)
        try:
            done, digest = self.reduce_all(slot, group, generation)
        finally:
            self.progress.set_doing(slot, "closes a group")
            self.library.handle.shoal_group_close(group)
            self.progress.set_doing(slot, "pauses")
            for _, _, _, operation in self.under_way[slot]:
                self.library.handle.shoal_op_release(operation)
            self.under_way[slot].clear()
        self.progress.add(slot, steps=1, groups=1)
        if done == len(generation.ops):
            self.tell("closed", slot=slot, group=generation.name, digest=digest)

    def make_group(self, slot: int, generation: Generation, numbers: list[int]) -> ctypes.c_void_p:
        group = ctypes.c_void_p()
        options = GroupOptions(
            name=generation.name.encode(),
            ranks=(ctypes.c_uint32 * len(numbers))(*numbers),
            rank_count=len(numbers),
            max_chunk_bytes=generation.chunk_bytes,
            wire=WIRES[generation.wire],
            min_ranks=generation.min_ranks,
            scale_sums=generation.scale_sums,
            whole_op=generation.whole_op,
        )
        arguments = (self.worker, ctypes.byref(options), ctypes.byref(group))
        self.checked(slot, generation, "group", "shoal_group_create", *arguments)
        return group

    def reduce_all(self, slot: int, group: ctypes.c_void_p, generation: Generation) -> tuple[int, str]:
        """How many ops were done, and a digest of their results."""
        digest = hashlib.blake2b(digest_size=8)
        place = generation.members.index(self.settings.rank)
        under_way = self.under_way[slot]
        done = 0
        for number, op in enumerate(generation.ops):
            if self.goes():
                break
            data = self.contribution(op, self.settings.rank, place)
            under_way.append((number, op, data, self.submit(slot, group, generation, op, data)))
            if len(under_way) >= 1 + number % self.job.in_flight:
                self.finish_oldest(slot, group, generation, digest)
                done += 1
            time.sleep(self.job.pause_ms / 1000)
        while under_way:
            self.finish_oldest(slot, group, generation, digest)
            done += 1
        return done, digest.hexdigest()

    def finish_oldest(self, slot: int, group: ctypes.c_void_p, generation: Generation, digest) -> None:
        number, op, data, operation = self.under_way[slot][0]
        self.progress.set_doing(slot, "waits for an op")
        self.checked(slot, generation, "op", "shoal_op_wait", operation, ctypes.c_uint64(NO_LIMIT_MS))
        self.progress.set_doing(slot, "pauses")
        least, most = ctypes.c_uint32(), ctypes.c_uint32()
        self.library.handle.shoal_op_contributors(operation, ctypes.byref(least), ctypes.byref(most))
        took_s = self.library.handle.shoal_op_duration_ns(operation) / 1e9
        self.library.handle.shoal_op_release(operation)
        del self.under_way[slot][0]
        digest.update(f"{least.value}-{most.value}".encode())
        digest.update(data)
        self.check_sum(slot, group, generation, number, data, least.value, most.value, took_s)
        self.progress.add(slot, steps=1, ops=1, bytes=data.nbytes)

    def check_sum(
        self, slot: int, group, generation: Generation, number: int, data: numpy.ndarray, least: int, most: int,
        took_s: float,
    ) -> None:  # fmt: skip
        op, size = generation.ops[number], len(generation.members)
        place = generation.members.index(self.settings.rank)
        inputs = [self.contribution(op, rank, each) for each, rank in enumerate(generation.members)]
        if least == most == size and numerics.same_bits(data, rosters.sum_without((), inputs, op, generation)):
            return
        sums = {
            missing: rosters.sum_without(missing, inputs, op, generation)
            for missing in rosters.possible(size, place, least, most)
        }
        chunks = rosters.fitting(data, sums, self.chunk_elements(group, generation, op))
        if wrong := rosters.complaint(chunks, size, least, most, generation):
            name = numerics.DTYPES[op.dtype][0]
            raise Wrong(
                f"group {generation.name} of {size} ranks, op {number}: op {op.op} on {op.count} {name} (wire"
                f" {generation.wire}, scaled {generation.scale_sums}), {least} to {most} contributors: {wrong};"
                f" chunks fit {chunks}"
            )
        lacks = [[[generation.members[each] for each in missing] for missing in fits] for fits in chunks]
        self.tell("smaller", slot=slot, group=generation.name, op=number, chunks=lacks, took_s=took_s)

    def chunk_elements(self, group: ctypes.c_void_p, generation: Generation, op: Op) -> int:
        plan = Plan()
        arguments = (group, ctypes.c_uint64(op.count), op.dtype, ctypes.byref(plan))
        self.library.call("shoal_group_plan", *arguments)
        name, memory = numerics.DTYPES[op.dtype]
        narrowed = name == "float32" and generation.wire != "none"
        return plan.chunk_bytes // (2 if narrowed else memory().itemsize)


class Plan(ctypes.Structure):
    _fields_ = [
        ("chunk_count", ctypes.c_uint32),
        ("chunk_bytes", ctypes.c_uint32),
        ("shards_used", ctypes.c_uint32),
        ("window_chunks", ctypes.c_uint32),
        ("look_ahead_chunks", ctypes.c_uint32),
        ("link_bytes_per_s", ctypes.c_uint64),
        ("round_trip_ns", ctypes.c_uint64),
        ("message_ns", ctypes.c_uint64),
        ("predicted_ns", ctypes.c_uint64),
        ("rails", ctypes.c_uint32),
    ]


def main() -> int:
    document = json.loads(sys.argv[1])
    settings = Settings(**{**document, "job": job_from_document(document["job"])})
    code = OpenRank(settings).run()
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
