"""The independent sum is what docs/numerics.md says, on examples worked out by hand."""

import numpy
import pytest

from chaos import numerics
from chaos.numerics import AVG, MAX, MIN, PREMUL_SUM, PROD, SUM, expected

FLOAT32, FLOAT64, FLOAT16, BFLOAT16, INT8, INT32, UINT8 = 1, 2, 3, 4, 5, 7, 9


def floats(*values: float) -> numpy.ndarray:
    return numpy.array(values, numpy.float32)


def test_floats_are_added_in_rank_order():
    inputs = [floats(1e8), floats(-1e8), floats(1.0)]
    assert expected(inputs, FLOAT32, SUM)[0] == 1.0
    assert expected([inputs[2], inputs[0], inputs[1]], FLOAT32, SUM)[0] == 0.0, "1 + 1e8 loses the 1 in float32"


def test_every_nan_is_the_quiet_one():
    poisoned = numpy.array([0xFFC12345], numpy.uint32).view(numpy.float32)
    for op in (SUM, MIN, MAX):
        assert expected([poisoned, floats(1.0)], FLOAT32, op).view(numpy.uint32)[0] == 0x7FC00000
    assert expected([poisoned], FLOAT32, SUM).view(numpy.uint32)[0] == 0x7FC00000, "also of one rank"


@pytest.mark.parametrize("op", [MIN, MAX])
def test_of_equal_values_the_lower_ranks_is_taken(op: int):
    bits = expected([floats(-0.0), floats(0.0)], FLOAT32, op).view(numpy.uint32)
    assert bits[0] == 0x80000000


def test_sixteen_bits_are_rounded_once_at_the_end():
    one, tiny = 0x3F80, 0x3B80  # 1 and 2^-8: half of the distance of two bfloat16 above 1
    inputs = [numpy.array([bits], numpy.uint16) for bits in (one, tiny, tiny)]
    assert expected(inputs, BFLOAT16, SUM)[0] == 0x3F81, "rounded at each addition it would stay 1"
    halves = numpy.array([1.0, 65504.0], numpy.float16).view(numpy.uint16)
    assert expected([halves, halves], FLOAT16, SUM).view(numpy.float16).tolist() == [2.0, numpy.inf]


def test_the_wire_rounds_each_contribution_and_the_result():
    value = floats(1.0 + 2**-9)
    assert expected([value, value], FLOAT32, SUM)[0] == 2.0 + 2**-8
    assert expected([value, value], FLOAT32, SUM, wire="bf16")[0] == 2.0


def test_integers_wrap_and_avg_truncates_towards_zero():
    high, low = numpy.array([120, -3, -120], numpy.int8), numpy.array([20, 0, -20], numpy.int8)
    assert expected([high, low], INT8, SUM).tolist() == [-116, -3, 116]
    assert expected([high, low], INT8, AVG).tolist() == [-58, -1, 58]
    assert expected([high, low], INT8, PROD).tolist() == [96, 0, 96]
    assert expected([numpy.array([7], numpy.uint8)] * 2, UINT8, AVG).tolist() == [7]


def test_premul_of_floats_rounds_product_and_sum_apart():
    a, b = floats(1.0 + 2**-23), floats(-1.0)
    factor = 1.0 + 2**-23
    product = numpy.float32(a[0]) * numpy.float32(factor)
    assert expected([a, b], FLOAT32, PREMUL_SUM, factor)[0] == product + numpy.float32(-1.0) * numpy.float32(factor)


def test_pools_repeat_and_hold_the_special_numbers():
    for dtype in numerics.DTYPES:
        assert numerics.same_bits(numerics.make_pool(7, dtype, 5000), numerics.make_pool(7, dtype, 5000))
    pool = numerics.make_pool(7, FLOAT32, 5000)
    assert numpy.isnan(pool).any() and numpy.isinf(pool).any() and (pool == 0).any()
    assert not numerics.same_bits(pool, numerics.make_pool(8, FLOAT32, 5000))


def test_a_difference_of_one_bit_is_seen():
    values = numerics.make_pool(1, FLOAT64, 4000)
    other = values.copy()
    other.view(numpy.uint64)[1234] ^= 1
    assert not numerics.same_bits(values, other)
    assert numerics.first_difference(values, other) == 1234


NODES = ((0, 1), (2, 3))


def test_ranks_of_nodes_are_added_before_the_nodes():
    inputs = [floats(1e8), floats(1.0), floats(-1e8), floats(1.0)]
    assert expected(inputs, FLOAT32, SUM)[0] == 1.0, "1e8 + 1 loses the 1 in float32"
    assert expected(inputs, FLOAT32, SUM, nodes=NODES)[0] == 0.0, "and so does -1e8 + 1"
    assert expected(inputs, FLOAT32, SUM, nodes=((0, 2), (1, 3)))[0] == 2.0


def test_an_average_over_nodes_is_divided_once_by_all_ranks_and_a_factor_counts_once():
    inputs = [numpy.array([value], numpy.int32) for value in (1, 2, 3, 5)]
    assert expected(inputs, INT32, AVG, nodes=NODES).tolist() == [2]
    assert expected(inputs[:3] + [numpy.array([6], numpy.int32)], INT32, AVG, nodes=NODES).tolist() == [3]
    halves = [floats(1.0), floats(2.0), floats(3.0), floats(4.0)]
    assert expected(halves, FLOAT32, PREMUL_SUM, 0.5, nodes=NODES)[0] == 5.0
    assert expected(halves, FLOAT32, PROD, nodes=NODES)[0] == 24.0


def test_a_nodes_sum_of_16_bits_is_rounded_before_it_leaves_the_node():
    one, tiny = 0x3F80, 0x3B80  # 1 and 2^-8: half of the distance of two bfloat16 above 1
    inputs = [numpy.array([bits], numpy.uint16) for bits in (one, tiny, tiny, 0)]
    assert expected(inputs, BFLOAT16, SUM)[0] == 0x3F81
    assert expected(inputs, BFLOAT16, SUM, nodes=NODES)[0] == 0x3F80, "1 + 2^-8 is a tie, then 1 + 2^-8 is one again"
    large = numpy.array([65504.0], numpy.float16).view(numpy.uint16)
    less = numpy.array([-65504.0], numpy.float16).view(numpy.uint16)
    assert expected([large, large, less, less], FLOAT16, SUM).view(numpy.float16)[0] == 0.0
    sums = expected([large, large, less, less], FLOAT16, SUM, nodes=NODES).view(numpy.float16)
    assert numpy.isnan(sums[0]), "infinity from one node and from the other minus infinity"
    value = floats(1.0 + 2**-9)
    assert expected([value] * 4, FLOAT32, SUM, wire="bf16", nodes=NODES)[0] == 4.0
