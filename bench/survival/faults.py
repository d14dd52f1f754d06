"""What is done to a cluster while a job trains on it. Each fault says when it begins and how it went."""

import dataclasses
import random
import time

from survival.cluster import Cluster, Shape, Training


@dataclasses.dataclass(frozen=True)
class Kill:
    """SIGKILL for one server, which is restarted at once."""

    at_step: int
    delay_s: float  # after that step, so that it falls anywhere in the next one
    server: int

    def strike(self, cluster: Cluster, training: Training) -> dict:
        time.sleep(self.delay_s)
        began_at = cluster.kill_server(self.server)
        cluster.restart_server(self.server)
        return {"kind": "kill", "server": self.server, "began_at": began_at, "ended_at": time.monotonic()}


@dataclasses.dataclass(frozen=True)
class RollingRestart:
    """SIGTERM for one server after the other; the next one's turn comes when the one before is registered again."""

    at_step: int

    def strike(self, cluster: Cluster, training: Training) -> dict:
        began_at = time.monotonic()
        for number in range(cluster.shape.servers):
            cluster.stop_server(number)
            cluster.restart_server(number)
        return {"kind": "rolling restart", "began_at": began_at, "ended_at": time.monotonic()}


@dataclasses.dataclass(frozen=True)
class SchedulerAway:
    """SIGKILL for the scheduler. It comes back with its state file: after the seconds, and not before so many steps."""

    at_step: int
    seconds: float
    steps: int = 0

    def strike(self, cluster: Cluster, training: Training) -> dict:
        # Steps go on while it is killed, and after the last but one the training waits for the end of this fault.
        until_step = min(training.read_steps_done() + self.steps, cluster.shape.steps - 1)
        began_at = cluster.kill_scheduler()
        time.sleep(max(0.0, began_at + self.seconds - time.monotonic()))
        training.wait_for_step(until_step)
        cluster.restart_scheduler()
        return {"kind": "scheduler away", "began_at": began_at, "ended_at": time.monotonic()}


def random_kills(count: int, shape: Shape, step_s: float, seed: int) -> list[Kill]:
    """At random moments of a run whose steps take about step_s; never in the first or last twentieth of it."""
    source = random.Random(seed)
    margin = max(1, shape.steps // 20)
    steps = sorted(source.sample(range(margin, shape.steps - margin), count))
    return [Kill(step, source.uniform(0, step_s), source.randrange(shape.servers)) for step in steps]


def even_steps(count: int, shape: Shape) -> list[int]:
    return [(number + 1) * shape.steps // (count + 2) for number in range(count)]
