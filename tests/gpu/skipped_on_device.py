"""A plugin of pytest for a machine without a device: of the tests that were collected, those alone run whose marks skip
them. With TEST_ON_GPU=1 pytest then says, and runs nothing, which tests it would skip on a device and why."""

import pytest


def is_skipped(item: pytest.Item) -> bool:
    return any(mark.name == "skip" or (mark.name == "skipif" and mark.args[0]) for mark in item.iter_markers())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = filter(is_skipped, items)
