"""torch's own DistributedTest passes on this backend where it passes on Gloo.

docs/torch_suite.md lists what both made of every test when the page was written (scripts/torch_suite_page.py). Here
those that Gloo passes run on Shoal alone; Gloo takes one again that fails, so that the message says whose fault it is.
"""

import re

import pytest
import torch
from torch_cluster import Cluster, clean_environment
from torch_suite_runs import PAGE, RUN_SECONDS, run_suite, torchs_names

# They compare the name of the backend: what they find shows whose groups the tests had.
ABOUT_THE_NAME = {
    "test_get_backend": "AssertionError: String comparison failed: 'shoal' != 'gloo'",
    "test_ddp_logging_data_cpu": "AssertionError: String comparison failed: 'custom' != 'shoal'",
}
ON_SERVERS = "test_all_reduce_"


def names_under(heading: str) -> list[str]:
    """The tests that the page lists in that section."""
    section = PAGE.read_text(encoding="utf-8").split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"`(test_\w+)`", section)


PASSED = names_under("Passed by both")


@pytest.fixture(scope="module")
def all_names() -> set[str]:
    return torchs_names()


@pytest.fixture(scope="module")
def outcomes(cluster: Cluster, all_names: set[str]) -> dict[str, dict]:
    names = [name for name in [*PASSED, *ABOUT_THE_NAME] if name in all_names]
    return run_suite("shoal", names, clean_environment(**cluster.environment()))


@pytest.mark.timeout(RUN_SECONDS)
@pytest.mark.parametrize("name", PASSED)
def test_a_test_of_torch_passes_as_it_does_on_gloo(name: str, outcomes: dict[str, dict]):
    if name not in outcomes:
        assert not torch.__version__.startswith("2.15."), f"{name} is not in torch any more: write the page anew"
        pytest.skip(f"torch {torch.__version__} has no such test")
    if outcomes[name]["outcome"] != "passed":
        control = run_suite("gloo", [name], clean_environment())[name]
        pytest.fail(f"on Gloo: {control['outcome']}; on Shoal: {outcomes[name]['outcome']}: {outcomes[name]['why']}")


@pytest.mark.timeout(RUN_SECONDS)
@pytest.mark.parametrize("name", ABOUT_THE_NAME)
def test_it_was_this_backend_that_passed(name: str, outcomes: dict[str, dict]):
    assert outcomes[name]["outcome"] == "failed"
    assert ABOUT_THE_NAME[name] in outcomes[name]["why"]


@pytest.mark.timeout(RUN_SECONDS)
def test_it_was_the_servers_that_reduced(outcomes: dict[str, dict]):
    ops = {name: outcome.get("ops", 0) for name, outcome in outcomes.items() if name.startswith(ON_SERVERS)}
    assert len(ops) > 10
    for kind in ("sum", "min", "max", "product"):
        assert ops[f"{ON_SERVERS}full_group_{kind}"] > 0


def test_the_page_lists_every_test_of_torch(all_names: set[str]):
    listed = set(re.findall(r"`(test_\w+)`", PAGE.read_text(encoding="utf-8")))
    if torch.__version__.startswith("2.15."):
        assert listed == all_names, "write docs/torch_suite.md anew: scripts/torch_suite_page.py"
    assert set(names_under("Passed by Gloo alone")) == set(ABOUT_THE_NAME)
    assert len(PASSED) > 90
