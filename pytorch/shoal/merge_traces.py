"""`python -m shoal.merge_traces TRACE PROFILE... -o FILE`: what `shoalctl trace` has drawn, beside profiles of the same
seconds that torch.profiler wrote (`export_chrome_trace`), as one file for ui.perfetto.dev.

Both kinds say at which time of day they begin. A profile of another node is off by as much as that node's clock."""

import argparse
import json
import pathlib
import sys

ARROWS_APART = 10**12
PROCESSES_APART = 10_000_000  # more than a process has as its number


def begins_at_us(document: dict) -> float:
    """In microseconds of Unix time; ValueError: the file does not say it."""
    drawn = document.get("otherData", {}).get("begins_at_unix_us")
    if drawn is not None:
        return float(drawn)
    if "baseTimeNanoseconds" in document:
        return document["baseTimeNanoseconds"] / 1000
    raise ValueError("does not say when it begins: it is not of `shoalctl trace`, nor of torch.profiler (2.4 or newer)")


def moved(event: dict, later_us: float, number: int) -> dict:
    """An event of the file with that number, on the clock of the first one; processes of files do not mix."""
    event = dict(event)
    if "ts" in event and event.get("ph") != "M":
        event["ts"] = float(event["ts"]) + later_us
    process = event.get("pid")
    if isinstance(process, int):
        event["pid"] = process + number * PROCESSES_APART
    elif isinstance(process, str) and number > 0:
        event["pid"] = f"{process} ({number})"
    for name in ("id", "bind_id"):  # of arrows
        if isinstance(event.get(name), int):
            event[name] += number * ARROWS_APART
    return event


def merge(documents: list[dict]) -> dict:
    """One document that begins with the first. ValueError: as begins_at_us."""
    begin_us = begins_at_us(documents[0])
    events = []
    for number, document in enumerate(documents):
        later_us = begins_at_us(document) - begin_us
        events += [moved(event, later_us, number) for event in document["traceEvents"]]
    return documents[0] | {"traceEvents": events}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m shoal.merge_traces", description=__doc__)
    parser.add_argument("files", nargs="+", type=pathlib.Path, metavar="FILE", help="a trace, and profiles")
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True, help="the file to write")
    arguments = parser.parse_args()
    documents = []
    for path in arguments.files:
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            begins_at_us(document)
            if not isinstance(document.get("traceEvents"), list):
                raise ValueError("has no list of events")
            documents.append(document)
        except (OSError, ValueError, AttributeError) as error:
            print(f"{path}: {error}", file=sys.stderr)
            return 1
    arguments.output.write_text(json.dumps(merge(documents)), encoding="utf-8")
    print(f"{len(documents)} files in {arguments.output}; open it in ui.perfetto.dev")
    return 0


if __name__ == "__main__":
    sys.exit(main())
