"""Adds up JUnit reports and prints one line, `N passed, N failed[, N skipped]`. Exits 1 if any test failed.

Arguments: REPORT STATUS [REPORT STATUS]...: a report's path, and the exit status of the runner that wrote it.
A runner that failed without a failed test in its report (it died, it wrote none) counts as one failed test.
"""

import pathlib
import sys
import xml.etree.ElementTree


def count_cases(report: pathlib.Path, runner_status: int) -> dict[str, int]:
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    try:
        cases = list(xml.etree.ElementTree.parse(report).iter("testcase"))
    except (OSError, xml.etree.ElementTree.ParseError) as error:
        print(f"no readable report {report}: {error}", file=sys.stderr)
        cases = []
    for case in cases:
        outcomes = {child.tag for child in case}
        if outcomes & {"failure", "error"}:
            counts["failed"] += 1
        elif "skipped" in outcomes or case.get("status") in ("notrun", "disabled"):
            counts["skipped"] += 1
        else:
            counts["passed"] += 1
    if not counts["failed"] and (runner_status != 0 or not cases):
        counts["failed"] = 1
    return counts


def main() -> int:
    totals = {"passed": 0, "failed": 0, "skipped": 0}
    for report, runner_status in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
        for outcome, count in count_cases(pathlib.Path(report), int(runner_status)).items():
            totals[outcome] += count
    line = f"{totals['passed']} passed, {totals['failed']} failed"
    if totals["skipped"]:
        line += f", {totals['skipped']} skipped"
    print(line)
    return 1 if totals["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
