"""The page and the chart of the scale model, from its record. Pure functions."""

from contenders import roster
from fabric_model.line_chart import line_chart
from hosts.page import page_text
from report import machine_text


def chart(report: dict, fabric_name: str) -> str:
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in report["scale"]:
        if row["fabric"] == fabric_name:
            lines.setdefault(row["layout"], []).append((row["workers"], row["one_more"]))
    return line_chart(
        report["title"],
        f"time of one more bucket of a train in units of M/link, {fabric_name}, over workers (lower is better)",
        lines,
        [
            "Every worker and every server has one equal link; what a layout has beside the workers' links is its k.",
            "Simulated (SimGrid): no loss, no buffers, no stragglers. Latency and cost of a message as measured here.",
        ],
    )


def scale_table(report: dict, fabric_name: str) -> list[str]:
    lines = ["| workers | layout | bound | one more | of a train (buckets) | alone |", "|" + " --- |" * 6]
    for row in report["scale"]:
        if row["fabric"] == fabric_name:
            lines.append(
                f"| {row['workers']} | {row['layout']} | {row['bound']:.3f} | {row['one_more']:.3f} |"
                f" {row['train']:.3f} ({row['train_buckets']}) | {row['alone']:.3f} |"
            )
    return lines


def markdown(report: dict, most_deviation: float) -> str:
    lines = [f"# {report['title']}", "", machine_text(report), ""]
    if "measured_by" in report:
        lines += [f"What was measured in the rig is from the run of {report['measured_by']}.", ""]
    problems = [f"{record['scenario']}: {text}" for record in report["rigs"] for text in record["problems"]]
    off = [row for row in report["validation"] if abs(row["deviation"]) > most_deviation]
    problems += [
        f"{row['rig']}, {roster.LABELS[row['contender']]}: the model is off by {row['deviation']:+.1%}" for row in off
    ]
    if problems:
        lines += ["**Not to be quoted as proof**, because:", "", *[f"- {problem}" for problem in problems], ""]
    message = report["message"]
    lines += [
        f"Calibrated: a message costs {message['message_cost_s'] * 1e6:.2f} us of processor time at each of its ends,"
        f" and is {message['latency_s'] * 1e6:.0f} us on its way (one node, TCP). Links: as the rig's calibration has"
        " them.",
        "",
        "## Against the rig",
        "",
        "One bucket of 25 MiB. Nothing is fitted to these times: link, latency (half of a fast 4 KiB all-reduce less"
        " its messages) and"
        " cost of a message come from other measurements. The model's ring is a perfect one; Gloo's is not quite.",
        "",
        "| rig | contender | measured | model | off by |",
        "|" + " --- |" * 5,
    ]
    for row in report["validation"]:
        lines.append(
            f"| {row['rig']} | {roster.LABELS[row['contender']]} | {row['measured_s'] * 1e3:.1f} ms |"
            f" {row['model_s'] * 1e3:.1f} ms | {row['deviation']:+.1%} |"
        )
    lines += [
        "",
        "## At scale",
        "",
        "Times in units of M/link. `one more`: what a further bucket adds to a train of them, which is the rate while"
        " there is enough to do (from two trains, whose ends may differ by some per cent); `of a train`: the train's"
        " time by its buckets, so that filling and emptying the"
        " pipeline counts; `alone`: a bucket that nothing else overlaps. Servers have links as the workers'. `capped`:"
        " chunks are at least four times what a link carries in a message's cost, so a bucket is on few servers, and"
        " the next one goes on where it ended. `every bucket on every server`: a chunk for each of them.",
        "",
        "Bandwidth is shared max-min fairly; there is no loss, no buffer, no straggler, no rack. Workers are equal and"
        " in lockstep. A ring and a tree, which take an hour with more, are shown up to 256. The cost of bytes at the"
        " processor is left out: it says what the layout allows, not what one"
        " core can.",
        "",
        f"![chart]({report['chart']})",
    ]
    for name in dict.fromkeys(row["fabric"] for row in report["scale"]):
        lines += ["", f"### {name}", "", *scale_table(report, name)]
    lines += ["", f"Command: `{report['command']}`", ""]
    return page_text(lines)
