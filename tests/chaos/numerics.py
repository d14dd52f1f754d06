"""What docs/numerics.md says that a result is, written a second time with numpy: shares no code with the product.

Tensors of 16-bit floats and the wire's numbers are kept as their bits (uint16).
"""

import numpy

SUM, AVG, PREMUL_SUM, MIN, MAX, PROD = 1, 2, 3, 4, 5, 6
OPS = {"sum": SUM, "avg": AVG, "premul-sum": PREMUL_SUM, "min": MIN, "max": MAX, "prod": PROD}
# By the number that the C ABI gives it: name, and the type of the memory.
DTYPES = {
    1: ("float32", numpy.float32),
    2: ("float64", numpy.float64),
    3: ("float16", numpy.uint16),
    4: ("bfloat16", numpy.uint16),
    5: ("int8", numpy.int8),
    6: ("int16", numpy.int16),
    7: ("int32", numpy.int32),
    8: ("int64", numpy.int64),
    9: ("uint8", numpy.uint8),
}
# PREMUL_SUM is for those that have a NaN.
QUIET_NAN = {"float32": 0x7FC00000, "float64": 0x7FF8000000000000, "float16": 0x7E00, "bfloat16": 0x7FC0}


def widen(bits: numpy.ndarray, name: str) -> numpy.ndarray:
    """16-bit floats as float32, exactly."""
    if name == "float16":
        return bits.view(numpy.float16).astype(numpy.float32)
    return (bits.astype(numpy.uint32) << 16).view(numpy.float32)


def narrow(values: numpy.ndarray, name: str) -> numpy.ndarray:
    """float32 as 16-bit floats, rounded once to nearest even; a NaN becomes the quiet one."""
    if name == "float16":
        rounded = values.astype(numpy.float16).view(numpy.uint16)
    else:
        bits = values.view(numpy.uint32)
        rounded = ((bits + (0x7FFF + ((bits >> 16) & 1))) >> 16).astype(numpy.uint16)
    return numpy.where(numpy.isnan(values), numpy.uint16(QUIET_NAN[name]), rounded)


def quiet_nans(values: numpy.ndarray, name: str) -> numpy.ndarray:
    bits = values.view(numpy.uint32 if name == "float32" else numpy.uint64).copy()
    bits[numpy.isnan(values)] = QUIET_NAN[name]
    return bits.view(values.dtype)


def reduce_floats(inputs: list[numpy.ndarray], op: int, factor: float, ranks: int) -> numpy.ndarray:
    """In rank order, in the inputs' own precision. No rounding to 16 bits yet. `ranks`: whose average it is."""
    kind = inputs[0].dtype.type
    if op == PREMUL_SUM:
        inputs = [values * kind(factor) for values in inputs]
    total = inputs[0].copy()
    for values in inputs[1:]:
        if op in (SUM, AVG, PREMUL_SUM):
            total = total + values
        elif op == PROD:
            total = total * values
        else:
            better = values < total if op == MIN else values > total  # of equal ones the lower rank's stays
            poisoned = numpy.isnan(total) | numpy.isnan(values)
            total = numpy.where(poisoned, kind("nan"), numpy.where(better, values, total))
    return total / kind(ranks) if op == AVG else total


def reduce_integers(inputs: list[numpy.ndarray], op: int, ranks: int) -> numpy.ndarray:
    kind = inputs[0].dtype
    total = inputs[0].copy()
    for values in inputs[1:]:
        if op in (SUM, AVG):
            total = total + values
        elif op == PROD:
            total = total * values
        else:
            total = numpy.minimum(total, values) if op == MIN else numpy.maximum(total, values)
    if op != AVG:
        return total
    count = kind.type(ranks)
    rounded_down = total // count
    return rounded_down + ((total % count != 0) & (total < 0)).astype(kind)


def expected(
    inputs: list[numpy.ndarray],
    dtype: int,
    op: int,
    factor: float = 0.0,
    wire: str = "none",
    nodes: tuple[tuple[int, ...], ...] = (),
) -> numpy.ndarray:
    """The result of the ranks' inputs (in rank order), bit by bit. `nodes`: the places of each node's ranks, if they
    reduce within their nodes first."""
    ranks = len(inputs)
    if nodes:
        within = SUM if op == AVG else op  # the servers divide once
        inputs = [reduced([inputs[place] for place in node], dtype, within, factor, wire, ranks) for node in nodes]
        op = SUM if op == PREMUL_SUM else op  # multiplied within the nodes
    return reduced(inputs, dtype, op, factor, wire, ranks)


def reduced(
    inputs: list[numpy.ndarray], dtype: int, op: int, factor: float, wire: str, ranks: int
) -> numpy.ndarray:
    """By servers, or within one node."""
    name, _ = DTYPES[dtype]
    with numpy.errstate(all="ignore"):
        if name in ("float16", "bfloat16"):
            return narrow(reduce_floats([widen(bits, name) for bits in inputs], op, factor, ranks), name)
        if name == "float32" and wire != "none":
            wire_name = {"fp16": "float16", "bf16": "bfloat16"}[wire]
            crossed = [widen(narrow(values, wire_name), wire_name) for values in inputs]
            return widen(narrow(reduce_floats(crossed, op, factor, ranks), wire_name), wire_name)
        if name in QUIET_NAN:
            return quiet_nans(reduce_floats(inputs, op, factor, ranks), name)
        return reduce_integers(inputs, op, ranks)


def same_bits(one: numpy.ndarray, other: numpy.ndarray) -> bool:
    return one.tobytes() == other.tobytes() if one.nbytes < 4096 else numpy.array_equal(as_bytes(one), as_bytes(other))


def as_bytes(values: numpy.ndarray) -> numpy.ndarray:
    return numpy.ascontiguousarray(values).view(numpy.uint8)


def first_difference(one: numpy.ndarray, other: numpy.ndarray) -> int:
    """Index of the element; they differ."""
    size = one.dtype.itemsize
    return int(numpy.flatnonzero(as_bytes(one) != as_bytes(other))[0]) // size


def make_pool(seed: int, dtype: int, elements: int) -> numpy.ndarray:
    """Numbers of many sizes, with the special ones among them. The same for the same arguments."""
    name, memory = DTYPES[dtype]
    source = numpy.random.default_rng([seed, dtype])
    if name not in QUIET_NAN:
        limits = numpy.iinfo(memory)
        return source.integers(limits.min, limits.max, elements, dtype=memory, endpoint=True)
    exponents = source.integers(-12, 12, elements)
    values = source.uniform(-1, 1, elements) * 2.0**exponents
    special = numpy.array([0.0, -0.0, 1e-40, -1e-40, 5e-320, numpy.inf, -numpy.inf, numpy.nan, 65504.0, 3e38])
    places = source.integers(0, elements, elements // 64)
    values[places] = special[source.integers(0, len(special), len(places))]
    with numpy.errstate(all="ignore"):
        if memory == numpy.uint16:
            return narrow(values.astype(numpy.float32), name)
        return values.astype(memory)
