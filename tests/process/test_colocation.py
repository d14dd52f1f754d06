"""Servers in the ranks' own processes, alone and beside dedicated ones: the same bits, and what follows when one
dies."""

import json
import signal

from hosts.cluster import Cluster
from hosts.process import Process
from job_runs import digests, refusal, wait_for_line_of_all

WORLD_SIZE = 4
COUNT = ["--count", "300007"]  # 1.2 MB: more than the largest chunk, and no multiple of one


def start_ranks(cluster: Cluster, *options: str) -> list[Process]:
    """Each says that it is on a node of its own, so each is asked for a server."""
    return [cluster.start_rank(r, WORLD_SIZE, "--node-name", f"node-{r}", *options) for r in range(WORLD_SIZE)]


def group_opened(cluster: Cluster, job: str) -> str:
    return cluster.wait_for_event("group-opened", f'job "{job}"')["reason"]


def test_i1_same_bits_with_servers_in_ranks_apart_and_both(cluster: Cluster):
    cluster.start_scheduler()
    found: dict[str, set[str]] = {}
    found["ranks alone"] = digests(start_ranks(cluster, "--job", "alone", "--colocate", "auto", *COUNT))
    assert "4 servers on ranks' nodes (weight 1)" in group_opened(cluster, "alone")
    for servers in (1, 2, 3):
        cluster.start_server(f"apart-{servers}")
        job = f"both-{servers}"
        options = ["--job", job, "--colocate", "auto", "--min-servers", str(servers + WORLD_SIZE), *COUNT]
        # Unlike this machine's name, which the dedicated servers give.
        found[job] = digests(start_ranks(cluster, *options))
        reason = group_opened(cluster, job)
        assert f"{servers} servers on their own nodes" in reason and "4 servers on ranks' nodes" in reason, reason
    found["apart alone"] = digests(start_ranks(cluster, "--job", "apart", "--min-servers", "3", *COUNT))
    assert "on ranks' nodes" not in group_opened(cluster, "apart")
    assert len(set.union(*found.values())) == 1, json.dumps({job: sorted(values) for job, values in found.items()})


def test_no_servers_are_started_beside_as_many_as_the_job_has_nodes(cluster: Cluster):
    cluster.start_scheduler()
    for name in ("apart-1", "apart-2"):
        cluster.start_server(name)
    options = ["--colocate", "auto", "--node-reduce", "auto", *COUNT]

    def run_on_two_nodes(job: str, local_world_size: int) -> None:
        more = ["--job", job, "--local-world-size", str(local_world_size), *options]
        digests([cluster.start_rank(r, WORLD_SIZE, "--node-name", f"node-{r // 2}", *more) for r in range(WORLD_SIZE)])

    run_on_two_nodes("counted-by-nodes", local_world_size=2)
    assert sorted(cluster.servers()) == ["apart-1", "apart-2"]
    run_on_two_nodes("counted-by-ranks", local_world_size=0)
    assert sorted(name.partition("-job")[0] for name in cluster.servers()) == ["apart-1", "apart-2", "node-0", "node-1"]


def test_a_job_s_servers_are_listed_with_their_job_and_leave_with_it(cluster: Cluster):
    cluster.start_scheduler()
    ranks = start_ranks(cluster, "--colocate", "on", "--hold", *COUNT)
    wait_for_line_of_all(ranks, "^round 0 done$")
    (job,) = cluster.shoalctl("jobs")[0]["jobs"]
    servers = cluster.servers()
    assert sorted(servers) == [f"node-{rank}-job{job['job_id']}-rank{rank}" for rank in range(WORLD_SIZE)]
    assert all(server["job_id"] == job["job_id"] for server in servers.values())
    counts = cluster.shoalctl("status")[0]["cluster"]
    assert (counts["servers_live"], counts["servers_colocated"]) == (0, WORLD_SIZE), "none of them is a dedicated one"
    (cluster_map,) = cluster.shoalctl("map")
    assert cluster_map.get("shards", []) == [], "other jobs can't use them"
    for rank in ranks:
        rank.say()
    digests(ranks)
    assert {server["state"] for server in cluster.servers().values()} == {"left"}


def test_a_rank_that_leaves_early_with_its_server_takes_nothing_from_its_peers(cluster: Cluster):
    cluster.start_scheduler()
    ranks = start_ranks(cluster, "--colocate", "on", "--hold", *COUNT)
    wait_for_line_of_all(ranks, "^round 0 done$")
    ranks[0].say()  # it leaves, with its server; the others have their results, and still hold the group open
    ranks[0].wait_for_line(r"^digest \w+$")
    cluster.wait_for_event("server-left", "rank0")
    for rank in ranks[1:]:
        rank.say()
    digests(ranks)


def test_i8_a_killed_rank_that_hosts_a_server_fails_its_job_and_is_named(cluster: Cluster):
    cluster.start_scheduler(lease_ttl_ms=1000)
    ranks = start_ranks(cluster, "--colocate", "on", "--rounds", "2", "--hold", *COUNT)
    wait_for_line_of_all(ranks, "^round 0 done$")
    ranks[2].send(signal.SIGKILL)
    survivors = ranks[:2] + ranks[3:]
    for rank in survivors:
        rank.say()
    for rank in survivors:
        text = refusal(rank)
        assert "rank2" in text or "rank 2" in text, text
        assert "node-2" in text, text
