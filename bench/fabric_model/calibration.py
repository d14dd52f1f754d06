"""What the model takes from the rig: the cost of a message, latencies, links, and times to be held against its own."""

import pathlib
import statistics

import summary
from contenders.case import Case
from contenders.shoal import Shoal
from measurement import Settings, run_scenario
from parts import KIB, MIB, linked
from hosts.network import make_one_node
from hosts.process import Processes

BUCKET_BYTES = 25 * MIB
# Whose all-reduce is one message to one server and one back.
SMALL_BYTES = 4 * KIB
SMALL = Case(SMALL_BYTES, 100, 20)
BUCKET = Case(BUCKET_BYTES, 4, 1)

MESSAGE_COST_BYTES = 4 * MIB
MESSAGE_COST_CHUNKS = (4 * KIB, 8 * KIB, 16 * KIB, 32 * KIB)
MESSAGE_COST_ROUNDS = 3

# (workers, servers, Mbit/s): the rigs whose times the model must give.
RIGS = ((4, 4, 400), (8, 8, 200), (8, 4, 200))


def slope(points: list[tuple[float, float]]) -> float:
    """Of the line that is nearest to the points, by least squares."""
    mean_x = statistics.mean(x for x, _ in points)
    mean_y = statistics.mean(y for _, y in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)


def measure_message_cost(programs: pathlib.Path, say) -> dict:
    """Processor time of a worker for one message, sent or received: how its time for a bucket grows with their number.

    On one node over TCP, without a link that makes it wait. The cost of the bytes is in the line's height.
    """
    workers = 2
    case = Case(MESSAGE_COST_BYTES, 20, 5)
    points = []
    latencies_s = []
    with make_one_node(workers, 1) as network, Processes() as processes:
        contenders = {
            chunk: Shoal(
                programs, network, processes, ["--network-only"], ["--network-only", "--chunk-bytes", str(chunk)]
            )
            for chunk in MESSAGE_COST_CHUNKS
        }
        for _ in range(MESSAGE_COST_ROUNDS):
            for chunk, shoal in contenders.items():
                measured = shoal.measure(case, timeout_s=120)
                messages = 2 * MESSAGE_COST_BYTES / chunk
                points.append((messages, measured.cpu_us * 1e-6 / workers))
            small = contenders[MESSAGE_COST_CHUNKS[0]].measure(SMALL, timeout_s=120)
            latencies_s.append(summary.percentile(small.op_times_us, 10) * 1e-6 / 2)
    result = {
        "message_cost_s": slope(points),
        "latency_s": statistics.median(latencies_s),
        "points": [{"messages": messages, "cpu_s": cpu_s} for messages, cpu_s in points],
    }
    say(f"  a message costs {result['message_cost_s'] * 1e6:.2f} us at each end")
    return result


def measure_rigs(settings: Settings, only: str, say) -> list[dict]:
    """The records of bench's own measurement, one a rig."""
    records = []
    for workers, servers, rate_mbit in RIGS:
        scenario = linked(workers, servers, rate_mbit, (SMALL, BUCKET), ("shoal", "gloo"))
        if only in scenario.name:
            say(f"model: {scenario.name}")
            records.append(run_scenario(scenario, settings, say))
    return records
