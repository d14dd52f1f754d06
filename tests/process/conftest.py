"""The fixture of the process tests: a cluster that leaves no process behind, whatever the test did."""

import sys

import pytest

from cluster import Cluster


@pytest.fixture
def cluster(request):
    started = Cluster()
    yield started
    started.end()
    report = getattr(request.node, "call_report", None)
    if report is not None and report.failed:
        print(started, file=sys.stderr)  # pytest shows it with the failure


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    if call.when == "call":
        item.call_report = outcome.get_result()
