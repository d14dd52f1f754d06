"""The part `model` of bench/run.py: calibrates in the rig, holds the model against it, then asks the model for more."""

import json
import pathlib

import machine
from measurement import Settings
from hosts.node import HostError

from fabric_model import calibration, page
from fabric_model.simulation import Fabric, layouts, scale_row, simulate

NAME = "model"
TITLE = "Scale model: 8 to 1024 workers, 25 MiB buckets"
FILE_NAME = "fabric-model"
WORKERS = (8, 16, 32, 64, 128, 256, 512, 1024)
# On the rig's slow link messages cost nothing beside their bytes, whatever the number of workers, and a simulation of
# many takes an hour.
RIG_WORKERS = 256
# Beside the rig's own link: fast enough that messages cost more than their bytes take.
FAST_LINK_BYTES_PER_S = 12.5e9
FAST_NAME = "100 Gbit/s"
# One that is asked for must not be further off.
MOST_DEVIATION = 0.05


def program(root: pathlib.Path) -> pathlib.Path:
    """HostError with what to do if it is not there."""
    path = root / "build/bin/fabric_model"
    if not path.is_file():
        raise HostError(f"{path} is not there: run bench/setup.sh, which installs SimGrid and builds it")
    return path


def validation_rows(simulator: pathlib.Path, records: list[dict], message_cost_s: float) -> list[dict]:
    """The model's time and the measured one of each rig, for Shoal and for a ring.

    Link and latency are the rig's own: the calibration's, and half of a fast 4 KiB all-reduce's (what disturbs one
    makes it slower) without the messages on its way, which the model counts by itself: one from a worker, each worker's
    at the server, the server's to each, one at a worker.
    """
    rows = []
    for record in records:
        small, bucket = record["cases"]
        workers, servers = record["workers"], record["servers"]
        messages_s = (2 * workers + 2) * message_cost_s
        latency_s = max(0.0, small["contenders"]["shoal"]["time_us"]["p10"] * 1e-6 - messages_s) / 2
        fabric = Fabric(record["scenario"], record["link_bytes_per_s"], latency_s, message_cost_s, workers)
        for contender, flags in (
            ("shoal", ("--dedicated", str(servers), "--chunk-bytes", "0")),
            ("gloo", ("--layout", "ring")),
        ):
            measured_s = bucket["contenders"][contender]["time_us"]["median"] * 1e-6
            model_s = simulate(simulator, fabric, workers, bucket["size_bytes"], 1, 1, flags)
            rows.append(
                {
                    "rig": record["scenario"],
                    "contender": contender,
                    "latency_s": latency_s,
                    "measured_s": measured_s,
                    "model_s": model_s,
                    "deviation": model_s / measured_s - 1,
                }
            )
    return rows


def scale_rows(simulator: pathlib.Path, fabrics: list[Fabric], most_workers: int, say) -> list[dict]:
    rows = []
    for fabric in fabrics:
        for workers in WORKERS:
            if workers > min(most_workers, fabric.most_workers):
                continue
            for layout in layouts(workers, calibration.BUCKET_BYTES, fabric):
                if workers > layout.most_workers:
                    continue
                row = scale_row(simulator, fabric, workers, calibration.BUCKET_BYTES, layout)
                rows.append(row)
                say(f"  {fabric.name}, n={workers}, {layout.name}: {row['one_more']:.3f} M/link a bucket")
    return rows


def run(root: pathlib.Path, settings: Settings, output: pathlib.Path, started, command: str, options, say) -> None:
    """`options`: only (rigs whose name holds it), most_workers, reuse (an earlier result to take measurements from)."""
    simulator = program(root)
    report = machine.begin_report(NAME, TITLE, started, command, root)
    if options.reuse:
        earlier = json.loads(options.reuse.read_text())
        report |= {name: earlier[name] for name in ("message", "rigs")} | {"measured_by": earlier["started_at"]}
    else:
        report["message"] = calibration.measure_message_cost(settings.programs, say)
        report["rigs"] = calibration.measure_rigs(settings, options.only, say)
    message = report["message"]
    report["validation"] = validation_rows(simulator, report["rigs"], message["message_cost_s"])
    for row in report["validation"]:
        say(f"  {row['rig']}, {row['contender']}: the model is off by {row['deviation']:+.1%}")
    rig_link = report["rigs"][-1]["link_bytes_per_s"]
    fabrics = [
        Fabric(FAST_NAME, FAST_LINK_BYTES_PER_S, message["latency_s"], message["message_cost_s"], WORKERS[-1]),
        Fabric(
            "the rig's link", rig_link, report["validation"][-1]["latency_s"], message["message_cost_s"], RIG_WORKERS
        ),
    ]
    base = output / f"{FILE_NAME}_{started:%Y-%m-%d}"
    output.mkdir(parents=True, exist_ok=True)
    # What was measured is kept if the rest is interrupted: --reuse goes on from here.
    base.with_suffix(".json").write_text(json.dumps(report) + "\n")
    report["scale"] = scale_rows(simulator, fabrics, options.most_workers, say)
    report["chart"] = f"{base.name}.svg"
    base.with_suffix(".json").write_text(json.dumps(report) + "\n")
    base.with_suffix(".svg").write_text(page.chart(report, FAST_NAME))
    markdown = page.markdown(report, MOST_DEVIATION)
    base.with_suffix(".md").write_text(markdown)
    say(f"\n{markdown}\nwritten: {base}.json, .md and .svg")
