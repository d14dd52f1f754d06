"""Medians, spreads and ratios of interleaved rounds, and the page that people read."""

import random
import statistics

BOOTSTRAP_SAMPLES = 5000


def spread(values: list[float]) -> dict:
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "rounds": values}


def ratio_of_medians(left: list[float], right: list[float]) -> dict:
    """Ratio of the medians with the 95 % interval of the bootstrap over rounds (a round's pair is drawn together)."""
    draw = random.Random(1)
    pairs = list(zip(left, right))
    samples = []
    for _ in range(BOOTSTRAP_SAMPLES):
        drawn = draw.choices(pairs, k=len(pairs))
        samples.append(statistics.median(a for a, _ in drawn) / statistics.median(b for _, b in drawn))
    samples.sort()
    return {
        "median": statistics.median(left) / statistics.median(right),
        "low95": samples[int(0.025 * BOOTSTRAP_SAMPLES)],
        "high95": samples[int(0.975 * BOOTSTRAP_SAMPLES) - 1],
    }


def size_text(size_bytes: int) -> str:
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size_bytes % unit == 0:
            return f"{size_bytes // unit} {name}"
    return f"{size_bytes} B"


def time_text(microseconds: float) -> str:
    return f"{microseconds / 1000:.2f} ms" if microseconds >= 1000 else f"{microseconds:.0f} us"


def markdown(report: dict) -> str:
    machine = report["machine"]
    lines = [
        "# All-reduce on loopback: Shoal beside Gloo",
        "",
        f"{report['started_at']}, commit {machine['commit']}"
        + (f" with {machine['changed_files']} changed files" if machine["changed_files"] else "")
        + f". {machine['cpu_model']}, {machine['cpu_count']} cpus, Linux {machine['kernel']}, UCX {machine['ucx']},"
        + f" torch {report['torch']}. Load average before: {report['load_average_before']:.2f}.",
        "",
        f"{report['ranks']} ranks, {report['servers']} `shoal-server` processes, UCX over TCP on loopback; Gloo over TCP on"
        f" loopback. {report['rounds']} interleaved rounds; a round's time is the median of its all-reduces, each the"
        " slowest rank's. Medians over rounds, lowest and highest round in brackets.",
        "",
        "| size (fp32) | Shoal | Gloo | Shoal / Gloo (95 % bootstrap) | wrong elements |",
        "| --- | --- | --- | --- | --- |",
    ]
    for case in report["cases"]:
        shoal, gloo, ratio = case["shoal_p50_us"], case["gloo_p50_us"], case["ratio"]
        lines.append(
            f"| {size_text(case['bytes'])} "
            f"| {time_text(shoal['median'])} [{time_text(shoal['min'])} .. {time_text(shoal['max'])}] "
            f"| {time_text(gloo['median'])} [{time_text(gloo['min'])} .. {time_text(gloo['max'])}] "
            f"| {ratio['median']:.2f} ({ratio['low95']:.2f} .. {ratio['high95']:.2f}) | {case['wrong']} |"
        )
    lines += ["", "Balance of a 25 MiB bucket, bytes pushed to each server by rank 0:", ""]
    lines += ["| servers | max / mean | bytes per server |", "| --- | --- | --- |"]
    for entry in report["balance"]:
        counts = ", ".join(str(count) for count in entry["bytes_per_server"].values())
        lines.append(f"| {entry['servers']} | {entry['max_over_mean']:.5f} | {counts} |")
    lines += ["", f"Command: `{report['command']}`", ""]
    return "\n".join(lines)
