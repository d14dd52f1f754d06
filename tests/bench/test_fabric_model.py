"""The scale model gives what arithmetic gives where arithmetic can, and its page says what is in its record."""

import pathlib
import sys
import xml.etree.ElementTree

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

from fabric_model import calibration, gpu_nodes, page, run
from fabric_model.simulation import Fabric, dedicated_share, colocated_bound, layouts, ring_bound, scale_row, simulate

PROGRAM = ROOT / "build/bin/fabric_model"
BUCKET = 1 << 20
UNIT_S = 0.01
FREE = Fabric("without latency", BUCKET / UNIT_S, 0.0, 0.0, 1024)
COSTLY = Fabric("messages cost 10 us", BUCKET / UNIT_S, 5e-5, 1e-5, 1024)


def time_of(fabric: Fabric, workers: int, *flags: str, buckets: int = 1, in_flight: int = 1) -> float:
    """In units of M/link, for one bucket."""
    assert PROGRAM.is_file(), (
        f"{PROGRAM} is missing: run make setup, which installs SimGrid, then cmake build and make build"
    )
    return simulate(PROGRAM, fabric, workers, BUCKET, buckets, in_flight, flags) / UNIT_S / buckets


def test_a_rings_time_is_that_of_its_steps():
    for workers in (2, 4, 7):
        steps = 2 * (workers - 1)
        piece_s = BUCKET / workers * UNIT_S / BUCKET
        # A message pays at both ends and has the frame's header on the wire.
        expected = steps * (piece_s + 96 * UNIT_S / BUCKET + COSTLY.latency_s + 2 * COSTLY.message_cost_s)
        assert time_of(COSTLY, workers, "--layout", "ring") * UNIT_S == pytest.approx(expected, rel=1e-3)
        grouped = time_of(COSTLY, workers, "--layout", "ring", "--groups", "2")
        assert grouped * UNIT_S == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("servers", [1, 2, 4, 8])
def test_dedicated_servers_are_bound_by_the_busier_links(servers: int):
    workers = 4
    flags = ("--dedicated", str(servers), "--chunk-bytes", "4096", "--credit", "8")
    bound = max(1.0, workers / servers)
    assert bound <= time_of(FREE, workers, *flags, buckets=8, in_flight=4) <= 1.06 * bound


def test_no_layout_beats_its_bound():
    for workers in (4, 8):
        for layout in layouts(workers, BUCKET, FREE):
            row = scale_row(PROGRAM, FREE, workers, BUCKET, layout)
            assert row["alone"] >= layout.bound and row["train"] >= layout.bound, row
            assert row["one_more"] <= 1.3 * layout.bound, row


def test_equal_workers_may_be_taken_for_one():
    dedicated = ("--dedicated", "8", "--chunk-bytes", "8192")
    colocated = (*dedicated, "--dedicated-share", str(dedicated_share(8, 8) / 2), "--window", "64")
    for flags in (dedicated, colocated):
        all_of_them = time_of(COSTLY, 8, *flags, buckets=4, in_flight=2)
        one = time_of(COSTLY, 8, *flags, "--groups", "1", buckets=4, in_flight=2)
        # Too slow rather than too fast: their messages come all at once.
        assert 0.98 * all_of_them <= one <= 1.1 * all_of_them


@pytest.mark.parametrize("inside_s", [0.0, 5e-3])
def test_a_ring_over_nodes_of_several_ranks_takes_hops_of_two_kinds(inside_s: float):
    nodes, ranks, inside_rate = 3, 4, 10 * BUCKET / UNIT_S
    steps = 2 * (nodes * ranks - 1)
    flags = ("--layout", "ring", "--node-ranks", str(ranks), "--inside-rate", repr(inside_rate))
    flags += ("--inside-latency", repr(inside_s))
    piece_bytes = BUCKET / (nodes * ranks) + 96
    inside = piece_bytes / inside_rate + inside_s + 2 * COSTLY.message_cost_s
    between = piece_bytes / COSTLY.link_bytes_per_s + COSTLY.latency_s + 2 * COSTLY.message_cost_s
    # Either the way of the piece that crosses the fewest links, or a link that carries every step's piece.
    fewest_crossings = steps // ranks
    longest_way = fewest_crossings * between + (steps - fewest_crossings) * inside
    busiest_link = steps * piece_bytes / COSTLY.link_bytes_per_s
    assert (longest_way > busiest_link) == (inside_s > 0)
    assert time_of(COSTLY, nodes, *flags) * UNIT_S == pytest.approx(max(longest_way, busiest_link), rel=0.02)


RAILS = ("--node-ranks", "4", "--inside-rate", repr(20 * BUCKET / UNIT_S), "--inside-latency", "1e-5")


@pytest.mark.parametrize("servers", [2, 4, 8])
def test_rails_share_their_nodes_link(servers: int):
    nodes = 4
    flags = (*RAILS, "--dedicated", str(servers), "--chunk-bytes", "4096", "--credit", "8")
    bound = max(1.0, nodes / servers)
    assert bound <= time_of(FREE, nodes, *flags, buckets=8, in_flight=4) <= 1.06 * bound


def test_a_slow_way_inside_the_node_bounds_rails():
    # Every rank sends three quarters of the bucket's quarter twice: to be reduced, and to be gathered.
    rate = 0.5 * BUCKET / UNIT_S
    flags = ("--node-ranks", "4", "--inside-rate", repr(rate), "--dedicated", "4", "--chunk-bytes", "4096")
    bound = 2 * 0.75 * BUCKET / rate / UNIT_S
    assert bound <= time_of(FREE, 4, *flags, "--credit", "8", buckets=8, in_flight=4) <= 1.06 * bound


def test_equal_nodes_of_rails_may_be_taken_for_one():
    dedicated = (*RAILS, "--dedicated", "8", "--chunk-bytes", "8192")
    colocated = (*dedicated, "--dedicated-share", str(dedicated_share(8, 8) / 2), "--window", "64")
    for flags in (dedicated, colocated):
        all_of_them = time_of(COSTLY, 8, *flags, buckets=4, in_flight=2)
        one = time_of(COSTLY, 8, *flags, "--groups", "1", buckets=4, in_flight=2)
        assert 0.98 * all_of_them <= one <= 1.1 * all_of_them


def test_ranks_in_a_chain_delay_a_tree_and_do_not_slow_it():
    tree = ("--layout", "tree", "--segment", "16384")
    chain = (*tree, "--node-ranks", "4", "--inside-rate", repr(100 * BUCKET / UNIT_S), "--inside-latency", "1e-4")
    alone, delayed = time_of(FREE, 8, *tree), time_of(FREE, 8, *chain)
    # Three ranks of 0.1 ms before and after, and one at each of at most seven levels of the two trees, up and down.
    assert 0.06 <= delayed - alone <= 0.2
    more = [time_of(FREE, 8, *flags, buckets=16, in_flight=8) for flags in (tree, chain)]
    assert more[1] <= 1.05 * more[0]


@pytest.mark.long
def test_no_layout_of_gpu_nodes_beats_its_bound():
    fabric = gpu_nodes.fabric(gpu_nodes.RING_BETWEEN_S, gpu_nodes.MESSAGE_COST_S)
    rails = [(fabric, layout) for servers in (48, 64) for layout in gpu_nodes.rails(servers)]
    for each, layout in [*gpu_nodes.peers(), *rails]:
        row = scale_row(PROGRAM, each, gpu_nodes.NODES, gpu_nodes.BUCKET_BYTES, layout)
        assert row["alone"] >= row["train"] >= layout.bound, row
        assert (1 - gpu_nodes.MODEL_ERROR) * layout.bound <= row["one_more"] <= 1.3 * layout.bound, row


def gpu_nodes_row(layout: str, servers: int | None, one_more: float) -> dict:
    times = {"one_more": one_more, "train": one_more, "train_buckets": 8, "alone": 3.0}
    return {"layout": layout, "servers": servers, "bound": 1.0} | times


def test_the_page_of_gpu_nodes_says_how_many_servers_pay():
    report = make_report(0.0) | {
        "rows": [
            gpu_nodes_row(gpu_nodes.RING, None, 2.0),
            gpu_nodes_row(gpu_nodes.TREE, None, 2.2),
            *[gpu_nodes_row(gpu_nodes.DEDICATED, servers, 128 / servers) for servers in (32, 64, 96)],
            *[gpu_nodes_row(gpu_nodes.HYBRID, servers, 2.1) for servers in (32, 64)],
        ]
    }

    def text_of_page() -> str:
        return " ".join(gpu_nodes.markdown(report).split())

    text = text_of_page()
    assert f"{gpu_nodes.DEDICATED}: from 96 of 128 on" in text, "64 are no faster than the ring"
    report["rows"][4]["one_more"] = 1.0  # of 96
    report["rows"].append(gpu_nodes_row(gpu_nodes.DEDICATED, 128, 1.99))
    assert f"{gpu_nodes.DEDICATED}: with none" in text_of_page(), "a fast one among slow ones is no rule"
    assert f"{gpu_nodes.HYBRID}: with none of these numbers" in text
    xml.etree.ElementTree.fromstring(gpu_nodes.chart(report))


def test_nodes_of_several_ranks_need_a_rate_inside():
    with pytest.raises(run.HostError, match="need an --inside-rate above 0"):
        time_of(FREE, 4, "--node-ranks", "4")


def test_pieces_that_cost_more_than_they_carry_are_seen():
    train = {"buckets": 16, "in_flight": 16}
    on_all = time_of(COSTLY, 64, "--groups", "1", "--dedicated", "64", "--chunk-bytes", "1024", **train)
    capped_flags = ("--groups", "1", "--dedicated", "64", "--chunk-bytes", "16384", "--credit", "4")
    capped = time_of(COSTLY, 64, *capped_flags, **train)
    assert on_all > 1.5
    assert capped < 0.75 * on_all


def test_a_wrong_option_is_told():
    with pytest.raises(run.HostError, match="there is no layout circle"):
        time_of(FREE, 4, "--layout", "circle")


def test_the_bounds_meet_where_they_should():
    for workers in (2, 8, 1024):
        assert colocated_bound(workers, 0) == pytest.approx(ring_bound(workers))
        assert colocated_bound(workers, workers) == pytest.approx(1.0)
        assert dedicated_share(workers, workers) == pytest.approx(1.0)
        assert dedicated_share(workers, 0) == 0


def test_a_cost_is_the_slope_of_what_was_measured():
    assert calibration.slope([(0, 5.0), (10, 25.0), (20, 45.0)]) == pytest.approx(2.0)


def make_report(deviation: float) -> dict:
    machine = {"commit": "0", "changed_files": 0, "cpu_model": "m", "cpu_count": 2, "memory_bytes": 1 << 30}
    machine |= {"kernel": "k", "torch": "t", "open_mpi": "o"}
    row = {"fabric": "fast", "layout": "ring", "bound": 1.75, "alone": 2.0, "train": 1.8, "train_buckets": 8}
    validation = {"rig": "n=4", "contender": "shoal", "measured_s": 1.0, "model_s": 1 + deviation}
    validation["deviation"] = deviation
    return {
        "title": "T",
        "started_at": "now",
        "machine": machine,
        "load_average_before": 0.0,
        "message": {"message_cost_s": 2e-6, "latency_s": 5e-5},
        "rigs": [{"scenario": "n=4", "problems": []}],
        "validation": [validation],
        "scale": [row | {"workers": workers, "one_more": 1.75} for workers in (8, 1024)],
        "chart": "c.svg",
        "command": "run",
    }


def test_a_model_that_is_off_says_so_at_the_top():
    assert "Not to be quoted" not in page.markdown(make_report(0.04), run.MOST_DEVIATION)
    assert "the model is off by -6.0%" in page.markdown(make_report(-0.06), run.MOST_DEVIATION).split("##")[0]


def test_the_chart_is_well_formed_and_names_every_number_of_workers():
    root = xml.etree.ElementTree.fromstring(page.chart(make_report(0.0), "fast"))
    texts = [element.text for element in root]
    assert {"8", "1024", "ring"} <= set(texts)
