"""The page and the chart that people read, made from a result's record. Pure functions."""

from contenders import roster
from contenders.shoal import ASSUMED_PORT_BUFFER_KIB
from hosts.page import page_text
from parts import MIB
from plot import Bar, Group, bar_chart

SMALL_BYTES = 64 << 10
COLOCATING = {roster.COLOCATED, roster.WITHIN_NODE_COLOCATED}


def size_text(size_bytes: int) -> str:
    for unit, name in ((MIB, "MiB"), (1 << 10, "KiB")):
        if size_bytes % unit == 0:
            return f"{size_bytes // unit} {name}"
    return f"{size_bytes} B"


def time_text(microseconds: float | None) -> str:
    if microseconds is None:
        return "-"
    return f"{microseconds / 1000:.2f} ms" if microseconds >= 1000 else f"{microseconds:.0f} us"


def fairness(scenario: dict) -> str:
    """What is equal and what is not; stands above every table. README.md explains the words."""
    if scenario["worker_link"] is None:
        return f"All {scenario['workers']} workers and {scenario['servers']} servers share one machine's processors."
    link, kappa = scenario["worker_link"], scenario["kappa"]
    ranks = scenario["ranks_per_node"]
    node_links = scenario.get("node_links", 1)
    links = scenario["workers"] // ranks * node_links
    whose = "Each worker has" if ranks == 1 else f"The {ranks} workers of each node share"
    what = "" if node_links == 1 else f"{node_links} links with "
    known = ", as Shoal knows (`--port-buffer`)" if link["port_buffer_kib"] != ASSUMED_PORT_BUFFER_KIB else ""
    payload_mbit = scenario["link_bytes_per_s"] * 8e-6
    equal_total = (links + kappa) / links
    return (
        f"{whose} {what}{link['rate_mbit']:g} Mbit/s each way, {payload_mbit:.1f} of them payload (calibrated). Ports"
        f" hold {link['port_buffer_kib']} KiB{known}, and links save up {link['burst_kib']} KiB. Servers:"
        f" {scenario['servers']}, with kappa = {kappa:g} such links; a ring with these links as well would have"
        f" {equal_total:g} times the rate."
    )


def machine_text(report: dict) -> str:
    machine = report["machine"]
    changed = f" with {machine['changed_files']} changed files" if machine["changed_files"] else ""
    programs = f" The programs are of commit {machine['programs_commit']}." if "programs_commit" in machine else ""
    other = f" The other build is of commit {machine['other_commit']}." if "other_commit" in machine else ""
    return (
        f"{report['started_at']}, commit {machine['commit']}{changed}.{programs}{other} {machine['cpu_model']},"
        f" {machine['cpu_count']}"
        f" cpus, {machine['memory_bytes'] / 2**30:.0f} GiB, Linux {machine['kernel']}, torch"
        f" {machine['torch']}, OpenMPI {machine['open_mpi']}. Load average before: {report['load_average_before']:.2f}."
    )


def cpu_text(cpu_us: float, size_bytes: int) -> str:
    """Of all workers together; for small tensors of an all-reduce, for large ones of a GB (of one tensor's bytes)."""
    return f"{cpu_us * 1e3 / size_bytes:.2f} s/GB" if size_bytes >= MIB else time_text(cpu_us)


def ratio_text(ratio: dict) -> str:
    return f"{ratio['median']:.2f} ({ratio['low95']:.2f} .. {ratio['high95']:.2f})"


def bound_of(contender: str) -> str:
    if roster.kind(contender) in COLOCATING:
        return "colocated_us"
    if roster.kind(contender) in (roster.WITHIN_NODE, roster.STEP):
        return "rails_us"
    if roster.kind(contender) == roster.GLOO_REPLICAS:
        return "replica_rings_us"
    return "dedicated_us" if roster.is_shoal(contender) else "ring_us"


def case_text(case: dict) -> str:
    size = size_text(case["size_bytes"]) + (f", {case['in_flight']} in flight" if case["in_flight"] > 1 else "")
    if is_step(case):
        size += f", computing {case['backward_s'] * 1500:.0f} ms"
    return size


def is_step(case: dict) -> bool:
    """Older results know of no steps."""
    return case.get("backward_s", 0) > 0


def case_rows(case: dict) -> list[str]:
    rows = []
    bounds = case["bounds"]
    size = case_text(case)
    for name, entry in case["contenders"].items():
        time = entry["time_us"]
        ratio = case["first_over"].get(name)
        cells = [size, roster.label(name)]
        cells.append(f"{time_text(time['median'])} [{time_text(time['p10'])} .. {time_text(time['p90'])}]")
        if bounds is not None:
            own = bounds[bound_of(name)]
            cells.append("" if is_step(case) else f"{case['size_bytes'] * 8 / time['median']:.1f}")
            cells.append(f"{own / time['median']:.3f}")
        cells.append(ratio_text(ratio) if ratio else "")
        cells.append(cpu_text(entry["cpu_us"], case["size_bytes"]))
        cells.append(f"{entry['cpu_idle']:.0%}")
        if bounds is not None:
            cells.append(f"{entry['tcp_timeouts']} / {entry['tcp_retransmits']}")
        cells.append(f"{time['count']}")
        cells.append(f"{entry['wrong']}")
        rows.append("| " + " | ".join(cells) + " |")
    return rows


def scenario_lines(scenario: dict) -> list[str]:
    linked = scenario["worker_link"] is not None
    first = next(iter(scenario["cases"][0]["contenders"]), None)
    lines = ["", f"## {scenario['scenario']}", "", fairness(scenario), ""]
    if first is None:
        return lines + ["Nothing could be measured here."]
    head = ["size", "contender", "median [p10 .. p90]"]
    head += ["Mbit/s", "of its bound"] if linked else []
    head += [f"{roster.label(first)} / it (95 %)", "workers' CPU time", "idle"]
    head += ["TCP timeouts / retransmits"] if linked else []
    head += ["times", "wrong"]
    lines += ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for case in scenario["cases"]:
        lines += case_rows(case)
    if linked:
        lines += [
            "",
            "| size | M / link | servers alone | within the node first | bound with colocated servers | ring | ring,"
            " equal total |",
            "|" + " --- |" * 7,
        ]
        for case in scenario["cases"]:
            bounds = case["bounds"]
            cells = [
                case["size_bytes"] / scenario["link_bytes_per_s"] * 1e6,
                bounds["dedicated_us"],
                bounds["rails_us"],
                bounds["colocated_us"],
            ]
            cells += [bounds["ring_us"], bounds["equal_total_ring_us"]]
            lines.append(f"| {case_text(case)} | " + " | ".join(map(time_text, cells)) + " |")
    lines += control_lines(scenario)
    lines += exchange_lines(scenario)
    lines += balance_lines(scenario)
    lines += node_lines(scenario)
    for name, reason in scenario["absent"].items():
        lines += ["", f"Not measured: {roster.label(name)} ({reason})."]
    return lines


def control_lines(scenario: dict) -> list[str]:
    """How far the other build differs from itself: a difference of that size between the builds means nothing."""
    lines = []
    for name in scenario["cases"][0]["contenders"]:
        ratios = [
            f"{case_text(case)} {ratio_text(case['other_build_over_itself'][name])}"
            for case in scenario["cases"]
            if name in case.get("other_build_over_itself", {})  # older results have no control
        ]
        if ratios:
            lines += ["", f"Control: {roster.label(name)}, the other build / itself: {', '.join(ratios)}."]
    return lines


def exchange_lines(scenario: dict) -> list[str]:
    """What DistributedDataParallel makes of an all-reduce."""
    alone = roster.label(roster.DDP_ALONE)
    lines = []
    for case in scenario["cases"]:
        for name, ratio in case.get("exchange_over_bare", {}).items():  # older results have none
            bare = roster.label(roster.BARE_OF_DDP[name])
            sentence = f"({roster.label(name)} - {alone}) / {bare}, {case_text(case)}: {ratio_text(ratio)}."
            lines += ["", sentence]
    return lines


def node_lines(scenario: dict) -> list[str]:
    """Where several ranks share a link: how often the tensor crosses it, each way, with all headers."""
    if scenario["ranks_per_node"] == 1:
        return []
    lines = ["", "| tensors over a link for an all-reduce | out of the busiest node | into the busiest one |"]
    lines.append("|" + " --- |" * 3)
    for case in scenario["cases"]:
        size = case["size_bytes"]
        for name, entry in case["contenders"].items():
            out_of, into = entry["bytes_out_of_node"] / size, entry["bytes_into_node"] / size
            lines.append(f"| {roster.label(name)}, {case_text(case)} | {out_of:.2f} | {into:.2f} |")
    return lines


def balance_lines(scenario: dict) -> list[str]:
    largest = scenario["cases"][-1]
    shares = []
    for name, entry in largest["contenders"].items():
        counts = entry["server_bytes"]
        if len(counts) > 1 and roster.kind(name) not in COLOCATING:  # whose shares differ on purpose
            shares.append(f"{roster.label(name)} {max(counts) * len(counts) / sum(counts):.5f}")
    if not shares:
        return []
    return ["", f"Bytes per server at {size_text(largest['size_bytes'])}, max / mean: {'; '.join(shares)}."]


def markdown(report: dict) -> str:
    lines = [f"# {report['title']}", "", machine_text(report), ""]
    problems = [(scenario["scenario"], text) for scenario in report["scenarios"] for text in scenario["problems"]]
    if report["load_average_before"] > 0.5:
        problems.insert(
            0, ("before", f"load average {report['load_average_before']:.2f}: others were busy on this machine")
        )
    if problems:
        lines += [
            "**Not to be quoted as proof**, because:",
            "",
            *[f"- {where}: {text}" for where, text in problems],
            "",
        ]
    lines += [
        report["note"],
        "",
        "[How to read it](../README.md#how-to-read-a-page).",
        "",
        f"![chart]({report['chart']})",
    ]
    for scenario in report["scenarios"]:
        lines += scenario_lines(scenario)
    lines += ["", f"Command: `{report['command']}`", ""]
    return page_text(lines)


def chart_value(scenario: dict, case: dict, microseconds: float) -> float:
    """Of the calibrated link where there is one and all-reduces were timed; else milliseconds."""
    if scenario["link_bytes_per_s"] is not None and not is_step(case):
        return case["size_bytes"] / scenario["link_bytes_per_s"] * 1e6 / microseconds
    return microseconds / 1000


def chart(report: dict) -> str:
    groups = []
    sizes = [case["size_bytes"] for scenario in report["scenarios"] for case in scenario["cases"]]
    shows_small = max(sizes) <= SMALL_BYTES
    for scenario in report["scenarios"]:
        for case in scenario["cases"]:
            if scenario["worker_link"] is None and case["size_bytes"] <= SMALL_BYTES and not shows_small:
                continue  # thousands of times shorter: invisible beside the large ones; the table has them
            bars = []
            for name, entry in case["contenders"].items():
                value, *ends = (chart_value(scenario, case, entry["time_us"][key]) for key in ("median", "p10", "p90"))
                bars.append(Bar(roster.label(name), value, min(ends), max(ends)))
            bounds = {}
            if case["bounds"] is not None:
                bounds = {
                    "ring": chart_value(scenario, case, case["bounds"]["ring_us"]),
                    "ring, equal total": chart_value(scenario, case, case["bounds"]["equal_total_ring_us"]),
                }
                if case["bounds"]["dedicated_us"] is not None:
                    bounds["servers"] = chart_value(scenario, case, case["bounds"]["dedicated_us"])
                if roster.WITHIN_NODE in case["contenders"] and case["bounds"]["rails_us"] is not None:
                    bounds["within the node first"] = chart_value(scenario, case, case["bounds"]["rails_us"])
                if COLOCATING & set(case["contenders"]):
                    bounds["with colocated servers"] = chart_value(scenario, case, case["bounds"]["colocated_us"])
            groups.append(Group(f"{scenario['scenario'].split(', one')[0]}, {case_text(case)}", bars, bounds))
    linked = report["scenarios"][0]["worker_link"] is not None and not is_step(report["scenarios"][0]["cases"][0])
    unit = (
        "tensor bytes per second, as a part of the calibrated link (higher is better)"
        if linked
        else "milliseconds (lower is better)"
    )
    foot = [sentence for scenario in report["scenarios"][:1] for sentence in fairness(scenario)]
    return bar_chart(report["title"], f"{unit}; bars: median, lines: p10 to p90", groups, foot)
