#!/usr/bin/env python3
"""Builds the programs without what finds slow ranks and servers, in build/without_lateness/build/bin: with
`bench/run.py --other-build` it is seen what that costs.

Works on a copy of the sources in which every `LatenessBook::On...` of servers and every `GroupServerWaits::On...` of
ranks returns at once. Compiles for ten minutes on two cores the first time.
"""

import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
TREE = ROOT / "build" / "without_lateness"
PROGRAMS = ("shoal-scheduler", "shoal-server", "shoal-perf", "server_thread_bench")
BOOKS = {
    "server/machine/lateness_book.cc": ("LatenessBook", 5),
    "worker/machine/server_wait_book.cc": ("GroupServerWaits", 3),
}


def without(text: str, book: str, count: int) -> str:
    """ValueError unless the book has so many functions that are told of something."""
    functions = re.compile(rf"^(void|bool) {book}::On\w+\([^{{]*\{{\n", re.MULTILINE)
    found = functions.findall(text)
    if len(found) != count:
        raise ValueError(f"{book} has {len(found)} functions On...; {__file__} knows {count}")
    # The compiler takes what can't be reached away.
    return functions.sub(lambda match: f"{match[0]}  return{' false' if match[1] == 'bool' else ''};\n", text)


def copy_sources() -> None:
    """What did not change keeps its time, so that little is compiled."""
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], check=True, capture_output=True, text=True)
    for name in filter(None, listed.stdout.split("\0")):
        source, target = ROOT / name, TREE / name
        if not source.is_file() or (target.is_file() and target.stat().st_mtime_ns == source.stat().st_mtime_ns):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        content = source.read_bytes()
        if name in BOOKS:
            content = without(content.decode(), *BOOKS[name]).encode()
        target.write_bytes(content)
        target.chmod(source.stat().st_mode)
        os.utime(target, ns=(source.stat().st_atime_ns, source.stat().st_mtime_ns))


def main() -> int:
    copy_sources()
    if not (TREE / "build" / "build.ninja").is_file():
        subprocess.run(["cmake", "--preset", "release", "-D", "SHOAL_BUILD_TESTS=OFF"], cwd=TREE, check=True)
    subprocess.run(["ninja", "-C", "build", *PROGRAMS], cwd=TREE, check=True)
    print(f"Now: bench/run.py one-host neighbours --other-build {(TREE / 'build/bin').relative_to(ROOT)} --control")
    return 0


if __name__ == "__main__":
    sys.exit(main())
