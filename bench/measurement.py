"""Runs one scenario: makes its rig, lets the contenders take turns, and gives what came out as one JSON-like record."""

import dataclasses
import pathlib
import statistics
import time

import parts
import summary
from contenders import roster
from contenders.case import Case, Measured
from parts import Scenario
from rig.calibration import Calibration, calibrate
from hosts.network import Network, Traffic, make_linked_nodes, make_one_node
from hosts.process import Processes
from rig.processor_time import ProcessorTimes

# Below this the processors and not the links may have set the pace.
LEAST_IDLE = 0.25
MOST_STOLEN = 0.01


@dataclasses.dataclass
class Turn:
    """One contender's measurement of one case in one round."""

    measured: Measured
    idle: float
    stolen: float
    timeouts: int  # TCP retransmission timeouts, on all nodes together
    retransmits: int
    # For each all-reduce, on the links of the workers' nodes; on one node over loopback: what came into the node into
    # which most came, and what went out of the one out of which most went.
    bytes_into_node: float
    bytes_out_of_node: float

    def times_us(self, case: Case) -> list[float]:
        """With several in flight an all-reduce's own time says how long it waited for others: the loop's counts."""
        return self.measured.op_times_us if case.in_flight == 1 else [self.measured.loop_us]


@dataclasses.dataclass(frozen=True)
class Settings:
    """Where to find what is measured, and how long it may take."""

    programs: pathlib.Path
    other_programs: pathlib.Path | None  # of the build that is measured beside ours, if one is
    open_mpi_program: pathlib.Path
    rounds: int
    deadline: float  # on the monotonic clock: no round is begun after it

    def programs_of(self, contender: str) -> pathlib.Path:
        other = roster.runs_other_build(contender) and self.other_programs is not None
        return self.other_programs if other else self.programs


def make_network(scenario: Scenario) -> Network:
    if scenario.worker_link is None:
        return make_one_node(scenario.workers, scenario.servers)
    server_link = scenario.server_link or scenario.worker_link
    links = [scenario.worker_link] * scenario.worker_nodes
    return make_linked_nodes(
        links, [server_link] * scenario.servers, scenario.ranks_per_node, network_count=scenario.node_links
    )


def take_turn(contender, network: Network, case: Case, timeout_s: float) -> Turn:
    counters = network.counters()
    traffic_before = network.worker_traffic()
    before = ProcessorTimes.now()
    measured = contender.measure(case, timeout_s)
    after = ProcessorTimes.now()
    counters_after = network.counters()
    into_node, out_of_node = most_grown(traffic_before, network.worker_traffic())
    all_reduces = case.iterations + case.warmup + measured.checks * case.in_flight

    def grown(name: str) -> int:
        return counters_after.get(name, 0) - counters.get(name, 0)

    return Turn(
        measured,
        after.idle_share_since(before),
        after.stolen_share_since(before),
        grown("TCPTimeouts"),
        grown("TCPFastRetrans") + grown("TCPSlowStartRetrans"),
        into_node / all_reduces,
        out_of_node / all_reduces,
    )


def most_grown(before: list[Traffic], after: list[Traffic]) -> Traffic:
    """By how much the traffic of a node has grown at the most, each way for itself."""
    return Traffic(
        max(later.received - earlier.received for earlier, later in zip(before, after)),
        max(later.sent - earlier.sent for earlier, later in zip(before, after)),
    )


def turn_timeout_s(scenario: Scenario, case: Case, link_bytes_per_s: float | None) -> float:
    """Five times what the slowest layout needs at the bound, and the time to start."""
    if link_bytes_per_s is None:
        return 120
    ring = parts.ring_bound_s(scenario, case, link_bytes_per_s)
    slowest = max(ring, parts.dedicated_bound_s(scenario, case, link_bytes_per_s) or 0)
    of_one = max(slowest, case.step_s(slowest) if case.backward_s > 0 else 0)
    return 60 + 5 * of_one * (case.iterations + case.warmup + 3 * case.in_flight)


def run_scenario(scenario: Scenario, settings: Settings, say) -> dict:
    """`say` gets a line of progress. HostError if the rig or a contender fails."""
    absent = {}
    for name in scenario.contenders:
        if reason := roster.why_absent(name, settings.programs_of(name), settings.open_mpi_program):
            absent[name] = reason
            say(f"  without {roster.label(name)}: {reason}")
    names = [name for name in scenario.contenders if name not in absent]
    with make_network(scenario) as network, Processes() as processes:
        calibrations: list[Calibration] = []
        if scenario.worker_link is not None:
            calibrations.append(calibrate(network, processes))
            say(f"  links carry {calibrations[0].bytes_per_s * 8e-6:.1f} Mbit/s of payload, all at once, both ways")
        link = calibrations[0].bytes_per_s if calibrations else None
        contenders = {
            name: roster.start(name, settings.programs_of(name), settings.open_mpi_program, network, processes)
            for name in names
        }
        turns: dict[tuple[str, Case], list[Turn]] = {(name, case): [] for name in names for case in scenario.cases}
        done = 0
        for number in range(settings.rounds):
            if done > 0 and time.monotonic() > settings.deadline:
                say(f"  time is up after {done} of {settings.rounds} rounds")
                break
            # A B C, C B A, A B C: nobody always comes after the same one.
            order = names if number % 2 == 0 else names[::-1]
            for case in scenario.cases:
                for name in order:
                    timeout_s = turn_timeout_s(scenario, case, link)
                    turns[name, case].append(take_turn(contenders[name], network, case, timeout_s))
            done += 1
            say(f"  round {done} of {settings.rounds}: " + progress_text(scenario, names, turns))
        if calibrations:
            calibrations.append(calibrate(network, processes))
    return record(scenario, names, absent, calibrations, turns, done)


def progress_text(scenario: Scenario, names: list[str], turns: dict[tuple[str, Case], list[Turn]]) -> str:
    case = scenario.cases[-1]
    times = [f"{name} {statistics.median(turns[name, case][-1].times_us(case)) / 1000:.2f}" for name in names]
    return f"{case.size_bytes} bytes in ms: " + ", ".join(times)


def record(
    scenario: Scenario,
    names: list[str],
    absent: dict[str, str],
    calibrations: list[Calibration],
    turns: dict[tuple[str, Case], list[Turn]],
    rounds: int,
) -> dict:
    # What disturbs a calibration makes it lower, never higher.
    link = max((calibration.bytes_per_s for calibration in calibrations), default=None)
    server_link = scenario.server_link or scenario.worker_link
    return {
        "scenario": scenario.name,
        "workers": scenario.workers,
        "servers": scenario.servers,
        "ranks_per_node": scenario.ranks_per_node,
        "node_links": scenario.node_links,
        "kappa": scenario.kappa() if link else None,
        "worker_link": dataclasses.asdict(scenario.worker_link) if link else None,
        "server_link": dataclasses.asdict(server_link) if link else None,
        "link_bytes_per_s": link,
        "calibrations": [dataclasses.asdict(calibration) for calibration in calibrations],
        "rounds": rounds,
        "absent": absent,
        "cases": [case_record(scenario, case, names, link, turns) for case in scenario.cases],
        "problems": problems(scenario, names, calibrations, turns),
    }


def case_record(scenario: Scenario, case: Case, names: list[str], link: float | None, turns) -> dict:
    times = {name: [turn.times_us(case) for turn in turns[name, case]] for name in names}
    bounds = None
    if link is not None:
        dedicated_s = parts.dedicated_bound_s(scenario, case, link)
        bounds_s = {
            "dedicated_us": dedicated_s,
            "rails_us": parts.rails_bound_s(scenario, case, link),
            "colocated_us": parts.colocated_bound_s(scenario, case, link),
            "ring_us": parts.ring_bound_s(scenario, case, link),
            "replica_rings_us": parts.replica_rings_bound_s(scenario, case, link),
            "equal_total_ring_us": parts.equal_total_ring_bound_s(scenario, case, link),
        }
        if case.backward_s > 0:
            bounds_s = {name: None if bound is None else case.step_s(bound) for name, bound in bounds_s.items()}
        bounds = {name: None if bound is None else bound * 1e6 for name, bound in bounds_s.items()}
    measured = {}
    for name in names:
        of_name = turns[name, case]
        measured[name] = {
            "time_us": summary.spread(times[name]),
            "rounds_us": times[name],
            "cpu_us": statistics.median(turn.measured.cpu_us for turn in of_name),  # of all workers, per all-reduce
            "cpu_idle": statistics.median(turn.idle for turn in of_name),
            "tcp_timeouts": sum(turn.timeouts for turn in of_name),
            "tcp_retransmits": sum(turn.retransmits for turn in of_name),
            "bytes_into_node": statistics.median(turn.bytes_into_node for turn in of_name),
            "bytes_out_of_node": statistics.median(turn.bytes_out_of_node for turn in of_name),
            "wrong": sum(turn.measured.wrong for turn in of_name),
            "server_bytes": of_name[-1].measured.server_bytes,
        }
    ratios = {}
    if names:
        ratios = {name: summary.ratio_of_medians(times[names[0]], times[name]) for name in names[1:]}
    controls = {
        name: summary.ratio_of_medians(times[name + roster.OTHER_BUILD], times[name + roster.CONTROL])
        for name in names
        if name + roster.CONTROL in names
    }
    exchanges = {
        name: summary.exchange_over_bare(times[name], times[roster.DDP_ALONE], times[bare])
        for name, bare in roster.BARE_OF_DDP.items()
        if {name, bare, roster.DDP_ALONE} <= set(names)
    }
    record = dataclasses.asdict(case) | {"bounds": bounds, "contenders": measured, "first_over": ratios}
    return record | {"other_build_over_itself": controls, "exchange_over_bare": exchanges}


def problems(scenario: Scenario, names: list[str], calibrations: list[Calibration], turns) -> list[str]:
    """Why the figures should not be taken as proof; none if they may."""
    found = []
    for (name, case), of_case in turns.items():
        label = f"{roster.label(name)} at {case.size_bytes} bytes"
        if case.backward_s > 0:
            label += f", backward passes of {case.backward_s:g} s"
        if wrong := sum(turn.measured.wrong for turn in of_case):
            found.append(f"{label}: {wrong} wrong elements")
        idle = statistics.median(turn.idle for turn in of_case)
        if scenario.worker_link is not None and not roster.polls(name) and idle < LEAST_IDLE:
            found.append(f"{label}: the processors were only {idle:.0%} idle, {LEAST_IDLE:.0%} are asked for")
        stolen = statistics.median(turn.stolen for turn in of_case)
        if stolen > MOST_STOLEN:
            found.append(f"{label}: other guests of the machine below took {stolen:.1%} of its CPU time")
    if calibrations and not any(calibration.is_uniform() for calibration in calibrations):
        rates = ", ".join(
            f"{calibration.lowest_bytes_per_s * 8e-6:.1f} to {calibration.highest_bytes_per_s * 8e-6:.1f}"
            for calibration in calibrations
        )
        found.append(f"links of one shape carried {rates} Mbit/s in the calibrations")
    return found
