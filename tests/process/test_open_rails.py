"""Groups that go on without lost ranks, on nodes of several ranks that reduce within their node: a killed rank takes
its node out of the group, its neighbour is told, and the other nodes go on. Real processes, each node a network
namespace."""

import random
import re
import signal
import time

import pytest

from hosts.cluster import Cluster, linked_cluster
from open_rank_runs import Ranks, go_on, only_job, ops_of, reduce, start_open_rank

LEASE_TTL_MS = 2000
NODES = 3
RANKS_PER_NODE = 2
RANKS = NODES * RANKS_PER_NODE
OPS = 40
NODE_IS_OUT = 'which is out of group "group": the other nodes go on without it'


def start_ranks(cluster: Cluster) -> Ranks:
    """Ranks 2n and 2n + 1 are on node n."""
    cluster.start_scheduler(lease_ttl_ms=LEASE_TTL_MS)
    cluster.start_servers()
    ranks: Ranks = {}
    for node in sorted(cluster.network.workers, key=lambda node: node.name):
        with cluster.on(node):
            process = start_open_rank(cluster, "--node-reduce", "auto", "--net-device", node.device)
        ranks[int(process.wait_for_line(r"^joined as rank (\d+)$").group(1))] = process
    assert sorted(ranks) == list(range(RANKS))
    return ranks


@pytest.mark.parametrize("scale", [0, 1], ids=["sum of those that are left", "scaled to all"])
@pytest.mark.parametrize("victims", [[3], [2, 3]], ids=["one rank", "a whole node"])
def test_f23_a_killed_rank_takes_its_node_out_and_no_other_nodes_op_fails(victims: list[int], scale: int):
    with linked_cluster(NODES, 2, RANKS_PER_NODE) as cluster:
        ranks = start_ranks(cluster)
        go_on(ranks, "group", min_ranks=3, ops=OPS, scale=scale)
        opened = cluster.wait_for_event("group-opened", "")["reason"]
        assert f"{RANKS} ranks as {RANKS_PER_NODE} rails x {NODES} nodes" in opened, opened
        ranks[0].wait_for_line("^group op 3 ")
        time.sleep(random.uniform(0, 0.1))
        for victim in victims:
            ranks.pop(victim).send(signal.SIGKILL)
        alone = {rank: ranks.pop(rank) for rank in (2, 3) if rank in ranks}
        why = f"rank {victims[0]} of the job on .* was lost: .*{NODE_IS_OUT}"
        for process in alone.values():
            process.wait_for_line(f"^group refused ABORTED: {why}")
        for process in ranks.values():
            process.wait_for_line("^group over$")
        told = [ops_of(process, "group") for process in ranks.values()]
        assert [len(ops) for ops in told] == [OPS] * len(ranks)
        sums = {6: 21.0, 4: 14.0 * (RANKS / 4 if scale else 1)}  # of 1 to 6, and of those without 3 and 4
        for of_ranks in zip(*told):
            assert len({op.groups() for op in of_ranks}) == 1, "all have the same bits"
            least, most = int(of_ranks[0].group(2)), int(of_ranks[0].group(3))
            expected = [sums[count] for count in {least, most}]
            values = [float(value) for value in of_ranks[0].group(4).split(",")]
            assert all(any(value == pytest.approx(each) for each in expected) for value in values), (values, expected)
        assert told[0][0].group(2) == "6" and told[0][-1].group(3) == "4"
        moves = [event for event in cluster.events() if event["kind"] == "group-moved"]
        without = {move["subject"][:6] for move in moves if f"2 of its {NODES} nodes" in move["reason"]}
        assert without == {"rail 0", "rail 1"}, moves
        lacking = cluster.wait_for_event("op-lacks-ranks", 'group "group"')["reason"]
        assert re.search(r"contributions of [46]( ranks)?, .* of [46]|have the contributions of 4", lacking), lacking
        # All that live may be in the next group, whose nodes do not have as many ranks each.
        assert len(reduce(ranks | alone, "second")) == 1
        assert only_job(cluster)["state"] == "running"


def test_with_fewer_nodes_than_its_ranks_take_the_group_ends_by_name():
    with linked_cluster(NODES, 1, RANKS_PER_NODE) as cluster:
        ranks = start_ranks(cluster)
        go_on(ranks, "group", min_ranks=5, ops=10_000, scale=0)
        ranks[0].wait_for_line("^group op 2 ")
        ranks.pop(5).send(signal.SIGKILL)
        del ranks[4]
        for process in ranks.values():
            process.wait_for_line("^group refused ABORTED: .*rank [45] .*it has 2 nodes left, and needs 3")
