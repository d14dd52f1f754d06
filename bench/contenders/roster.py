"""Every contender by its name: how to start it, what to call it, and whether this build and machine have it."""

import pathlib

from contenders.open_mpi import OpenMpi
from contenders.server_thread import ServerThread
from contenders.shoal import Shoal, has_flag
from contenders.torch_ranks import TorchRanks
from hosts.network import Network
from hosts.process import Processes

# Flags of shoal-server and of shoal-perf. Shared memory between processes of one node is chosen by itself, so who is to
# use the network must say so, also where namespaces of one machine stand for nodes.
NETWORK_ONLY = "network-only"
WIRE = "wire"
COLOCATE = "colocate"
CHECKSUMS = "checksums"
COLOCATED = "shoal-colocated"
NODE_REDUCE = "node-reduce"
SPLIT = "split"
WITHIN_NODE = "shoal-node"
WITHIN_NODE_COLOCATED = "shoal-node-colocated"
REPLICAS = "shoal-replicas"  # the ranks with the same index on their nodes reduce together, all at the same time
GLOO_REPLICAS = "gloo-replicas"
ENCRYPTED = "shoal-encrypted"
STEP = "shoal-step"  # torch's ranks with servers of their own
TORCH_SHM = "shoal-torch-shm"  # likewise
DDP_ALONE = "ddp-alone"
# By the contender under DistributedDataParallel: the one that makes an all-reduce of the same bytes without it.
BARE_OF_DDP = {"shoal-ddp": "shoal-torch", "gloo-ddp": "gloo"}
# Of a contender's name: the same contender with the programs of another build (bench/run.py --other-build).
OTHER_BUILD = "@other"
# The other build once more (bench/run.py --control): what differs from itself is the machine's noise.
CONTROL = "@control"

LABELS = {
    "shoal": "Shoal",
    "shoal-tcp": "Shoal over TCP",
    "shoal-shm": "Shoal, shared memory",
    "shoal-bf16": "Shoal, bf16 on the wire",
    "shoal-tcp-checked": "Shoal over TCP, checksums",
    "shoal-shm-checked": "Shoal, shared memory, checksums",
    ENCRYPTED: "Shoal over TCP, encrypted",
    "shoal-thread-alone": "a small job, alone",
    "shoal-thread-beside": "a small job, beside a large one",
    "shoal-thread-large": "the large job, alone",
    "shoal-thread-shared": "the large job, beside a small one",
    COLOCATED: "Shoal, servers in workers too",
    WITHIN_NODE: "Shoal, within the node first",
    WITHIN_NODE_COLOCATED: "Shoal, within the node first, servers on the nodes too",
    REPLICAS: "Shoal, a group for each local rank",
    "shoal-torch": "Shoal in torch, nothing set up",
    TORCH_SHM: "Shoal in torch, shared memory",
    "shoal-ddp": "Shoal under DDP, nothing set up",
    "gloo": "torch Gloo",
    "gloo-ddp": "Gloo under DDP",
    GLOO_REPLICAS: "torch Gloo, a group for each local rank",
    STEP: "Shoal under DDP",
    "gloo-step": "Gloo under DDP",
    DDP_ALONE: "DDP exchanging nothing",
    "openmpi": "OpenMPI, its own choice",
    "openmpi-ring": "OpenMPI, ring",
    "openmpi-segmented-ring": "OpenMPI, segmented ring",
    "openmpi-rabenseifner": "OpenMPI, Rabenseifner",
    "openmpi-tcp": "OpenMPI, TCP",
    "openmpi-shm": "OpenMPI, shared memory",
}
# torch's backends: with nothing else running, Shoal's ranks run the scheduler and a server in their processes.
TORCH = {
    "shoal-torch": "shoal",
    "shoal-ddp": "shoal",
    "gloo": "gloo",
    "gloo-ddp": "gloo",
    DDP_ALONE: "gloo",
    "gloo-step": "gloo",
    GLOO_REPLICAS: "gloo",
}
# The rig has its ranks use servers (hosts/process.py); these are to do what they do by themselves.
NOTHING_SET_UP = {"SHOAL_NODE_REDUCE": "auto"}
SHOAL_FLAGS = {
    "shoal-shm": NETWORK_ONLY,
    "shoal-bf16": WIRE,
    COLOCATED: COLOCATE,
    WITHIN_NODE: NODE_REDUCE,
    REPLICAS: SPLIT,
    WITHIN_NODE_COLOCATED: NODE_REDUCE,
    **dict.fromkeys(("shoal-tcp-checked", "shoal-shm-checked"), CHECKSUMS),
}


def kind(name: str) -> str:
    """The contender, whichever build's programs it runs."""
    return name.removesuffix(OTHER_BUILD).removesuffix(CONTROL)


def label(name: str) -> str:
    """What a page calls it."""
    suffix = {OTHER_BUILD: ", the other build", CONTROL: ", the other build again"}
    return LABELS[kind(name)] + suffix.get(name.removeprefix(kind(name)), "")


def runs_other_build(name: str) -> bool:
    return name != kind(name)


def with_other_build(names: tuple[str, ...], has_control: bool) -> tuple[str, ...]:
    """Every contender that runs our programs is followed by itself with those of the other build, once or twice."""
    more = []
    for name in names:
        more.append(name)
        if not is_shoal(name) or name in (*TORCH, STEP, TORCH_SHM):
            continue
        more.append(name + OTHER_BUILD)
        if has_control:
            more.append(name + CONTROL)
    return tuple(more)


def is_shoal(name: str) -> bool:
    return name.startswith("shoal")


def polls(name: str) -> bool:
    """Whether its processes wait by looking again and again, so that the processors are never idle."""
    return name.startswith("openmpi")


def why_absent(name: str, programs: pathlib.Path, open_mpi_program: pathlib.Path) -> str:
    """Empty if the contender can be measured."""
    name = kind(name)
    if is_shoal(name):
        flag = SHOAL_FLAGS.get(name)
        if flag is not None and not has_flag(programs / "shoal-perf", flag):
            return f"this build's shoal-perf has no --{flag}"
    elif name.startswith("openmpi") and not open_mpi_program.is_file():
        return f"{open_mpi_program} is not there; bench/setup.sh makes it"
    return ""


def start(name: str, programs: pathlib.Path, open_mpi_program: pathlib.Path, network: Network, processes: Processes):
    """HostError if it does not start."""
    name = kind(name)
    if name in TORCH:
        mode = name if name == DDP_ALONE else name.partition("-")[2]
        mode = mode if mode in ("ddp", DDP_ALONE, "step", "replicas") else "all-reduce"
        return TorchRanks(name, TORCH[name], network, processes, mode, NOTHING_SET_UP)
    if name == "openmpi-shm":
        return OpenMpi(name, open_mpi_program, network, processes, byte_transfer="vader")
    if name.startswith("openmpi"):
        algorithm = name.removeprefix("openmpi").removeprefix("-tcp").removeprefix("-") or "default"
        return OpenMpi(name, open_mpi_program, network, processes, algorithm)
    if name.startswith("shoal-thread-"):
        return ServerThread(programs, network, processes, name.removeprefix("shoal-thread-"))
    if name in (STEP, TORCH_SHM):
        servers = Shoal(programs, network, processes, [f"--{NETWORK_ONLY}"] if name == STEP else [], [])
        env = {
            "SHOAL_SCHEDULER": servers.scheduler,
            "SHOAL_MIN_SERVERS": str(len(network.servers)),
            "SHOAL_NODE_REDUCE": "auto" if name == STEP else "off",
            "SHOAL_COLOCATE": "off",
        }
        return TorchRanks(name, "shoal", network, processes, "step" if name == STEP else "all-reduce", env)
    if name == COLOCATED:
        # Shared memory is only for a rank and the server in its own process: another namespace is another node.
        colocating = len(network.workers) if len(network.servers) < len(network.workers) else 0
        return Shoal(programs, network, processes, [], [f"--{COLOCATE}=auto"], colocating_ranks=colocating)
    if name == WITHIN_NODE_COLOCATED:
        flags = [f"--{COLOCATE}=auto", f"--{NODE_REDUCE}=host"]
        return Shoal(programs, network, processes, [], flags, colocating_ranks=len(set(network.workers)))
    server_flags, perf_flags = [], []
    if has_flag(programs / "shoal-perf", COLOCATE):
        perf_flags.append(f"--{COLOCATE}=off")
    shares_memory = name.startswith("shoal-shm") or name == WITHIN_NODE
    if not shares_memory and has_flag(programs / "shoal-server", NETWORK_ONLY):
        server_flags.append(f"--{NETWORK_ONLY}")
    if not shares_memory and has_flag(programs / "shoal-perf", NETWORK_ONLY):
        perf_flags.append(f"--{NETWORK_ONLY}")
    if name.endswith("-checked"):
        perf_flags.append(f"--{CHECKSUMS}")
    if name == WITHIN_NODE:
        perf_flags.append(f"--{NODE_REDUCE}=host")
    if name == REPLICAS:
        perf_flags += [f"--{SPLIT}=mod:{network.ranks_per_node}", f"--{NODE_REDUCE}=off"]
    if name == "shoal-bf16":
        perf_flags.append(f"--{WIRE}=bf16")
    scheduler_flags = ["--encrypt"] if name == ENCRYPTED else []
    return Shoal(programs, network, processes, server_flags, perf_flags, scheduler_flags=scheduler_flags)
