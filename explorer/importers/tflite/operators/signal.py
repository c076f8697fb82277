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
from explorer.importers.building.expr import Expr, maximum, minimum, where
from explorer.importers.tflite.operators.integers import kept_within, shifted
from explorer.importers.tflite.operators.kiss_fft import transform
from explorer.importers.tflite.operators.node import TfliteNode
from explorer.ir.top.indexing import GatherOp

MIN_INT16, MAX_INT16 = -(1 << 15), (1 << 15) - 1
WORD_MASK = (1 << 32) - 1


def _option(node: TfliteNode, name: str) -> int:
    options = flexbuffers.Loads(node.file.custom_options) if node.file.custom_options else {}
    value = options.get(name) if isinstance(options, dict) else None
    if not isinstance(value, int):
        raise ValueError(f"option {name} is {value!r}; a number expected")
    return int(value)


def _wide(node: TfliteNode, index: int) -> Expr:
    """An operand as i64."""
    return node.plain(index).astype(np.int64)


def _made(x: Expr, node: TfliteNode, place: int = 0) -> Expr:
    """In the element type that the file says, without what does not fit."""
    return x.astype(np.dtype(node.results[place].element_type))


def window(node: TfliteNode, build: Build) -> Expr:
    """x times a window, shifted to the right, saturated."""
    a, b = (node.plain(index).astype(np.int32) for index in (0, 1))
    return _made(kept_within(shifted(a * b, _option(node, "shift")), (MIN_INT16, MAX_INT16)), node)


def fft_auto_scale(node: TfliteNode, build: Build) -> Sequence[Expr]:
    """x shifted to the left as far as 16 bits hold it, and by how many bits: none of silence.

    -2^15 counts as 2^15. (There it hides the numbers in front of it.)
    """
    x = node.plain(0).astype(np.int32)
    axes = list(range(x.rank))
    largest = abs(x).max(axes)
    bits = x.constant(15) - _bits_of(largest, 16, build)
    zero = bits.constant(0)
    bits = where(largest == zero, zero, maximum(bits, zero))
    return [_made(x << bits, node), _made(bits, node, 1)]


def _bits_of(x: Expr, most: int, build: Build) -> Expr:
    """How many bits numbers of at least 0 have: 0 for 0, 3 for 4."""
    powers = build.weight((np.int64(1) << np.arange(most, dtype=np.int64)).astype(x.dtype))
    rank = x.rank
    return (x.unsqueeze([rank]) >= powers).astype(x.dtype).sum([rank])


def rfft(node: TfliteNode, build: Build) -> Expr:
    """The spectrum of each row, filled up with zeros: real and imaginary parts in turn."""
    if node.result.element_type != "int16":
        raise Unsupported(f"of {node.result.element_type} it cannot be imported yet")
    length = _option(node, "fft_length")
    x = node.plain(0).astype(np.int32)
    *outer, size = x.sizes(range(x.rank), "a Fourier transform")
    rows = x.reshape([-1, size])
    if size > length:
        raise ValueError(f"{size} numbers for a Fourier transform of {length}")
    real, imaginary = transform(rows.pad([0, 0], [0, length - size]), length, build)
    pairs = build.concat([part.unsqueeze([2]) for part in (real, imaginary)], 2)
    return _made(pairs.reshape([*outer, length + 2]), node)


def energy(node: TfliteNode, build: Build) -> Expr:
    """The squared magnitudes of a spectrum from `start_index` to `end_index`; 0 elsewhere, where
    the kernel leaves what was there."""
    x = node.plain(0).astype(np.int32).reshape([-1, 2])
    (count,) = x.sizes([0], "energies")
    total = x.square().sum([1])
    inside = np.zeros(count, np.int32)
    inside[max(_option(node, "start_index"), 0) : max(_option(node, "end_index"), 0)] = 1
    if not inside.all():
        total = total * build.weight(inside)
    return _made(total, node)


def filter_bank(node: TfliteNode, build: Build) -> Expr:
    """Sums of energies: those of a band by its weights, and by the other weights of the band below.

    The first band of the kernel's is left out, as it is there.
    """
    count = _option(node, "num_channels")
    places = "weights", "unweights", "starts", "weight_starts", "widths"
    weights, unweights, starts, weight_starts, widths = (
        build.known(node.plain(1 + k), what).astype(np.int64) for k, what in enumerate(places)
    )
    x = _wide(node, 0)
    (size,) = x.sizes([0], "energies")
    matrix = np.zeros((size, count + 2), np.int64)
    for band in range(count + 1):
        for j in range(int(widths[band])):
            matrix[starts[band] + j, band] += weights[weight_starts[band] + j]
            matrix[starts[band] + j, band + 1] += unweights[weight_starts[band] + j]
    bands = np.ascontiguousarray(matrix[:, 1 : count + 1])
    sums = x.unsqueeze([0]) @ build.weight(bands, f"{node.name}.bands")
    return _made(sums.squeeze([0]), node)


def square_root(node: TfliteNode, build: Build) -> Expr:
    """The rounded root, shifted to the right by as many bits as the second operand says.

    Of numbers below 2^32 it is at most 2^16 - 1.
    """
    x = _wide(node, 0)
    root = x.astype(np.float64).sqrt().astype(np.int64)
    one = root.constant(1)
    above = root * root > x
    root = where(above, root - one, root)
    rest = x - root * root
    rounded = root + (rest > root).astype(np.int64)
    is_small = x < (1 << 32)
    most = where(is_small, x.constant((1 << 16) - 1), WORD_MASK)
    bits = node.plain(1).reshape([]).astype(np.int64)
    return _made(minimum(rounded, most) >> bits, node)


def spectral_subtraction(node: TfliteNode, build: Build) -> Sequence[Expr]:
    """Bands without their noise, which is their slowly moving average, and that for the next run.

    Every second band has other factors.
    """
    option = {name: _option(node, name) for name in _SUBTRACTION}
    x, last = _wide(node, 0), _wide(node, 1)
    (count,) = x.sizes([0], "bands")
    is_even = np.arange(count) % 2 == 0
    share, rest = (
        build.weight(np.where(is_even, option[name], option[f"alternate_{name}"]).astype(np.int64))
        for name in ("smoothing", "one_minus_smoothing")
    )
    bits, behind = option["smoothing_bits"], option["spectral_subtraction_bits"]
    lifted = (x << bits) & WORD_MASK
    total = lifted * share + last * rest
    estimate = shifted(total, behind) & WORD_MASK
    kept = minimum(estimate, lifted)
    noise = kept if option["clamping"] else estimate
    least = x * option["min_signal_remaining"]
    cleaned = shifted(lifted - kept, bits)
    result = maximum(cleaned, shifted(least, behind))
    made = _made(noise, node, 1)
    return [_made(result, node), made, made]


_SUBTRACTION = (
    "smoothing", "one_minus_smoothing", "alternate_smoothing", "alternate_one_minus_smoothing",
    "smoothing_bits", "spectral_subtraction_bits", "min_signal_remaining", "clamping",
)  # fmt: skip
SNR_BITS, OUTPUT_BITS = 12, 6
"""Behind the points of a gain's results."""


def pcan(node: TfliteNode, build: Build) -> Expr:
    """Bands times a gain that depends on their noise, and shrunk: x^2 / 4 below 2, else x - 1."""
    x, noise = _wide(node, 0), _wide(node, 1)
    gain = _wide_dynamic(noise, node.plain(2), build).astype(np.int64) & WORD_MASK
    snr = shifted(x * gain, _option(node, "snr_shift")) & WORD_MASK
    small = shifted(snr * snr, 2 + 2 * SNR_BITS - OUTPUT_BITS)
    large = shifted(snr, SNR_BITS - OUTPUT_BITS) - (1 << OUTPUT_BITS)
    return _made(where(snr < (2 << SNR_BITS), small, large), node)


def _wide_dynamic(x: Expr, table: Expr, build: Build) -> Expr:
    """A polynomial of degree 2 for each power of two, three entries of the table; i32."""
    interval = _bits_of(x, 32, build)
    four, zero = x.constant(4), x.constant(0)
    place = maximum(interval * four - 6, zero)
    c, b, a = (build.value(GatherOp, [table, place + k], axis=0).astype(np.int32) for k in range(3))
    eleven = x.constant(11)
    left, right = maximum(eleven - interval, zero), maximum(interval - eleven, zero)
    moved = (x << left) >> right
    share = (moved & 0x3FF).astype(np.int32)
    line = shifted(a * share, 5) + (b << 5)
    product = line * share
    bent = shifted(product + (1 << 14), 15)
    result = (bent + c).astype(np.int16).astype(np.int32)
    is_first = x < 3
    first = minimum(x, 2)
    return where(is_first, build.value(GatherOp, [table, first], axis=0).astype(np.int32), result)


LOG_BITS, SEGMENT_BITS = 16, 7
NATURAL = 45426
"""log(2) times 2^16."""


def filter_bank_log(node: TfliteNode, build: Build) -> Expr:
    """The natural logarithm times `output_scale`, of numbers above 1; 0 for others."""
    x = _wide(node, 0)
    by = x.constant(_option(node, "input_correction_bits"))
    scaled = (x << by) & WORD_MASK
    found = _logarithm(scaled, _option(node, "output_scale"), build)
    return _made(where(scaled > 1, minimum(found, MAX_INT16), 0), node)


def _logarithm(x: Expr, scale: int, build: Build) -> Expr:
    """log2 by its integer, and a line between 128 entries for the rest."""
    one, half = x.constant(1), x.constant(1 << (LOG_BITS - 1))
    whole = maximum(_bits_of(x, 32, build) - one, one)
    rest = x - (one << whole)
    left, right = (
        maximum(build.binary("sub", *pair), 0)
        for pair in (
            (x.constant(LOG_BITS), whole), (whole, x.constant(LOG_BITS)),
        )
    )  # fmt: skip
    rest = (rest << left) >> right
    rest = maximum(rest, 0)  # of 0, which nobody reads
    places = np.arange((1 << SEGMENT_BITS) + 1) / (1 << SEGMENT_BITS)
    table = np.floor((np.log2(1 + places) - places) * (1 << LOG_BITS) + 0.5).astype(np.int64)
    segment = shifted(rest, LOG_BITS - SEGMENT_BITS)
    entries = build.weight(table)
    low = build.value(GatherOp, [entries, segment], axis=0)
    high = build.value(GatherOp, [entries, segment + one], axis=0)
    inside = rest & ((1 << (LOG_BITS - SEGMENT_BITS)) - 1)
    rise = shifted((high - low) * inside, LOG_BITS)
    fraction = rest + low + rise
    whole_bits = whole << LOG_BITS
    log2 = whole_bits + fraction
    natural = shifted(log2 * NATURAL + half, LOG_BITS)
    return shifted((natural * scale + half) & WORD_MASK, LOG_BITS)


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
