#!/usr/bin/env python3
"""How fast one core reduces, beside what its caches and memory give and beside a pairwise sum.

Writes bench/results/kernels_DATE.json and the same as a page (.md). Half a minute; needs 3 GiB of memory for 64 inputs.
"""

import argparse
import datetime
import json
import pathlib
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import machine

RUN_SECONDS = 600
BUSY_LOAD = 0.5
PLACES = {"L2": "second-level cache", "LLC": "last-level cache", "memory": "memory"}


def rates(row: dict) -> dict:
    """Of one row of reduce_bench, in 10^9 bytes a second; ratios by the definitions that the page states."""
    read = max(row["read_one_stream"], row["read_four_streams"])
    bound = read / (1 + 1 / row["inputs"])
    return {
        **row,
        "read": read,
        "copy": max(row["copy_loop"], row["copy_memcpy"]),
        "bound": bound,
        "of_bound": row["float32_in_place"] / bound,
        "of_read": row["float32_in_place"] / read,
        "elsewhere_of_bound": row["float32_elsewhere"] / bound,
        "over_pairwise": row["float32_in_place"] / row["pairwise"],
        "elsewhere_over_pairwise": row["float32_elsewhere"] / row["pairwise"],
        "pairwise_reads_limit": (2 * row["inputs"] - 1) / row["inputs"],
    }


def row_text(row: dict) -> str:
    cells = [str(row["inputs"]), f"{row['bytes_per_input'] / 1024:.0f} KiB"]
    cells += [f"{row[name]:.1f}" for name in ("read", "copy", "bound", "float32_in_place")]
    cells += [f"**{row['of_bound']:.2f}**", f"{row['of_read']:.2f}"]
    cells += [f"{row['float32_elsewhere']:.1f} ({row['elsewhere_of_bound']:.2f})", f"{row['pairwise']:.1f}"]
    cells += [f"**{row['over_pairwise']:.2f}** ({row['elsewhere_over_pairwise']:.2f})"]
    cells += [f"{row['bfloat16_in_place']:.1f}", f"{row['float16_in_place']:.1f}"]
    return "| " + " | ".join(cells) + " |"


def markdown(report: dict) -> str:
    facts = report["machine"]
    lines = [
        "# Reduction kernels: one core beside its caches and memory",
        "",
        f"{report['started_at']}, commit {facts['commit']}"
        + (f" with {facts['changed_files']} changed files" if facts["changed_files"] else "")
        + f". {facts['cpu_model']}, {facts['cpu_count']} cpus (one is used), Linux {facts['kernel']};"
        + f" kernels: {report['kernel']}; L2 {report['l2_bytes'] >> 10} KiB, last level {report['llc_bytes'] >> 20}"
        " MiB." + f" Load average before: {report['load_average_before']:.2f}.",
        "",
    ]
    if report["load_average_before"] > BUSY_LOAD:
        lines += [
            "**Others were busy on this machine**: the best of the rounds and only our own processor time count, but"
            " caches and memory were shared.",
            "",
        ]
    lines += [
        f"GB/s of input (n inputs of m bytes count n m), fp32 sum, huge pages where the kernel has them; everything"
        f" interleaved, the best of {report['rounds']} rounds, by the thread's own processor time.",
        "",
        "- **read**, **copy**: loops that only read all inputs (one stream or four, the faster) or copy one (a loop or"
        " memcpy; bytes read and written). **bound**: read / (1 + 1/n), because a reduction writes one byte for n"
        " read.",
        "- **sum**: into the first input, as a server does, and in brackets its part of the bound; **elsewhere**: into"
        " other memory, whose lines the processor reads before it writes them.",
        "- **pairwise**: copies the first input, then adds each other one to the result, as servers do that sum as"
        " contributions come. **over it**: sum / pairwise, in brackets elsewhere / pairwise.",
        "- **bf16**, **fp16**: sums of these, accumulated in fp32, in GB/s of input: twice the elements of fp32.",
    ]
    for place, name in PLACES.items():
        rows = [row for row in report["rows"] if row["place"] == place]
        if not rows:
            continue
        lines += [
            "",
            f"## All in the {name}" if place != "memory" else "## From memory, no input fits in the last-level cache",
            "",
            "| n | m | read | copy | bound | sum | of bound | of read | elsewhere | pairwise | over it | bf16 | fp16 |",
            "|" + " --- |" * 13,
            *map(row_text, rows),
        ]
    lines += [
        "",
        "Why the pairwise sum is not further behind: it reads (2n - 1)/n times as much as we do (1.88 times with 8"
        " inputs) and writes n times. The 2.56 times of theory with 8 inputs count a written byte as much as a read"
        " one. Where writing"
        " back costs next to nothing beside reading (compare sum with read at n = 2), what is left is the ratio of the"
        " reads.",
        "",
        f"Command: `{report['command']}`",
        "",
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="of everything, interleaved (default %(default)s)")
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / "build/bin", help="folder (default build/bin)")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "bench/results", help="folder for the results")
    arguments = parser.parse_args()
    program = arguments.programs / "reduce_bench"
    if arguments.rounds < 1:
        parser.error("--rounds must be at least 1")
    if not program.is_file():
        parser.error(f"{program} is not there: run `make build`, or give --programs")
    started = datetime.datetime.now(datetime.UTC)
    report = {
        "benchmark": "kernels",
        "started_at": started.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "command": shlex.join(["bench/kernels/run.py", *sys.argv[1:]]),
        "machine": machine.gather(ROOT),
        "load_average_before": machine.load_average_1min(),
    }
    command = [program, "bounds", str(arguments.rounds)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=RUN_SECONDS).stdout
    report.update(json.loads(output))
    report["rows"] = [rates(row) for row in report["rows"]]
    arguments.output.mkdir(parents=True, exist_ok=True)
    base = arguments.output / f"kernels_{started:%Y-%m-%d}"
    base.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n")
    page = markdown(report)
    base.with_suffix(".md").write_text(page)
    print(f"{page}\nwritten: {base}.json and .md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
