"""torch's own DistributedTest, one test after the other, on a backend of our choice: a program.

    torch_suite.py BACKEND [TEST ...]        # all tests, if none is named; one JSON object a line
    torch_suite.py --names                   # of all tests, one a line

torch starts four new processes for each test. Here they are forked from a process that has torch loaded, and it takes
half a second. The tests choose by the name of the backend what they try: to them it is always gloo, and the groups that
they make of it are groups of BACKEND. So the same tests run on every backend, and Gloo is the control.
"""

import ctypes
import datetime
import functools
import json
import os
import pathlib
import select
import signal
import sys
import tempfile
import time
import traceback
import unittest

WORLD_SIZE = 4
TEST_SECONDS = 60
MOST_HUNG = 3  # tests that ended by that time: the rest is not run
LOG_BYTES = 3000  # of a rank's output that are told if it died
LATE = "had no result in time"
SETTINGS = {"BACKEND": "gloo", "WORLD_SIZE": str(WORLD_SIZE), "MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": "1"}
os.environ.update(SETTINGS)  # read when the tests are imported

import torch  # noqa: E402  isort: skip
import torch.distributed as dist  # noqa: E402  isort: skip
from torch.testing._internal import common_utils  # noqa: E402  isort: skip
from torch.testing._internal.distributed import distributed_test as suite  # noqa: E402  isort: skip
import shoal  # noqa: E402  isort: skip

SKIPS = {skip.exit_code: skip.message for skip in suite.TEST_SKIPS.values()}


class Case(suite.DistributedTest._DistTestBase, suite.TestDistBackend):
    pass


def names() -> list[str]:
    return [name for name in dir(Case) if name.startswith("test_")]


def replace_gloo_by(backend: str) -> None:
    """What tests ask of gloo they get of `backend`."""

    def with_backend(function, position):
        @functools.wraps(function)
        def call(*arguments, **named):
            arguments = list(arguments)
            if len(arguments) > position and arguments[position] == "gloo":
                arguments[position] = backend
            if named.get("backend") == "gloo":
                named["backend"] = backend
            return function(*arguments, **named)

        return call

    for module in (dist, dist.distributed_c10d):
        module.init_process_group = with_backend(module.init_process_group, 0)
        module.new_group = with_backend(module.new_group, 2)


def run_on_rank(rank: int, name: str, backend: str, folder: str) -> dict:
    """In a process of its own."""
    replace_gloo_by(backend)
    torch.set_num_threads(1)
    case = Case(name)
    case.rank = rank
    case.file_name = os.path.join(folder, "store")
    suite.INIT_METHOD = f"file://{folder}/another_store"  # for tests that make a group again
    timeout = datetime.timedelta(seconds=suite.CUSTOM_PG_TIMEOUT.get(name, suite.default_pg_timeout))
    try:
        dist.init_process_group(
            "gloo", init_method=case.init_method, world_size=WORLD_SIZE, rank=rank, timeout=timeout
        )
        assert dist.get_backend() == backend, f"the group is one of {dist.get_backend()}"
        case._barrier()
        common_utils.set_rng_seed()
        getattr(case, name)()
        case._barrier()
        ops = shoal.statistics().get("ops_completed", 0) if backend == "shoal" else 0
        if dist.is_initialized():
            dist.destroy_process_group()
        return {"outcome": "passed", "ops": ops}
    except unittest.SkipTest as skip:
        return {"outcome": "skipped", "why": str(skip)}
    except SystemExit as end:  # how torch ends a process whose test is to be skipped
        if end.code in SKIPS:
            return {"outcome": "skipped", "why": SKIPS[end.code]}
        return {"outcome": "failed", "why": f"rank {rank} ended with exit code {end.code}"}
    except BaseException:
        return {"outcome": "failed", "why": f"rank {rank}: {traceback.format_exc()}"}


def start_rank(rank: int, name: str, backend: str, folder: str) -> tuple[int, int]:
    """Returns the process and what it writes its result to."""
    receiver, sender = os.pipe()
    process = os.fork()
    if process > 0:
        os.close(sender)
        os.setpgid(process, process)
        return process, receiver
    status = 1
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        log = os.open(os.path.join(folder, f"log-{rank}"), os.O_CREAT | os.O_WRONLY, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.write(sender, json.dumps(run_on_rank(rank, name, backend, folder)).encode())
        status = 0
    finally:
        os._exit(status)


def collect(ranks: list[tuple[int, int]], deadline: float) -> list[dict]:
    """By rank. A rank without a result has failed; those that wait for it need not be waited for."""
    results: list[dict] = [{"outcome": "failed", "why": f"rank {rank} {LATE}"} for rank in range(len(ranks))]
    texts = [b"" for _ in ranks]
    waiting = {receiver: rank for rank, (_, receiver) in enumerate(ranks)}
    while waiting and (left_s := deadline - time.monotonic()) > 0:
        for receiver in select.select(list(waiting), [], [], left_s)[0]:
            rank = waiting[receiver]
            if part := os.read(receiver, 1 << 20):
                texts[rank] += part
                continue
            del waiting[receiver]
            ended = {"outcome": "failed", "why": f"rank {rank} died without a result"}
            results[rank] = json.loads(texts[rank]) if texts[rank] else ended
            if results[rank]["outcome"] == "failed":
                deadline = min(deadline, time.monotonic() + 5)
    return results


def run_test(name: str, backend: str) -> dict:
    """Passed or skipped if it is so on all ranks."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="shoal-torch-suite-") as folder:
        for part in ("barrier", "test_dir"):
            (pathlib.Path(folder) / part).mkdir()
        os.environ["TEMP_DIR"] = folder
        os.environ["SHOAL_JOB_NAME"] = f"torch-{os.getpid()}-{name}"
        ranks: list[tuple[int, int]] = []
        try:
            for rank in range(WORLD_SIZE):
                ranks.append(start_rank(rank, name, backend, folder))
            results = collect(ranks, begin + TEST_SECONDS)
            for rank, result in enumerate(results):
                if "died without" in result.get("why", ""):
                    log = pathlib.Path(folder) / f"log-{rank}"
                    said = log.read_text(errors="replace") if log.exists() else ""
                    result["why"] += f"; it said:\n{said[-LOG_BYTES:]}"
        finally:
            for process, receiver in ranks:
                os.close(receiver)
                try:
                    os.killpg(process, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                os.waitpid(process, 0)
    # Of ranks that failed, one that says more than that it waited for another.
    worst = max(
        results,
        key=lambda result: (
            ("passed", "skipped", "failed").index(result["outcome"]),
            not result.get("why", "").endswith(LATE),
        ),
    )
    ops = min(result.get("ops", 0) for result in results)
    return {"test": name, **worst, "ops": ops, "seconds": round(time.monotonic() - begin, 1)}


def main() -> int:
    backend, *chosen = sys.argv[1:]
    if backend == "--names":
        print("\n".join(names()))
        return 0
    unknown = sorted(set(chosen) - set(names()))
    if unknown:
        print(f"torch {torch.__version__} has no tests {', '.join(unknown)}", file=sys.stderr)
        return 2
    hung = 0
    for name in chosen or names():
        result = {"test": name, "outcome": "failed", "why": f"not run: {hung} tests before it did not end"}
        if hung < MOST_HUNG:
            result = run_test(name, backend)
            hung += result["seconds"] >= TEST_SECONDS
        print(json.dumps(result), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
