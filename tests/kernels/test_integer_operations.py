"""Operations without a float: against real arithmetic, and their kernels against their meaning."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerType, f32, i8, i32, i64

from explorer.ir.operation import TopOperation
from explorer.ir.requantization import Requantization, RequantizationAttr, integer_limits
from explorer.ir.top.quantization.fixed_point import KINDS, FixedPointOp
from explorer.ir.top.quantization.fixed_point_softmax import FixedPointSoftmaxOp
from explorer.ir.top.quantization.integer_log_softmax import IntegerLogSoftmaxOp
from explorer.ir.top.quantization.integer_normalizations import (
    IntegerLayerNormOp,
    IntegerSoftmaxOp,
    layer_norm_factors,
)
from explorer.ir.top.quantization.lookup import LookupOp, table_of
from explorer.ir.top.support.binary_kinds import BINARY
from explorer.ir.top.support.integer_roots import lifted, square_root
from explorer.ir.top.support.unary_kinds import UNARY
from explorer.ir.types import QuantizedType, numpy_dtype

sys.path.insert(0, str(Path(__file__).parent))
from quantized_kernels import RUNNERS, U8, build, integers, quantized, run_kernel

I16 = IntegerType(16)
TWICE = Requantization("doubling_high_multiply", "nearest_away_from_zero")
ONCE = Requantization("multiplier_shift", "nearest_up")


@pytest.fixture(params=RUNNERS)
def run(request: pytest.FixtureRequest):
    return request.getfixturevalue(request.param)


def real(stored: np.ndarray, kind: QuantizedType) -> np.ndarray:
    """In double precision."""
    return (stored.astype(np.int64) - kind.zero_point_array[0]) * float(kind.double_scales[0])


def rounded(numbers: np.ndarray, kind: QuantizedType) -> np.ndarray:
    """The nearest stored numbers to real ones, as i64."""
    steps = np.rint(numbers / float(kind.double_scales[0])) + kind.zero_point_array[0]
    return np.clip(steps, *integer_limits(kind.storage)).astype(np.int64)


def all_numbers(kind: QuantizedType) -> np.ndarray:
    low, high = integer_limits(kind.storage)
    return np.arange(low, high + 1).astype(numpy_dtype(kind))


# -- addition, subtraction, multiplication, maximum ------------------------------------------------

TYPES = {
    "unsigned bytes": (quantized(U8, 0.1, 20), quantized(i8, 0.03, -5), quantized(U8, 0.2, 99)),
    "unlike scales": (quantized(i8, 0.9, -128), quantized(i8, 0.001, 127), quantized(i8, 0.7, 0)),
    "words": (quantized(I16, 3e-4), quantized(I16, 1e-4), quantized(I16, 5e-4)),
    "word and byte": (quantized(U8, 0.02, 7), quantized(I16, 1e-4), quantized(U8, 0.02, 3)),
}


def fixed_point_case(types: str, kind: str, how: Requantization):
    """The operation, and numbers among which are the extreme ones."""
    a_kind, b_kind, y_kind = TYPES[types]
    random = np.random.default_rng(0)
    arrays = [
        random.choice(np.append(all_numbers(k)[::3], integer_limits(k.storage)), 700)
        for k in (a_kind, b_kind)
    ]
    arrays = [x.astype(numpy_dtype(k)) for x, k in zip(arrays, (a_kind, b_kind), strict=True)]
    by = RequantizationAttr.get(y_kind, how)
    op = build(FixedPointOp, [(a_kind, (700,)), (b_kind, (700,))], kind=kind, by=by)
    return op, arrays


@pytest.mark.sampled(16)
@pytest.mark.parametrize("how", [TWICE, ONCE], ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("types", TYPES)
def test_fixed_point_is_within_a_step_of_real_arithmetic(types, kind, how):
    op, (a, b) = fixed_point_case(types, kind, how)
    a_kind, b_kind, y_kind = TYPES[types]
    meaning = {"add": np.add, "sub": np.subtract, "mul": np.multiply}
    meaning |= {"max": np.maximum, "min": np.minimum, "prelu": BINARY["prelu"].meaning}
    wanted = rounded(meaning[kind](real(a, a_kind), real(b, b_kind)), y_kind)
    (found,) = op.evaluate(a, b)
    assert np.abs(found.astype(np.int64) - wanted).max() <= 1


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("types", "kind", "how"),
    [
        *(("unlike scales", kind, TWICE) for kind in KINDS),
        ("word and byte", "sub", TWICE),
        ("words", "mul", TWICE),
        ("word and byte", "prelu", ONCE),
        ("words", "add", ONCE),
    ],
)
def test_kernels_of_fixed_point_are_their_meaning(types, kind, how, run):
    op, arrays = fixed_point_case(types, kind, how)
    np.testing.assert_array_equal(run_kernel(op, arrays, run), op.evaluate(*arrays)[0])


def published_add(a: int, b: int, kinds, to: QuantizedType, lift: int) -> int:
    """TensorFlow Lite's reference kernel of ADD, word by word."""

    def multiplier(ratio: float) -> tuple[int, int]:
        fraction, shift = math.frexp(ratio)
        fixed = math.floor(fraction * 2**31 + 0.5)
        return (2**30, shift + 1) if fixed == 2**31 else (fixed, shift)

    def scaled(x: int, ratio: float) -> int:
        fixed, shift = multiplier(ratio)
        nudged = x * fixed + (2**30 if x >= 0 else 1 - 2**30)
        high = abs(nudged) // 2**31 * (1 if nudged >= 0 else -1)
        mask = 2**-shift - 1
        return (high >> -shift) + ((high & mask) > (mask >> 1) + (high < 0))

    left, right = (float(kind.double_scales[0]) for kind in kinds)
    za, zb = (int(kind.zero_point_array[0]) for kind in kinds)
    twice = 2 * max(left, right)
    total = scaled((a - za) << lift, left / twice) + scaled((b - zb) << lift, right / twice)
    result = scaled(total, twice / (2**lift * float(to.double_scales[0])))
    return min(max(result + int(to.zero_point_array[0]), -(2**15)), 2**15 - 1)


def test_an_addition_is_that_of_the_reference_kernels():
    kinds, to = (quantized(i8, 0.037, -3), quantized(i8, 0.0214, 11)), quantized(i8, 0.05, -7)
    a, b = (x.reshape(-1) for x in np.meshgrid(all_numbers(kinds[0]), all_numbers(kinds[1])))
    by = RequantizationAttr.get(to, TWICE)
    op = build(FixedPointOp, [(k, a.shape) for k in kinds], kind="add", by=by)
    (found,) = op.evaluate(a, b)
    for place in range(0, a.size, 131):
        wanted = published_add(int(a[place]), int(b[place]), kinds, to, 20)
        assert found[place] == min(max(wanted, -128), 127)


def test_fixed_point_broadcasts_and_keeps_limits(run):
    kind = quantized(U8, 0.1, 20)
    a, b = integers((2, 3, 1, 5), kind), integers((3, 4, 1), kind, 1)
    by = RequantizationAttr.get(kind, TWICE, (20, 90))
    op = build(FixedPointOp, [(kind, a.shape), (kind, b.shape)], kind="sub", by=by)
    (found,) = op.evaluate(a, b)
    assert (found.min(), found.max()) == (20, 90)
    np.testing.assert_array_equal(run_kernel(op, [a, b], run).reshape(found.shape), found)


@pytest.mark.parametrize(
    ("kinds", "by", "problem"),
    [
        ((quantized(i8, 1.0), quantized(i8, 1.0)), Requantization("float", "down"), "no scheme"),
        ((quantized(i8, 1.0), f32), TWICE, "takes quantized numbers"),
        ((quantized(i32, 1.0), quantized(i8, 1.0)), TWICE, "more than 32 bits"),
    ],
)
def test_what_has_no_fixed_point_is_refused(kinds, by, problem):
    attribute = RequantizationAttr.get(quantized(i8, 1.0), by)
    with pytest.raises(ValueError, match=problem):
        build(FixedPointOp, [(k, (4,)) for k in kinds], kind="add", by=attribute)
    words = [(quantized(I16, 1.0, -32768), (4,))] * 2
    with pytest.raises(ValueError, match="more than 32 bits"):
        build(FixedPointOp, words, kind="mul", by=RequantizationAttr.get(words[0][0], TWICE))


# -- tables ----------------------------------------------------------------------------------------

FUNCTIONS = ["gelu", "gelu_tanh", "sigmoid", "tanh", "silu", "hard_swish", "elu", "leaky_relu"]
FUNCTIONS += ["softplus", "mish", "erf", "exp", "abs"]


def lookup(
    name: str,
    source: QuantizedType,
    to: QuantizedType,
    occurring: tuple[int, int] | None = None,
) -> LookupOp:
    kind = UNARY[name]
    table = table_of(lambda x: kind.meaning(x, kind.alpha, kind.beta), source, to, occurring)
    op = build(
        LookupOp,
        [(source, (2**source.storage.width.data,))],
        function=name,
        table=table.entries.tolist(),
        to=to,
        step_bits=table.step_bits or None,
        fraction_bits=table.fraction_bits or None,
        exact=table.exact.tolist() or None,
        exact_from=table.exact_from or None,
    )
    assert isinstance(op, LookupOp)
    return op


def wanted_of(name: str, source: QuantizedType, to: QuantizedType) -> np.ndarray:
    kind = UNARY[name]
    return rounded(kind.meaning(real(all_numbers(source), source), kind.alpha, kind.beta), to)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_table_of_bytes_is_the_rounded_real_function(name):
    for source, to in (
        (quantized(U8, 0.05, 128), quantized(U8, 0.03, 10)),
        (quantized(i8, 0.004, -128), quantized(I16, 1e-4)),
    ):
        (found,) = lookup(name, source, to).evaluate(all_numbers(source))
        np.testing.assert_array_equal(found, wanted_of(name, source, to))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_table_of_words_is_within_a_step_for_every_number(name):
    source = quantized(I16, 8 / 32768)
    to = quantized(I16, (1.0 if name in ("sigmoid", "tanh", "erf") else 8.0) / 32768)
    op = lookup(name, source, to)
    (found,) = op.evaluate(all_numbers(source))
    assert np.abs(found.astype(np.int64) - wanted_of(name, source, to)).max() <= 1


@pytest.mark.parametrize(("storage", "scale"), [(U8, 0.05), (i8, 0.05), (I16, 2e-4)])
def test_kernels_of_tables_are_their_meaning(storage, scale, run):
    source, to = quantized(storage, scale, 0), quantized(i8, 0.03, -3)
    op, x = lookup("gelu", source, to), all_numbers(quantized(storage, scale))
    np.testing.assert_array_equal(run_kernel(op, [x], run), op.evaluate(x)[0])


@pytest.mark.parametrize(("name", "scale", "lowest"), [("sqrt", 1 / 32767, 0), ("log", 1e-3, 1)])
def test_where_a_function_is_steep_each_number_has_an_entry(name, scale, lowest, run):
    """Of numbers that there may be: below them nothing is defined."""
    source, kind = quantized(I16, scale), UNARY[name]
    numbers = np.arange(lowest, 32768)
    results = kind.meaning(real(numbers, source), kind.alpha, kind.beta)
    to = quantized(I16, float(np.abs(results).max()) / 32767)
    with pytest.raises(ValueError, match="not defined for all numbers"):
        lookup(name, source, to)
    op = lookup(name, source, to, (lowest, 32767))
    assert len(op.get("exact")) > 8 and op.entries.size < 2**12
    (found,) = op.evaluate(numbers.astype(np.int16))
    assert np.abs(found.astype(np.int64) - rounded(results, to)).max() <= 1
    x = all_numbers(source)
    np.testing.assert_array_equal(run_kernel(op, [x], run), op.evaluate(x)[0])


def test_a_function_without_numbers_and_a_short_table_are_refused():
    kind = quantized(i8, 0.1)
    with pytest.raises(ValueError, match="not defined for all numbers"):
        table_of(np.log, kind, kind)
    with pytest.raises(ValueError, match="has 256 entries, not 3"):
        build(LookupOp, [(kind, (4,))], function="f", table=[1, 2, 3], to=kind)
    table = {"table": [0] * 256, "exact": [0] * 10, "exact_from": 250}
    with pytest.raises(ValueError, match="250 to 260 are of no i8"):
        build(LookupOp, [(kind, (4,))], function="f", to=kind, **table)
    words = quantized(I16, 1.0)
    with pytest.raises(ValueError, match="more than a step off"):
        table_of(lambda x: 1000 * (x % 2), words, words)


# -- normalizations --------------------------------------------------------------------------------


def exact_softmax(x: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


SOFTMAX_TYPES = [
    (quantized(U8, 0.05, 3), quantized(U8, 1 / 255)),
    (quantized(i8, 1.5, 3), quantized(i8, 1 / 256, -128)),
    (quantized(i8, 1e-4, 3), quantized(I16, 1 / 32767)),
    (quantized(I16, 1e-3), quantized(I16, 1 / 32767)),
    (quantized(I16, 0.4), quantized(U8, 1 / 255)),
]


def softmax_case(
    source: QuantizedType,
    to: QuantizedType,
    shape: tuple[int, ...],
    kind: type[TopOperation] = IntegerSoftmaxOp,
):
    low, high = integer_limits(source.storage)
    x = np.random.default_rng(0).integers(low, high, shape, endpoint=True)
    x[0], x[1] = high, low  # all alike
    x.reshape(-1)[-3:] = [low, high, low]
    op = build(kind, [(source, shape)], axis=1, to=to)
    return op, x.astype(numpy_dtype(source))


@pytest.mark.parametrize(("source", "to"), SOFTMAX_TYPES, ids=lambda kind: str(kind))
@pytest.mark.parametrize("shape", [(5, 37), (2, 9, 6), (4, 1), (3, 2000)])
def test_softmax_is_within_a_step(source, to, shape):
    op, x = softmax_case(source, to, shape)
    wanted = rounded(exact_softmax(real(x, source), 1), to)
    assert np.abs(op.evaluate(x)[0].astype(np.int64) - wanted).max() <= 1


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("types", "shape"), [(0, (5, 37)), (1, (2, 9, 6)), (3, (4, 65))])
def test_kernels_of_softmax_are_their_meaning(types, shape, run):
    source, to = SOFTMAX_TYPES[types]
    op, x = softmax_case(source, to, shape)
    for choices in (None, {}):
        np.testing.assert_array_equal(run_kernel(op, [x], run, choices), op.evaluate(x)[0])


def test_every_difference_of_a_softmax_of_words_is_within_a_step():
    """Rows of two: one number stays the largest, the other takes all values."""
    source, to = quantized(I16, 2e-4), quantized(I16, 1 / 32767)
    others = all_numbers(source)
    x = np.stack([np.full_like(others, 32767), others], axis=1)
    (found,) = build(IntegerSoftmaxOp, [(source, x.shape)], axis=1, to=to).evaluate(x)
    wanted = rounded(exact_softmax(real(x, source), 1), to)
    assert np.abs(found.astype(np.int64) - wanted).max() <= 1


LOG_SOFTMAX_TYPES = [
    (quantized(U8, 0.05, 3), quantized(U8, 0.08, 255)),
    (quantized(i8, 1.5, 3), quantized(i8, 3.1, 127)),
    (quantized(i8, 1e-4, 3), quantized(I16, 1e-4)),
    (quantized(I16, 1e-3), quantized(I16, 20 / 32767)),
    (quantized(I16, 0.4), quantized(U8, 100.0, 255)),
]


def exact_log_softmax(x: np.ndarray, axis: int) -> np.ndarray:
    below = x - x.max(axis=axis, keepdims=True)
    return below - np.log(np.exp(below).sum(axis=axis, keepdims=True))


@pytest.mark.parametrize(("source", "to"), LOG_SOFTMAX_TYPES, ids=lambda kind: str(kind))
@pytest.mark.parametrize("shape", [(5, 37), (2, 9, 6), (4, 1), (3, 2000)])
def test_a_logarithm_of_softmax_is_within_a_step(source, to, shape):
    op, x = softmax_case(source, to, shape, IntegerLogSoftmaxOp)
    wanted = rounded(exact_log_softmax(real(x, source), 1), to)
    assert np.abs(op.evaluate(x)[0].astype(np.int64) - wanted).max() <= 1


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("types", "shape"), [(0, (5, 37)), (1, (2, 9, 6)), (3, (4, 65))])
def test_kernels_of_a_logarithm_of_softmax_are_their_meaning(types, shape, run):
    source, to = LOG_SOFTMAX_TYPES[types]
    op, x = softmax_case(source, to, shape, IntegerLogSoftmaxOp)
    for choices in (None, {}):
        np.testing.assert_array_equal(run_kernel(op, [x], run, choices), op.evaluate(x)[0])


def test_every_sum_of_a_logarithm_of_softmax_is_within_a_step():
    """Rows of up to 4,100 numbers that are alike, and of two that differ by all there are."""
    source, to = quantized(I16, 2e-4), quantized(I16, 1e-4)
    others = all_numbers(source)
    pairs = np.stack([np.full_like(others, 32767), others], axis=1)
    rows = [np.zeros((1, count), np.int16) for count in range(1, 4100, 7)]
    for x in (pairs, *rows):
        (found,) = build(IntegerLogSoftmaxOp, [(source, x.shape)], axis=1, to=to).evaluate(x)
        wanted = rounded(exact_log_softmax(real(x, source), 1), to)
        assert np.abs(found.astype(np.int64) - wanted).max() <= 1


def test_steps_too_small_for_a_logarithm_are_refused():
    source = quantized(i8, 0.1)
    for scale, shape, problem in (
        (1e-7, (2, 4), "logarithms are"),
        (1e-4, (1, 2**20), "logarithms are"),
        (1e-17, (2, 4), "too small"),
    ):
        with pytest.raises(ValueError, match=problem):
            build(IntegerLogSoftmaxOp, [(source, shape)], axis=1, to=quantized(I16, scale))


BYTE_SOFTMAX_TYPES = [
    (quantized(U8, 0.05, 3), quantized(U8, 1 / 256)),
    (quantized(i8, 1.5, 3), quantized(i8, 1 / 256, -128)),
    (quantized(i8, 0.05, 3), quantized(I16, 2.0**-16, -(1 << 15))),
]


def byte_softmax_case(types: int, shape: tuple[int, ...]):
    """As `softmax_case`, for the softmax of bytes in fixed point, whose exponents have a factor."""
    source, to = BYTE_SOFTMAX_TYPES[types]
    _, x = softmax_case(source, to, shape)
    return build(FixedPointSoftmaxOp, [(source, shape)], axis=1, beta=0.5, to=to), x


@pytest.mark.parametrize("types", range(len(BYTE_SOFTMAX_TYPES)))
@pytest.mark.parametrize("shape", [(5, 37), (4, 1), (3, 2000)])
def test_softmax_of_bytes_is_within_a_step(types, shape):
    source, to = BYTE_SOFTMAX_TYPES[types]
    op, x = byte_softmax_case(types, shape)
    wanted = rounded(exact_softmax(real(x, source) / 2, 1), to)
    assert np.abs(op.evaluate(x)[0].astype(np.int64) - wanted).max() <= 1


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("types", "shape"), [(0, (5, 37)), (1, (2, 9, 6))])
def test_kernels_of_softmax_of_bytes_are_its_meaning(types, shape, run):
    op, x = byte_softmax_case(types, shape)
    for choices in (None, {}):
        np.testing.assert_array_equal(run_kernel(op, [x], run, choices), op.evaluate(x)[0])


def exact_layer_norm(x, axes, epsilon, scale, shift, is_centered):
    centered = x - x.mean(axis=axes, keepdims=True) if is_centered else x
    squares = (centered**2).mean(axis=axes, keepdims=True)
    return centered / np.sqrt(squares + epsilon) * scale + shift


LAYER_NORM_TYPES = [
    (quantized(U8, 0.01, 120), quantized(U8, 0.02, 128)),
    (quantized(i8, 1e-3, -100), quantized(i8, 0.03, 5)),
    (quantized(I16, 1e-4), quantized(I16, 2e-4)),
    (quantized(I16, 1e-6), quantized(i8, 0.03)),
]


def layer_norm_case(
    source: QuantizedType, to: QuantizedType, shape: tuple[int, ...], is_centered: bool
):
    """The operation, its operands, and the real scale and shift."""
    random = np.random.default_rng(0)
    low, high = integer_limits(source.storage)
    x = random.integers(low, high, shape, endpoint=True)
    x[0], x[1], x[2] = high, low, 0  # nothing varies
    x[3] = 1
    x[3].reshape(-1)[-1] = 2  # as little as can be
    x[4] = np.where(np.arange(x[4].size).reshape(x[4].shape) % 2, low, high)  # as much
    scale, shift = random.normal(1, 0.3, shape[-1:]), random.normal(0, 0.5, shape[-1:])
    count = int(np.prod(shape[1:]))
    multiplier, offset, bits = layer_norm_factors(scale, shift, count, to)
    op = build(
        IntegerLayerNormOp,
        [(source, shape), (i32, multiplier.shape), (i64, offset.shape)],
        axis=1,
        epsilon=1e-5,
        fraction_bits=bits,
        to=to,
        centered=None if is_centered else False,
    )
    return op, [x.astype(numpy_dtype(source)), multiplier, offset], (scale, shift)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("is_centered", [True, False])
@pytest.mark.parametrize(("source", "to"), LAYER_NORM_TYPES, ids=lambda kind: str(kind))
@pytest.mark.parametrize("shape", [(7, 48), (6, 3, 8), (5, 1), (5, 3000)])
def test_layer_norm_is_within_two_steps(source, to, shape, is_centered):
    op, operands, parameters = layer_norm_case(source, to, shape, is_centered)
    axes = tuple(range(1, len(shape)))
    x = real(operands[0], source)
    wanted = rounded(exact_layer_norm(x, axes, 1e-5, *parameters, is_centered), to)
    assert np.abs(op.evaluate(*operands)[0].astype(np.int64) - wanted).max() <= 2


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("types", "shape", "is_centered"),
    [(0, (7, 48), True), (1, (6, 3, 8), True), (2, (7, 33), True), (0, (7, 48), False)],
)
def test_kernels_of_layer_norm_are_their_meaning(types, shape, is_centered, run):
    source, to = LAYER_NORM_TYPES[types]
    op, operands, _ = layer_norm_case(source, to, shape, is_centered)
    for choices in (None, {}):
        found = run_kernel(op, operands, run, choices)
        np.testing.assert_array_equal(found, op.evaluate(*operands)[0])


def test_slices_whose_variance_exceeds_62_bits_are_refused():
    source = quantized(I16, 1e-4)
    with pytest.raises(ValueError, match="exceed 62 bits"):
        build(
            IntegerLayerNormOp,
            [(source, (1, 2**17)), (i32, (1,)), (i64, (1,))],
            axis=1,
            epsilon=1e-5,
            fraction_bits=40,
            to=source,
        )


def test_roots_are_those_of_whole_numbers():
    random = np.random.default_rng(0)
    numbers = [random.integers(1, 2**bits, 50) for bits in (1, 2, 17, 31, 61, 62)]
    v = np.append(np.concatenate(numbers), [1, 2, 3, 2**60 - 1, 2**60, 2**62 - 1, 2**31])
    high, halves = lifted(v)
    assert np.all((high >= 2**60) & (high < 2**62)) and np.all(v << (2 * halves) == high)
    assert square_root(high).tolist() == [math.isqrt(int(h)) for h in high]
