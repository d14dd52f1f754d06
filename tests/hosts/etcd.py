"""A real etcd, of one member or several."""

import json
import pathlib
import shutil
import ssl
import urllib.request

from hosts.cluster import Cluster, free_ports
from hosts.node import LOOPBACK
from hosts.process import Process


def member_command(
    name: str, folder: pathlib.Path, clients: dict[str, str], peers: dict[str, str], files: list[str] | None = None
) -> list[str]:
    """`clients` and `peers`: HOST:PORT of every member, by its name. `files`: Authority.issue; none: plain text."""
    client, peer = f"{'https' if files else 'http'}://{clients[name]}", f"http://{peers[name]}"
    program = shutil.which("etcd")
    assert program, "etcd is missing: make setup installs etcd-server"
    return [
        *(program, "--data-dir", str(folder), "--name", name, "--log-level", "error", "--unsafe-no-fsync"),
        *("--listen-client-urls", client, "--advertise-client-urls", client),
        *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
        *(("--cert-file", files[1], "--key-file", files[3]) if files else ()),
        *("--initial-cluster", ",".join(f"{each}=http://{where}" for each, where in peers.items())),
    ]


class Etcd:
    def __init__(self, cluster: Cluster, folder: pathlib.Path, members: int = 1, files: list[str] | None = None):
        self.trusted = ssl.create_default_context(cafile=files[5]) if files else None
        addresses = iter([f"{LOOPBACK}:{port}" for port in free_ports(2 * members)])
        names = [f"member{number}" for number in range(members)]
        clients, peers = dict(zip(names, addresses)), dict(zip(names, addresses))
        self.address = ",".join(clients.values())
        self.by_address: dict[str, Process] = {
            clients[name]: cluster.start(member_command(name, folder / name, clients, peers, files)) for name in names
        }
        cluster.wait_until(lambda: all("true" in self.read(each, "health") for each in self.by_address), "etcd is well")

    @property
    def process(self) -> Process:
        """Of the only member."""
        (process,) = self.by_address.values()
        return process

    def leader(self) -> Process:
        (leader,) = self.leaders()
        return leader

    def leaders(self) -> list[Process]:
        """Those of the running members that say so: none while they elect one."""
        leads = "etcd_server_is_leader 1\n"
        running = [address for address, process in self.by_address.items() if process.running()]
        return [self.by_address[address] for address in running if leads in self.read(address, "metrics")]

    def read(self, address: str, page: str) -> str:
        """Empty: it does not answer yet."""
        assert self.by_address[address].running(), self.by_address[address]
        try:
            return self._ask(address, page, None)
        except OSError:
            return ""

    def _ask(self, address: str, page: str, document: dict | None) -> str:
        data = None if document is None else json.dumps(document).encode()
        url = f"{'https' if self.trusted else 'http'}://{address}/{page}"
        with urllib.request.urlopen(url, data=data, timeout=5, context=self.trusted) as answer:
            return answer.read().decode()

    def require_login(self, user: str, password: str) -> None:
        """From now on everybody has to log in, and this user may do all."""
        (address, *_) = self.by_address
        for page, document in (
            ("role/add", {"name": user}),
            ("user/add", {"name": user, "password": password}),
            ("user/grant", {"user": user, "role": user}),
            ("enable", {}),
        ):
            self._ask(address, f"v3/auth/{page}", document)
