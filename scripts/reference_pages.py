#!/usr/bin/env python3
"""Writes what is made from the code in docs/: events, metrics, errors and checks on GPUs from its tables, settings from
what the programs that were built say with --help, and the picture of README.md from the newest page of `links`.

Usage: scripts/reference_pages.py [--check]     (--check: only says which page is not as the code has it)
"""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROGRAMS = pathlib.Path(os.environ.get("SHOAL_BIN", ROOT / "build/bin"))
EVENT = re.compile(r'X\(k\w+, "([a-z-]+)", k(\w+), k(\w+), \\\s*"((?:[^"\\]|\\.)*)"\)')

EVENTS_HEAD = """# Events

What the logs of scheduler and servers say. This page is made by `scripts/reference_pages.py` from the table in
`core/log_event.h`.

Each event is one line on standard error. `--log-format text`, the default, writes human-readable lines:

```
2026-11-22T19:54:33.120Z WARNING server rank-absent (job=7 group=12 epoch=3 rank=1): server alpha lost its ...
```

The parts are the time (UTC), the level, the component, the key, the subject where there is one, the ids of what it
concerns, and what happened. `--log-format json` writes one object per line with the fields `time`, `level`,
`component`, `event`, `subject`, `job`, `group`, `epoch`, `rank` and `text`. Ids are strings, and a field that does not
apply is missing. `rank` is the rank in the group where a group is named, and otherwise the rank in the job. `call` and
`call-refused` have `who`, `role`, `from`, `call`, `object`, `outcome` and `left_out` too
([security.md](security.md#who-did-what)).

Keys do not change between versions; texts may. Of each key at most 200 events are written at once and 20 a second in
the long run; the event `events-left-out` says how many were not. `shoalctl events` shows what the scheduler keeps of
its own events. A worker's process does not write these lines.

| component | key | level | meaning |
|---|---|---|---|
"""


def events_page() -> str:
    table = (ROOT / "core" / "log_event.h").read_text(encoding="utf-8")
    rows = [
        f"| {component.lower()} | `{key}` | {level.lower()} | {meaning} |"
        for key, level, component, meaning in EVENT.findall(table)
    ]
    return EVENTS_HEAD + "\n".join(rows) + "\n"


METRIC = re.compile(r'X\(k\w+, "(\w+)", k(\w+), "(\w*)", \\\s*"((?:[^"\\]|\\.)*)"\)')

METRICS_HEAD = """# Metrics

What scheduler and server show with `--http IP:PORT` (off by default; anybody who reaches it can read it). This page is
made by `scripts/reference_pages.py` from the table in `metrics/metric_table.h`.

- `/metrics`: the numbers below in Prometheus' text format. Names do not change between versions.
- `/healthz`: 200 while the process answers.
- `/readyz`: of a server, 200 from its first registration until it leaves, also while the scheduler is away; otherwise
  503 with the reason. Of a scheduler, 200 while it answers.
- `/` and `/cluster.json`, of a scheduler: the [page](operating.md#watch-it), and what it shows as JSON. `cluster`, each
  of `servers`, each `job` of `jobs` and each of `events` are messages of the
  [status service](../proto/shoal/v1/status.proto) in protobuf's JSON, where 64-bit numbers are strings; `totals` of a
  job are sums over its ranks. It may change with the page: tools that are to last ask the service.

All answer GET and HEAD. The numbers of a server are at most a few 100 ms old, those of a scheduler about a second. A
trainer opens no port; what its ranks count travels in their heartbeats.

Labels have few values. `job` names at most the 64 jobs that have pushed most; Prometheus renames it unless it scrapes
with `honor_labels: true`. The gauges of the rest are added up as `other`. A job's counters are shown once all its ranks
have been heard, and for two minutes after its end. The values of `reason` are those of the [frame](wire.md), those of
`event` the keys of the [events](events.md).

| metric | type | label | meaning |
|---|---|---|---|
"""


def metrics_page() -> str:
    table = (ROOT / "metrics" / "metric_table.h").read_text(encoding="utf-8")
    rows = [
        f"| `{name}` | {kind.lower()} | {f'`{label}`' if label else ''} | {meaning} |"
        for name, kind, label, meaning in METRIC.findall(table)
    ]
    return METRICS_HEAD + "\n".join(rows) + "\n"


CODE = re.compile(r"^  SHOAL_(\w+) = \d+,? */\* (.*?) \*/$", re.MULTILINE)
REFUSAL = re.compile(r'X\((k\w+), [1-9]\d*, "([a-z-]+)"\) +/\* (.*?) \*/')
CODE_OF_REFUSALS = re.compile(r"((?: *case Refusal::k\w+:\n)+) *return absl::StatusCode::k(\w+);")
CODE_OF_OTHERS = re.compile(r"default:\n *return absl::StatusCode::k(\w+);")

ERRORS_HEAD = """# Errors

What calls of the library end with, and why servers refuse messages. This page is made by `scripts/reference_pages.py`
from `worker/include/shoal/worker.h`, `core/frame.h` and `worker/machine/refusal_error.cc`.

A call that fails gives a code and a sentence, which says what happened, to whom, and what to do. In PyTorch the
sentence is that of the exception: `DistBackendError`, or `ValueError` for a setting.
[Embedding](embedding.md#errors) says what a program does with each code.

| code | meaning |
|---|---|
"""

REFUSALS_HEAD = """
## Why a server refuses

A server refuses what it can't accept, and goes on. The reason is in the error of the rank whose message it was, in the
server's log, and in the metric `shoal_server_refusals_total`.

| reason | meaning | code of the rank's error |
|---|---|---|
"""


def snake_case(camel_case: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", camel_case).upper()


def errors_page() -> str:
    header = (ROOT / "worker/include/shoal/worker.h").read_text(encoding="utf-8")
    frame = (ROOT / "core/frame.h").read_text(encoding="utf-8")
    mapping = (ROOT / "worker/machine/refusal_error.cc").read_text(encoding="utf-8")
    code_of = {
        refusal: snake_case(code)
        for refusals, code in CODE_OF_REFUSALS.findall(mapping)
        for refusal in re.findall(r"Refusal::(k\w+)", refusals)
    }
    [of_others] = map(snake_case, CODE_OF_OTHERS.findall(mapping))
    codes = header.split("typedef enum shoal_code {", 1)[1].split("}", 1)[0]
    codes = [f"| `{name}` | {meaning} |" for name, meaning in CODE.findall(codes)]
    refusals = [
        f"| `{name}` | {meaning} | `{code_of.get(refusal, of_others)}` |"
        for refusal, name, meaning in REFUSAL.findall(frame.split("#define SHOAL_REFUSALS", 1)[1])
    ]
    return ERRORS_HEAD + "\n".join(codes) + "\n" + REFUSALS_HEAD + "\n".join(refusals) + "\n"


FLAG = re.compile(r"^  (-.*)\n((?:      .*\n?)+)", re.MULTILINE)
EXIT_CODE = re.compile(r"^  (\d+)  (.*\n(?:     .*\n)*)", re.MULTILINE)
DEFAULT = re.compile(r"^(.*?)(?: \[[^\]]+\])?(?:\. Environment: (\w+))?$")

SETTINGS_HEAD = """# Settings

The options of the programs, with the environment variables that set them, the exit codes of `shoalctl`, and the
settings of the PyTorch plugin. This page is made by `scripts/reference_pages.py` from what the programs say with
`--help` and from `pytorch/shoal/config.py`.

An option of the command line overrides its variable. The programs list at their start what they run with, and where
each value came from; `python -m shoal.info` does that for the plugin.
"""


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def help_of(name: str, *command: str) -> str:
    arguments = [PROGRAMS / name, *command, "--help"]
    return subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=True).stdout


def commands_of(name: str) -> list[str]:
    """Of a program that has some."""
    return re.findall(r"^  (\w+)", help_of(name).partition("\nCommands:\n")[2].partition("\n\n")[0], re.MULTILINE)


def options_of(name: str, *command: str) -> list[str]:
    """The cells of each option: what is written, what it means, its default, its variable."""
    cells = []
    for flag, body in FLAG.findall(help_of(name, *command).split("\nOptions:\n", 1)[1].partition("\n\n")[0]):
        meaning, last = " ".join(line.strip() for line in body.strip().split("\n")).rsplit(" Default: ", 1)
        default, variable = DEFAULT.match(last).groups()
        default = "" if default in ("(none)", "false") else f"`{default}`"
        cells.append(f"`{cell(flag)}` | {cell(meaning)} | {default} | {f'`{variable}`' if variable else ''}")
    return cells


def flags_table(name: str) -> str:
    rows = options_of(name)
    head = f"\n## {name}\n\n| option | meaning | default | variable |\n|---|---|---|---|\n"
    commands = commands_of(name)
    if commands:
        head = head.replace("| option |", "| commands | option |").replace("|---|", "|---|---|", 1)
        takers: dict[str, list[str]] = {}
        for command in commands:
            for option in options_of(name, command):
                takers.setdefault(option, []).append(command)
        rows = [f"{those_of(commands, taking)} | {option}" for option, taking in takers.items()] + rows[1:]
        rows[-1] = f"all | {rows[-1]}"
    return head + "".join(f"| {row} |\n" for row in rows)


def those_of(commands: list[str], taking: list[str]) -> str:
    others = [f"`{command}`" for command in commands if command not in taking]
    if len(others) > len(taking):
        return ", ".join(f"`{command}`" for command in taking)
    return f"all but {', '.join(others)}" if others else "all"


def exit_codes_table(name: str) -> str:
    """Of a program whose help has them; otherwise nothing."""
    _, found, text = help_of(name).partition("\nExit codes:\n")
    if not found:
        return ""
    rows = [f"| `{code}` | {cell(' '.join(meaning.split()))} |" for code, meaning in EXIT_CODE.findall(text)]
    return "\n| exit code | meaning |\n|---|---|\n" + "\n".join(rows) + "\n"


def plugin_table() -> str:
    config = load("pytorch/shoal/config.py", "shoal_config")
    rows = []
    for setting in config.SETTINGS:
        has_default = setting.default is not None and setting.default is not False and setting.default != ""
        default = f"`{setting.default}`" if has_default else ""
        rows.append(f"| `{setting.variable}` | `{setting.name}` | {cell(setting.meaning)} | {default} |")
    head = (
        '\n## PyTorch\n\nThe names in the second column are for `init_method="shoal://HOST:PORT?NAME=VALUE&..."`, which'
        " overrides the variable.\n\n| variable | name | meaning | default |\n|---|---|---|---|\n"
    )
    return head + "\n".join(rows) + "\n"


def settings_page() -> str:
    """Needs the programs."""
    names = ("shoal-scheduler", "shoal-server", "shoalctl", "shoal-perf")
    return SETTINGS_HEAD + plugin_table() + "".join(flags_table(name) + exit_codes_table(name) for name in names)


GPU_CHECKS_HEAD = """# Checks on a GPU

One H200 ran most of them on 2026-11-26, with torch 2.11, and seven passed. What failed is mended, and some of what
passed was rewritten; neither was run again ([results](../tests/gpu/results/gpu_checks_2026-11-26.md)). The NCCL
backend of torch 2.15 has not run beneath Shoal, and no node with several GPUs has run any check. This page is made by
`scripts/reference_pages.py` from the table in `tests/gpu/gpu_checks.py`. On a node with a CUDA device, after
`make build`, one command runs all that the node can run and writes the result to `build/gpu_checks/`:

    build/venv/bin/python tests/gpu/run_checks.py

A test may be skipped for what a real device lacks: then its reason begins with "a real device" or "a real driver". Any
other skip is a failure. Programs of the library get torch's NCCL unless `SHOAL_NCCL_LIBRARY` names another one. An
all-reduce of 256 MiB may take at most 1.15 times the slower of two: the copies to and from the device, and the
transport. That is not judged where ranks share a device.

For a node without a network, `make dist` packs programs, libraries, sources of the plugin and the checks into one file
of some 10 MB in `build/dist/`. Unpack it there and run `python3 tests/gpu/run_checks.py` in it, with a python that has
torch: that compiles the plugin first. The bundle has no RDMA.

`make test` runs the library and the plugin on a [simulated driver](../tests/simulated_cuda/README.md) and a
[simulated NCCL](../tests/simulated_nccl/README.md).

`python` is the one with torch and the plugin, FILE any text of 100 KB or more, OUT a folder.
"""

GPU_CHECKS_END = """
`test_torch_cuda.py` checks on each way of an all-reduce, with real kernels and torch's own allocator:
- The op waits for the caller's current stream: the tensor is written by a long kernel just before.
- `wait()` and the future order the caller's stream behind the result: the tensor is read at once, without a device
  synchronisation.
- Work on a side stream (`torch.cuda.stream`), with the default stream busy.
- A tensor that is dropped right after the call keeps its memory until the op is done (allocator reuse).
- CPU and CUDA all-reduces mixed in one group keep their order.
- All-reduces in a CUDA graph are NCCL's, and those after it Shoal's.
- `init_device_mesh` after `init_process_group` with a `device_id`: NCCL, inside, connects at the start and is split.
- Host memory stays the same while 10 GiB are under way.
- DistributedDataParallel on CUDA gives the weights that it gives on the CPU with the same inputs.

Two ranks share the GPU where there is one: with a `NCCL_HOSTID` for each, NCCL takes them for ranks of different
machines. Then a GPU turns from one process to the other every two milliseconds or so, and times say little.
"""


def load(path: str, name: str) -> object:
    """The module at that path from the root."""
    spec = importlib.util.spec_from_file_location(name, ROOT / path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look it up
    spec.loader.exec_module(module)
    return module


def gpu_checks_page() -> str:
    text = GPU_CHECKS_HEAD
    checks = load("tests/gpu/gpu_checks.py", "gpu_checks").CHECKS
    for part, title in {"library": "The worker library", "plugin": "The PyTorch backend"}.items():
        text += f"\n## {title}\n\n| command | devices | expected |\n| --- | --- | --- |\n"
        for check in checks:
            if check.part == part:
                settings = "".join(f"{name}={value} " for name, value in check.environment.items())
                text += f"| `{settings}{check.shown}` | {check.devices} | {check.expected} |\n"
    return text + GPU_CHECKS_END


def links_picture() -> str:
    return load("bench/links_picture.py", "links_picture").picture()


PAGES = {
    "docs/events.md": events_page,
    "docs/metrics.md": metrics_page,
    "docs/errors.md": errors_page,
    "docs/gpu_checks.md": gpu_checks_page,
    "docs/pictures/links.svg": links_picture,
}
PAGES_OF_PROGRAMS = {"docs/settings.md": settings_page}


def stale_pages(pages: dict) -> list[str]:
    """Of those given, by path from the root, with what makes them."""

    def is_as_made(path: str, text: str) -> bool:
        return (ROOT / path).is_file() and (ROOT / path).read_text(encoding="utf-8") == text

    return [path for path, make in pages.items() if not is_as_made(path, make())]


def main() -> int:
    if "--check" in sys.argv[1:]:
        stale = stale_pages(PAGES | PAGES_OF_PROGRAMS)
        for path in stale:
            print(f"{path} is not what the code says: run scripts/reference_pages.py", file=sys.stderr)
        return 1 if stale else 0
    for path, make in (PAGES | PAGES_OF_PROGRAMS).items():
        (ROOT / path).write_text(make(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
