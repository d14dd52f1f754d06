#!/usr/bin/env python3
"""The chart and the images on a real Kubernetes of two nodes, while a job of four pods trains through three servers.

`make test-cluster` (as root). It builds the images of docker/Dockerfile, brings up the cluster of lab.sh, installs the
chart, and does to it what happens to a cluster: killed servers and schedulers, evictions, a drained node, an upgrade to
the build of another commit (--other) and back, one to an image that is missing, more servers and fewer, one scheduler
and none. No op of the job may fail, and its parameters must have the bits of as many steps during which nothing
happened. A second job sees the chart uninstalled and installed again. Before all that come 64 simulated nodes: spread
and budgets. Results: tests/cluster/results. Exit status 1 if anything was not as it must be.
"""

import argparse
import datetime
import json
import os
import signal
import sys
from collections.abc import Callable

from images import MOST_MB, build_etcd, build_images, check_symbols, tree_of
from lab import HERE, ROOT, TOOLS, WORK, Lab, LabError, run
from simulated import on_simulated_nodes
from training_job import PODS, TRAINERS_NODE
from walk import COMPUTE_MS, on_real_nodes

RESULTS = HERE / "results"


def git(*arguments: str) -> str:
    return run("git", *arguments, cwd=ROOT).strip()


def check_options(commit: str) -> None:
    """That its programs know the chart's options: they would not start."""
    try:
        git("grep", "--quiet", '"insecure-network"', commit, "--", "*.cc")
    except LabError:
        raise LabError(
            f"the programs of {commit} have no --insecure-network, which the chart gives them: choose a later commit"
            " with --other"
        ) from None


def page_of(record: dict) -> str:
    real, simulated = record["real"], record["simulated"]
    lines = [
        f"# The chart on a Kubernetes of two nodes ({record['date']})",
        "",
        f"`make test-cluster` on {record['machine']}; Kubernetes {record['kubernetes']}, the images of {record['tree']}"
        f" and, for the upgrade, of {record['other']}.",
        "",
        "| image | size (MB), not compressed | built in (s) |",
        "|---|---:|---:|",
        *[f"| {each} | {size} | {record['images_built_s'][each]} |" for each, size in record["images_mb"].items()],
        "",
        f"The scheduler's and the server's image may have {MOST_MB} MB. Images are built one after the other, with the"
        " layers that earlier ones, also of earlier days, have left; `symbols` has the programs' symbols alone.",
        "",
        *acceptance_of(real),
        f"A Job of {PODS} pods trained {real['steps']} steps, each with a gradient of 2 MiB, while the events of the"
        " table happened. No op failed. All ranks ended with the same parameters, bit for bit, as those of a job that"
        f" trained as many steps while nothing happened (SHA-256 {real['digest'][:16]}...). Each step also sleeps"
        f" {COMPUTE_MS} ms, in place of computation. An event has ended when all pods are ready and all servers are"
        " live. All programs had certificates, data was encrypted, and the namespace let in pods alone that fit the"
        " Pod Security Standard `restricted`. Before it, another such job lived through an upgrade and a rollback of"
        " the chart's own installation: one scheduler and two servers, in plain text.",
        "",
        "| event | took (s) | steps of the job during it and the next 20 | longest of these steps (s) |",
        "|---|---:|---:|---:|",
    ]
    for event in real["events"]:
        longest = "" if event["longest_step_s"] is None else f"{event['longest_step_s']:.2f}"
        lines.append(f"| {event['what']} | {event['took_s']} | {event['steps'] or ''} | {longest} |")
    lines += [
        "",
        *reinstallation_of(real["reinstalled"]),
        "",
        "After the rollbacks, and after each upgrade that only changed how many pods there are, all servers and"
        " schedulers had the arguments and the environment of the first installation.",
        "",
        f"Of {simulated['nodes']} simulated nodes half were busy. {simulated['servers_on_nodes']} had one server each,"
        f" with `topologySpread.whenUnsatisfiable: DoNotSchedule`, and {simulated['schedulers_on_nodes']} one scheduler"
        " each. Without a spread constraint the servers were on"
        f" {simulated['unconstrained_servers_on_nodes']} nodes. While a server or a scheduler waited for a node, its"
        " budget did not let another one be evicted, and afterwards it did.",
    ]
    return "\n".join(lines) + "\n"


def acceptance_of(real: dict) -> list[str]:
    """Lines on what was measured before the job."""
    doctor, perf = real["doctor"], real["perf"]
    rates = ", ".join(f"{rate} ({name})" for name, rate in doctor["mbit_per_s"].items())
    return [
        f"Before the job, `shoalctl doctor --bandwidth` in a pod sent to the servers with {rates} Mbit/s, and found no"
        f" problem and {len(doctor['warnings'])} warnings. `shoal-perf` with {perf['ranks']} ranks in as many pods"
        f" reduced {perf['bytes'] / 2**20:.0f} MiB through all servers in {perf['time_us'] / 1000:.1f} ms, with"
        f" {perf['algbw_bytes_per_s'] / 1e9:.2f} GB/s and no wrong element. All of these pods share the machine's"
        " cores, so the rates say nothing about a network.",
        "",
    ]


def reinstallation_of(found: dict) -> list[str]:
    """Lines on the installation after an uninstall."""
    job = "went on by itself" if found["job_went_on"] else "was started again under its name"
    return [
        "A second job was running when the release was uninstalled, with"
        f" `server.drainTimeoutSeconds: {found['drain_timeout_s']}`. A new installation of the same name, begun at"
        f" once, had three live servers {found['servers_live_s']} s after the uninstall had begun"
        f" ({found['servers_live_within_s']:.0f} s are allowed). The job {job}, and had done more steps after"
        f" {found['job_served_s']} s ({found['job_served_within_s']:.0f} s are allowed).",
    ]


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
    parser.add_argument("--other", default="cebc899", help="the commit of the other build")
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
        check_options(other)
        print("building images", flush=True)
        images = build_images(ROOT, "tree", ["scheduler", "server", "trainer"])
        [symbols] = build_images(ROOT, "tree", ["symbols"])
        check_symbols(symbols)
        names = {image.target: image.name for image in images}
        images += build_images(tree_of(other), other, ["scheduler", "server"])
        etcd = build_etcd()

        def real(lab: Lab) -> dict:
            for image in images:
                # 5 GB, twice as much on each node that has it
                lab.load(image.archive, *([TRAINERS_NODE] if image.target == "trainer" else []))
            lab.load(etcd)
            return on_real_nodes(lab, "tree", other, names["server"], names["trainer"])

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
    ours = [*(image for image in images if image.tag == "tree"), symbols]
    record |= {"images_mb": {image.target: image.size_mb for image in ours}}
    record |= {"images_built_s": {image.target: round(image.built_s, 1) for image in ours}}
    record |= {"real": on_real, "simulated": on_simulated}
    if options.results:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"cluster_{date}.json").write_text(json.dumps(record, indent=1) + "\n")
        (RESULTS / f"cluster_{date}.md").write_text(page_of(record))
    print(page_of(record))


if __name__ == "__main__":
    main()
