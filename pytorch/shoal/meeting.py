"""How the ranks of a group find each other in a store, and hear from its rank 0 what it has decided.

A store may hold what earlier groups wrote: it outlives processes, and a process that takes a lost one's place knows
nothing of the groups that its peers have had. So no rank counts. Rank 0 draws a name for this meeting, and tells it to
whoever says hello; it goes on when every rank has come back with that name, which only a process that is there now can
have. Whatever belongs to the group has its place in the store under the meeting's name.
"""

import datetime
import json
import secrets
import time
from collections.abc import Callable

from torch.distributed import DistBackendError, PrefixStore, Store

FIRST_PAUSE_SECONDS = 0.001
LONGEST_PAUSE_SECONDS = 0.05
FIRST_WORD_SECONDS = 10
TIME_TO_TELL = datetime.timedelta(seconds=10)  # for a rank that fails, also for the want of time, to tell the others


def draw_name() -> str:
    """One that nobody else has."""
    return secrets.token_hex(8)


def store_alone(store: Store) -> Store:
    """The part of the store that belongs to a group of one rank."""
    return PrefixStore(f"shoal/{draw_name()}", store)


def meet(
    store: Store, rank: int, size: int, word: dict, timeout: datetime.timedelta, decide: Callable[[list[dict]], dict],
    tell: Callable[[str], None] = lambda _text: None,
) -> tuple[Store, dict]:  # fmt: skip
    """Every rank says its word; `decide` gets all words on rank 0, in the order of the ranks. Returns the part of the
    store that belongs to the group, and what was decided. Raises DistBackendError on all ranks if `decide` raised.
    Rank 0 tells whom it waits for when that takes long."""
    store = PrefixStore("shoal", store)
    if rank == 0:
        name = draw_name()
        own = PrefixStore(name, store)
        try:
            answer = decide([word, *_hear_all(store, name, size, timeout, tell)])
        except (RuntimeError, ValueError, OSError) as error:
            answer = {"error": str(error)}
        own.set("decided", json.dumps(answer))
    else:
        own = _say_hello(store, rank, word, timeout)
        # Longer than rank 0 waits for the others: it says who is missing.
        answer = json.loads(_wait_for(own, "decided", rank, timeout + TIME_TO_TELL))
    if "error" in answer:
        raise DistBackendError(f"shoal: rank 0 could not set up the group: {answer['error']}")
    return own, answer


def _say_hello(store: Store, rank: int, word: dict, timeout: datetime.timedelta) -> Store:
    """Of a rank other than 0: returns the part of the store in which rank 0 meets."""
    hello = draw_name()
    store.set(f"hello/{rank}", hello)
    own = PrefixStore(_wait_for(store, f"answer/{hello}", rank, timeout), store)
    own.set(f"word/{rank}", json.dumps(word))
    return own


def _wait_for(store: Store, key: str, rank: int, timeout: datetime.timedelta) -> str:
    try:
        store.wait([key], timeout)
    except RuntimeError as error:
        raise DistBackendError(
            f"shoal: rank {rank} waited {timeout} for rank 0 of the group, which did not come: {error}"
        ) from None
    return store.get(key).decode()


def all_do(
    store: Store, what: str, ranks: list[int], rank: int, timeout: datetime.timedelta, do: Callable[[], None]
) -> None:
    """Calls `do` on these ranks of the group, and returns on each rank when all have done it. What it raises on a rank
    is raised there, and the others raise DistBackendError with that rank's error, or with the ranks that are missing
    after the timeout. If it raises on several ranks, the others have the first one's error."""
    if rank in ranks:
        try:
            do()
        except (RuntimeError, ValueError, OSError) as error:
            if not store.check([what]):
                store.set(what, f"rank {rank}: {error}")
            raise
        store.set(f"{what}/{rank}", "done")
        if store.add(f"{what}/count", 1) == len(ranks):
            store.set(what, "")
    try:
        store.wait([what], timeout + TIME_TO_TELL)
    except RuntimeError:
        missing = [each for each in ranks if not store.check([f"{what}/{each}"])]
        raise DistBackendError(f"shoal: rank {rank} waited {timeout} for ranks {missing} to {what}") from None
    if error_text := store.get(what).decode():
        raise DistBackendError(f"shoal: {error_text}")


def _hear_all(
    store: Store, name: str, size: int, timeout: datetime.timedelta, tell: Callable[[str], None]
) -> list[dict]:
    """Of rank 0: the words of all other ranks in the meeting of that name, in their order. Raises ValueError."""
    own = PrefixStore(name, store)
    begin = time.monotonic()
    tell_after_seconds = FIRST_WORD_SECONDS
    missing = list(range(1, size))
    answered: dict[int, bytes] = {}
    pause_seconds = FIRST_PAUSE_SECONDS
    while missing:
        missing = [rank for rank in missing if not own.check([f"word/{rank}"])]
        for rank in missing:
            hello = store.get(f"hello/{rank}") if store.check([f"hello/{rank}"]) else None
            # One that was said before, by whoever was this rank then, is answered as well: nobody comes for it.
            if hello is not None and answered.get(rank) != hello:
                store.set(f"answer/{hello.decode()}", name)
                answered[rank] = hello
        waited_seconds = time.monotonic() - begin
        if missing and waited_seconds > tell_after_seconds:
            tell(f"shoal: rank 0 waited {waited_seconds:.0f} s of {timeout} for these ranks to join: {missing}")
            tell_after_seconds *= 2
        if missing and waited_seconds > timeout.total_seconds():
            raise ValueError(f"after {timeout} these ranks had not joined: {missing}")
        time.sleep(pause_seconds if missing else 0)
        pause_seconds = min(2 * pause_seconds, LONGEST_PAUSE_SECONDS)
    return [json.loads(own.get(f"word/{rank}")) for rank in range(1, size)]
