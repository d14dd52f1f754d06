#!/usr/bin/env python3
"""Builds the programs without what finds slow ranks and servers, in build/without_lateness/build/bin: with
`bench/run.py --other-build` it is seen what that costs.

Works on a copy of the sources in which every `LatenessBook::On...` of servers and every `GroupServerWaits::On...` of
ranks returns at once. Compiles for ten minutes on two cores the first time.
With --count it then counts, with valgrind, the instructions of a server's thread in both builds, which no other guest
of the machine disturbs, and writes bench/results/lateness-instructions_DATE.md.
"""

import datetime
import pathlib
import re
import subprocess
import sys

import machine

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


def count() -> dict[str, float]:
    """Instructions an all-reduce of a server's thread: those of 22 less those of 2, in both builds."""
    found: dict[str, float] = {}
    for name, programs in (("ours", ROOT / "build/bin"), ("without", TREE / "build/bin")):
        found[name] = (instructions(programs, 22) - instructions(programs, 2)) / 20
    return found


def page_of(found: dict, facts: dict, today: datetime.date) -> str:
    ours, without_it = found["ours"], found["without"]
    tree = f"commit {facts['commit']} with {facts['changed_files']} changed files"
    return f"""# Instructions that finding slow ranks and servers costs, {today}

`{COUNT}`, {tree}, {facts["cpu_model"]}, {facts["cpu_count"]} cpus.

A server's thread all-reduces 64 MiB of 8 ranks. Instructions are those of 22 all-reduces less those of 2, divided by
20, as valgrind counts them. Those of ranks are not in it.

| build | million instructions of an all-reduce |
|---|---:|
| this one | {ours / 1e6:.2f} |
| without it | {without_it / 1e6:.2f} |
| this one / without it | {ours / without_it:.4f} |
"""


def main() -> int:
    if sys.argv[1:] == ["--count"]:
        build()
        today = datetime.datetime.now(datetime.UTC).date()
        file = ROOT / "bench/results" / f"lateness-instructions_{today}.md"
        file.write_text(page_of(count(), machine.gather(ROOT), today), encoding="utf-8")
        print(file.read_text(encoding="utf-8"), end="")
    elif sys.argv[1:]:
        sys.exit(f"usage: {COUNT.removesuffix(' --count')} [--count]")
    else:
        build()
    return 0


if __name__ == "__main__":
    sys.exit(main())
