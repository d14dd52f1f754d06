"""A real etcd, of one member or several, for the tests of several schedulers."""

import pathlib
import shutil
import urllib.request

from cluster import LOOPBACK, Cluster, Process, free_ports


class Etcd:
    def __init__(self, cluster: Cluster, folder: pathlib.Path, members: int = 1):
        self.program = shutil.which("etcd")
        assert self.program, "etcd is missing: make setup installs etcd-server"
        ports = free_ports(2 * members)
        clients = [f"{LOOPBACK}:{port}" for port in ports[:members]]
        peers = [f"http://{LOOPBACK}:{port}" for port in ports[members:]]
        self.address = ",".join(clients)
        self.by_address: dict[str, Process] = {}
        for number, (client, peer) in enumerate(zip(clients, peers)):
            command = [self.program, "--data-dir", str(folder / f"etcd{number}"), "--name", f"member{number}"]
            command += ["--listen-client-urls", f"http://{client}", "--advertise-client-urls", f"http://{client}"]
            command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
            command += ["--initial-cluster", ",".join(f"member{each}={where}" for each, where in enumerate(peers))]
            command += ["--log-level", "error", "--unsafe-no-fsync"]
            self.by_address[client] = cluster.start(command)
        cluster.wait_until(lambda: all("true" in self.read(each, "health") for each in clients), "etcd is healthy")

    @property
    def process(self) -> Process:
        """Of the only member."""
        (process,) = self.by_address.values()
        return process

    def leader(self) -> Process:
        leads = "etcd_server_is_leader 1\n"
        (address,) = [each for each in self.by_address if leads in self.read(each, "metrics")]
        return self.by_address[address]

    def read(self, address: str, page: str) -> str:
        """Empty: it does not answer yet."""
        assert self.by_address[address].running(), self.by_address[address]
        try:
            with urllib.request.urlopen(f"http://{address}/{page}", timeout=5) as answer:
                return answer.read().decode()
        except OSError:
            return ""
