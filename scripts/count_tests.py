"""Adds up JUnit reports: prints what each kind of test takes, and one line, `N passed, N failed[, N skipped]`. Exits 1
if any test failed.

Arguments: [--page FILE] REPORT STATUS [REPORT STATUS]...: a report's path, and the exit status of the runner that wrote
it. A runner that failed without a failed test in its report (it died, it wrote none) counts as one failed test. With
--page the table goes into that page as well, if no test failed.
"""

import argparse
import collections
import datetime
import json
import pathlib
import subprocess
import sys
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[1]
OUTCOMES = ("passed", "failed", "skipped")


class Kind:
    """The Python tests of a folder, or the C++ tests of a label."""

    def __init__(self):
        self.counts = dict.fromkeys(OUTCOMES, 0)
        self.seconds = 0.0


def read_cases(report: pathlib.Path) -> list[xml.etree.ElementTree.Element]:
    try:
        return list(xml.etree.ElementTree.parse(report).iter("testcase"))
    except (OSError, xml.etree.ElementTree.ParseError) as error:
        print(f"no readable report {report}: {error}", file=sys.stderr)
        return []


def outcome_of(case: xml.etree.ElementTree.Element) -> str:
    outcomes = {child.tag for child in case}
    if outcomes & {"failure", "error"}:
        return "failed"
    if "skipped" in outcomes or case.get("status") in ("notrun", "disabled"):
        return "skipped"
    return "passed"


def labels_of_programs() -> dict[str, str]:
    """Of the tests that CTest runs; empty where there is no build."""
    asked = ["ctest", "--test-dir", str(ROOT / "build"), "--show-only=json-v1"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return {}
    labels = {}
    for test in json.loads(done.stdout)["tests"]:
        for each in test.get("properties", []):
            if each["name"] == "LABELS":
                labels[test["name"]] = " ".join(each["value"])
    return labels


def name_of_kind(case: xml.etree.ElementTree.Element, labels: dict[str, str]) -> str:
    """CTest names the program as the class too, pytest names the module."""
    if case.get("classname") == case.get("name"):
        return f"C++, {labels.get(case.get('name'), 'other')}"
    words = (case.get("classname") or "").split(".")
    return "/".join(words[:2]) if len(words) > 2 else "other"


def table_of(kinds: dict[str, Kind]) -> list[str]:
    lines = ["| tests of | passed | failed | skipped | seconds |", "|---|---:|---:|---:|---:|"]
    for name, kind in sorted(kinds.items(), key=lambda item: -item[1].seconds):
        counts = " | ".join(str(kind.counts[outcome]) for outcome in OUTCOMES)
        lines.append(f"| {name} | {counts} | {kind.seconds:.0f} |")
    return lines


def write_page(path: pathlib.Path, table: list[str], line: str) -> None:
    sys.path.insert(0, str(ROOT / "bench"))
    from machine import begin_report, measured_by

    now = datetime.datetime.now(datetime.UTC)
    report = begin_report("test_long", "The long tests", now, "make test-long", ROOT)
    path.parent.mkdir(exist_ok=True)
    words = ["# The long tests", "", measured_by(report), "", f"{line}.", "", *table]
    path.write_text("\n".join(words) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", type=pathlib.Path)
    parser.add_argument("reports", nargs="+")
    options = parser.parse_args()
    kinds: dict[str, Kind] = collections.defaultdict(Kind)
    labels = labels_of_programs()
    died = 0
    for report, runner_status in zip(options.reports[::2], options.reports[1::2], strict=True):
        cases = read_cases(pathlib.Path(report))
        for case in cases:
            kind = kinds[name_of_kind(case, labels)]
            kind.counts[outcome_of(case)] += 1
            kind.seconds += float(case.get("time") or 0)
        if not any(outcome_of(case) == "failed" for case in cases) and (runner_status != "0" or not cases):
            died += 1
    totals = {outcome: sum(kind.counts[outcome] for kind in kinds.values()) for outcome in OUTCOMES}
    totals["failed"] += died
    line = f"{totals['passed']} passed, {totals['failed']} failed"
    if totals["skipped"]:
        line += f", {totals['skipped']} skipped"
    table = table_of(kinds)
    print(*table, line, sep="\n")
    if options.page and not totals["failed"]:
        write_page(options.page, table, line)
    return 1 if totals["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
