#!/usr/bin/env python3
"""Builds the programs without what finds slow ranks and servers, in build/without_lateness/build/bin: with
`bench/run.py --other-build` it is seen what that costs.

Works on a copy of the sources in which every `LatenessBook::On...` of servers and every `GroupServerWaits::On...` of
ranks returns at once. Compiles for ten minutes on two cores the first time.
With --count it then counts, with valgrind, the instructions of a server's thread in both builds, which no other guest
of the machine disturbs, and writes bench/results/lateness-instructions_DATE.json.
"""

import datetime
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
TREE = ROOT / "build" / "without_lateness"
PROGRAMS = ("shoal-scheduler", "shoal-server", "shoal-perf", "server_thread_bench")
COUNT = "bench/without_lateness.py --count"
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
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        source, target = ROOT / name, TREE / name
        if not source.is_file():
            continue
        content = source.read_bytes()
        if name in BOOKS:
            content = without(content.decode(), *BOOKS[name]).encode()
        if not target.is_file() or target.read_bytes() != content:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            target.chmod(source.stat().st_mode)


def build() -> None:
    copy_sources()
    if not (TREE / "build" / "build.ninja").is_file():
        subprocess.run(["cmake", "--preset", "release", "-D", "SHOAL_BUILD_TESTS=OFF"], cwd=TREE, check=True)
    subprocess.run(["ninja", "-C", "build", *PROGRAMS], cwd=TREE, check=True)
    print(f"Now: bench/run.py one-host neighbours --other-build {(TREE / 'build/bin').relative_to(ROOT)} --control")


def instructions(programs: pathlib.Path, ops: int) -> int:
    """Of a server's thread that all-reduces 64 MiB of 8 ranks so many times, its start included."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    command += [str(programs / "server_thread_bench"), "large", str(ops)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    return int(re.search(r"Collected : (\d+)", said)[1])


def count() -> dict:
    """Instructions an all-reduce of a server's thread: those of 22 less those of 2, in both builds."""
    found: dict = {}
    for name, programs in (("ours", ROOT / "build/bin"), ("without", TREE / "build/bin")):
        found[name] = (instructions(programs, 22) - instructions(programs, 2)) / 20
    commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    return found | {"ratio": found["ours"] / found["without"], "commit": commit.stdout.strip(), "command": COUNT}


def main() -> int:
    if sys.argv[1:] == ["--count"]:
        build()
        today = datetime.datetime.now(datetime.UTC).date()
        file = ROOT / "bench/results" / f"lateness-instructions_{today}.json"
        file.write_text(json.dumps(count(), indent=1) + "\n", encoding="utf-8")
        print(file.read_text(encoding="utf-8"), end="")
    elif sys.argv[1:]:
        sys.exit(f"usage: {COUNT.removesuffix(' --count')} [--count]")
    else:
        build()
    return 0


if __name__ == "__main__":
    sys.exit(main())
