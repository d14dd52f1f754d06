"""Whose sum a chunk is, and who is in the next group of an open job: worked out by hand."""

import numpy
import pytest

from chaos import numerics, rosters
from chaos.gathering import LATE_S, NOBODY_S, Gathering
from chaos.numerics import AVG, SUM
from chaos.shape import JOB_O
from chaos.work import Generation, Op, members_of, open_generation

FLOAT32, INT32 = 1, 7


def generation(scale_sums: bool = False, min_ranks: int = 1, whole_op: bool = False) -> Generation:
    return Generation("g", (0, 1, 2), 0, "none", (), min_ranks, scale_sums, whole_op)


def complaint(chunks: list[list[rosters.Missing]], least: int, most: int, **options: object) -> str:
    return rosters.complaint(chunks, 3, least, most, generation(**options))


def op_of(op: int, dtype: int = FLOAT32) -> Op:
    return Op(dtype, op, 0.0, 4, (0, 0, 0))


def floats(*values: float) -> numpy.ndarray:
    return numpy.array(values, numpy.float32)


INPUTS = [floats(1, 2, 3, 4), floats(10, 20, 30, 40), floats(100, 200, 300, 400)]


def sums_of(most: int = 3, least: int = 1, own: int = 0) -> dict[rosters.Missing, numpy.ndarray]:
    possible = rosters.possible(3, own, least, most)
    return {missing: rosters.sum_without(missing, INPUTS, op_of(SUM), generation()) for missing in possible}


def test_a_rank_that_has_the_result_is_in_its_roster():
    assert list(rosters.possible(3, 0, 1, 3)) == [(), (1,), (2,), (1, 2)]
    assert list(rosters.possible(3, 2, 2, 2)) == [(0,), (1,)]
    assert list(rosters.possible(3, 1, 3, 3)) == [()]


def test_an_average_is_over_those_that_are_left_and_a_sum_may_be_scaled_to_all():
    assert rosters.sum_without((1,), INPUTS, op_of(AVG), generation()).tolist() == [50.5, 101, 151.5, 202]
    assert rosters.sum_without((1,), INPUTS, op_of(SUM), generation()).tolist() == [101, 202, 303, 404]
    assert rosters.sum_without((1,), INPUTS, op_of(SUM), generation(True)).tolist() == [151.5, 303, 454.5, 606]
    assert rosters.sum_without((), INPUTS, op_of(SUM), generation(True)).tolist() == [111, 222, 333, 444]
    whole = [values.astype(numpy.int32) for values in INPUTS]
    assert rosters.sum_without((1,), whole, op_of(SUM, INT32), generation(True)).tolist() == [101, 202, 303, 404]
    # Each contribution is multiplied before it is added, so that is where it is rounded.
    tenths = [floats(0.1), floats(0.2), floats(0.7)]
    scaled = rosters.sum_without((2,), tenths, op_of(SUM), generation(True))
    assert scaled[0] == numpy.float32(0.1) * numpy.float32(1.5) + numpy.float32(0.2) * numpy.float32(1.5)


def test_each_chunk_may_have_another_roster():
    result = floats(111, 222, 303, 404)
    chunks = rosters.fitting(result, sums_of(3, 2), 2)
    assert chunks == [[()], [(1,)]]
    assert complaint(chunks, 2, 3) == ""


def test_a_chunk_of_two_rosters_is_none():
    result = floats(111, 202, 303, 404)
    chunks = rosters.fitting(result, sums_of(3, 2), 2)
    assert [] in chunks and complaint(chunks, 2, 3) == "a chunk is no roster's sum"
    assert complaint(rosters.fitting(result, sums_of(3, 2), 1), 2, 3) == "", "with chunks of one element"


def test_a_chunk_that_has_one_bit_wrong_is_no_rosters_sum():
    result = floats(101, 202, 303, 404)
    result.view(numpy.uint32)[3] ^= 1
    assert complaint(rosters.fitting(result, sums_of(), 4), 1, 3)


@pytest.mark.parametrize(
    ("least", "most", "wrong"),
    [(2, 2, ""), (2, 3, "no chunk has 3"), (1, 2, "no chunk has 1"), (3, 3, "no chunk has 3")],
)
def test_the_contributors_that_an_op_tells_must_fit(least: int, most: int, wrong: str):
    found = complaint([[(1,)], [(1,), (2,)]], least, most)
    assert found.startswith(wrong) and bool(found) == bool(wrong)


def test_no_result_has_fewer_contributors_than_the_group_needs():
    assert complaint([[(1, 2)]], 1, 1, min_ranks=2) == "it has 1 contributors, and needs 2"
    assert complaint([[(1, 2)]], 1, 1) == ""


def test_no_chunk_may_have_other_numbers_of_contributors_than_the_op_tells():
    assert complaint([[()], [(1, 2)], [(1,)]], 2, 3) == "a chunk has not between 2 and 3 contributors"


def test_a_chunk_that_fits_several_rosters_is_right_with_any():
    assert complaint([[(1,), (2,)], [(1, 2)]], 1, 2) == ""


def test_rosters_of_one_op_are_parts_of_each_other():
    assert "none is a part" in complaint([[(1,)], [(2,)]], 2, 2)
    assert complaint([[(1,)], [(1, 2)]], 1, 2) == ""


def test_a_roster_is_allowed_if_all_that_it_lacks_may_be_lost():
    chunks = [[[]], [[1], [2]], [[1, 3]]]
    assert rosters.not_allowed(chunks, {1, 3}) == []
    assert rosters.not_allowed(chunks, {1}) == [[(1, 3)]]
    assert rosters.not_allowed(chunks, set()) == [[(1,), (2,)], [(1, 3)]]


def test_an_open_generation_is_the_same_for_all_its_ranks_and_can_be_made():
    for number in range(50):
        made = open_generation(JOB_O, 7, f"1.0.{number}", (0, 2, 3))
        assert made == open_generation(JOB_O, 7, f"1.0.{number}", (0, 2, 3))
        assert 1 <= made.min_ranks <= 3 and all(len(op.offsets) == 3 for op in made.ops)
    assert {open_generation(JOB_O, 7, f"1.0.{number}", (2,)).min_ranks for number in range(50)} == {1}
    assert all(members_of(JOB_O, 7, slot) == tuple(JOB_O.ranks) for slot in range(10)), "any of them may be in a group"
    drawn = [open_generation(JOB_O, 7, f"1.0.{number}", (0, 1)) for number in range(50)]
    assert {each.min_ranks for each in drawn} == {1, 2} and {each.scale_sums for each in drawn} == {False, True}
    assert {each.whole_op for each in drawn} == {False, True}


def test_all_of_a_whole_op_has_the_same_contributors():
    chunks = [[()], [(1,)]]
    assert complaint(chunks, 2, 3, whole_op=True) == "it has 2 to 3 contributors, and is to be whole"
    assert complaint([[(1,)]], 2, 2, whole_op=True) == ""


def test_numerics_of_all_types_tell_rosters_apart():
    """Else a wrong roster would pass."""
    for dtype in numerics.DTYPES:
        inputs = [numerics.make_pool(seed, dtype, 1000) for seed in range(3)]
        op = Op(dtype, SUM, 0.0, 1000, (0, 0, 0))
        sums = {each: rosters.sum_without(each, inputs, op, generation()) for each in rosters.possible(3, 0, 1, 3)}
        assert rosters.fitting(sums[1,], sums, 1000) == [[(1,)]]


# ---- who is in the next group


def test_the_next_group_has_all_that_live_as_soon_as_they_are_ready():
    gathering = Gathering()
    gathering.come(0, 10.0)
    assert gathering.next_members({0, 1}, 10.1) == ()
    gathering.come(1, 10.2)
    assert gathering.next_members({0, 1}, 10.2) == (0, 1)
    assert gathering.next_members({0, 1}, 10.3) == (), "they are in it now"


def test_who_does_not_live_is_not_waited_for_and_is_not_in_it():
    gathering = Gathering()
    for place in (0, 1, 2):
        gathering.come(place, 10.0)
    gathering.leave(2)
    assert gathering.next_members({0, 2}, 10.0) == (), "2 has joined again and is not ready"
    gathering.come(2, 10.1)
    assert gathering.next_members({0, 2}, 10.1) == (0, 2)


def test_who_is_late_for_the_next_group_is_in_the_one_after_it():
    gathering = Gathering()
    gathering.come(0, 10.0)
    gathering.come(1, 10.0)
    assert gathering.next_members({0, 1}, 10.0) == (0, 1)
    gathering.come(0, 20.0)
    assert gathering.next_members({0, 1}, 20.0 + LATE_S - 0.1) == ()
    assert gathering.next_members({0, 1}, 20.0 + LATE_S) == (0,)


def test_who_comes_while_a_group_reduces_waits_for_its_end():
    gathering = Gathering()
    gathering.come(0, 10.0)
    assert gathering.next_members({0}, 10.0) == (0,)
    gathering.come(1, 11.0)
    assert gathering.next_members({0, 1}, 11.0 + LATE_S) == ()
    assert gathering.next_members({0, 1}, 11.0 + NOBODY_S) == (1,), "but not for ever"
