"""The fixture of the process tests: a cluster that leaves no process behind, whatever the test did."""

import sys

import pytest

from hosts.cluster import Cluster
from hosts.process import TIME_FACTOR


@pytest.fixture
def cluster(request):
    started = Cluster()
    yield started
    started.end()
    report = getattr(request.node, "call_report", None)
    if report is not None and report.failed:
        print(started, file=sys.stderr)  # pytest shows it with the failure


def pytest_collection_modifyitems(config, items):
    """Tests of programs with a sanitizer may take longer."""
    if TIME_FACTOR == 1:
        return
    for item in items:
        marker = item.get_closest_marker("timeout")
        limit_s = marker.args[0] if marker else float(config.getini("timeout"))
        item.add_marker(pytest.mark.timeout(limit_s * TIME_FACTOR), append=False)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    if call.when == "call":
        item.call_report = outcome.get_result()
