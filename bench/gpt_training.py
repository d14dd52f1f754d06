"""The part `gpt` of bench/run.py: the GPT example trains through servers and through Gloo in turns, on shaped links.

It is what the demo shows at its end (examples/shaped_links.py), with more steps, and with a page of the result.
"""

import datetime
import json
import pathlib
import statistics
import sys
import tempfile
from collections.abc import Callable

import machine
from report import machine_text
from hosts.node import HostError
from hosts.page import page_text

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "examples"))

import demo  # noqa: E402
import shaped_links  # noqa: E402

NAME = "gpt"
TITLE = "Tokens per second of the GPT example on slow links"
STEPS_OF_A_ROUND = 8
WARM_UP_STEPS = 2  # of compare_backends.py, which does not count them


def spread(values: list[float], digits: int = 0) -> str:
    return f"{statistics.median(values):.{digits}f} [{min(values):.{digits}f} .. {max(values):.{digits}f}]"


def markdown(record: dict) -> str:
    measured = record["measured"]
    shoal, gloo = measured["shoal"], measured["gloo"]
    ratios = [a / b for a, b in zip(shoal["tokens_per_second"], gloo["tokens_per_second"], strict=True)]
    lines = [f"# {TITLE}", "", machine_text(record), ""]
    if record["load_average_before"] > 0.5:
        lines += ["**Not to be quoted as proof**, because others were busy on this machine before.", ""]
    lines += [
        f"{record['links']} One job; contenders take turns in {len(ratios)} rounds of {STEPS_OF_A_ROUND} steps, each"
        " with its own copy of the model. Both are called by torch. Medians, and in brackets the least and the most.",
        "",
        "| | Shoal | Gloo | Shoal / Gloo |",
        "| --- | --- | --- | --- |",
        f"| tokens/s of a round | {spread(shoal['tokens_per_second'])} | {spread(gloo['tokens_per_second'])}"
        f" | {spread(ratios, 2)} |",
        f"| all-reduce of {measured['all_reduce_mib']:g} MiB alone, ms | {spread(shoal['all_reduce_ms'])}"
        f" | {spread(gloo['all_reduce_ms'])}"
        f" | {statistics.median(shoal['all_reduce_ms']) / statistics.median(gloo['all_reduce_ms']):.2f} |",
        f"| gradient bytes of a rank and step | {shoal['gradient_bytes_a_step'] / 1e6:.2f} MB"
        f" | {gloo['gradient_bytes_a_step'] / 1e6:.2f} MB | |",
        f"| last loss | {shoal['losses'][-1]:.4f} | {gloo['losses'][-1]:.4f} | |",
        "",
        f"All ranks of a contender ended with the same weights, and the losses of {measured['steps']} steps differ by"
        f" {record['loss_difference']:.2g} at most: the two add in another order.",
        "",
        f"Command: `{record['command']}`",
    ]
    return page_text(lines) + "\n"


def run(
    root: pathlib.Path,
    programs: pathlib.Path,
    output: pathlib.Path,
    started: datetime.datetime,
    command: str,
    rounds: int,
    say: Callable[[str], None],
) -> None:
    """HostError if something could not be measured, or the contenders did not train the same."""
    record = machine.begin_report(NAME, TITLE, started, command, root)
    demo.OUTPUT.mkdir(parents=True, exist_ok=True)
    try:
        text = demo.corpus()
        with shaped_links.Links(programs) as links, tempfile.TemporaryDirectory() as folder:
            record["links"] = " ".join(links.describe().split())
            steps = WARM_UP_STEPS + rounds * STEPS_OF_A_ROUND
            record["measured"] = links.measure(text, pathlib.Path(folder), rounds, steps)
        record["loss_difference"] = demo.loss_difference(record["measured"])
    except (demo.DemoError, shaped_links.NotHere) as error:
        raise HostError(str(error)) from None
    output.mkdir(parents=True, exist_ok=True)
    base = output / f"{NAME}_{started:%Y-%m-%d}"
    base.with_suffix(".json").write_text(json.dumps(record) + "\n")
    text_of_page = markdown(record)
    base.with_suffix(".md").write_text(text_of_page)
    say(f"\n{text_of_page}\nwritten: {base}.json and .md")
