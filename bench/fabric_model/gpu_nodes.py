"""The part `gpu-nodes` of bench/run.py: the model's answer for nodes of 8 GPUs that share one network card.

Nothing is measured for it. The part `model` compares the model itself with the rig.
"""

import json
import pathlib

import machine
from hosts.page import page_text
from report import machine_text

from fabric_model.line_chart import line_chart
from fabric_model.run import program
from fabric_model.simulation import Fabric, Layout, colocated_bound, dedicated_share, scale_row

NAME = "gpu-nodes"
TITLE = "Scale model: 128 nodes of 8 GPUs, one 400 Gbit/s card each, 25 MiB buckets"
BUCKET_BYTES = 25 << 20
NODES = 128
RANKS = 8
LINK_BYTES_PER_S = 50e9
INSIDE_BYTES_PER_S = 300e9
SERVERS = (16, 32, 48, 64, 80, 96, 112, 128)
# From the table by which NCCL chooses an algorithm (src/graph/tuning.cc, hwLat: NVLink and network; LL128, its fast
# protocol): what NCCL itself expects of a hop.
RING_INSIDE_S, RING_BETWEEN_S = 1.9e-6, 4.0e-6
TREE_INSIDE_S, TREE_BETWEEN_S = 1.25e-6, 8.5e-6
TREE_SEGMENT_BYTES = 128 << 10
# A reduce-scatter or an all-gather of 8 ranks there: its base latency and seven hops, as a ring of whole payloads.
COLLECTIVE_S = 8.4e-6 + 7 * 3.4e-6
# Shoal's messages: their way as a hop of the ring, and processor time at both ends, which the peers are spared.
MESSAGE_COST_S = 1e-6

RING = "ring over all ranks"
TREE = "double tree over the nodes"
DEDICATED = "rails, dedicated servers"
HYBRID = "rails, dedicated and colocated servers"
COLOCATED = "rails, colocated servers"
TRAINS = (32, 64)
# `one more` is from two trains, whose ends differ a little.
MODEL_ERROR = 0.02


def inside_flags(latency_s: float) -> tuple[str, ...]:
    return ("--node-ranks", str(RANKS), "--inside-rate", repr(INSIDE_BYTES_PER_S), "--inside-latency", repr(latency_s))


def fabric(latency_s: float, message_cost_s: float) -> Fabric:
    return Fabric("400 Gbit/s", LINK_BYTES_PER_S, latency_s, message_cost_s, NODES)


def peers() -> list[tuple[Fabric, Layout]]:
    ranks = NODES * RANKS
    ring = ("--layout", "ring", "--groups", "2", *inside_flags(RING_INSIDE_S))
    tree = ("--layout", "tree", "--segment", str(TREE_SEGMENT_BYTES), *inside_flags(TREE_INSIDE_S))
    return [
        (fabric(RING_BETWEEN_S, 0), Layout(RING, ring, 2 * (ranks - 1) / ranks, (8, 16), 8)),
        (fabric(TREE_BETWEEN_S, 0), Layout(TREE, tree, 2.0, (4, 8), 4)),
    ]


def rails(servers: int) -> list[Layout]:
    """As the scheduler plans them today; `servers` beside the nodes."""
    planned = ("--groups", "1", "--chunk-bytes", "0", *inside_flags(COLLECTIVE_S))
    alone = ("--dedicated", str(servers))
    layouts = [Layout(DEDICATED, (*planned, *alone), max(1.0, NODES / servers), TRAINS)] if servers else []
    if servers < NODES:
        share = ("--dedicated-share", repr(dedicated_share(NODES, servers)))
        name = HYBRID if servers else COLOCATED
        layouts.append(Layout(name, (*planned, *alone, *share), colocated_bound(NODES, servers), TRAINS))
    return layouts


def rows(simulator: pathlib.Path, say) -> list[dict]:
    done = []

    def add(servers: int | None, each: Fabric, layout: Layout) -> None:
        row = scale_row(simulator, each, NODES, BUCKET_BYTES, layout) | {"servers": servers}
        done.append(row)
        say(f"  {layout.name}, {servers or 0} servers: {row['one_more']:.3f} M/link a bucket")

    for each, layout in peers():
        add(None, each, layout)
    for servers in (0, *SERVERS):
        for layout in rails(servers):
            add(servers, fabric(RING_BETWEEN_S, MESSAGE_COST_S), layout)
    return done


def chart(report: dict) -> str:
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in report["rows"]:
        at = SERVERS if row["servers"] is None else (row["servers"],) if row["servers"] else ()
        for servers in at:
            lines.setdefault(row["layout"], []).append((servers, row["one_more"]))
    return line_chart(
        report["title"],
        "time of one more bucket of a train in units of M/link, over dedicated servers (lower is better)",
        lines,
        [
            "Each node and each dedicated server has one link of 400 Gbit/s; ranks of a node reach each other at"
            " 300 GB/s.",
            "Simulated (SimGrid): no loss, no buffers, no stragglers. Latencies of hops are those that NCCL expects.",
        ],
    )


def fewest_that_pay(report: dict, layout: str) -> str:
    """In words: from how many dedicated servers on this layout is faster than both peers, by more than the model's own
    error."""
    peers_best = min(row["one_more"] for row in report["rows"] if row["servers"] is None)
    fewest = None
    for row in sorted((row for row in report["rows"] if row["layout"] == layout), key=lambda row: -row["servers"]):
        if row["one_more"] > (1 - MODEL_ERROR) * peers_best:
            break
        fewest = row["servers"]
    return f"{layout}: with none of these numbers" if fewest is None else f"{layout}: from {fewest} of {NODES} on"


def markdown(report: dict) -> str:
    unit_us = BUCKET_BYTES / LINK_BYTES_PER_S * 1e6
    lines = [
        f"# {report['title']}",
        "",
        machine_text(report),
        "",
        f"All of this is simulated. M/link is {unit_us:.0f} us: the bucket, once through a node's card. `one more` is"
        " what a further bucket adds to a train of them, which is the rate while there is enough to do; `of a train`"
        " counts filling and emptying the pipeline; `alone` is a bucket that nothing else overlaps.",
        "",
        f"The ring and the tree are NCCL's, with the latencies of a hop that NCCL's own tuning table expects"
        f" ({RING_INSIDE_S * 1e6:g} and {RING_BETWEEN_S * 1e6:g} us, {TREE_INSIDE_S * 1e6:g} and"
        f" {TREE_BETWEEN_S * 1e6:g} us) and without any cost of a message. Shoal's rails reduce inside the node first"
        f" ({COLLECTIVE_S * 1e6:.0f} us beside the bytes for each chunk, and again when it is back); a message costs"
        f" {MESSAGE_COST_S * 1e6:g} us of processor time at both of its ends. Chunks and credit are those that the"
        " scheduler plans today. Colocated servers are one on each node, whose traffic crosses the node's card.",
        "",
        f"Faster than both peers by more than {MODEL_ERROR:.0%}, by `one more`: "
        + "; ".join(fewest_that_pay(report, layout) for layout in (HYBRID, DEDICATED))
        + ". A bucket by itself is another matter: the column `alone`. With both kinds of servers the shares are whole"
        " numbers of chunks, of which a bucket has a hundred: that is why their curve is not smooth.",
        "",
        f"![chart]({report['chart']})",
        "",
        "| dedicated servers | layout | bound | one more | of a train (buckets) | alone |",
        "|" + " --- |" * 6,
    ]
    for row in report["rows"]:
        servers = "" if row["servers"] is None else row["servers"]
        lines.append(
            f"| {servers} | {row['layout']} | {row['bound']:.3f} | {row['one_more']:.3f} |"
            f" {row['train']:.3f} ({row['train_buckets']}) | {row['alone']:.3f} |"
        )
    lines += [
        "",
        "Not in the model: what a server's processors and memory can add up (400 Gbit/s is 50 GB/s of contributions),"
        " loss, the buffers of switches, racks, stragglers, NCCL's switch to other algorithms.",
        "",
        f"Command: `{report['command']}`",
        "",
    ]
    return page_text(lines)


def run(root: pathlib.Path, output: pathlib.Path, started, command: str, say) -> None:
    simulator = program(root)
    report = machine.begin_report(NAME, TITLE, started, command, root)
    base = output / f"{NAME}_{started:%Y-%m-%d}"
    report["rows"] = rows(simulator, say)
    report["chart"] = f"{base.name}.svg"
    output.mkdir(parents=True, exist_ok=True)
    base.with_suffix(".json").write_text(json.dumps(report) + "\n")
    base.with_suffix(".svg").write_text(chart(report))
    text = markdown(report)
    base.with_suffix(".md").write_text(text)
    say(f"\n{text}\nwritten: {base}.json, .md and .svg")
