"""A job of four ranks and ten rounds that waits after each, so that a test can do something to its servers in
between."""

from hosts.cluster import Cluster
from hosts.process import Process
from job_runs import digests, let_go_on, wait_for_line_of_all

WORLD_SIZE = 4
ROUNDS = 10
LEASE_TTL_MS = 1500  # of the scheduler that the tests start for it
OPTIONS = ["--count", "150001", "--rounds", str(ROUNDS), "--hold"]


def start_held_job(cluster: Cluster, job: str, *options: str) -> list[Process]:
    """It has done round 0."""
    ranks = cluster.start_ranks(WORLD_SIZE, "--job", job, *OPTIONS, *options)
    wait_for_line_of_all(ranks, "^round 0 done$")
    return ranks


def undisturbed_digest(cluster: Cluster, *options: str) -> set[str]:
    """What every run of it must give, whatever happens to its servers."""
    ranks = start_held_job(cluster, "undisturbed", *options)
    let_go_on(ranks, ROUNDS)
    found = digests(ranks)
    assert len(found) == 1
    return found
