"""The recipes of docs/launchers.md, to be run as they stand there, and the script that they start."""

import json
import pathlib
import re

from hosts.process import Process

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/launchers.md"
SCHEDULER = "10.0.0.1:7070"  # in the recipes
# `train.py` of the recipes. Whether ranks know that they share a node shows in what they reduce there.
TRAIN = """
import json, os, torch, torch.distributed as dist, shoal
if not dist.is_initialized():
    dist.init_process_group("shoal")
tensor = torch.ones(100_000)
dist.all_reduce(tensor)
assert (tensor == dist.get_world_size()).all()
words = ("LOCAL_RANK", "LOCAL_WORLD_SIZE", "SHOAL_JOB_NAME")
found = {"rank": dist.get_rank(), "world_size": dist.get_world_size(), "backend": dist.get_backend()}
found |= {word: os.environ.get(word, "") for word in words}
found |= {word: shoal.statistics()[word] for word in ("bytes_on_node", "bytes_pushed", "server_count")}
found["cores"] = len(os.sched_getaffinity(0))
print("found", json.dumps(found), flush=True)
"""


def recipe(section: str, number: int = 0) -> str:
    """A block of code of the page, by its section and its number there."""
    text = PAGE.read_text(encoding="utf-8").partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return re.findall(r"^```(?:bash|python)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[number]


def found_by(output: str) -> list[dict]:
    """What the ranks found, by rank."""
    found = [json.loads(text) for text in re.findall(r"found (\{.*?\})", output)]
    return sorted(found, key=lambda each: each["rank"])


def end_well(process: Process, timeout_s: float = 120) -> str:
    assert process.wait(timeout_s) == 0, process
    return process.output
