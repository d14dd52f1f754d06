"""The page that people read, made from the record of run.py. Pure functions."""

from hosts.page import page_text
from report import machine_text

from survival.findings import MOST_OVER_P99


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.0f} ms"


def spread_cells(values: dict) -> list[str]:
    return [str(values["count"]), *(milliseconds(values[name]) for name in ("median", "p99", "max"))]


def row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    return [row(head), "|" + " --- |" * len(head), *map(row, rows)]


def run_lines(report: dict) -> list[str]:
    found = report["found"]
    rows = []
    for name, run in report["runs"].items():
        times = run["step_ended_at"]
        same = "-" if name == "undisturbed" else "yes" if found["same_weights"][name] else "**NO**"
        events = run["events"]
        seen = ", ".join(f"{count} {kind}" for kind, count in sorted(events.items()) if is_telling(kind)) or "none"
        rows.append(
            [name, str(len(run["faults"])), same, f"{times[-1] - times[0]:.0f} s",
             f"{found['added_in_all_s'][name]:+.1f} s", seen]
        )  # fmt: skip
    head = ["run", "faults", "same weights as undisturbed", "time of all steps", "added", "what the last scheduler saw"]
    return table(head, rows)


def is_telling(kind: str) -> bool:
    return kind.startswith(("server-", "rank-", "group-moved", "job-failed"))


def kill_lines(report: dict) -> list[str]:
    found = report["found"]
    count = report["wanted"]["kills"]
    added = found["added_in_all_s"]["kills"] / count
    return [
        "## Servers killed",
        "",
        f"{count} times SIGKILL for one of {report['shape']['servers']} servers, drawn anew each time (seed"
        f" {report['wanted']['seed']}) as the moment is; the server is restarted at once. Added: the slower one of the"
        " step under way at the kill and the next, less the median of the undisturbed run.",
        "",
        *table(
            ["", "count", "median", "p99", "max"],
            [
                ["step, undisturbed", *spread_cells(found["step_s"])],
                ["added by a kill", *spread_cells(found["added_by_a_kill_s"])],
            ],
        ),
        "",
        f"All steps of the run together took {milliseconds(added)} a kill longer than undisturbed, with what starting a"
        " server again takes from the same processors.",
    ]


def rolling_lines(report: dict) -> list[str]:
    found = report["found"]
    return [
        "## Rolling restarts",
        "",
        f"{report['wanted']['rolling_restarts']} times each server in turn: SIGTERM, its end awaited (it must have left"
        " its groups in good order), started again, its registration awaited. No op failed: DDP ends with the first"
        " that does.",
        "",
        *table(
            ["", "count", "median", "p99", "max"],
            [
                ["restart of all servers", *spread_cells(found["restarts_s"])],
                ["step, of the whole run", *spread_cells(found["step_of_rolling_restarts_s"])],
            ],
        ),
    ]


def absence_lines(report: dict) -> list[str]:
    around, control = report["found"]["ops_around_absence"], report["found"]["ops_around_no_absence"]
    rows = [[f"scheduler away: {name}", *spread_cells(around[name])] for name in ("before", "during", "after")]
    rows += [
        [f"undisturbed: {name}", *spread_cells(control[name])]
        for name in ("before", "during", "after")
        if name in control
    ]
    return [
        "## The scheduler away",
        "",
        f"SIGKILL for the scheduler, and {report['wanted']['away_s']:g} s later a new one with its state file. Times of"
        " rank 0's all-reduces, from a full bucket to its result: waiting for slower ranks counts.",
        "",
        *table(["all-reduces", "count", "median", "p99", "max"], rows),
        "",
        f"Slower than {MOST_OVER_P99:g} times the p99 before ({milliseconds(around['limit'])}): {around['late']} of"
        f" {around['during']['count']} during the absence. In the undisturbed run, the same stretch by the same rule:"
        f" {control['late']} of {control['during']['count']}.",
    ]


def where_it_runs(shape: dict) -> str:
    if shape["nodes"] == 1:
        return f"{shape['servers']} servers, one of them reached over TCP, the others through shared memory"
    return (
        f"the ranks are on {shape['nodes']} nodes (network namespaces), reduce inside their node and are rails of"
        f" {shape['servers']} servers on nodes of their own"
    )


def markdown(report: dict) -> str:
    shape, found = report["shape"], report["found"]
    lines = [f"# {report['title']}", "", machine_text(report), ""]
    problems = [f"{name}: other weights than undisturbed" for name, same in found["same_weights"].items() if not same]
    if not found["ranks_agree"]:
        problems.append("the ranks of the undisturbed run have different weights")
    if not found["layout_as_asked"]:
        problems.append("the scheduler did not make rails of the ranks, or made some where none were wanted")
    if problems:
        lines += ["**Wrong**:", "", *[f"- {problem}" for problem in problems], ""]
    if report["load_average_before"] > 0.5:
        lines += [
            "Others were busy on this machine: times are not to be quoted as proof, weights and failures are.",
            "",
        ]
    lines += [
        f"`examples/train_gpt.py`, {shape['ranks']} ranks, {shape['steps']} steps, {found['bytes_a_step'] / 1e6:.2f} MB"
        f" of gradients a step in {found['all_reduces'] / shape['steps']:.0f} buckets; {where_it_runs(shape)}; lease"
        f" {shape['lease_ttl_ms'] / 1e3:g} s. Everything runs on one machine. The same seed, text and steps in each"
        f" run; a run's cluster is its own. Took {report['took_s'] / 60:.0f} minutes.",
        "",
        "The scheduler of the undisturbed run: " + "; ".join(report["runs"]["undisturbed"]["opened"]) + ".",
        "",
        *run_lines(report),
        "",
        *kill_lines(report),
        "",
        *rolling_lines(report),
        "",
        *absence_lines(report),
        "",
        f"Weights, sha256: `{report['runs']['undisturbed']['digests'][0]}`",
        "",
        f"Command: `{report['command']}`",
        "",
    ]
    return page_text(lines)
