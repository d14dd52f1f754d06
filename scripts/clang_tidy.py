#!/usr/bin/env python3
"""Runs clang-tidy over the C++ sources, or over the given files and folders. .clang-tidy says what it looks for.

A source without findings is not looked at again until it, a header of ours that it includes, its compiler options,
.clang-tidy or clang-tidy itself changes: build/clang_tidy.json remembers. Ends with 1 if there are findings.

    scripts/clang_tidy.py [FOLDER or FILE...] [--jobs N] [--build build/dev]

The compiler's options and the generated headers come from a build without precompiled headers, which clang can't read:
scripts/test_sanitizers.sh makes one.
"""

import argparse
import concurrent.futures
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
STAMPS = ROOT / "build/clang_tidy.json"
PROGRAM = "clang-tidy-19"
FOLDERS = (
    "core", "process", "reduce", "net", "proto", "server", "scheduler", "worker", "sim", "cli", "perf", "examples"
)  # fmt: skip
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
INCLUDE_ROOTS = (ROOT, ROOT / "worker/include")
# GCC's warnings that clang does not know are no findings.
OPTIONS = ["--quiet", "--extra-arg=-Wno-unknown-warning-option"]


def with_included_files(source: pathlib.Path) -> list[pathlib.Path]:
    """The source and the headers of ours that it includes, directly or not."""
    found = {source}
    to_read = [source]
    while to_read:
        for name in INCLUDE.findall(to_read.pop().read_text()):
            for header in (root / name for root in INCLUDE_ROOTS):
                if header.is_file() and header not in found:
                    found.add(header)
                    to_read.append(header)
    return sorted(found)


class Digests:
    """Of files, each read once."""

    def __init__(self) -> None:
        self._known: dict[pathlib.Path, str] = {}

    def of(self, path: pathlib.Path) -> str:
        if path not in self._known:
            self._known[path] = hashlib.sha256(path.read_bytes()).hexdigest()
        return self._known[path]


def sources(build: pathlib.Path, wanted: list[str]) -> dict[pathlib.Path, str]:
    """Each source with the digest of all that its findings depend on."""
    digests = Digests()
    version = subprocess.run([PROGRAM, "--version"], check=True, capture_output=True, text=True).stdout
    rules = version + digests.of(ROOT / ".clang-tidy")
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["file"])
        if any(path.is_relative_to(ROOT / part) for part in wanted):
            parts = "".join(f"{part.relative_to(ROOT)} {digests.of(part)}\n" for part in with_included_files(path))
            found[path] = hashlib.sha256((rules + entry["command"] + parts).encode()).hexdigest()
    return found


def look_at(build: pathlib.Path, path: pathlib.Path) -> tuple[pathlib.Path, str, float]:
    started = time.monotonic()
    command = [PROGRAM, "-p", str(build), *OPTIONS, str(path)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    # On standard error it counts what it does not show, unless it fails.
    failed = run.returncode != 0 and not run.stdout
    return path, run.stdout + (run.stderr if failed else ""), time.monotonic() - started


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wanted", metavar="FOLDER or FILE", nargs="*", default=FOLDERS)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/dev")
    options = parser.parse_args()
    build = options.build.resolve()
    if not (build / "compile_commands.json").is_file():
        sys.exit(f"error: {build}/compile_commands.json is missing: run scripts/test_sanitizers.sh clang-tidy.")
    stamps = json.loads(STAMPS.read_text()) if STAMPS.is_file() else {}
    wanted = sources(build, options.wanted)
    changed = [path for path, digest in sorted(wanted.items()) if stamps.get(str(path)) != digest]
    findings = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for number, (path, text, seconds) in enumerate(pool.map(lambda p: look_at(build, p), changed), start=1):
            print(f"    [{number}/{len(changed)}, {seconds:.0f} s] {path.relative_to(ROOT)}", flush=True)
            if text:
                findings += 1
                print(text, flush=True)
            else:
                stamps[str(path)] = wanted[path]
                STAMPS.write_text(json.dumps(stamps, indent=1))
    print(f"    {len(wanted)} sources, {len(changed)} of them changed, {findings} with findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
