"""One rank of a job with several groups and chunks so large that few of them fit the memory that ranks lend to servers.

Waits for a line on standard input before each op: "N" starts an op of group N, "wait" waits for all that were started
and checks every element of their sums; "end" ends. Says "ready", "started N", "right", and refusals as their code and
text.
"""

import argparse
import array
import sys
from ctypes import byref, c_char, c_uint64, c_void_p

from rank_program import NO_LIMIT_MS, SUM, TYPES, AllReduceOptions, GroupOptions, Library, Refused, WorkerOptions

PERIOD = 4099  # a prime, so that a chunk in the wrong place shows
MIB_ELEMENTS = (1 << 20) // 4


def make_tensor(factor: int, elements: int) -> array.array:
    """Small whole numbers times `factor`: their sums are exact."""
    pattern = array.array("f", (factor * i for i in range(PERIOD)))
    return (pattern * (elements // PERIOD + 1))[:elements]


class Rank:
    def __init__(self, options: argparse.Namespace):
        self.options = options
        self.library = Library(options.library)
        self.worker = c_void_p()
        self.library.call(
            "shoal_worker_connect",
            byref(
                WorkerOptions(
                    scheduler=options.scheduler.encode(),
                    job_name=b"test",
                    rank=options.rank,
                    world_size=options.world_size,
                    min_servers=options.min_servers,
                    timeout_ms=options.timeout_ms,
                )
            ),
            byref(self.worker),
        )
        self.groups = []
        for number in range(options.groups):
            group = c_void_p()
            group_options = GroupOptions(name=b"g%d" % number, max_chunk_bytes=options.chunk_bytes)
            self.library.call("shoal_group_create", self.worker, byref(group_options), byref(group))
            self.groups.append(group)
        self.inputs = [self.make_input(number) for number in range(options.groups)]
        self.started: list[tuple[int, array.array, c_void_p]] = []
        print("ready", flush=True)

    def make_input(self, number: int) -> array.array:
        return make_tensor((self.options.rank + 1) * (number + 1), self.options.mib * MIB_ELEMENTS)

    def start(self, number: int) -> None:
        tensor = self.inputs[number]
        memory = (c_char * (len(tensor) * tensor.itemsize)).from_buffer(tensor)
        options = AllReduceOptions(dtype=TYPES["float32"], op=SUM, timeout_ms=self.options.timeout_ms)
        operation = c_void_p()
        self.library.call(
            "shoal_all_reduce",
            self.groups[number],
            memory,
            c_uint64(len(tensor)),
            byref(options),
            byref(operation),
        )
        self.started.append((number, tensor, operation))
        print(f"started {number}", flush=True)

    def wait(self) -> None:
        ranks = self.options.world_size
        for number, tensor, operation in self.started:
            self.library.call("shoal_op_wait", operation, c_uint64(NO_LIMIT_MS))
            self.library.handle.shoal_op_release(operation)
            expected = make_tensor(ranks * (ranks + 1) // 2 * (number + 1), len(tensor))
            print("right" if tensor == expected else f"wrong: the sum of group {number}", flush=True)
            self.inputs[number] = self.make_input(number)
        self.started.clear()

    def end(self) -> None:
        for group in self.groups:
            self.library.handle.shoal_group_close(group)
        self.library.handle.shoal_worker_close(self.worker)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--scheduler", required=True)
    parser.add_argument("--world-size", type=int, required=True)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--min-servers", type=int, required=True)
    parser.add_argument("--groups", type=int, default=1)
    parser.add_argument("--mib", type=int, required=True, help="of every op")
    parser.add_argument("--chunk-bytes", type=int, default=16 << 20)
    parser.add_argument("--timeout-ms", type=int, required=True)
    try:
        rank = Rank(parser.parse_args())
        for line in sys.stdin:
            word = line.strip()
            if word == "end":
                break
            rank.wait() if word == "wait" else rank.start(int(word))
        rank.end()
    except Refused as refused:
        print(refused, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
