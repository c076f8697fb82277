"""The Signal* operators of TFLite Micro: from sound to the energies of frequency bands.

    SignalWindow, SignalFftAutoScale, SignalRfft, SignalEnergy        a spectrum of 16 bits
    SignalFilterBank, ...SquareRoot, ...SpectralSubtraction           its bands, without noise
    SignalPCAN, SignalFilterBankLog                                   their gain and logarithm

All are integers, exact to the bit; numbers without a sign are computed with as i64. Options are a
map of FlexBuffers. Source: tensorflow/tflite-micro, signal/src and signal/micro/kernels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from flatbuffers import flexbuffers

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr
from explorer.importers.tflite.operators.integers import kept_within, shifted
from explorer.importers.tflite.operators.kiss_fft import transform
from explorer.importers.tflite.operators.node import TfliteNode
from explorer.ir.top.indexing import GatherOp

LEAST, MOST = -(1 << 15), (1 << 15) - 1
WORD_MASK = (1 << 32) - 1


def _option(node: TfliteNode, name: str) -> int:
    options = flexbuffers.Loads(node.file.custom_options) if node.file.custom_options else {}
    value = options.get(name) if isinstance(options, dict) else None
    if not isinstance(value, int):
        raise ValueError(f"option {name} is {value!r}; a number expected")
    return int(value)


def _wide(node: TfliteNode, index: int, build: Build) -> Expr:
    """An operand as i64."""
    return build.cast(node.plain(index), np.int64)


def _made(x: Expr, node: TfliteNode, build: Build, place: int = 0) -> Expr:
    """In the element type that the file says, without what does not fit."""
    return build.cast(x, np.dtype(node.results[place].element_type))


def window(node: TfliteNode, build: Build) -> Expr:
    """x times a window, shifted to the right, saturated."""
    a, b = (build.cast(node.plain(index), np.int32) for index in (0, 1))
    moved = shifted(build.binary("mul", a, b), _option(node, "shift"), build)
    return _made(kept_within(moved, (LEAST, MOST), build), node, build)


def fft_auto_scale(node: TfliteNode, build: Build) -> Sequence[Expr]:
    """x shifted to the left as far as 16 bits hold it, and by how many bits: none of silence.

    -2^15 counts as 2^15. (There it hides the numbers in front of it.)
    """
    x = build.cast(node.plain(0), np.int32)
    axes = list(range(build.rank(x)))
    largest = build.reduce("max", build.unary("abs", x), axes)
    bits = build.binary("sub", build.scalar_like(15, x), _bits_of(largest, 16, build))
    zero = build.scalar_like(0, bits)
    bits = build.select(build.binary("equal", largest, zero), zero, build.binary("max", bits, zero))
    return [_made(build.binary("shift_left", x, bits), node, build), _made(bits, node, build, 1)]


def _bits_of(x: Expr, most: int, build: Build) -> Expr:
    """How many bits numbers of at least 0 have: 0 for 0, 3 for 4."""
    powers = build.weight((np.int64(1) << np.arange(most, dtype=np.int64)).astype(build.dtype(x)))
    rank = build.rank(x)
    is_reached = build.binary("greater_equal", build.unsqueeze(x, [rank]), powers)
    return build.reduce("sum", build.cast(is_reached, build.dtype(x)), [rank])


def rfft(node: TfliteNode, build: Build) -> Expr:
    """The spectrum of each row, filled up with zeros: real and imaginary parts in turn."""
    if node.result.element_type != "int16":
        raise Unsupported(f"of {node.result.element_type} it cannot be imported yet")
    length = _option(node, "fft_length")
    x = build.cast(node.plain(0), np.int32)
    *outer, size = build.sizes(x, range(build.rank(x)), "a Fourier transform")
    rows = build.reshape(x, [-1, size])
    if size > length:
        raise ValueError(f"{size} numbers for a Fourier transform of {length}")
    real, imaginary = transform(build.padded(rows, [0, 0], [0, length - size]), length, build)
    pairs = build.concat([build.unsqueeze(part, [2]) for part in (real, imaginary)], 2)
    return _made(build.reshape(pairs, [*outer, length + 2]), node, build)


def energy(node: TfliteNode, build: Build) -> Expr:
    """The squared magnitudes of a spectrum from `start_index` to `end_index`; 0 elsewhere, where
    the kernel leaves what was there."""
    x = build.reshape(build.cast(node.plain(0), np.int32), [-1, 2])
    (count,) = build.sizes(x, [0], "energies")
    total = build.reduce("sum", build.binary("mul", x, x), [1])
    inside = np.zeros(count, np.int32)
    inside[max(_option(node, "start_index"), 0) : max(_option(node, "end_index"), 0)] = 1
    if not inside.all():
        total = build.binary("mul", total, build.weight(inside))
    return _made(total, node, build)


def filter_bank(node: TfliteNode, build: Build) -> Expr:
    """Sums of energies: those of a band by its weights, and by the other weights of the band below.

    The first band of the kernel's is left out, as it is there.
    """
    count = _option(node, "num_channels")
    places = "weights", "unweights", "starts", "weight_starts", "widths"
    weights, unweights, starts, weight_starts, widths = (
        build.known(node.plain(1 + k), what).astype(np.int64) for k, what in enumerate(places)
    )
    x = _wide(node, 0, build)
    (size,) = build.sizes(x, [0], "energies")
    matrix = np.zeros((size, count + 2), np.int64)
    for band in range(count + 1):
        for j in range(int(widths[band])):
            matrix[starts[band] + j, band] += weights[weight_starts[band] + j]
            matrix[starts[band] + j, band + 1] += unweights[weight_starts[band] + j]
    bands = np.ascontiguousarray(matrix[:, 1 : count + 1])
    sums = build.matmul(build.unsqueeze(x, [0]), build.weight(bands, f"{node.name}.bands"))
    return _made(build.squeeze(sums, [0]), node, build)


def square_root(node: TfliteNode, build: Build) -> Expr:
    """The rounded root, shifted to the right by as many bits as the second operand says.

    Of numbers below 2^32 it is at most 2^16 - 1.
    """
    x = _wide(node, 0, build)
    root = build.cast(build.unary("sqrt", build.cast(x, np.float64)), np.int64)
    one = build.scalar_like(1, root)
    above = build.binary("greater", build.binary("mul", root, root), x)
    root = build.select(above, build.binary("sub", root, one), root)
    rest = build.binary("sub", x, build.binary("mul", root, root))
    rounded = build.binary("add", root, build.cast(build.binary("greater", rest, root), np.int64))
    is_small = build.binary("less", x, build.scalar_like(1 << 32, x))
    most = build.select(
        is_small, build.scalar_like((1 << 16) - 1, x), build.scalar_like(WORD_MASK, x)
    )
    bits = build.cast(build.reshape(node.plain(1), []), np.int64)
    return _made(build.binary("shift_right", build.binary("min", rounded, most), bits), node, build)


def spectral_subtraction(node: TfliteNode, build: Build) -> Sequence[Expr]:
    """Bands without their noise, which is their slowly moving average, and that for the next run.

    Every second band has other factors.
    """
    option = {name: _option(node, name) for name in _SUBTRACTION}
    x, last = _wide(node, 0, build), _wide(node, 1, build)
    (count,) = build.sizes(x, [0], "bands")
    is_even = np.arange(count) % 2 == 0
    share, rest = (
        build.weight(np.where(is_even, option[name], option[f"alternate_{name}"]).astype(np.int64))
        for name in ("smoothing", "one_minus_smoothing")
    )
    bits, behind = option["smoothing_bits"], option["spectral_subtraction_bits"]
    lifted = build.binary("shift_left", x, build.scalar_like(bits, x))
    lifted = build.binary("bit_and", lifted, build.scalar_like(WORD_MASK, x))
    total = build.binary("add", build.binary("mul", lifted, share), build.binary("mul", last, rest))
    estimate = build.binary(
        "bit_and", shifted(total, behind, build), build.scalar_like(WORD_MASK, x)
    )
    kept = build.binary("min", estimate, lifted)
    noise = kept if option["clamping"] else estimate
    least = build.binary("mul", x, build.scalar_like(option["min_signal_remaining"], x))
    cleaned = shifted(build.binary("sub", lifted, kept), bits, build)
    result = build.binary("max", cleaned, shifted(least, behind, build))
    made = _made(noise, node, build, 1)
    return [_made(result, node, build), made, made]


_SUBTRACTION = (
    "smoothing", "one_minus_smoothing", "alternate_smoothing", "alternate_one_minus_smoothing",
    "smoothing_bits", "spectral_subtraction_bits", "min_signal_remaining", "clamping",
)  # fmt: skip
SNR_BITS, OUTPUT_BITS = 12, 6
"""Behind the points of a gain's results."""


def pcan(node: TfliteNode, build: Build) -> Expr:
    """Bands times a gain that depends on their noise, and shrunk: x^2 / 4 below 2, else x - 1."""
    x, noise = _wide(node, 0, build), _wide(node, 1, build)
    gain = build.cast(_wide_dynamic(noise, node.plain(2), build), np.int64)
    gain = build.binary("bit_and", gain, build.scalar_like(WORD_MASK, gain))
    snr = shifted(build.binary("mul", x, gain), _option(node, "snr_shift"), build)
    snr = build.binary("bit_and", snr, build.scalar_like(WORD_MASK, snr))
    small = shifted(build.binary("mul", snr, snr), 2 + 2 * SNR_BITS - OUTPUT_BITS, build)
    large = build.binary(
        "sub",
        shifted(snr, SNR_BITS - OUTPUT_BITS, build),
        build.scalar_like(1 << OUTPUT_BITS, snr),
    )
    is_small = build.binary("less", snr, build.scalar_like(2 << SNR_BITS, snr))
    return _made(build.select(is_small, small, large), node, build)


def _wide_dynamic(x: Expr, table: Expr, build: Build) -> Expr:
    """A polynomial of degree 2 for each power of two, three entries of the table; i32."""
    interval = _bits_of(x, 32, build)
    four, zero = build.scalar_like(4, x), build.scalar_like(0, x)
    place = build.binary("sub", build.binary("mul", interval, four), build.scalar_like(6, x))
    place = build.binary("max", place, zero)
    c, b, a = (
        build.cast(
            _entry(table, build.binary("add", place, build.scalar_like(k, x)), build), np.int32
        )
        for k in range(3)
    )
    eleven = build.scalar_like(11, x)
    left, right = (
        build.binary("max", build.binary("sub", *pair), zero)
        for pair in ((eleven, interval), (interval, eleven))
    )
    moved = build.binary("shift_right", build.binary("shift_left", x, left), right)
    share = build.cast(build.binary("bit_and", moved, build.scalar_like(0x3FF, x)), np.int32)
    line = shifted(build.binary("mul", a, share), 5, build)
    line = build.binary("add", line, build.binary("shift_left", b, build.scalar_like(5, b)))
    product = build.binary("mul", line, share)
    bent = shifted(build.binary("add", product, build.scalar_like(1 << 14, b)), 15, build)
    result = build.cast(build.cast(build.binary("add", bent, c), np.int16), np.int32)
    is_first = build.binary("less", x, build.scalar_like(3, x))
    first = build.binary("min", x, build.scalar_like(2, x))
    return build.select(is_first, build.cast(_entry(table, first, build), np.int32), result)


def _entry(table: Expr, place: Expr, build: Build) -> Expr:
    return build.value(GatherOp, [table, place], axis=0)


LOG_BITS, SEGMENT_BITS = 16, 7
NATURAL = 45426
"""log(2) times 2^16."""


def filter_bank_log(node: TfliteNode, build: Build) -> Expr:
    """The natural logarithm times `output_scale`, of numbers above 1; 0 for others."""
    x = _wide(node, 0, build)
    by = build.scalar_like(_option(node, "input_correction_bits"), x)
    scaled = build.binary("shift_left", x, by)
    scaled = build.binary("bit_and", scaled, build.scalar_like(WORD_MASK, x))
    found = _logarithm(scaled, _option(node, "output_scale"), build)
    is_above = build.binary("greater", scaled, build.scalar_like(1, x))
    kept = build.binary("min", found, build.scalar_like(MOST, x))
    return _made(build.select(is_above, kept, build.scalar_like(0, x)), node, build)


def _logarithm(x: Expr, scale: int, build: Build) -> Expr:
    """log2 by its integer, and a line between 128 entries for the rest."""
    one, half = build.scalar_like(1, x), build.scalar_like(1 << (LOG_BITS - 1), x)
    whole = build.binary("max", build.binary("sub", _bits_of(x, 32, build), one), one)
    rest = build.binary("sub", x, build.binary("shift_left", one, whole))
    left, right = (
        build.binary("max", build.binary("sub", *pair), build.scalar_like(0, x))
        for pair in (
            (build.scalar_like(LOG_BITS, x), whole), (whole, build.scalar_like(LOG_BITS, x)),
        )
    )  # fmt: skip
    rest = build.binary("shift_right", build.binary("shift_left", rest, left), right)
    rest = build.binary("max", rest, build.scalar_like(0, x))  # of 0, which nobody reads
    places = np.arange((1 << SEGMENT_BITS) + 1) / (1 << SEGMENT_BITS)
    table = np.floor((np.log2(1 + places) - places) * (1 << LOG_BITS) + 0.5).astype(np.int64)
    segment = shifted(rest, LOG_BITS - SEGMENT_BITS, build)
    entries = build.weight(table)
    low = _entry(entries, segment, build)
    high = _entry(entries, build.binary("add", segment, one), build)
    inside = build.binary(
        "bit_and", rest, build.scalar_like((1 << (LOG_BITS - SEGMENT_BITS)) - 1, x)
    )
    rise = shifted(build.binary("mul", build.binary("sub", high, low), inside), LOG_BITS, build)
    fraction = build.binary("add", build.binary("add", rest, low), rise)
    whole_bits = build.binary("shift_left", whole, build.scalar_like(LOG_BITS, x))
    log2 = build.binary("add", whole_bits, fraction)
    natural = build.binary("mul", log2, build.scalar_like(NATURAL, x))
    natural = shifted(build.binary("add", natural, half), LOG_BITS, build)
    product = build.binary("add", build.binary("mul", natural, build.scalar_like(scale, x)), half)
    product = build.binary("bit_and", product, build.scalar_like(WORD_MASK, x))
    return shifted(product, LOG_BITS, build)


CONVERTERS = {
    "custom.SignalWindow": window,
    "custom.SignalFftAutoScale": fft_auto_scale,
    "custom.SignalRfft": rfft,
    "custom.SignalEnergy": energy,
    "custom.SignalFilterBank": filter_bank,
    "custom.SignalFilterBankSquareRoot": square_root,
    "custom.SignalFilterBankSpectralSubtraction": spectral_subtraction,
    "custom.SignalPCAN": pcan,
    "custom.SignalFilterBankLog": filter_bank_log,
}
