#!/usr/bin/env python3
"""Writes the pages of docs/ that are made from tables in the code: docs/events.md and docs/metrics.md.

Usage: scripts/reference_pages.py [--check]     (--check: only says which page is not as the code has it)
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
EVENT = re.compile(r'X\(k\w+, "([a-z-]+)", k(\w+), k(\w+), \\\s*"((?:[^"\\]|\\.)*)"\)')

EVENTS_HEAD = """# Events

What the logs of scheduler and servers say. This page is made by `scripts/reference_pages.py` from the table in
`core/log_event.h`.

Each event is one line on standard error. `--log-format text`, the default, writes human-readable lines:

```
2026-11-22T19:54:33.120Z WARNING server rank-absent (job=7 group=12 epoch=3 rank=1): server alpha lost its ...
```

The parts are the time (UTC), the level, the component, the key of the event, the subject where there is one, the ids
of what it concerns, and what happened. `--log-format json` writes the same as one object per line with the fields
`time`, `level`, `component`, `event`, `subject`, `job`, `group`, `epoch`, `rank` and `text`; ids are strings, and a
field that does not apply is missing. Nothing is written to standard output then. `rank` is the rank in the group
where a group is named, and otherwise the rank in the job.

Keys do not change between versions; texts may. Of each key at most 200 events are written at once and 20 a second in
the long run; the event `events-left-out` says how many were not. `shoalctl events` shows what the scheduler keeps of
its own events. A worker's process does not write these lines, also where a colocated server runs in it.

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

What scheduler and server show with `--http IP:PORT`. This page is made by `scripts/reference_pages.py` from the table
in `metrics/metric_table.h`. There is no such port by default, and anybody who reaches it can read what it shows.

- `/metrics`: the numbers below in Prometheus' text format. Names do not change between versions.
- `/healthz`: 200 while the process answers.
- `/readyz`: of a server, 200 from its first registration until it leaves, also while the scheduler is away, because
  its groups continue; otherwise 503 with the reason. Of a scheduler, 200 while it answers: one that does not lead
  passes calls on.

Both pages about health depend on nothing but the process itself. The numbers of a server are at most a few 100 ms
old, those of a scheduler about a second. A trainer opens no port; what its ranks count travels in their heartbeats to
the scheduler.

Labels have few values. `job` names at most the 64 jobs that have pushed most; Prometheus renames it unless it scrapes
with `honor_labels: true`. The gauges of the rest are added up as `other`; their counters are not, because a sum would
fall when one of them ends. A job's counters are shown once all its ranks have been heard, and for two minutes after
its end. The values of `reason` are those of the
[frame](wire.md), those of `event` the keys of the [events](events.md).

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


def pages() -> dict[str, str]:
    """By path from the root."""
    return {"docs/events.md": events_page(), "docs/metrics.md": metrics_page()}


def stale_pages() -> list[str]:
    def is_as_made(path: str, text: str) -> bool:
        return (ROOT / path).is_file() and (ROOT / path).read_text(encoding="utf-8") == text

    return [path for path, text in pages().items() if not is_as_made(path, text)]


def main() -> int:
    if "--check" in sys.argv[1:]:
        stale = stale_pages()
        for path in stale:
            print(f"{path} is not what the code says: run scripts/reference_pages.py", file=sys.stderr)
        return 1 if stale else 0
    for path, text in pages().items():
        (ROOT / path).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
