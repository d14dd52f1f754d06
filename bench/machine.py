"""What the measuring machine is: a number without it says nothing."""

import datetime
import importlib.metadata
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess


def output_of(command: list[str]) -> str:
    if shutil.which(command[0]) is None:
        return ""
    return subprocess.run(command, capture_output=True, text=True, timeout=20, check=False).stdout.strip()


def gather(root: pathlib.Path) -> dict:
    cpu = re.search(r"^model name\s*:\s*(.+)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    open_mpi = re.search(r"(\d+\.\d+\S*)", output_of(["mpirun", "--version"]))
    return {
        "cpu_model": cpu.group(1) if cpu else platform.machine(),
        "cpu_count": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": platform.release(),
        "open_mpi": open_mpi.group(1) if open_mpi else "none",
        "torch": importlib.metadata.version("torch"),
        "commit": output_of(["git", "-C", str(root), "rev-parse", "--short=12", "HEAD"]),
        "changed_files": len(output_of(["git", "-C", str(root), "status", "--porcelain", "-uno"]).splitlines()),
    }


def commit_of_programs(folder: pathlib.Path) -> str:
    """The commit that is checked out where these programs were built."""
    return output_of(["git", "-C", str(folder.resolve()), "rev-parse", "--short=12", "HEAD"]) or "unknown"


def load_average_1min() -> float:
    return os.getloadavg()[0]


def measured_by(report: dict) -> str:
    machine = report["machine"]
    return (
        f"`{report['command']}`, {report['started_at']}, commit {machine['commit']} with {machine['changed_files']}"
        f" changed files, {machine['cpu_model']}, {machine['cpu_count']} cores."
    )


def write_result(report: dict, page: str, folder: pathlib.Path) -> None:
    """PART_DATE.json and .md."""
    stem = folder / f"{report['part']}_{report['started_at'].partition('T')[0]}"
    stem.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    stem.with_suffix(".md").write_text(page, encoding="utf-8")


def begin_report(part: str, title: str, started: datetime.datetime, command: str, root: pathlib.Path) -> dict:
    """What every result file says first. To be called before anything runs, or the load is the measurement's own."""
    return {
        "part": part,
        "title": title,
        "started_at": started.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "command": command,
        "machine": gather(root),
        "load_average_before": load_average_1min(),
    }
