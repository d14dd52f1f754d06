#!/usr/bin/env python3
"""What Shoal is for, on this machine: the same training beside Gloo, through the death of a server, and over slow
links.

    make demo            (or: build/venv/bin/python examples/demo.py, after `make build`)

1. Starts one shoal-scheduler and two shoal-server processes on loopback.
2. Trains a GPT on 4 ranks through them and through Gloo, in turns (examples/compare_backends.py).
3. Trains it again (examples/train_gpt.py) and kills a server in the middle: the weights end with the same bits.
4. As root: both again with each worker and each server on a node of its own, behind a link of a given rate (network
   namespaces), where the layout matters (examples/shaped_links.py).

Ends everything that it started, also on Ctrl-C. Logs and summaries are left in build/demo/.
"""

import argparse
import contextlib
import functools
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import shaped_links
from hosts.cluster import Cluster, program
from hosts.node import HostError
from hosts.process import Process

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "build" / "demo"
START_SECONDS = 30
LEASE_TTL_MS = 3000  # so long after its death the killed server is shown as lost
CONTENDERS = ("shoal", "gloo")  # of compare_backends.py


class DemoError(Exception):
    """Its text tells the person what went wrong and what to do."""


def say(text: str) -> None:
    print(f"\n== {text}", flush=True)


def say_line(line: str) -> None:
    print(line, flush=True)


def start_daemon(cluster: Cluster, name: str, log_name: str, arguments: list[str]) -> tuple[str, Process]:
    """Starts a scheduler or server, and returns the first address at which it listens and the process."""
    log = OUTPUT / f"{log_name}.log"
    on_line = functools.partial(print, file=log.open("w"), flush=True)
    process = cluster.start([program(name), *arguments], on_line=on_line)
    address = process.listens_at()
    print(f"{log_name}: listening on {address} (process {process.pid}, log {log.relative_to(ROOT)})")
    return address, process


def corpus() -> pathlib.Path:
    """The King James Bible as Debian ships it (bible-kjv-text), one verse a line."""
    path = OUTPUT / "kjv.txt"
    if path.is_file() and path.stat().st_size > 4_000_000:
        return path
    reader = shutil.which("bible")
    if reader is None:
        raise DemoError(
            "the program `bible` is missing: apt-get install bible-kjv bible-kjv-text (`make setup` does it)"
        )
    result = subprocess.run([reader, "-f", "gen1:1-rev22:21"], capture_output=True, text=True, check=False)
    verses = [line.partition(" ")[2] for line in result.stdout.splitlines()]
    if result.returncode != 0 or len(verses) < 31_000:
        raise DemoError(f"`bible -f gen1:1-rev22:21` gave only {len(verses)} verses: {result.stderr.strip()}")
    path.write_text("\n".join(verses) + "\n", encoding="utf-8")
    return path


def torchrun(arguments: argparse.Namespace, script: str, *options: str) -> list[str]:
    return [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1",
        "--nproc-per-node", str(arguments.ranks), str(ROOT / "examples" / script), "--text", str(corpus()),
        "--steps", str(arguments.steps), *options,
    ]  # fmt: skip


def run_ranks(
    cluster: Cluster, command: list[str], environment: dict[str, str], on_line: Callable[[str], None] = say_line
) -> None:
    """Runs it; each line of its output is given to on_line, which shows it."""
    shown = " ".join(f"{name}={value}" for name, value in environment.items() if name.startswith("SHOAL_"))
    print(f"$ {shown} torchrun {' '.join(command[3:])}", flush=True)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"} | environment
    process = cluster.start(command, environment, on_line=on_line)
    if process.wait(None) != 0:
        raise DemoError(f"the training failed (exit code {process.code}); its output is above")


def take_turns(cluster: Cluster, arguments: argparse.Namespace, environment: dict[str, str]) -> dict:
    """Returns the summary of compare_backends.py."""
    summary = OUTPUT / "turns.json"
    summary.unlink(missing_ok=True)
    options = ["--rounds", str(arguments.rounds), "--summary", str(summary)]
    run_ranks(cluster, torchrun(arguments, "compare_backends.py", *options), environment)
    return json.loads(summary.read_text())


def show_status(scheduler: str) -> None:
    command = [program("shoalctl"), "status", "--scheduler", scheduler]
    print(f"$ shoalctl {' '.join(command[1:])}", flush=True)
    if subprocess.run(command, timeout=START_SECONDS, check=False).returncode != 0:
        raise DemoError("shoalctl status failed; its message is above")


def wait_for_the_loss(scheduler: str) -> None:
    """Until the killed server's lease has run out: a training of few steps may end before that."""
    command = [program("shoalctl"), "servers", "--scheduler", scheduler, "--json"]
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        listed = subprocess.run(command, timeout=START_SECONDS, check=False, capture_output=True, text=True)
        if any(
            server["state"] == "lost" for line in listed.stdout.splitlines() for server in json.loads(line)["servers"]
        ):
            return
        time.sleep(0.1)
    raise DemoError("the scheduler still lists the killed server as live: please report it")


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.0f} ({min(values):.0f} to {max(values):.0f})"


def loss_difference(measured: dict, contenders: tuple[str, ...] = CONTENDERS) -> float:
    """The most between two contenders' losses of a step. DemoError if they did not train the same."""
    both = [measured[name] for name in contenders]
    for run in both:
        if len(set(run["digests"])) != 1:
            raise DemoError("the ranks of a run have different weights: please report it")
    difference = max(abs(a - b) for a, b in zip(*(run["losses"] for run in both), strict=True))
    if difference > 0.05:
        raise DemoError(
            f"the loss curves differ by {difference:.2g}, more than rounding explains (0.05): please report it"
        )
    return difference


def compare(measured: dict, contenders: tuple[str, ...] = CONTENDERS) -> None:
    """Prints what the contenders measured side by side: medians, and in brackets the least and the most."""

    def row(name: str, cells: list[str]) -> None:
        print(f"{name:34}" + "".join(f"{cell:>24}" for cell in cells), flush=True)

    both = [measured[name] for name in contenders]
    row("", list(contenders))
    row("tokens/s, of a round", [spread(run["tokens_per_second"]) for run in both])
    row(f"all-reduce of {measured['all_reduce_mib']:g} MiB alone, ms", [spread(run["all_reduce_ms"]) for run in both])
    row("gradient bytes a rank and step", [f"{run['gradient_bytes_a_step'] / 1e6:.2f} MB" for run in both])
    row("first loss", [f"{run['losses'][0]:.4f}" for run in both])
    row("last loss", [f"{run['losses'][-1]:.4f}" for run in both])
    for rank in range(measured["ranks"]):
        row(f"weights of rank {rank}, sha256", [f"{run['digests'][rank][:12]}" for run in both])
    difference = loss_difference(measured, contenders)
    print(
        f"\nThe loss curves of {measured['steps']} steps differ by at most {difference:.2g}: the two add in another"
        " order."
    )


def kill_in_the_middle(
    cluster: Cluster, arguments: argparse.Namespace, environment: dict[str, str], server: Process
) -> tuple[dict, float]:
    """Trains, and kills the server after half of the steps. Returns the summary, and when that was."""
    killed_at: list[float] = []

    def on_line(line: str) -> None:
        say_line(line)
        step = re.match(r"step +(\d+)/", line)
        if step is not None and int(step[1]) >= arguments.steps // 2 and not killed_at:
            server.kill_group()
            killed_at.append(time.perf_counter())
            print(f"-- SIGKILL to the shoal-server process {server.pid} --", flush=True)

    summary = OUTPUT / "killed.json"
    summary.unlink(missing_ok=True)
    report_every = str(max(1, arguments.steps // 8))
    command = torchrun(arguments, "train_gpt.py", "--report-every", report_every, "--summary", str(summary))
    run_ranks(cluster, command, environment, on_line)
    return json.loads(summary.read_text()), killed_at[0]


def compare_with_undisturbed(killed: dict, killed_at: float, undisturbed: dict) -> None:
    ended_at = killed["step_ended_at"]  # on the same clock
    steps_ms = [1000 * (later - earlier) for earlier, later in zip(ended_at, ended_at[1:])]
    after = sum(end > killed_at for end in ended_at)
    print(
        f"\n{after} of {killed['steps']} steps ended after the kill, by the other servers alone. The slowest step took "
        f"{max(steps_ms):.0f} ms, the median {statistics.median(steps_ms):.0f} ms."
    )
    digest, expected = killed["digests"][0], undisturbed["digests"][0]
    print(f"weights, sha256: undisturbed {expected[:12]}, with the kill {digest[:12]}")
    if set(killed["digests"]) != {expected}:
        raise DemoError("the weights are not those of the undisturbed training: please report it")
    print("The same bits on all ranks: nothing was lost, nothing was added twice, no step was repeated.", flush=True)


@contextlib.contextmanager
def ending_everything() -> Iterator[tuple[Cluster, contextlib.ExitStack]]:
    """What is entered meanwhile ends before the cluster."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    with contextlib.ExitStack() as ending:
        cluster = Cluster()
        ending.callback(cluster.end)
        try:
            yield cluster, ending
        finally:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)  # nothing may interrupt the clean-up


def show_links(ending: contextlib.ExitStack, arguments: argparse.Namespace) -> None:
    try:
        links = ending.enter_context(shaped_links.Links())
    except shaped_links.NotHere as reason:
        print(f"Not shown here: {reason}.", flush=True)
        return
    print(links.describe(), flush=True)
    measured = links.measure(corpus(), OUTPUT, arguments.rounds)
    compare(measured)
    print(links.explain(measured), flush=True)


def run(arguments: argparse.Namespace) -> None:
    OUTPUT.mkdir(parents=True, exist_ok=True)
    cores = len(os.sched_getaffinity(0))
    with ending_everything() as (cluster, ending):
        say(f"1/4 A cluster on loopback: one scheduler, {arguments.servers} reduction servers")
        options = ["--listen", "127.0.0.1:0", "--lease-ttl", str(LEASE_TTL_MS)]
        scheduler, _ = start_daemon(cluster, "shoal-scheduler", "scheduler", options)
        servers = []
        for number in range(arguments.servers):
            options = ["--scheduler", scheduler, "--advertise", "127.0.0.1", "--net-device", "lo"]
            servers.append(start_daemon(cluster, "shoal-server", f"server-{number}", options)[1])
        variables = {
            "SHOAL_SCHEDULER": scheduler, "SHOAL_JOB_NAME": "demo", "SHOAL_MIN_SERVERS": str(arguments.servers),
            "SHOAL_NET_DEVICE": "lo", "GLOO_SOCKET_IFNAME": "lo",
            "SHOAL_NODE_REDUCE": "off",  # it shows servers: ranks of one node could do without
        }  # fmt: skip
        say(f"2/4 Training on {arguments.ranks} ranks, gradients through the servers, and through Gloo in turns")
        undisturbed = take_turns(cluster, arguments, variables)
        show_status(scheduler)
        compare(undisturbed)
        print(
            f"All roles share this machine's {cores} cores and its loopback here: this shows that it works and what the"
            " software costs,\nnot what a network gains."
        )
        say("3/4 The same training, and a server is killed in the middle")
        killed, killed_at = kill_in_the_middle(cluster, arguments, variables, servers[-1])
        wait_for_the_loss(scheduler)
        show_status(scheduler)
        compare_with_undisturbed(killed, killed_at, undisturbed["shoal"])
        say("4/4 Each worker and each server on a node of its own, behind a slow link")
        show_links(ending, arguments)
    say("Where to look next")
    print(
        "examples/train_gpt.py       the training script: only the backend's name is Shoal's\n"
        "examples/all_reduce.cc      the same from C++\n"
        "build/bin/shoalctl status   what a cluster is doing (--scheduler HOST:PORT; also events --follow)\n"
        "build/bin/shoal-perf        all-reduce benchmarks (after `make build`)\n"
        "README.md                   several machines, Kubernetes, what Shoal does and does not do\n\n"
        "Without any cluster, rank 0 runs a scheduler and a server in its own process:\n"
        "  build/venv/bin/torchrun --nproc-per-node 4 examples/train_gpt.py --backend shoal --text build/demo/kjv.txt"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=16, help="steps of each training on loopback (default 16)")
    parser.add_argument("--rounds", type=int, default=3, help="in which the contenders take turns (default 3)")
    parser.add_argument("--ranks", type=int, default=4, help="training processes on loopback (default 4)")
    parser.add_argument("--servers", type=int, default=2, help="reduction servers on loopback (default 2)")
    arguments = parser.parse_args()
    if arguments.steps < 3 or arguments.rounds < 1 or arguments.ranks < 1:
        parser.error("expected --steps of 3 or more, --rounds and --ranks of 1 or more")
    if arguments.servers < 2:
        parser.error("expected --servers of 2 or more: one of them is killed")
    started = time.monotonic()
    try:
        run(arguments)
    except (DemoError, HostError) as error:
        print(f"\nerror: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted; everything that the demo started has ended", file=sys.stderr)
        return 130
    print(f"\nDone in {time.monotonic() - started:.0f} s.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
