"""One rank of an open job, through the C ABI of libshoal.so alone. It does what the lines on its standard input say:

reduce NAME RANK,...  reduces in the group of that name, which it makes if it has none; then "NAME done DIGEST", or
                      "NAME refused CODE: TEXT" after which it has no group of that name
go on NAME RANK,... MIN OPS SCALE
                      makes a group that goes on without lost ranks, as long as MIN are left, and reduces OPS times
                      in it: a line "NAME op NUMBER CONTRIBUTORS VALUES DIGEST SECONDS" for each, with how many
                      contributors there were at least and at most, and all values of the result; then "NAME over",
                      or "NAME refused CODE: TEXT". Each element of a rank's contribution is its number and one. SCALE:
                      1 or 0, scale_sums
give up REASON        leaves as a rank that is lost, and ends
leave                 leaves the job and ends
"""

import argparse
import array
import hashlib
import sys
import time
from ctypes import byref, c_char_p, c_uint32, c_void_p

from rank_program import NODE_REDUCES, GroupOptions, Library, Refused, WorkerOptions, all_reduce, make_input

COUNT = 300_000  # several chunks
LARGE_COUNT = 6_553_600  # 25 MiB: a kill comes inside an op
CHUNK_STEP = 997  # of the elements that are looked at: far less than a chunk has


class OpenRank:
    def __init__(self, library: Library, options: argparse.Namespace):
        self.library = library
        self.worker = c_void_p()
        self.groups: dict[str, c_void_p] = {}
        worker_options = WorkerOptions(
            scheduler=options.scheduler.encode(),
            job_name=options.job.encode(),
            timeout_ms=60_000,
            net_device=options.net_device.encode(),
            network_only=options.network_only,
            min_servers=1,
            min_ranks=options.min_ranks,
            identity=options.identity.encode(),
            node_reduce=NODE_REDUCES[options.node_reduce],
        )
        library.call("shoal_worker_connect", byref(worker_options), byref(self.worker))
        library.handle.shoal_worker_rank.argtypes = [c_void_p]
        self.rank = library.handle.shoal_worker_rank(self.worker)

    def reduce(self, name: str, ranks: list[int]) -> str:
        """The digest of the sum."""
        if name not in self.groups:
            group = c_void_p()
            options = GroupOptions(name=name.encode(), ranks=(c_uint32 * len(ranks))(*ranks), rank_count=len(ranks))
            self.library.call("shoal_group_create", self.worker, byref(options), byref(group))
            self.groups[name] = group
            print(f"{name} open", flush=True)
        data = make_input(self.rank, 0, COUNT)
        try:
            all_reduce(self.library, self.groups[name], data, "float32", timeout_ms=60_000)
        except Refused:
            self.library.handle.shoal_group_close(self.groups.pop(name))
            raise
        return hashlib.sha256(data.tobytes()).hexdigest()

    def go_on(self, name: str, ranks: list[int], min_ranks: int, ops: int, scale: int) -> None:
        group, members = c_void_p(), (c_uint32 * len(ranks))(*ranks)
        options = GroupOptions(
            name=name.encode(), ranks=members, rank_count=len(ranks), min_ranks=min_ranks, scale_sums=scale
        )
        self.library.call("shoal_group_create", self.worker, byref(options), byref(group))
        self.groups[name] = group
        print(f"{name} open", flush=True)
        for number in range(ops):
            data = array.array("f", [self.rank + 1.0]) * LARGE_COUNT
            begin = time.monotonic()
            least, most = all_reduce(self.library, group, data, "float32", timeout_ms=60_000)
            seconds = time.monotonic() - begin
            # A set of all of them takes long.
            values = sorted(set(memoryview(data)[::CHUNK_STEP].tolist()) | {data[0], data[-1]})
            digest = hashlib.sha256(data.tobytes()).hexdigest()
            told = ",".join(f"{value:.9g}" for value in values)
            print(f"{name} op {number} {least}-{most} {told} {digest} {seconds:.3f}", flush=True)
        print(f"{name} over", flush=True)

    def give_up(self, reason: str) -> None:
        self.library.handle.shoal_worker_give_up.argtypes = [c_void_p, c_char_p]
        self.library.handle.shoal_worker_give_up.restype = None
        self.library.handle.shoal_worker_give_up(self.worker, reason.encode())

    def leave(self) -> None:
        for group in self.groups.values():
            self.library.handle.shoal_group_close(group)
        self.library.handle.shoal_worker_close(self.worker)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--scheduler", required=True)
    parser.add_argument("--job", default="open")
    parser.add_argument("--min-ranks", type=int, default=1)
    parser.add_argument("--identity", default="")
    parser.add_argument("--network-only", action="store_true")
    parser.add_argument("--net-device", default="")
    parser.add_argument("--node-reduce", choices=NODE_REDUCES, default="off")
    options = parser.parse_args()
    try:
        rank = OpenRank(Library(options.library), options)
    except Refused as refused:
        print(refused, flush=True)
        return 1
    print(f"joined as rank {rank.rank}", flush=True)
    for line in sys.stdin:
        words = line.split()
        if words[0] == "leave":
            break
        if words[0] == "give":
            rank.give_up(" ".join(words[2:]))
            break
        if words[0] == "go":
            try:
                rank.go_on(words[2], [int(number) for number in words[3].split(",")], *map(int, words[4:]))
            except Refused as refused:
                print(f"{words[2]} refused {refused}", flush=True)
            continue
        name, ranks = words[1], [int(number) for number in words[2].split(",")]
        try:
            print(f"{name} done {rank.reduce(name, ranks)}", flush=True)
        except Refused as refused:
            print(f"{name} refused {refused}", flush=True)
    rank.leave()
    return 0


if __name__ == "__main__":
    sys.exit(main())
