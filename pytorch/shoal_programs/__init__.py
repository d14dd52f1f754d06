"""Shoal's programs as commands of a Python environment, without torch: shoal-scheduler, shoal-server, shoal-perf,
shoalctl, and shoal-cluster (cluster.py). The programs themselves are in a wheel that scripts/wheel.py makes."""

import os
import pathlib
import signal
import sys
from typing import NoReturn

FOLDER = pathlib.Path(__file__).resolve().parent / "bin"


def program(name: str) -> str:
    """Its path. Ends the process, with what to do, if it is not there."""
    path = FOLDER / name
    if not path.is_file():
        sys.exit(
            f"error: {path} is missing. Install Shoal's wheel (`make wheel`) again, or use the programs that"
            " `make build` puts into build/bin."
        )
    return str(path)


def _become(name: str) -> NoReturn:
    path = program(name)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and the program would inherit that
    os.execv(path, [name, *sys.argv[1:]])


def scheduler() -> NoReturn:
    _become("shoal-scheduler")


def server() -> NoReturn:
    _become("shoal-server")


def perf() -> NoReturn:
    _become("shoal-perf")


def shoalctl() -> NoReturn:
    _become("shoalctl")
