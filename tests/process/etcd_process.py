"""A real etcd of one member, for the tests of several schedulers."""

import pathlib
import shutil
import urllib.request

from cluster import LOOPBACK, Cluster, Process, free_ports


class Etcd:
    def __init__(self, cluster: Cluster, folder: pathlib.Path):
        program = shutil.which("etcd")
        assert program, "etcd is missing: make setup installs etcd-server"
        client, peer = free_ports(2)
        self.address = f"{LOOPBACK}:{client}"
        peer_url = f"http://{LOOPBACK}:{peer}"
        command = [program, "--data-dir", str(folder / "etcd"), "--name", "one", "--log-level", "error"]
        command += [
            "--listen-client-urls",
            f"http://{self.address}",
            "--advertise-client-urls",
            f"http://{self.address}",
        ]
        command += ["--listen-peer-urls", peer_url, "--initial-advertise-peer-urls", peer_url]
        command += ["--initial-cluster", f"one={peer_url}", "--unsafe-no-fsync"]
        self.process: Process = cluster.start(command)
        cluster.wait_until(self.is_healthy, "etcd is healthy")

    def is_healthy(self) -> bool:
        assert self.process.running(), self.process
        try:
            with urllib.request.urlopen(f"http://{self.address}/health", timeout=5) as answer:
                return b"true" in answer.read()
        except OSError:
            return False
