#!/usr/bin/env python3
"""The chart and the images on a real Kubernetes of two nodes, while a job of four pods trains through three servers.

`make test-cluster` (as root). It builds the images of docker/Dockerfile, brings up the cluster of lab.sh, installs the
chart, and does to it what happens to a cluster: killed servers and schedulers, evictions, a drained node, an upgrade to
the build of another commit (--other) and back, more servers and fewer. No op of the job may fail, and its parameters
must have the bits of as many steps during which nothing happened. Then 64 simulated nodes: spread and budgets. Results:
tests/cluster/results. Exit status 1 if anything was not as it must be.
"""

import argparse
import datetime
import json
import os
import signal
import sys
from collections.abc import Callable

from images import Image, build_etcd, build_images, tree_of
from lab import HERE, ROOT, TOOLS, WORK, Lab, LabError, run
from training_job import PODS, TRAINERS_NODE
from walk import COMPUTE_MS, on_real_nodes, on_simulated_nodes

RESULTS = HERE / "results"


def git(*arguments: str) -> str:
    return run("git", *arguments, cwd=ROOT).strip()


def page_of(record: dict) -> str:
    real, simulated = record["real"], record["simulated"]
    lines = [
        f"# The chart on a Kubernetes of two nodes ({record['date']})",
        "",
        f"`make test-cluster` on {record['machine']}; Kubernetes {record['kubernetes']}, the images of {record['tree']}"
        f" and, for the upgrade, of {record['other']}. They have "
        + ", ".join(f"{size} MB ({target})" for target, size in record["images_mb"].items())
        + ", not compressed.",
        "",
        f"A Job of {PODS} pods trained {real['steps']} steps, each with a gradient of 2 MiB, while the events of the"
        " table happened. No op failed. All ranks ended with the same parameters, bit for bit, as those of a job that"
        f" trained as many steps while nothing happened (SHA-256 {real['digest'][:16]}...). Each step also sleeps"
        f" {COMPUTE_MS} ms, in place of computation. An event has ended when all pods are ready and all servers are"
        " live.",
        "",
        "| event | took (s) | steps of the job during it and the next 20 | longest of these steps (s) |",
        "|---|---:|---:|---:|",
    ]
    for event in real["events"]:
        longest = "" if event["longest_step_s"] is None else f"{event['longest_step_s']:.2f}"
        lines.append(f"| {event['what']} | {event['took_s']} | {event['steps'] or ''} | {longest} |")
    lines += [
        "",
        f"Of {simulated['nodes']} simulated nodes half were busy. {simulated['servers_on_nodes']} had one server each,"
        f" with `topologySpread.whenUnsatisfiable: DoNotSchedule`, and {simulated['schedulers_on_nodes']} one scheduler"
        " each. Without a spread constraint the servers were on"
        f" {simulated['unconstrained_servers_on_nodes']} nodes. While a server or a scheduler waited for a node, its"
        " budget did not let another one be evicted, and afterwards it did.",
    ]
    return "\n".join(lines) + "\n"


def with_lab(nodes: tuple[str, str], use: Callable[[Lab], dict]) -> dict:
    lab = Lab(*nodes)
    try:
        return use(lab)
    except Exception:
        show_trouble(lab)
        raise
    finally:
        lab.end()


def show_trouble(lab: Lab) -> None:
    try:
        print(lab.kubectl("get", "pods", "--output=wide"), file=sys.stderr)
        print(lab.kubectl("get", "events", "--sort-by=.lastTimestamp")[-6000:], file=sys.stderr)
        lab.save_logs(WORK / "logs")
        print(f"what the pods said is in {(WORK / 'logs').relative_to(ROOT)}", file=sys.stderr)
    except LabError as error:
        print(f"the cluster can't be asked: {error}", file=sys.stderr)


def stop(number: int, _frame: object) -> None:
    """As Ctrl-C does, so that the cluster is taken down."""
    raise KeyboardInterrupt(signal.Signals(number).name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--other", default="5332b15", help="the commit of the other build")
    parser.add_argument("--results", action="store_true", help=f"write the page to {RESULTS.relative_to(ROOT)}")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGHUP, stop)
    WORK.mkdir(parents=True, exist_ok=True)
    (WORK / "images.log").write_text("")
    try:
        changes = " with changes" if git("status", "--porcelain") else ""
        commit = git("rev-parse", "--short=12", "HEAD")
        other = git("rev-parse", "--short=12", f"{options.other}^{{commit}}")
        print("building images", flush=True)
        images = build_images(ROOT, "tree", ["scheduler", "server", "trainer"])
        images += build_images(tree_of(other), other, ["scheduler", "server"])
        etcd = build_etcd()

        def real(lab: Lab) -> dict:
            for image in images:
                # 5 GB, twice as much on each node that has it
                lab.load(image.archive, *([TRAINERS_NODE] if image.target == "trainer" else []))
            lab.load(etcd)
            return on_real_nodes(lab, "tree", other, Image("trainer", "tree").name)

        print("on 64 simulated nodes", flush=True)
        on_simulated = with_lab(("--simulated-nodes", "64"), lambda lab: on_simulated_nodes(lab, 64))
        print("on two real nodes", flush=True)
        on_real = with_lab(("--real-nodes", "2"), real)
    except LabError as error:
        sys.exit(f"FAILED: {error}")
    date = datetime.date.today().isoformat()
    version = run(TOOLS / "kubernetes/kubectl", "version", "--client").split()[2]
    machine = f"{os.cpu_count()} cores, Linux {os.uname().release}"
    record = {"date": date, "machine": machine, "kubernetes": version, "tree": commit + changes, "other": other}
    sizes = {image.target: image.size_mb for image in images if image.tag == "tree"}
    record |= {"images_mb": sizes, "real": on_real, "simulated": on_simulated}
    if options.results:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"cluster_{date}.json").write_text(json.dumps(record, indent=1) + "\n")
        (RESULTS / f"cluster_{date}.md").write_text(page_of(record))
    print(page_of(record))


if __name__ == "__main__":
    main()
