"""One rank of a replica group under torchft: trains a small model, and says on each step what came of it, as one JSON
object a line. A number on its standard input is the count of committed steps at which the training ends; with --on-call
a line before it begins the training.
"""

import argparse
import datetime
import hashlib
import json
import math
import os
import sys
import threading
import time
import zlib
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn

import torchft
from torchft.local_sgd import DiLoCo, LocalSGD
from torchft.manager import WorldSizeMode

parser = argparse.ArgumentParser()
parser.add_argument("--replica", required=True)
parser.add_argument("--lighthouse", required=True)
parser.add_argument("--group", choices=["gloo", "shoal", "native"], default="shoal")
parser.add_argument("--inside", choices=["flat", "ddp", "hsdp", "local_sgd", "diloco"], default="flat")
parser.add_argument("--min-replicas", type=int, default=1)
parser.add_argument("--spares", action="store_true", help="replicas above --min-replicas take part when one is lost")
parser.add_argument("--step-ms", type=float, default=20)
parser.add_argument("--hidden", type=int, default=64)
parser.add_argument("--timeout", type=float, default=30)
parser.add_argument("--on-call", action="store_true")
options = parser.parse_args()

TIMEOUT = datetime.timedelta(seconds=options.timeout)
QUORUM_TIMEOUT = datetime.timedelta(seconds=60)
SYNC_EVERY = 4  # of local_sgd and diloco
MODES = {False: WorldSizeMode.DYNAMIC, True: WorldSizeMode.FIXED_WITH_SPARES}
RANK, WORLD_SIZE = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def say(kind: str, **more: object) -> None:
    word = {"kind": kind, "at": time.time(), "replica": options.replica, "rank": RANK, **more}
    sys.stdout.write(json.dumps(word) + "\n")  # in one piece: torchft logs meanwhile
    sys.stdout.flush()


def make_store() -> dist.TCPStore:
    """Of the replica group."""
    if WORLD_SIZE == 1:
        return dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    return dist.TCPStore("127.0.0.1", int(os.environ["MASTER_PORT"]), is_master=False, timeout=TIMEOUT)


def make_group() -> object:
    if options.group == "gloo":
        return torchft.ProcessGroupGloo(timeout=TIMEOUT)
    if options.group == "shoal":
        from shoal.torchft import ProcessGroupShoal

        return ProcessGroupShoal(timeout=TIMEOUT, identity=f"replica {options.replica} rank {RANK}")
    dist.init_process_group(
        "shoal", store=dist.HashStore(), rank=0, world_size=1, timeout=TIMEOUT, enable_reconfigure=True
    )
    return dist.group.WORLD


def all_reduce_gradients(manager: torchft.Manager, model: nn.Module) -> None:
    gradients = [parameter.grad for parameter in model.parameters()]
    together = torch.cat([gradient.flatten() for gradient in gradients])
    manager.allreduce(together).wait()
    for gradient, part in zip(gradients, together.split([gradient.numel() for gradient in gradients])):
        gradient.copy_(part.view_as(gradient))


def note_reconfigurations(group: object) -> None:
    """Says how long each took. Of a native group nothing in Python is called."""
    if not isinstance(group, torchft.process_group.ProcessGroup):
        return
    name = "reconfigure" if hasattr(group, "reconfigure") else "configure"
    reconfigure = getattr(group, name)

    def timed(*arguments: object, **named: object) -> object:
        begin = time.monotonic()
        result = reconfigure(*arguments, **named)
        say("reconfigured", seconds=time.monotonic() - begin)
        return result

    setattr(group, name, timed)


class Reducer:
    """Of HSDP: the hook that FSDP2 calls with each shard's gradients when its replica group has summed them."""

    def __init__(self, manager: torchft.Manager):
        self._manager = manager

    def __call__(self, output: torch.Tensor) -> None:
        self._manager.allreduce(output).wait()


def main() -> None:
    torch.set_num_threads(1)
    if options.on_call:
        say("loaded")
        sys.stdin.readline()
    store = make_store()
    if WORLD_SIZE > 1:
        dist.init_process_group(
            "gloo", store=dist.PrefixStore("inside", store), rank=RANK, world_size=WORLD_SIZE, timeout=TIMEOUT
        )
    group = make_group()
    torch.manual_seed(0)
    model: nn.Module = nn.Sequential(nn.Linear(32, options.hidden), nn.Tanh(), nn.Linear(options.hidden, 1))
    teacher = nn.Linear(32, 1)
    if options.inside == "hsdp":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        model = fully_shard(model, mesh=init_device_mesh("cpu", (WORLD_SIZE,)))
    optimizer = torch.optim.SGD(model.parameters(), lr=3.2 / options.hidden)

    def load(state: dict) -> None:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])

    local = options.inside in ("local_sgd", "diloco")
    # Another thread must not read the state of FSDP2 while it gathers and frees parameters.
    in_background = options.inside in ("flat", "ddp")
    manager = torchft.Manager(
        pg=group, min_replica_size=options.min_replicas, load_state_dict=load, world_size_mode=MODES[options.spares],
        state_dict=lambda: {"model": model.state_dict(), "optimizer": optimizer.state_dict()},
        timeout=TIMEOUT, quorum_timeout=QUORUM_TIMEOUT, connect_timeout=TIMEOUT, use_async_quorum=in_background,
        replica_id=options.replica, lighthouse_addr=options.lighthouse, hostname="127.0.0.1",
        rank=RANK, world_size=WORLD_SIZE, store_addr="127.0.0.1", store_port=store.port,
    )  # fmt: skip
    note_reconfigurations(group)
    trained = model
    if options.inside == "ddp":
        trained = torchft.DistributedDataParallel(manager, model)
    elif options.inside == "hsdp":
        model.set_all_reduce_hook(Reducer(manager))
    last_step = math.inf

    def read_last_step() -> None:
        nonlocal last_step
        if line := sys.stdin.readline():
            last_step = int(line)

    threading.Thread(target=read_last_step, daemon=True).start()
    say("ready")

    def train_step(step: Callable[[], None]) -> float:
        seed = zlib.crc32(f"{options.replica} {manager.current_step()}".encode())
        generator = torch.Generator().manual_seed(seed)
        inputs = torch.randn(16, 32, generator=generator)
        with torch.no_grad():
            wanted = teacher(inputs)
        loss = nn.functional.mse_loss(trained(inputs), wanted)
        time.sleep(options.step_ms / 1000)
        loss.backward()
        step()
        return float(loss.detach())

    def tell(step: int, loss: float) -> None:
        error = manager.errored()
        say(
            "step", step=step, committed=manager.current_step() > step, replicas=manager.num_participants(), loss=loss,
            takes_part=manager.is_participating(),
            error=None if error is None else str(error.original_exception)[:300],
        )  # fmt: skip

    if local:
        outer = torch.optim.SGD(model.parameters(), lr=0.7, momentum=0.9, nesterov=True)
        averaging = (
            LocalSGD(manager, model, optimizer, sync_every=SYNC_EVERY)
            if options.inside == "local_sgd"
            else DiLoCo(manager, [model], optimizer, outer, sync_every=SYNC_EVERY)
        )
        with averaging:
            while manager.current_step() < last_step:
                before = manager.current_step()
                for _ in range(SYNC_EVERY):
                    optimizer.zero_grad()
                    loss = train_step(optimizer.step)
                tell(before, loss)
    else:
        managed = torchft.Optimizer(manager, optimizer)
        while manager.current_step() < last_step:
            before = manager.current_step()
            managed.zero_grad()  # asks for a quorum

            def step() -> None:
                if options.inside == "flat":
                    all_reduce_gradients(manager, model)
                managed.step()

            loss = train_step(step)
            tell(before, loss)
    state = [parameter.detach() for parameter in model.parameters()]
    if options.inside == "hsdp":
        state = [parameter.full_tensor() for parameter in state]
    digest = hashlib.sha256(b"".join(each.contiguous().numpy().tobytes() for each in state)).hexdigest()
    say("end", step=manager.current_step(), digest=digest)
    sys.stdout.flush()
    os._exit(0)  # torchft's threads would keep it


main()
