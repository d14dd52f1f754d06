"""Fixtures of the PyTorch tests: a cluster of one scheduler and two servers, shared by all of them."""

from collections.abc import Iterator

import device_under_test
import pytest
import torch.distributed as dist
from torch_cluster import Cluster, start_cluster


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with start_cluster() as started:
        yield started


@pytest.fixture
def own_cluster() -> Iterator[Cluster]:
    """One that no other test uses: for tests that disturb its servers."""
    with start_cluster() as started:
        yield started


@pytest.fixture
def store() -> dist.TCPStore:
    return dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)


@pytest.fixture(params=["through servers", "within a node by NCCL"])
def settings(cluster: Cluster, request: pytest.FixtureRequest) -> dict[str, str]:
    """The environment of ranks whose tensors are on devices."""
    ways = {"through servers": device_under_test.ENVIRONMENT, "within a node by NCCL": device_under_test.ON_NODES}
    return cluster.environment() | ways[request.param]
