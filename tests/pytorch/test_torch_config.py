"""Settings and placement: no processes."""

import warnings

import pytest
from shoal import config, placement


def test_defaults_need_nothing():
    settings, sources = config.read_config({}, {})
    assert settings == config.Config(
        scheduler=None, job_name=None, min_servers=None, chunk_bytes=0, wire="none", net_device="", transports="",
        network_only=False, colocate="auto", timeout=None,
    )  # fmt: skip
    assert set(sources.values()) == {"default"}


def test_environment_is_read_and_query_wins():
    environment = {"SHOAL_SCHEDULER": "a:1", "SHOAL_CHUNK_BYTES": "64K", "SHOAL_TIMEOUT": "2.5", "SHOAL_JOB_NAME": ""}
    settings, sources = config.read_config(environment, {"scheduler": "b:2"})
    assert (settings.scheduler, settings.chunk_bytes, settings.timeout) == ("b:2", 65536, 2.5)
    assert settings.job_name is None, "an empty variable counts as not set"
    assert sources["chunk_bytes"] == "SHOAL_CHUNK_BYTES"


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("SHOAL_SCHEDULER", "nonsense", "HOST:PORT"),
        ("SHOAL_SCHEDULER", "host:70000", "HOST:PORT"),
        ("SHOAL_MIN_SERVERS", "0", "at least 1"),
        ("SHOAL_MIN_SERVERS", "-2", "at least 1"),
        ("SHOAL_CHUNK_BYTES", "64 bananas", "number of bytes"),
        ("SHOAL_WIRE", "bfloat16", "one of none, bf16, fp16"),
        ("SHOAL_COLOCATE", "1", "one of off, auto, on"),
        ("SHOAL_TIMEOUT", "soon", "seconds"),
        ("SHOAL_TIMEOUT", "0", "seconds"),
        ("SHOAL_JOB_NAME", "x" * 201, "1 to 200"),
    ],
)
def test_wrong_values_are_refused_by_name(variable, value, expected):
    with pytest.raises(ValueError, match=expected) as caught:
        config.read_config({variable: value}, {})
    assert variable in str(caught.value)
    assert repr(value) in str(caught.value)


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


def places(*nodes: str) -> list[placement.RankPlace]:
    return [placement.RankPlace(node, "10.0.0.1", None) for node in nodes]


def test_first_rank_of_each_node_hosts_a_server():
    assert placement.server_ranks_of(places("a", "a", "b", "b", "a", "c")) == [0, 2, 5]
    assert placement.server_ranks_of(places("a", "a")) == [0]


def test_different_schedulers_are_named():
    ranks = [placement.RankPlace("a", "", "s:1"), placement.RankPlace("b", "", None)]
    with pytest.raises(ValueError, match=r"rank 0 has scheduler s:1, rank 1 has \(none\)"):
        placement.check_schedulers(ranks)


def test_unknown_device_is_refused():
    with pytest.raises(ValueError, match="SHOAL_NET_DEVICE=nonesuch"):
        placement.device_address("nonesuch")


def test_loopback_has_an_address():
    assert placement.device_address("lo") == "127.0.0.1"
