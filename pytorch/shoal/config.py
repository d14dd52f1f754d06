"""Every setting of the package, where it comes from and which values it may have.

A setting is read from the query of `init_method="shoal://HOST:PORT?name=value&..."`, otherwise from its environment
variable, otherwise it has its default. A wrong value raises ValueError with the name, the value and what is expected.
"""

import dataclasses
import difflib
import math
import re
import warnings
from collections.abc import Callable, Mapping


def parse_address(text: str) -> str:
    host, separator, port = text.rpartition(":")
    if not (separator and host and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError("HOST:PORT")
    return text


# As core/name.h has it.
NAME_CHARACTERS = "A-Za-z0-9._:/-"


def parse_job_name(text: str) -> str:
    if re.fullmatch(f"[{NAME_CHARACTERS}]{{1,200}}", text) is None:
        raise ValueError("a name of 1 to 200 ASCII letters, digits and the characters . _ - : /")
    return text


def parse_count(text: str) -> int:
    if not text.isdigit() or int(text) == 0:
        raise ValueError("a number of at least 1")
    return int(text)


def parse_bytes(text: str) -> int:
    match = re.fullmatch(r"(\d+)([KMG]?)(?:i?B)?", text)
    if match is None or int(match[1]) == 0:
        raise ValueError("a number of bytes, such as 65536, 64K, 1M or 1G")
    return int(match[1]) * {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}[match[2]]


def parse_port_buffer(text: str) -> int:
    port_bytes = 0 if text == "0" else parse_bytes(text)
    if port_bytes > 1 << 30:
        raise ValueError("a number of bytes up to 1G, such as 128K, or 0")
    return port_bytes


def parse_seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < 1e6:
        raise ValueError("a number of seconds above 0")
    return seconds


def parse_switch(text: str) -> bool:
    if text not in ("0", "1"):
        raise ValueError("0 or 1")
    return text == "1"


WIRES = {"none": 0, "fp16": 3, "bf16": 4, "int8": 5, "fp8": 10}  # the numbers of shoal_wire in worker.h


def parse_wire(text: str) -> str:
    if text not in WIRES:
        raise ValueError(f"one of {', '.join(WIRES)}")
    return text


COLOCATIONS = ("off", "auto", "on")  # in the order of shoal_colocation in worker.h


def parse_colocation(text: str) -> str:
    if text not in COLOCATIONS:
        raise ValueError(f"one of {', '.join(COLOCATIONS)}")
    return text


WITHOUT_SERVERS = ("wait", "colocate")  # in the order of shoal_without_servers


def parse_without_servers(text: str) -> str:
    if text not in WITHOUT_SERVERS:
        raise ValueError(f"one of {', '.join(WITHOUT_SERVERS)}")
    return text


DEVICES = ("auto", "none", "cuda")


def parse_devices(text: str) -> str:
    if text not in DEVICES:
        raise ValueError(f"one of {', '.join(DEVICES)}")
    return text


NODE_REDUCES = ("auto", "off", "host", "nccl")  # in the order of shoal_node_reduce in worker.h
NODE_REDUCE_BEST = 4  # "auto" for a group, whatever the setting is


def parse_node_reduce(text: str) -> str:
    if text not in NODE_REDUCES:
        raise ValueError(f"one of {', '.join(NODE_REDUCES)}")
    return text


def parse_text(text: str) -> str:
    return text


@dataclasses.dataclass(frozen=True)
class Setting:
    name: str  # in Config and in the query
    variable: str
    parse: Callable[[str], object]
    default: object
    meaning: str


SETTINGS = (
    Setting("scheduler", "SHOAL_SCHEDULER", parse_address, None,
            "HOST:PORT of the cluster's scheduler; unset: rank 0 runs one, and the first rank of each node runs a"
            " server"),
    Setting("job_name", "SHOAL_JOB_NAME", parse_job_name, None,
            "name of the job in the cluster; unset: one that no other job has, made from torchrun's run id or the"
            " master's address"),
    Setting("min_servers", "SHOAL_MIN_SERVERS", parse_count, None,
            "how many servers to wait for; unset: 1, or one per node when the job runs them itself"),
    Setting("port_buffer", "SHOAL_PORT_BUFFER", parse_port_buffer, 0,
            "what switch ports between nodes hold at the least, for a scheduler that rank 0 runs; 0: not known; a"
            " cluster's scheduler has its own `--port-buffer`"),
    Setting("encrypt", "SHOAL_ENCRYPT", parse_switch, False,
            "1: what ranks and servers send each other over TCP is encrypted, for a scheduler that rank 0 runs; a"
            " cluster's scheduler has its own `--encrypt`"),
    Setting("tls_cert", "SHOAL_TLS_CERT", parse_text, "",
            "PEM file of the certificate with which the rank shows the scheduler who it is; with it go SHOAL_TLS_KEY"
            " and SHOAL_TLS_CA; a changed file is read again; empty: plain text"),
    Setting("tls_key", "SHOAL_TLS_KEY", parse_text, "", "PEM file of the private key of that certificate"),
    Setting("tls_ca", "SHOAL_TLS_CA", parse_text, "",
            "PEM file of the certificates of those who may sign the scheduler's certificate"),
    Setting("chunk_bytes", "SHOAL_CHUNK_BYTES", parse_bytes, 0,
            "size of the largest chunk of a tensor, equal on all ranks; 0: the library's default"),
    Setting("wire", "SHOAL_WIRE", parse_wire, "none",
            f"{', '.join(list(WIRES)[1:])}: float32 tensors are sent rounded to 16 bits, or to 8 (tensors in host"
            " memory alone); none: unchanged; equal on all ranks"),
    Setting("error_feedback", "SHOAL_ERROR_FEEDBACK", parse_switch, False,
            "1: what a wire that rounds takes from a float32 contribution is added to the next one at the same place;"
            " ranks do not reduce within their nodes then (tensors in host memory alone)"),
    Setting("net_device", "SHOAL_NET_DEVICE", parse_text, "",
            "network device of the data plane, such as eth0 or lo; with RDMA a node's ranks are dealt over several,"
            " such as mlx5_0:1/mlx5_1:1; empty: that of the route to a server"),
    Setting("transports", "SHOAL_TRANSPORTS", parse_text, "",
            "how bytes travel between nodes, as the servers have it: tcp for sockets, or RDMA transports of UCX such as"
            " rc; empty: tcp"),
    Setting("network_only", "SHOAL_NETWORK_ONLY", parse_switch, False,
            "1: use the network also to servers of this node, instead of shared memory"),
    Setting("checksums", "SHOAL_CHECKSUMS", parse_switch, False,
            "1: chunks carry a checksum; a chunk that was changed on its way is sent again and never summed"),
    Setting("check_finite", "SHOAL_CHECK_FINITE", parse_switch, False,
            "1: contributions are looked at before they are sent; one with NaN or infinity is an error on all ranks"
            " that names its rank; CUDA tensors are copied to the host for it, which waits for them"),
    Setting("flight_recorder", "SHOAL_FLIGHT_RECORDER", parse_text, "auto",
            "folder in which a rank writes the last events of its connections when an op has failed; the scheduler is"
            " sent them as well; auto: shoal-flights-UID in the temporary directory, which is made then; off: nowhere,"
            " and they are not sent"),
    Setting("colocate", "SHOAL_COLOCATE", parse_colocation, "auto",
            "whether ranks run colocated servers for their job, one per node; auto: if the cluster has fewer"
            " servers than the job has ranks, or nodes where their ranks reduce among themselves first"),
    Setting("without_servers", "SHOAL_WITHOUT_SERVERS", parse_without_servers, "wait",
            "when no server is left: wait for one, or colocate: ranks run colocated servers for their job, one per"
            " node"),
    Setting("node_reduce", "SHOAL_NODE_REDUCE", parse_node_reduce, "auto",
            "whether ranks on one node reduce among themselves: auto: as the scheduler finds best; host: wherever they"
            " can, through the node's memory; nccl: CUDA tensors by NCCL; off: never; equal on all ranks"),
    Setting("devices", "SHOAL_DEVICES", parse_devices, "auto",
            "whether the servers reduce tensors on CUDA devices: auto: where torch finds a device; cuda: yes; none:"
            " NCCL reduces them; equal on all ranks"),
    Setting("device_memory", "SHOAL_DEVICE_MEMORY", parse_bytes, 0,
            "host memory for what is on its way from and to devices; 0: the library's default, 256M"),
    Setting("blocking_wait", "SHOAL_BLOCKING_WAIT", parse_switch, False,
            "1: wait() of an all-reduce of CUDA tensors, and of its future, which DistributedDataParallel waits for,"
            " blocks the host until it has ended and raises its error, for programs that must not go on with the NaN of"
            " a failed op; otherwise the stream waits, and the next all-reduce or barrier raises it"),
    Setting("quiet", "SHOAL_QUIET", parse_switch, False,
            "1: write no lines about long waits to standard error"),
    Setting("timeout", "SHOAL_TIMEOUT", parse_seconds, None,
            "seconds for the ranks of a group to come, and then for scheduler and servers; unset: the process group's"
            " timeout, and for the latter at most 300"),
)  # fmt: skip

# Read elsewhere: the path of the library at run and build time, CUDA's driver, NCCL, the folder of the programs.
OTHER_VARIABLES = ("SHOAL_LIBRARY", "SHOAL_LIBRARY_FILE", "SHOAL_CUDA_LIBRARY", "SHOAL_NCCL_LIBRARY", "SHOAL_BIN")
# The programs have variables of their own.
PROGRAM_PREFIXES = ("SHOAL_SCHEDULER_", "SHOAL_SERVER_", "SHOAL_PERF_", "SHOAL_CTL_")


@dataclasses.dataclass(frozen=True)
class Config:
    scheduler: str | None
    job_name: str | None
    min_servers: int | None
    port_buffer: int
    encrypt: bool
    tls_cert: str
    tls_key: str
    tls_ca: str
    chunk_bytes: int
    wire: str
    error_feedback: bool
    net_device: str
    transports: str
    network_only: bool
    checksums: bool
    check_finite: bool
    flight_recorder: str
    colocate: str
    without_servers: str
    node_reduce: str
    devices: str
    device_memory: int
    blocking_wait: bool
    quiet: bool
    timeout: float | None


def read_config(environment: Mapping[str, str], query: Mapping[str, str]) -> tuple[Config, dict[str, str]]:
    """Returns the configuration, and for each setting where it came from. Raises ValueError."""
    unknown = sorted(set(query) - {setting.name for setting in SETTINGS})
    if unknown:
        raise ValueError(
            f"init_method: unknown setting {unknown[0]!r}{_suggest(unknown[0], [s.name for s in SETTINGS])}"
        )
    values, sources = {}, {}
    for setting in SETTINGS:
        if setting.name in query:
            text, source = query[setting.name], f"init_method's {setting.name}"
        elif environment.get(setting.variable):  # an empty variable counts as not set
            text, source = environment[setting.variable], setting.variable
        else:
            values[setting.name], sources[setting.name] = setting.default, "default"
            continue
        try:
            values[setting.name], sources[setting.name] = setting.parse(text), source
        except ValueError as error:
            raise ValueError(f"{source}={text!r}: expected {error}") from None
    config = Config(**values)
    if config.scheduler is None and (config.tls_cert or config.tls_key or config.tls_ca):
        raise ValueError(
            "SHOAL_TLS_CERT, SHOAL_TLS_KEY and SHOAL_TLS_CA are for a cluster's scheduler: name it with"
            " SHOAL_SCHEDULER; one that rank 0 runs takes no certificates"
        )
    return config, sources


def options_of_group(settings: Config, given: object) -> tuple[str, str, bool]:
    """Wire, node_reduce and error feedback of a group: those of `given`, its GroupOptions, else as the settings say. A
    group with that feedback does not reduce within nodes; one that asks for that has no feedback by the settings."""
    wire = given.wire or settings.wire
    by_setting = settings.error_feedback and wire != "none" and given.node_reduce is None
    if given.error_feedback or by_setting:
        return wire, "off", True
    return wire, given.node_reduce or settings.node_reduce, False


def warn_about_unknown_variables(environment: Mapping[str, str]) -> None:
    known = [setting.variable for setting in SETTINGS] + list(OTHER_VARIABLES)
    for name in sorted(environment):
        if name.startswith("SHOAL_") and name not in known and not name.startswith(PROGRAM_PREFIXES):
            warnings.warn(f"unknown environment variable {name} is ignored{_suggest(name, known)}", stacklevel=2)


def _suggest(name: str, known: list[str]) -> str:
    nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"; did you mean {nearest[0]}?" if nearest else f"; the known ones are {', '.join(known)}"
