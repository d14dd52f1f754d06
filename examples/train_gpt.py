#!/usr/bin/env python3
"""Trains a small byte-level GPT on a text file with DistributedDataParallel, over Shoal or another backend.

    torchrun --nproc-per-node 4 examples/train_gpt.py --backend shoal --text corpus.txt

With SHOAL_SCHEDULER=HOST:PORT the gradients go through that cluster's reduction servers; without it, rank 0 runs a
scheduler and a server itself. Same seed, same data and same steps with every backend. At the end each rank prints a
digest of its weights: they must be equal. Nothing is written but what --summary and --checkpoint ask for.

With --checkpoint FILE it goes on from where that file was written last, if it is there, so that torchrun's
--max-restarts lets it survive the loss of a rank, and the weights at the end are those of an undisturbed run.
"""

import argparse
import datetime
import gc
import hashlib
import json
import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as functional
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Block(nn.Module):
    """One transformer layer: causal self-attention, then a feed-forward network, each behind a norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width, bias=False)
        self.attention_output = nn.Linear(width, width, bias=False)
        self.feed_forward = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        batch, length, width = hidden.shape
        projected = self.query_key_value(self.attention_norm(hidden))
        query, key, value = projected.view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        hidden = hidden + self.attention_output(attended.transpose(1, 2).reshape(batch, length, width))
        return hidden + self.feed_forward(hidden)


class Gpt(nn.Module):
    """Predicts the next byte."""

    def __init__(self, width: int, layers: int, heads: int, context: int) -> None:
        super().__init__()
        self.byte_embedding = nn.Embedding(256, width)
        self.position_embedding = nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 256, bias=False))
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, text: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(text.shape[1], device=text.device)
        hidden = self.blocks(self.byte_embedding(text) + self.position_embedding(positions))
        return functional.cross_entropy(self.head(hidden).flatten(0, 1).float(), target.flatten())


class Batches:
    """Random windows of the text. Which ones depends on seed, step and rank alone."""

    def __init__(self, text: bytes, batch: int, context: int, seed: int, rank: int, device: torch.device) -> None:
        self.text = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        self.batch, self.context, self.seed, self.rank, self.device = batch, context, seed, rank, device

    def at(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        generator = torch.Generator().manual_seed((self.seed * 1_000_003 + step) * 1_000_003 + self.rank)
        starts = torch.randint(len(self.text) - self.context, (self.batch,), generator=generator)
        windows = self.text[starts[:, None] + torch.arange(self.context + 1)].long().to(self.device)
        return windows[:, :-1], windows[:, 1:]


class Watch:
    """What timed_all_reduce measured, in the order in which the all-reduces ended. `group`: the whole job if None."""

    def __init__(self, group: dist.ProcessGroup | None = None) -> None:
        self.group = group
        self.seconds: list[float] = []
        self.ended_at: list[float] = []  # on the machine's monotonic clock
        self.bytes = 0

    def forget_times(self) -> None:
        self.seconds.clear()
        self.ended_at.clear()

    def mean_milliseconds(self) -> float:
        return 1000 * sum(self.seconds) / max(1, len(self.seconds))


def timed_all_reduce(watch: Watch, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """DDP's hook for gradient buckets: the usual averaging all-reduce, from a full bucket to its result."""
    started = time.perf_counter()
    gradients = bucket.buffer().div_(dist.get_world_size(watch.group))
    watch.bytes += gradients.nbytes
    reduced = dist.all_reduce(gradients, group=watch.group, async_op=True).get_future()
    if gradients.is_cuda:  # the future may be complete when the all-reduce is in a stream, before it has begun
        return reduced.then(lambda future: future.value()[0])

    def finish(future: torch.futures.Future) -> torch.Tensor:
        ended = time.perf_counter()
        watch.seconds.append(ended - started)
        watch.ended_at.append(ended)
        return future.value()[0]

    return reduced.then(finish)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="shoal", help="shoal (default), gloo or nccl")
    parser.add_argument("--text", type=pathlib.Path, required=True, help="text to train on, a file of 100 KB or more")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=8, help="windows of text a rank and step (default 8)")
    parser.add_argument("--context", type=int, default=64, help="bytes in a window (default 64)")
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--heads", type=int, default=6)
    parser.add_argument("--bucket-mib", type=float, default=4, help="DDP's gradient buckets (default 4 MiB)")
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--report-every", type=int, default=10, help="print after so many steps (default 10)")
    parser.add_argument(
        "--checkpoint", type=pathlib.Path, help="go on from this file if it is there, and keep it up to date"
    )
    parser.add_argument("--checkpoint-every", type=int, default=10, help="steps between two checkpoints (default 10)")
    parser.add_argument("--summary", type=pathlib.Path, help="write what was measured to this JSON file")
    arguments = parser.parse_args()
    if not arguments.text.is_file():
        parser.error(f"--text {arguments.text}: no such file")
    if arguments.text.stat().st_size < 100_000:
        parser.error(f"--text {arguments.text}: only {arguments.text.stat().st_size} bytes, 100000 are needed")
    if arguments.checkpoint_every < 1:
        parser.error(f"--checkpoint-every {arguments.checkpoint_every}: expected 1 or more")
    if "RANK" not in os.environ:
        parser.error("start it with torchrun, for example: torchrun --nproc-per-node 4 examples/train_gpt.py ...")
    return arguments


def mean_over_ranks(value: torch.Tensor) -> torch.Tensor:
    value = value.detach().double()  # whatever the wire does to float32
    dist.all_reduce(value)
    return value / dist.get_world_size()


def shards(backend: str) -> list[dict]:
    """Bytes to and from each server thread, as this rank counted them; none with other backends."""
    if backend != "shoal":
        return []
    import shoal

    return shoal.statistics().get("shards", [])


def report(arguments: argparse.Namespace, step: int, loss: float, tokens_per_second: float, watch: Watch) -> None:
    sent = (f"{shard['name']} {shard['bytes_pushed'] / 1e6:.1f} MB" for shard in shards(arguments.backend))
    servers = "  ".join(sent)
    print(
        f"step {step:4}/{arguments.steps}  loss {loss:.4f}  {tokens_per_second:7.0f} tokens/s"
        + (f"  all-reduce {watch.mean_milliseconds():6.2f} ms" if watch.seconds else "")
        + (f"  pushed: {servers}" if servers else ""),
        flush=True,
    )


def save_checkpoint(path: pathlib.Path, step: int, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """A reader finds the whole of the old one or the whole of the new one, whenever this process ends."""
    state = {"next_step": step + 1, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
    new = path.with_name(path.name + ".new")
    with open(new, "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def load_checkpoint(path: pathlib.Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Returns the step to go on with. Rank 0 reads for all, so that all go on from the same one and one node has it."""
    states = [None]
    if dist.get_rank() == 0 and path.is_file():
        states[0] = torch.load(path, map_location="cpu", weights_only=True)
    dist.broadcast_object_list(states)
    if states[0] is None:
        return 0
    model.load_state_dict(states[0]["model"])
    optimizer.load_state_dict(states[0]["optimizer"])
    if dist.get_rank() == 0:
        print(f"going on with step {states[0]['next_step'] + 1} from {path}", flush=True)
    return states[0]["next_step"]


def make_optimizer(model: nn.Module, learning_rate: float) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=0.01)


def train_step(
    model: DistributedDataParallel, optimizer: torch.optim.Optimizer, batches: Batches, step: int
) -> torch.Tensor:
    """Returns this rank's loss before the step."""
    loss = model(*batches.at(step))
    optimizer.zero_grad(set_to_none=False)
    loss.backward()
    optimizer.step()
    return loss.detach().cpu()


def train(model: DistributedDataParallel, batches: Batches, arguments: argparse.Namespace, watch: Watch) -> dict:
    rank = dist.get_rank()
    optimizer = make_optimizer(model, arguments.learning_rate)
    first_step = load_checkpoint(arguments.checkpoint, model.module, optimizer) if arguments.checkpoint else 0
    tokens_a_step = arguments.batch * arguments.context * dist.get_world_size()
    losses = torch.zeros(arguments.steps)
    started = interval_started = time.perf_counter()
    warm_up_seconds = 0.0
    step_ended_at = []
    for step in range(first_step, arguments.steps):
        losses[step] = train_step(model, optimizer, batches, step)
        step_ended_at.append(time.perf_counter())
        if arguments.checkpoint and (step + 1) % arguments.checkpoint_every == 0:
            # On a GPU the host has not heard yet whether the gradients' all-reduces went well. A barrier raises if not.
            dist.barrier()
            if rank == 0:
                save_checkpoint(arguments.checkpoint, step, model.module, optimizer)
        if step == first_step:  # in which DDP reduces the whole model at once (docs/training.md)
            warm_up_seconds = time.perf_counter() - started
            watch.forget_times()
        if (step + 1) % arguments.report_every == 0:
            mean = mean_over_ranks(losses[step]).item()
            now = time.perf_counter()
            if rank == 0:
                rate = tokens_a_step * arguments.report_every / (now - interval_started)
                report(arguments, step + 1, mean, rate, watch)
            interval_started = now
    seconds = time.perf_counter() - started - warm_up_seconds
    steps = arguments.steps - first_step
    return {
        "losses": mean_over_ranks(losses).tolist(),
        "seconds": seconds,
        "tokens_per_second": tokens_a_step * (steps - 1) / seconds if steps > 1 else 0,
        "all_reduce_ms_mean": watch.mean_milliseconds() if watch.seconds else None,
        "all_reduce_count": len(watch.seconds),
        "all_reduce_bytes": watch.bytes,
        "all_reduce_seconds": watch.seconds,
        "all_reduce_ended_at": watch.ended_at,
        "step_ended_at": step_ended_at,
    }


def weight_digest(model: nn.Module) -> str:
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().cpu().numpy().tobytes())
    return digest.hexdigest()


def main() -> int:
    arguments = parse_arguments()
    if arguments.backend == "shoal":
        import shoal  # noqa: F401  registers the backend
    torch.set_num_threads(1)
    device = torch.device(arguments.device)
    if arguments.device == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
        torch.cuda.set_device(device)
    dist.init_process_group(arguments.backend, timeout=datetime.timedelta(minutes=5))
    rank = dist.get_rank()

    torch.manual_seed(arguments.seed)
    model = Gpt(arguments.width, arguments.layers, arguments.heads, arguments.context).to(device)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    text = arguments.text.read_bytes()
    if rank == 0:
        print(
            f"{dist.get_world_size()} ranks, backend {arguments.backend}, {parameters / 1e6:.2f} M parameters, "
            f"{len(text) / 1e6:.1f} MB of text",
            flush=True,
        )
    parallel = DistributedDataParallel(model, bucket_cap_mb=arguments.bucket_mib)
    watch = Watch()
    parallel.register_comm_hook(watch, timed_all_reduce)
    batches = Batches(text, arguments.batch, arguments.context, arguments.seed, rank, device)
    summary = train(parallel, batches, arguments, watch)

    digests = [None] * dist.get_world_size()
    dist.all_gather_object(digests, weight_digest(model))
    summary |= {
        "backend": arguments.backend, "ranks": dist.get_world_size(), "steps": arguments.steps,
        "parameters": parameters, "digests": digests,
        "shards": shards(arguments.backend),
    }  # fmt: skip
    if rank == 0:
        for other, digest in enumerate(digests):
            print(f"rank {other} weights sha256 {digest}")
        if arguments.summary is not None:
            arguments.summary.write_text(json.dumps(summary, indent=1), encoding="utf-8")
    dist.destroy_process_group()
    # DDP still holds the group. Gloo's threads have to end before the interpreter does: torch aborts now and then if
    # not.
    del parallel
    gc.collect()
    if len(set(digests)) != 1:
        print("error: the ranks' weights differ", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
