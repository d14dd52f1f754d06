#!/usr/bin/env python3
"""The main job on this machine: a GPT trained through two reduction servers, then the same steps with Gloo.

    make demo            (or: build/venv/bin/python examples/demo.py, after `make build`)

Starts one shoal-scheduler and two shoal-server processes on loopback, runs examples/train_gpt.py on 4 ranks with
torchrun, shows `shoalctl status`, repeats the training with Gloo and compares. Ends everything that it started, also on
Ctrl-C. Logs and summaries are left in build/demo/.
"""

import argparse
import contextlib
import ctypes
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "build" / "demo"
START_SECONDS = 30
STOP_SECONDS = 10


class DemoError(Exception):
    """Its text tells the person what went wrong and what to do."""


class Processes:
    """What the demo started. Each is a session of its own, so that it can be ended with all of its children."""

    def __init__(self) -> None:
        self._running: list[subprocess.Popen] = []

    def start(self, command: list[str], **options) -> subprocess.Popen:
        process = subprocess.Popen(command, start_new_session=True, preexec_fn=_end_with_parent, **options)
        self._running.append(process)
        return process

    def end_all(self) -> None:
        """Asks the youngest first, then insists."""
        for process in reversed(self._running):
            _signal_session(process, signal.SIGTERM)
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                pass
            _signal_session(process, signal.SIGKILL)
            process.wait()
        self._running.clear()


def _end_with_parent() -> None:
    """In the child: if the demo is killed outright, the kernel ends the child."""
    set_parent_death_signal = 1  # PR_SET_PDEATHSIG
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGTERM)


def _signal_session(process: subprocess.Popen, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def say(text: str) -> None:
    print(f"\n== {text}", flush=True)


def program(name: str) -> str:
    path = pathlib.Path(os.environ.get("SHOAL_BIN", ROOT / "build" / "bin")) / name
    if not path.is_file():
        raise DemoError(f"{path} is missing: run `make build` first")
    return str(path)


def start_daemon(processes: Processes, name: str, log_name: str, arguments: list[str]) -> str:
    """Starts a scheduler or server, waits for its "listening" line, and returns the first address in it."""
    log = OUTPUT / f"{log_name}.log"
    with open(log, "wb") as file:
        process = processes.start([program(name), *arguments], stdout=file, stderr=subprocess.STDOUT)
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        match = re.search(r"listening on ([\w.:\[\]-]+:\d+)", log.read_text(errors="replace"))
        if match is not None:
            print(f"{log_name}: listening on {match[1]} (process {process.pid}, log {log.relative_to(ROOT)})")
            return match[1]
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise DemoError(f"{name} did not start; its log:\n{log.read_text(errors='replace')}")


def corpus() -> pathlib.Path:
    """The King James Bible as Debian ships it (bible-kjv-text), one verse a line."""
    path = OUTPUT / "kjv.txt"
    if path.is_file() and path.stat().st_size > 4_000_000:
        return path
    reader = shutil.which("bible")
    if reader is None:
        raise DemoError("the program `bible` is missing: apt-get install bible-kjv bible-kjv-text (`make setup` does it)")
    result = subprocess.run([reader, "-f", "gen1:1-rev22:21"], capture_output=True, text=True, check=False)
    verses = [line.partition(" ")[2] for line in result.stdout.splitlines()]
    if result.returncode != 0 or len(verses) < 31_000:
        raise DemoError(f"`bible -f gen1:1-rev22:21` gave only {len(verses)} verses: {result.stderr.strip()}")
    path.write_text("\n".join(verses) + "\n", encoding="utf-8")
    return path


def train(processes: Processes, backend: str, arguments: argparse.Namespace, environment: dict[str, str]) -> dict:
    """Runs the example with live output and returns its summary."""
    summary = OUTPUT / f"{backend}.json"
    summary.unlink(missing_ok=True)
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1",
        "--nproc-per-node", str(arguments.ranks), str(ROOT / "examples" / "train_gpt.py"), "--backend", backend,
        "--text", str(corpus()), "--steps", str(arguments.steps), "--summary", str(summary),
    ]  # fmt: skip
    shown = " ".join(f"{name}={value}" for name, value in environment.items() if name.startswith("SHOAL_"))
    print(f"$ {shown} torchrun {' '.join(command[3:])}".replace("$  ", "$ "), flush=True)
    process = processes.start(command, env=os.environ | {"OMP_NUM_THREADS": "1"} | environment, cwd=ROOT)
    if process.wait() != 0:
        raise DemoError(f"training with {backend} failed (exit code {process.returncode}); its output is above")
    return json.loads(summary.read_text())


def show_status(scheduler: str) -> None:
    command = [program("shoalctl"), "status", "--scheduler", scheduler]
    print(f"$ shoalctl {' '.join(command[1:])}", flush=True)
    if subprocess.run(command, timeout=START_SECONDS, check=False).returncode != 0:
        raise DemoError("shoalctl status failed; its message is above")


def compare(shoal: dict, gloo: dict) -> None:
    def row(name: str, cells: list[str]) -> None:
        print(f"{name:34}" + "".join(f"{cell:>16}" for cell in cells))

    both = (shoal, gloo)
    row("", ["shoal", "gloo"])
    row("tokens/s", [f"{run['tokens_per_second']:.0f}" for run in both])
    row("all-reduce of a bucket, mean", [f"{run['all_reduce_ms_mean']:.2f} ms" for run in both])
    row("gradient bytes a rank and step", [f"{run['all_reduce_bytes'] / run['steps'] / 1e6:.2f} MB" for run in both])
    row("first loss", [f"{run['losses'][0]:.4f}" for run in both])
    row("last loss", [f"{run['losses'][-1]:.4f}" for run in both])
    for rank in range(shoal["ranks"]):
        row(f"weights of rank {rank}, sha256", [f"{run['digests'][rank][:12]}" for run in both])
    difference = max(abs(a - b) for a, b in zip(shoal["losses"], gloo["losses"], strict=True))
    print(f"\nThe loss curves of {shoal['steps']} steps differ by at most {difference:.2g}: the two add in another order.")
    print("All ranks of a run have the same weights, bit for bit.")
    for shard in shoal["shards"]:
        print(f"{shard['name']}: {shard['bytes_pushed'] / 1e6:.1f} MB from rank 0, {shard['bytes_pulled'] / 1e6:.1f} MB to it")
    if difference > 0.05:
        raise DemoError("that is more than rounding explains (0.05): please report it")


@contextlib.contextmanager
def ending_everything() -> Iterator[Processes]:
    processes = Processes()

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    try:
        yield processes
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # nothing may interrupt the clean-up
        processes.end_all()


def run(arguments: argparse.Namespace) -> None:
    OUTPUT.mkdir(parents=True, exist_ok=True)
    with ending_everything() as processes:
        say(f"1/4 A cluster on loopback: one scheduler, {arguments.servers} reduction servers")
        scheduler = start_daemon(processes, "shoal-scheduler", "scheduler", ["--listen", "127.0.0.1:0"])
        for number in range(arguments.servers):
            options = ["--scheduler", scheduler, "--advertise", "127.0.0.1", "--net-device", "lo"]
            start_daemon(processes, "shoal-server", f"server-{number}", options)
        say(f"2/4 Training on {arguments.ranks} ranks, gradients through the servers")
        cluster = {
            "SHOAL_SCHEDULER": scheduler, "SHOAL_JOB_NAME": "demo", "SHOAL_MIN_SERVERS": str(arguments.servers),
            "SHOAL_NET_DEVICE": "lo",
        }  # fmt: skip
        shoal = train(processes, "shoal", arguments, cluster)
        show_status(scheduler)
        say("3/4 The same steps with Gloo")
        gloo = train(processes, "gloo", arguments, {})
        say("4/4 Side by side")
        compare(shoal, gloo)
    say("Where to look next")
    print(
        "examples/train_gpt.py       the training script: only the backend's name is Shoal's\n"
        "examples/all_reduce.cc      the same from C++\n"
        "build/bin/shoalctl status   what a cluster is doing (--scheduler HOST:PORT; also events --follow)\n"
        "build/bin/shoal-perf        all-reduce benchmarks\n"
        "README.md                   several machines, Kubernetes, what Shoal does and does not do\n\n"
        "Without any cluster, rank 0 hosts a scheduler and a server itself:\n"
        "  build/venv/bin/torchrun --nproc-per-node 4 examples/train_gpt.py --backend shoal --text build/demo/kjv.txt"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=120, help="training steps with each backend (default 120)")
    parser.add_argument("--ranks", type=int, default=4, help="training processes (default 4)")
    parser.add_argument("--servers", type=int, default=2, help="reduction servers (default 2)")
    arguments = parser.parse_args()
    started = time.monotonic()
    try:
        run(arguments)
    except DemoError as error:
        print(f"\nerror: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted; everything that the demo started has ended", file=sys.stderr)
        return 130
    print(f"\nDone in {time.monotonic() - started:.0f} s.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
