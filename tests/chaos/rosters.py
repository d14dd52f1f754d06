"""Whose sum each chunk of a result is, in a group that goes on without lost ranks (F23). Pure.

A roster is given by the places in the group that it lacks. Many sums of few small numbers are equal, so a chunk may fit
several rosters: it is right if one of them was allowed.
"""

import itertools
from collections.abc import Iterable, Iterator

import numpy

from chaos import numerics
from chaos.work import Generation, Op

Missing = tuple[int, ...]


def possible(size: int, own: int, least: int, most: int) -> Iterator[Missing]:
    """What may be missing where between `least` and `most` ranks have contributed: never the rank that has the
    result."""
    others = [place for place in range(size) if place != own]
    for left in range(min(most, size), max(least, 1) - 1, -1):
        yield from itertools.combinations(others, size - left)


def sum_without(missing: Missing, inputs: list[numpy.ndarray], op: Op, generation: Generation) -> numpy.ndarray:
    """What docs/numerics.md says. An average is over those that are left; a scaled sum is of contributions that are
    multiplied before they are added."""
    left = [values for place, values in enumerate(inputs) if place not in missing]
    scaled = generation.scale_sums and op.op == numerics.SUM
    if scaled and numerics.DTYPES[op.dtype][0] in numerics.QUIET_NAN:
        return numerics.expected(left, op.dtype, numerics.PREMUL_SUM, len(inputs) / len(left), generation.wire)
    return numerics.expected(left, op.dtype, op.op, op.factor, generation.wire)


def fitting(data: numpy.ndarray, sums: dict[Missing, numpy.ndarray], chunk_elements: int) -> list[list[Missing]]:
    """For each chunk the rosters whose sum it is; chunks that fit the same ones are named once."""
    found = []
    for start in range(0, len(data), chunk_elements):
        part = slice(start, start + chunk_elements)
        fits = [missing for missing, right in sums.items() if numerics.same_bits(data[part], right[part])]
        if fits not in found:
            found.append(fits)
    return found


def complaint(chunks: list[list[Missing]], size: int, least: int, most: int, generation: Generation) -> str:
    """What is wrong with chunks that fit these rosters, if the op of this group tells so many contributors; empty:
    nothing."""
    if least < generation.min_ranks:
        return f"it has {least} contributors, and needs {generation.min_ranks}"
    if generation.whole_op and least != most:
        return f"it has {least} to {most} contributors, and is to be whole"
    if not all(chunks):
        return "a chunk is no roster's sum"
    left = [{size - len(missing) for missing in fits} for fits in chunks]
    for told in (least, most):
        if not any(told in each for each in left):
            return f"no chunk has {told} contributors"
    if not all(any(least <= count <= most for count in each) for each in left):
        return f"a chunk has not between {least} and {most} contributors"
    certain = [set(fits[0]) for fits in chunks if len(fits) == 1]
    if not all(one <= other or other <= one for one, other in itertools.combinations(certain, 2)):
        return "two chunks have rosters of which none is a part of the other"
    return ""


def not_allowed(chunks: Iterable[Iterable[Iterable[int]]], may_be_lost: set[int]) -> list[list[Missing]]:
    """Chunks all of whose rosters lack a rank that may not be lost."""
    return [
        sorted(tuple(missing) for missing in fits)
        for fits in chunks
        if not any(set(missing) <= may_be_lost for missing in fits)
    ]
