"""Convolutions over inputs with zeros in between: a filter per phase, and the same numbers."""

import re

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from explorer.ir.evaluation import outputs_by_name
from explorer.passes.lower.legalize import Legalize
from explorer.passes.lower.phases import NOTHING, AxisPhases, phase_filters


def spread(sizes, window, stride, low, high, channels=3, outputs=2, pads=0, **changes):
    """conv(pad(x)) of `outputs` filters; one number for all axes, or one of each."""
    rank = len(sizes)

    def each(value):
        return list(value) if isinstance(value, tuple | list) else [value] * rank

    window, stride, low, high = (each(value) for value in (window, stride, low, high))
    padded = [
        low[a] + (sizes[a] - 1) * stride[a] + 1 + high[a] if sizes[a] else 0 for a in range(rank)
    ]
    result = [padded[a] + 2 * pads - window[a] + 1 for a in range(rank)]
    fields = {
        "value": "0.000000e+00", "strides": [1] * rank, "dilations": [1] * rank, "group": 1,
        "bias": ", bias = %b", "activation": 'activation = "relu", ', **changes,
    }  # fmt: skip
    x, p, w, y = (
        "x".join(map(str, shape))
        for shape in (
            (2, channels, *sizes),
            (2, channels, *padded),
            (outputs, channels // fields["group"], *window),
            (2, outputs, *result),
        )
    )
    steps = [0, 0, *(s - 1 for s in stride)]
    return f"""
    func.func @main(%x: tensor<{x}xf32>) {{
      %w = top.weight() {{weight = "w"}} : tensor<{w}xf32>
      %b = top.weight() {{weight = "b"}} : tensor<{outputs}xf32>
      %p = top.pad(%x) {{low = {[0, 0, *low]}, high = {[0, 0, *high]}, interior = {steps},
        value = {fields["value"]} : f32}} : tensor<{p}xf32>
      %y = top.conv(%p, %w{fields["bias"]}) {{{fields["activation"]}
        dilations = {fields["dilations"]}, group = {fields["group"]},
        pads = {[pads] * (2 * rank)}, strides = {fields["strides"]}}}
        : tensor<{y}xf32>
      top.return(%y)
    }}
    """


def test_windows_as_large_as_the_stride_become_windows_of_one(check):
    checked = check(Legalize(), spread((5, 6), 2, 2, 1, 1))
    assert checked.rewritten == ["convolve-by-phases y"]
    _, conv, parts, moved, whole, _ = checked.lines  # nothing reads the pad any more
    assert "pads = [0, 0, 0, 0]" in conv and conv.endswith("tensor<2x8x5x6xf32>")
    assert parts.endswith("{shape = [2, 2, 2, 2, 5, 6]} : tensor<2x2x2x2x5x6xf32>")
    assert "permutation = [0, 3, 4, 1, 5, 2]" in moved
    assert whole.endswith("tensor<2x2x10x12xf32>")


@pytest.mark.sampled(10)
@pytest.mark.parametrize(
    ("sizes", "window", "stride", "low", "high", "pads"),
    [
        ((5, 7), 3, 2, 1, 1, 0),  # ConvTranspose with pads 1: an odd number of outputs
        ((5, 7), 3, 2, 1, 2, 0),  # and with output_padding
        ((4, 4), 4, 2, 2, 2, 0),
        ((4, 3), (3, 5), (2, 3), (1, 4), (2, 2), 0),
        ((4, 3), 2, 3, 1, 3, 0),  # some outputs meet no element at all
        ((4, 3), 3, 2, 0, 0, 1),  # what is around the picture stands at the convolution
        ((6, 4), (3, 3), (1, 2), 1, 1, 0),
        ((1, 1), 4, 4, 3, 3, 0),
        ((9,), 16, 8, 11, 11, 0),
        ((3, 2, 4), 2, 2, 1, 1, 0),
    ],
)
@pytest.mark.parametrize("outputs", [2, 5])  # tap by tap, and a convolution for each size
def test_any_window_and_stride(check, sizes, window, stride, low, high, pads, outputs):
    """`check` compares the numbers with those of the program before."""
    text = spread(sizes, window, stride, low, high, pads=pads, outputs=outputs)
    checked = check(Legalize(), text)
    assert "convolve-by-phases y" in checked.fired
    assert not re.search(r"\(%p\b", "".join(checked.lines))


def convolutions(checked):
    return [line for line in checked.lines if "top.conv(" in line]


def test_few_filters_are_one_convolution_of_all_taps(check):
    checked = check(Legalize(), spread((5, 7), 3, 2, 1, 1, outputs=1))
    (conv,) = convolutions(checked)
    assert conv.endswith("tensor<2x9x5x7xf32>")
    assert len(convolutions(check(Legalize(), spread((5, 7), 3, 2, 1, 1, outputs=5)))) == 4


def test_narrow_floats_are_not_rounded_after_each_tap(check):
    text = (
        spread((5, 7), 3, 2, 1, 1, outputs=1).replace("xf32>", "xf16>").replace(": f32}", ": f16}")
    )
    assert len(convolutions(check(Legalize(), text, tolerance=1e-2))) == 4


@given(
    size=st.integers(1, 6), window=st.integers(1, 7), stride=st.integers(2, 5),
    low=st.integers(0, 9), high=st.integers(0, 9), seed=st.integers(0, 99),
)  # fmt: skip
@settings(deadline=None, max_examples=200)
def test_phases_of_an_axis_make_its_outputs(size, window, stride, low, high, seed):
    random = np.random.default_rng(seed)
    filters, x = random.integers(-9, 9, (1, 1, window)), random.integers(-9, 9, size)
    padded = np.zeros(low + (size - 1) * stride + 1 + high, int)
    padded[low : low + size * stride : stride] = x
    outputs = padded.size - window + 1
    assume(outputs >= 1)
    axis = AxisPhases.aligned(size, outputs, window, stride, low)
    assert len({axis.part(n).shift for n in range(stride)} - {NOTHING.shift}) <= 1
    made = []
    for run in axis.runs:
        part = axis.part(run[0])
        if part == NOTHING:
            made += [np.zeros(axis.steps, int)] * len(run)
            continue
        before, behind = axis.pads(part)
        given = np.pad(x, (max(before, 0), max(behind, 0)))
        given = given[max(-before, 0) : len(given) + min(behind, 0)]
        split = phase_filters(filters, [axis], [run])[:, 0]
        made += [np.correlate(given, taps, "valid") for taps in split]
    expected = np.correlate(padded, filters[0, 0], "valid")
    np.testing.assert_array_equal(np.stack(made, 1).ravel()[axis.lead : axis.outputs], expected)


@pytest.mark.parametrize(
    ("window", "stride", "low", "high"), [(3, 2, 1, 2), (4, 2, 2, 2), (5, 3, 4, 4), (2, 3, 1, 3)]
)
@pytest.mark.parametrize("outputs", [2, 5])
def test_what_is_no_number_reaches_the_outputs_of_its_own_window_only(
    check, make_program, window, stride, low, high, outputs
):
    """Judged by the definition: each element of x is added to the outputs that it meets."""
    text = spread((5, 6), window, stride, low, high, outputs=outputs, activation="")
    x = np.random.default_rng(1).normal(size=(2, 3, 5, 6)).astype(np.float32)
    x[0, 1, 2, 3], x[1, 0, 4, 0] = np.inf, np.nan
    checked = check(Legalize(), text, inputs={"x": x})
    assert "convolve-by-phases y" in checked.fired
    after = checked.result.after
    (found,) = outputs_by_name(after.module, after.run({"x": x})).values()
    weights = make_program(text).weights
    w, b = weights["w"].astype(np.float64), weights["b"].astype(np.float64)
    whole = np.zeros((2, outputs, *(low + (n - 1) * stride + 1 + high + window for n in (5, 6))))
    for i, j in np.ndindex(5, 6):
        for p, q in np.ndindex(window, window):
            own = x[:, :, i, j].astype(np.float64) @ w[:, :, window - 1 - p, window - 1 - q].T
            whole[:, :, i * stride + p, j * stride + q] += own
    begin = window - 1 - low
    expected = whole[:, :, begin:, begin:][:, :, : found.shape[2], : found.shape[3]]
    expected = expected + b.reshape(-1, 1, 1)
    assert 0 < np.isnan(expected).sum() <= 2 * outputs * window**2
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"value": "1.000000e+00"}, "reads more than zeros between its elements"),
        ({"group": 3, "outputs": 6}, "has groups, strides or dilations"),
        ({"window": 1, "low": 0, "high": 0}, "the windows of y would not get smaller"),
    ],
)
def test_what_is_declined_says_why(check, changes, reason):
    given = {"sizes": (5, 6), "window": 3, "stride": 2, "low": 1, "high": 1, **changes}
    (declined,) = check(Legalize(), spread(**given)).declined
    assert reason in declined
