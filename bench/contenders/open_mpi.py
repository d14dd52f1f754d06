"""OpenMPI's all-reduce: one mpirun for each case, on the control node; its daemons enter the workers' nodes."""

import json
import pathlib

from contenders.case import Case, Measured
from hosts.network import Network
from hosts.process import Processes

# Of coll/tuned in OpenMPI 4; "default" is what it chooses by itself.
ALGORITHMS = {"default": None, "recursive-doubling": 3, "ring": 4, "segmented-ring": 5, "rabenseifner": 6}


class OpenMpi:
    def __init__(
        self,
        name: str,
        program: pathlib.Path,
        network: Network,
        processes: Processes,
        algorithm: str = "default",
        byte_transfer: str = "tcp",
    ):
        """`byte_transfer` is tcp, or vader for shared memory (all ranks on one node)."""
        self.network = network
        self.processes = processes
        self.one_node = network.workers[0].namespace == network.control.namespace
        device = network.workers[0].device
        flags = {"btl": f"self,{byte_transfer}", "pml": "ob1", "coll_tuned_use_dynamic_rules": "1"}
        if byte_transfer == "tcp":
            flags["btl_tcp_if_include"] = device
        flags["oob_tcp_if_include"] = device
        # Not more than one rank a core: the processes give way while they wait, as OpenMPI itself advises here.
        flags["mpi_yield_when_idle"] = "1"
        if ALGORITHMS[algorithm] is not None:
            flags["coll_tuned_allreduce_algorithm"] = str(ALGORITHMS[algorithm])
        self.command = ["mpirun", "--allow-run-as-root", "--bind-to", "none", "-np", str(len(network.workers))]
        if self.one_node:
            flags["rmaps_base_oversubscribe"] = "1"
            self.command += ["--oversubscribe"]
        else:
            flags["plm_rsh_agent"] = str(self.write_agent(name))
            # Each daemon is started by mpirun, and ends when mpirun does.
            flags["plm_rsh_no_tree_spawn"] = "1"
            self.command += ["--leave-session-attached", "--host", ",".join(node.name for node in network.workers)]
        for key, value in flags.items():
            self.command += ["--mca", key, value]
        self.command.append(str(program))

    def write_agent(self, name: str) -> pathlib.Path:
        """What mpirun calls instead of ssh, with a node's name and a command: goes into the node's namespace."""
        path = self.processes.folder / f"{name}-agent"
        cases = "\n".join(f"  {node.name}) namespace={node.namespace_path()} ;;" for node in self.network.workers)
        path.write_text(
            "#!/bin/sh\nnode=$1\nshift\n"
            f'case "$node" in\n{cases}\n  *) echo "no node $node here" >&2; exit 1 ;;\nesac\n'
            'exec nsenter --net="$namespace" unshare --uts sh -c "hostname $node; $*"\n'
        )
        path.chmod(0o755)
        return path

    def measure(self, case: Case, timeout_s: float) -> Measured:
        command = [*self.command, str(case.size_bytes), str(case.iterations), str(case.warmup), str(case.in_flight)]
        [output] = self.processes.run([(self.network.control, command)], timeout_s)
        result = json.loads(output)
        return Measured(result["op_times_us"], result["time_us"], result["cpu_time_us"], result["wrong"])
