"""A scheduler and reduction servers as processes of this machine, and bounded runs of other programs beside them."""

import ctypes
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time

LISTENING = re.compile(r"listening on (\S+)")
PR_SET_PDEATHSIG = 1
START_TIMEOUT_S = 30
STOP_TIMEOUT_S = 15


def die_with_parent() -> None:
    """Runs in the child: it must not outlive this program, however that ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def run_bounded(commands: list[list[str]], timeout_s: float, env: dict[str, str] | None = None) -> list[str]:
    """Runs the commands side by side and gives their standard outputs. RuntimeError if one fails or takes too long."""
    processes = []
    try:
        for command in commands:
            processes.append(
                subprocess.Popen(
                    command,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    env={**os.environ, **(env or {})},
                    preexec_fn=die_with_parent,
                )
            )
        deadline = time.monotonic() + timeout_s
        outputs = []
        for command, process in zip(commands, processes):
            try:
                output, errors = process.communicate(timeout=max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise RuntimeError(f"not done after {timeout_s} s: {' '.join(command)}") from None
            if process.returncode != 0:
                raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}:\n{errors.strip()[-3000:]}")
            outputs.append(output)
        return outputs
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
            process.communicate()


class Cluster:
    """`with Cluster(programs, 2) as cluster:` starts a scheduler and two servers on 127.0.0.1 and ends them after it."""

    def __init__(self, programs: pathlib.Path, server_count: int):
        self.programs = programs
        self.server_count = server_count
        self.processes: list[subprocess.Popen] = []
        self.scheduler = ""
        self.logs = tempfile.TemporaryDirectory(prefix="shoal-bench-")

    def start(self, name: str, command: list[str]) -> str:
        """Gives the address that the program says it listens on."""
        log = pathlib.Path(self.logs.name) / f"{name}.log"
        with log.open("w") as sink:
            process = subprocess.Popen(command, stdout=sink, stderr=subprocess.STDOUT, preexec_fn=die_with_parent)
        self.processes.append(process)
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            text = log.read_text()
            if match := LISTENING.search(text):
                return match.group(1)
            if process.poll() is not None:
                raise RuntimeError(f"{name} ended with {process.returncode}:\n{text[-3000:]}")
            time.sleep(0.02)
        raise RuntimeError(f"{name} did not start within {START_TIMEOUT_S} s:\n{log.read_text()[-3000:]}")

    def __enter__(self) -> "Cluster":
        try:
            self.scheduler = self.start(
                "scheduler", [str(self.programs / "shoal-scheduler"), "--listen", "127.0.0.1:0"]
            )
            for number in range(self.server_count):
                command = [str(self.programs / "shoal-server"), "--scheduler", self.scheduler]
                command += ["--advertise", "127.0.0.1", "--name", f"server-{number}", "--net-device", "lo"]
                self.start(f"server-{number}", command)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_exception) -> None:
        self.stop()

    def stop(self) -> None:
        for process in reversed(self.processes):
            if process.poll() is None:
                process.terminate()
        deadline = time.monotonic() + STOP_TIMEOUT_S
        for process in self.processes:
            try:
                process.wait(timeout=max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes.clear()
        self.logs.cleanup()
