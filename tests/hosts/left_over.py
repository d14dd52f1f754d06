"""The mark of what a test starts, by which it is found when its owner could not end it."""

import atexit
import functools
import os
import pathlib
import re
import shutil
import signal
import tempfile

# Of each process that is started on a node, and of what those start: VALUE is the pid and start time of the owner, and
# a number that it gave.
OWNER_VARIABLE = "SHOAL_TEST_OWNER"
FOLDER_PREFIX = "shoal-hosts-"  # in the folder for temporary files; the mark follows


def start_time_of(pid: int) -> str:
    """Tells apart two processes that had the same pid one after the other; empty if there is none."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
    except OSError:
        return ""


def own_mark() -> str:
    return f"{os.getpid()}.{start_time_of(os.getpid())}"


def marked_processes() -> list[tuple[int, str]]:
    """Pid and mark of all living processes that have one."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            environment = (entry / "environ").read_bytes()
        except OSError:
            continue
        if match := re.search(rb"(?:^|\0)" + OWNER_VARIABLE.encode() + rb"=([\d.]+)", environment):
            found.append((int(entry.name), match.group(1).decode()))
    return found


def processes_of(owner: int) -> list[int]:
    """Those that the process with this pid started, and their own."""
    return [pid for pid, mark in marked_processes() if mark.startswith(f"{owner}.")]


def kill_marked(mark: str) -> None:
    for pid, found in marked_processes():
        if found == mark:
            kill(pid)


def kill(pid: int) -> bool:
    """False: it is gone already."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def owner_is_gone(mark: str) -> bool:
    owner, start_time = mark.split(".")[:2]
    return start_time_of(int(owner)) != start_time


def clean_left_over() -> int:
    """Ends and removes what is left of owners that were killed before they could; says how many processes that were."""
    count = sum(kill(pid) for pid, mark in marked_processes() if owner_is_gone(mark))
    for folder in pathlib.Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}*"):
        mark = re.match(r"\d+\.\d+", folder.name.removeprefix(FOLDER_PREFIX))
        if mark and owner_is_gone(mark.group()):
            shutil.rmtree(folder, ignore_errors=True)
    return count


@functools.cache
def temporary_folder() -> str:
    """Of all programs that are started here, until this process ends: where groups fail, members write files to it."""
    folder = tempfile.TemporaryDirectory(prefix=f"{FOLDER_PREFIX}{own_mark()}-", ignore_cleanup_errors=True)
    atexit.register(folder.cleanup)
    return folder.name
