"""The size below which all-reduces go to the inner backend. It is the same on all ranks of a group: rank 0 decides.

The other path sums in another order, so the choice must not depend on the measurement or configuration of a single
rank.
"""

import dataclasses
import datetime
import json
import pathlib

from torch.distributed import DistBackendError, Store

DEVICES = ("cpu", "cuda")
KEY = "limits"


@dataclasses.dataclass(frozen=True)
class Limits:
    """In bytes; 0: everything goes to the servers."""

    cpu: int = 0
    cuda: int = 0


def read_limits(setting: int | str) -> Limits:
    """From SHOAL_INNER_BELOW: a number for all devices, or the name of a file. Raises ValueError."""
    if isinstance(setting, int):
        return Limits(setting, setting)
    try:
        text = pathlib.Path(setting).read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(
            f"SHOAL_INNER_BELOW={setting}: {error.strerror}; `python -m shoal.calibrate` writes such a file"
        ) from None
    return parse_limits(text, setting)


def parse_limits(text: str, where: str) -> Limits:
    values = {}
    for line in text.splitlines():
        content = line.partition("#")[0].strip()
        if not content:
            continue
        device, _, value = (part.strip() for part in content.partition("="))
        if device not in DEVICES or not value.isdecimal():
            raise ValueError(f"{where}: {line!r}: expected lines such as cpu=4096 or cuda=65536")
        values[device] = int(value)
    return Limits(**values)


def format_limits(limits: Limits, comments: list[str]) -> str:
    lines = [f"# {comment}" for comment in comments]
    return "\n".join([*lines, *(f"{device}={getattr(limits, device)}" for device in DEVICES)]) + "\n"


def agree(store: Store, rank: int, setting: int | str, timeout: datetime.timedelta) -> Limits:
    """The limits that rank 0 of the group is configured with. Raises DistBackendError on all ranks if they are
    wrong."""
    if rank == 0:
        try:
            answer = dataclasses.asdict(read_limits(setting))
        except ValueError as error:
            answer = {"error": str(error)}
        store.set(KEY, json.dumps(answer))
    try:
        store.wait([KEY], timeout)
    except RuntimeError as error:
        raise DistBackendError(f"shoal: rank {rank} waited {timeout} for rank 0's SHOAL_INNER_BELOW: {error}") from None
    answer = json.loads(store.get(KEY))
    if "error" in answer:
        raise DistBackendError(f"shoal: on rank 0 of the group: {answer['error']}")
    return Limits(**answer)
