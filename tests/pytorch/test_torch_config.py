"""Settings and placement: no processes."""

import dataclasses
import warnings

import pytest
from shoal import config, placement


def test_defaults_need_nothing():
    settings, sources = config.read_config({}, {})
    assert settings == config.Config(
        scheduler=None, job_name=None, min_servers=None, port_buffer=0, encrypt=False, tls_cert="", tls_key="",
        tls_ca="", chunk_bytes=0, wire="none", error_feedback=False, net_device="", transports="", network_only=False,
        checksums=False, check_finite=False, flight_recorder="auto",
        colocate="auto", without_servers="wait", node_reduce="auto", devices="auto", device_memory=0,
        blocking_wait=False, quiet=False, timeout=None,
    )  # fmt: skip
    assert set(sources.values()) == {"default"}


def test_certificates_need_a_scheduler_that_takes_them():
    files = {"SHOAL_TLS_CERT": "/c", "SHOAL_TLS_KEY": "/k", "SHOAL_TLS_CA": "/a"}
    settings, _ = config.read_config(files | {"SHOAL_SCHEDULER": "a:1"}, {})
    assert (settings.tls_cert, settings.tls_key, settings.tls_ca) == ("/c", "/k", "/a")
    with pytest.raises(ValueError, match="name it with SHOAL_SCHEDULER"):
        config.read_config(files, {})


def test_environment_is_read_and_query_wins():
    environment = {"SHOAL_SCHEDULER": "a:1", "SHOAL_CHUNK_BYTES": "64K", "SHOAL_TIMEOUT": "2.5", "SHOAL_JOB_NAME": ""}
    settings, sources = config.read_config(environment, {"scheduler": "b:2"})
    assert (settings.scheduler, settings.chunk_bytes, settings.timeout) == ("b:2", 65536, 2.5)
    assert settings.job_name is None, "an empty variable counts as not set"
    assert sources["chunk_bytes"] == "SHOAL_CHUNK_BYTES"


@pytest.mark.parametrize(
    ("text", "expected"), [("65536", 65536), ("64K", 1 << 16), ("3MiB", 3 << 20), ("1G", 1 << 30), ("2GB", 2 << 30)]
)
def test_sizes_may_be_given_in_larger_units(text: str, expected: int):
    assert config.read_config({"SHOAL_DEVICE_MEMORY": text}, {})[0].device_memory == expected


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("SHOAL_SCHEDULER", "nonsense", "HOST:PORT"),
        ("SHOAL_SCHEDULER", "host:70000", "HOST:PORT"),
        ("SHOAL_MIN_SERVERS", "0", "at least 1"),
        ("SHOAL_MIN_SERVERS", "-2", "at least 1"),
        ("SHOAL_CHUNK_BYTES", "64 bananas", "number of bytes"),
        ("SHOAL_DEVICE_MEMORY", "1T", "such as 65536, 64K, 1M or 1G"),
        ("SHOAL_PORT_BUFFER", "2G", "up to 1G"),
        ("SHOAL_PORT_BUFFER", "-1", "number of bytes"),
        ("SHOAL_WIRE", "bfloat16", "one of none, fp16, bf16, int8, fp8"),
        ("SHOAL_COLOCATE", "1", "one of off, auto, on"),
        ("SHOAL_WITHOUT_SERVERS", "inner", "one of wait, colocate"),
        ("SHOAL_NODE_REDUCE", "ring", "one of auto, off, host, nccl"),
        ("SHOAL_QUIET", "yes", "0 or 1"),
        ("SHOAL_TIMEOUT", "soon", "a number of seconds above 0"),
        ("SHOAL_TIMEOUT", "0", "a number of seconds above 0"),
        ("SHOAL_JOB_NAME", "x" * 201, "1 to 200"),
    ],
)
def test_wrong_values_are_refused_by_name(variable, value, expected):
    with pytest.raises(ValueError, match=expected) as caught:
        config.read_config({variable: value}, {})
    assert variable in str(caught.value)
    assert repr(value) in str(caught.value)


def test_tensors_on_devices_are_reduced_alike_on_all_ranks():
    ranks = places("a", "b")
    placement.check_devices(ranks)
    placement.check_devices([dataclasses.replace(place, by_nccl=True) for place in ranks])
    with pytest.raises(ValueError, match="rank 0 has not, rank 1 has SHOAL_DEVICES=none: .* on all ranks, or on none"):
        placement.check_devices([ranks[0], dataclasses.replace(ranks[1], by_nccl=True)])


def test_unknown_query_setting_is_refused_with_the_nearest():
    with pytest.raises(ValueError, match="did you mean min_servers"):
        config.read_config({}, {"min_server": "2"})


def test_unknown_variable_is_warned_about_with_the_nearest():
    with pytest.warns(UserWarning, match="SHOAL_CHUNK_BITES is ignored; did you mean SHOAL_CHUNK_BYTES"):
        config.warn_about_unknown_variables({"SHOAL_CHUNK_BITES": "1"})


def test_variables_of_the_programs_are_left_alone():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        config.warn_about_unknown_variables({"SHOAL_SERVER_ADVERTISE": "x", "SHOAL_LIBRARY": "x", "PATH": "x"})


def test_the_launcher_says_which_rank_of_its_node_this_is():
    assert placement.local_place({}) == placement.LocalPlace(0, 0)
    assert placement.local_place({"LOCAL_RANK": "3", "LOCAL_WORLD_SIZE": "4"}) == placement.LocalPlace(3, 4)
    with pytest.raises(ValueError, match="LOCAL_RANK='x': expected a number"):
        placement.local_place({"LOCAL_RANK": "x"})


def test_the_nodes_first_rank_uses_the_first_card():
    assert placement.first_device("eth0/eth1") == "eth0"
    assert placement.first_device("eth0") == "eth0"
    assert placement.first_device("") == ""


def places(*nodes: str) -> list[placement.RankPlace]:
    return [placement.RankPlace(node, node, "10.0.0.1", "", None, False) for node in nodes]


@pytest.mark.parametrize(
    ("ranks", "processors", "threads"), [(1, 8, 1), (2, 8, 1), (4, 8, 2), (4, 1, 1), (8, 8, 3), (64, 8, 8)]
)
def test_a_server_for_one_node_has_as_many_threads_as_keep_up_with_the_ranks(ranks: int, processors: int, threads: int):
    assert placement.io_threads_of(ranks, processors) == threads


def test_first_rank_of_each_node_runs_a_server():
    assert placement.server_ranks_of(places("a", "a", "b", "b", "a", "c")) == [0, 2, 5]
    assert placement.server_ranks_of(places("a", "a")) == [0]


def test_different_schedulers_are_named():
    ranks = places("a", "b")
    ranks[0] = dataclasses.replace(ranks[0], scheduler="s:1")
    with pytest.raises(ValueError, match=r"rank 0 has scheduler s:1, rank 1 has \(none\)"):
        placement.check_schedulers(ranks)


@pytest.mark.parametrize(
    ("address", "trouble", "why"), [("", "no way there", "no way there"), ("127.0.1.1", "", "all that was found is 12")]
)
def test_a_rank_that_other_nodes_can_not_reach_is_named_with_what_to_do(address: str, trouble: str, why: str):
    ranks = places("a", "b")
    placement.check_addresses(ranks)
    ranks[1] = dataclasses.replace(ranks[1], address=address, trouble=trouble)
    with pytest.raises(ValueError, match=f"rank 1 on b has no address .*: {why}.*; set SHOAL_NET_DEVICE"):
        placement.check_addresses(ranks)
    placement.check_addresses([dataclasses.replace(place, node="a") for place in ranks])


def test_an_ipv6_address_has_brackets_before_a_port():
    assert placement.with_port("fd00::1", 0) == "[fd00::1]:0" and placement.with_port("10.0.0.1", 7) == "10.0.0.1:7"
