"""Tables of thresholds and of modes, by tensor, and the files that hold them.

    # corrections digits.table.corrections.npz 5f3a09c2e1d47b68
    # name threshold min max                        # name MODE
    conv1 2.7512 -2.6311 2.7512                     conv7 F32
    relu1 5.1093 0 5.1093                           fc1 INT16

The form is that of TPU-MLIR's calibration and quantization tables: words apart by white space,
lines that begin with `#` are comments and may be missing. Ours begin with a few of them, which say
the model and how the thresholds were found. A name is that of a tensor of the source model; spaces
in one are written as `%20`. Corrections that were found with the thresholds stand in a file beside
the table, which names it with its digest.

A table that quantizes weights alone has no thresholds, but says what they become (and its modes are
of operations, for weights have no tensors of their own):

    # weights int4 32                                 # name MODE
                                                      matmul_3 INT8

A table with `# weight-bits 4` has thresholds for bytes, and weights of 4 bits next to them.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import fsdecode
from pathlib import Path
from urllib.parse import quote, unquote, unquote_to_bytes

import numpy as np

from explorer.errors import InputError
from explorer.files import write_file
from explorer.quantization.block_numbers import DTYPES, BlockForm
from explorer.quantization.corrections.record import (
    Corrections,
    read_corrections,
    write_corrections,
)
from explorer.results.displayed import Displayed
from explorer.results.names import near_name
from explorer.results.runs.quantization import ObservedTensor
from explorer.results.runs.sensitivity import MixedPrecision

MODES = ("INT8", "INT16", "F32")
"""What a layer computes in; INT8 where a table says nothing."""
FLOAT = MODES[-1]
WEIGHT_MODES = (*(name.upper() for name in DTYPES), FLOAT)
"""What weights of a layer become where they alone are quantized."""
WEIGHT_WIDTHS = (8, 4)
"""Bits that weights take next to thresholds."""
MAX_BYTES = 64 << 20
APART = 32.0
"""How much further than others numbers of the same scale reach at most."""
HEADER = "# name threshold min max"
OTHER_SECTIONS = ("#int4_th", "#weight_scale", "#asym_op", "#int4_op", "fp8")
"""In comments of TPU-MLIR's tables behind which stand other numbers, or names only."""
MODEL, METHOD, CORRECTIONS, WEIGHTS = "# model ", "# method ", "# corrections ", "# weights "
BITS = "# weight-bits "


def largest_weight(bits: int) -> int:
    """Of so many bits, around 0: 127 of 8, 7 of 4."""
    return (1 << bits - 1) - 1


@dataclass(frozen=True)
class Threshold:
    """The numbers of a tensor that are represented, in its unit.

    threshold > 0: the range is [-threshold, threshold] where it is symmetric, and [low, high]
    where it is not, with low <= 0 <= high.
    """

    tensor: str
    threshold: float
    low: float
    high: float

    @property
    def represented(self) -> tuple[float, float]:
        """The range where it need not be symmetric: from low to high, cut off at the threshold.

        A threshold beyond both ends widens the range in proportion: what a person writes there
        has an effect in either direction.
        """
        reach = max(-self.low, self.high)
        if not reach:
            return 0.0, self.threshold
        if self.threshold > reach:
            return self.low * self.threshold / reach, self.high * self.threshold / reach
        return max(self.low, -self.threshold), min(self.high, self.threshold)


@dataclass(frozen=True, repr=False)
class ThresholdTable(Displayed):
    """Thresholds by tensor; `model` is a digest of the file that they were made for, or empty."""

    thresholds: Mapping[str, Threshold]
    model: str = ""
    method: str = ""
    modes: Mapping[str, str] = field(default_factory=dict)
    """By tensor, where one is not INT8: the quantization table."""
    path: str = ""
    """The file, for messages."""
    modes_path: str = ""
    """That of the modes."""
    warnings: tuple[str, ...] = ()
    """What was odd about the data."""
    observations: Mapping[str, ObservedTensor] = field(
        default_factory=dict, repr=False, compare=False
    )
    """Histograms and candidates by tensor, as far as they are known: they decide nothing."""
    precision: MixedPrecision | None = field(default=None, repr=False, compare=False)
    """What the modes were chosen by, as far as it is known: it decides nothing either."""
    corrections: Corrections | None = None
    """What was found for the passes that come before the quantization."""
    weights: BlockForm | None = None
    """What weights become where they alone are quantized: there are no thresholds then, and modes
    are those of weights, by operation."""
    weight_bits: int = 8
    """What weights take next to thresholds, one of `WEIGHT_WIDTHS`."""

    @property
    def digest(self) -> str:
        """Of all that decides what is compiled."""
        rows = [*_threshold_lines(self.thresholds.values()), *_mode_lines(self.modes)]
        if self.corrections is not None:
            rows.append(self.corrections.digest)
        if self.weights is not None:
            rows.append(str(self.weights))
        if self.weight_bits != WEIGHT_WIDTHS[0]:
            rows.append(f"{BITS}{self.weight_bits}")
        return hashlib.sha256("\n".join(rows).encode()).hexdigest()[:16]

    def mode(self, tensor: str) -> str:
        return self.modes.get(tensor, MODES[0])


def read_thresholds(path: Path) -> ThresholdTable:
    """A table of thresholds.

    Raises:
        InputError: where the file cannot be read, a line is none, a name stands twice, or a
            threshold is not positive and finite; with the line's number.
    """
    found: dict[str, Threshold] = {}
    said = {MODEL: "", METHOD: "", CORRECTIONS: "", WEIGHTS: "", BITS: ""}
    for number, line in _lines(path):
        if line.startswith("#") and any(section in line for section in OTHER_SECTIONS):
            break
        for key in said:
            if line.startswith(key):
                said[key] = line.removeprefix(key).strip()
        if line.startswith("#"):
            continue
        words = line.split()
        if len(words) != 4:
            raise _bad(path, number, f"{len(words)} words; name, threshold, min, max are expected")
        name = unquote(words[0])
        threshold, low, high = (_number(path, number, name, word) for word in words[1:])
        if name in found:
            raise _bad(path, number, f"tensor `{name}` stands there twice")
        if threshold <= 0:
            raise _bad(path, number, f"the threshold of `{name}` is {threshold:g}, not positive")
        if low > high:
            raise _bad(path, number, f"the range of `{name}` is empty: {low:g} to {high:g}")
        found[name] = Threshold(name, threshold, min(low, 0.0), max(high, 0.0))
    weights = _weights(path, said[WEIGHTS])
    if weights is not None and found:
        raise InputError(
            f"it has thresholds, and says `{WEIGHTS.strip()}`: weights alone take no thresholds",
            file=str(path),
            hint="a table of one or the other",
        )
    if not found and weights is None:
        raise InputError("there are no thresholds in it", file=str(path), hint=HEADER)
    return ThresholdTable(
        found,
        said[MODEL],
        said[METHOD],
        path=str(path),
        corrections=_corrections(path, said[CORRECTIONS]),
        weights=weights,
        weight_bits=_weight_bits(path, said[BITS]),
    )


def read_modes(path: Path) -> dict[str, str]:
    """A quantization table: modes by tensor.

    Raises:
        InputError: as for thresholds, and for a mode that there is not.
    """
    found: dict[str, str] = {}
    for number, line in _lines(path):
        if line.startswith("#"):
            continue
        words = line.split()
        if len(words) != 2:
            raise _bad(path, number, f"{len(words)} words; name and mode are expected")
        name, mode = unquote(words[0]), words[1].upper()
        known = tuple(dict.fromkeys((*MODES, *WEIGHT_MODES)))
        if mode not in known:
            near = near_name(mode, list(known))
            raise InputError(f"there is no mode {words[1]!r}", file=f"{path}:{number}", hint=near)
        if name in found:
            raise _bad(path, number, f"tensor `{name}` stands there twice")
        found[name] = mode
    return found


def write_thresholds(path: Path, table: ThresholdTable) -> None:
    """What `read_thresholds` reads again, with all digits; corrections go into a file beside it."""
    head = [f"{MODEL}{table.model}"] * bool(table.model)
    head += [f"{METHOD}{table.method}"] * bool(table.method)
    if table.corrections is not None:
        beside = corrections_beside(path)
        write_corrections(beside, table.corrections)
        head.append(f"{CORRECTIONS}{_word(beside.name)} {table.corrections.digest}")
    if table.weight_bits != WEIGHT_WIDTHS[0]:
        head.append(f"{BITS}{table.weight_bits}")
    if table.weights is not None:
        _write(path, [*head, f"{WEIGHTS}{table.weights.name} {table.weights.block}"])
        return
    _write(path, [*head, HEADER, *_threshold_lines(table.thresholds.values())])


def write_modes(path: Path, modes: Mapping[str, str]) -> None:
    """What `read_modes` reads again."""
    _write(path, ["# name mode", *_mode_lines(modes)])


def require_known(table: ThresholdTable, tensors: Sequence[str]) -> None:
    """InputError where the table names tensors that the model has not, all of them or some."""
    known = set(tensors)
    unknown = [name for name in (*table.thresholds, *table.modes) if name not in known]
    if not unknown:
        return
    is_of_modes = unknown[0] not in table.thresholds and table.modes_path
    if len(unknown) == len(table.thresholds) + len(table.modes):
        raise InputError(
            f"none of the {len(unknown)} tensors of the table is one of the model",
            file=table.path,
            hint="the table of this model; `explorer calibrate` makes one",
        )
    raise InputError(
        f"the model has no tensor `{unknown[0]}` that can be quantized"
        + (f", nor {len(unknown) - 1} others that the table names" if len(unknown) > 1 else ""),
        file=table.modes_path if is_of_modes else table.path,
        hint=near_name(unknown[0], list(tensors)),
    )


def corrections_beside(table: Path) -> Path:
    """Where those of a table lie: `net.table` has them in `net.table.corrections.npz`."""
    return table.with_name(f"{table.name}.corrections.npz")


def require_scale(table: ThresholdTable, inputs: Mapping[str, np.ndarray]) -> None:
    """InputError where an input's numbers reach much further, or much less far, than those that the
    table was made of: then one of them was scaled and the other was not."""
    for name, array in inputs.items():
        known = table.thresholds.get(name)
        numbers = np.asarray(array)
        if known is None or not numbers.size or numbers.dtype.kind not in "fiu":
            continue
        low, high = float(numbers.min()), float(numbers.max())
        reach = max(abs(low), abs(high))
        is_narrow = 0 < APART * reach < known.threshold
        if reach > APART * known.threshold or is_narrow:
            outliers = ", or leave outliers out of these data: `explorer calibrate` names them"
            raise InputError(
                f"the numbers of input `{name}` lie between {low:g} and {high:g}; the table was "
                f"made for {known.low:g} to {known.high:g}",
                file=table.path,
                hint="scale the inputs as the data of the calibration were"
                + (outliers if is_narrow else ""),
            )


def _weights(path: Path, said: str) -> BlockForm | None:
    """What weights become, where a table says so."""
    if not said:
        return None
    words = said.split()
    if len(words) != 2 or not words[1].isdecimal():
        raise InputError(
            f"`{WEIGHTS}{said}` is no type and no number of weights with one scale",
            file=str(path),
            hint=f"{WEIGHTS}int4 32",
        )
    try:
        return BlockForm(words[0], int(words[1]))
    except InputError as error:
        error.file = str(path)
        raise


def _weight_bits(path: Path, said: str) -> int:
    if said not in ("", *map(str, WEIGHT_WIDTHS)):
        hint = " or ".join(f"{BITS}{bits}" for bits in WEIGHT_WIDTHS)
        raise InputError(f"`{BITS}{said}` is no width of weights", file=str(path), hint=hint)
    return int(said or WEIGHT_WIDTHS[0])


def _corrections(path: Path, said: str) -> Corrections | None:
    """Those that a table names; their file lies beside it."""
    if not said:
        return None
    words = said.split()
    name = fsdecode(unquote_to_bytes(words[0]))
    if len(words) != 2 or Path(name).name != name:
        raise InputError(
            f"`{CORRECTIONS}{said}` names no file beside the table and its digest",
            file=str(path),
            hint=f"{CORRECTIONS}FILE DIGEST; without the line there are no corrections",
        )
    return read_corrections(path.with_name(name), words[1])


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InputError(f"more than {MAX_BYTES >> 20} MiB are no table", file=str(path))
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=str(path)) from error
    except UnicodeDecodeError as error:
        raise InputError("this is no text", file=str(path), hint=HEADER) from error
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            yield number, line.strip()


def _number(path: Path, number: int, name: str, word: str) -> float:
    try:
        value = float(word)
    except ValueError as error:
        raise _bad(path, number, f"`{word}` is no number") from error
    if not math.isfinite(value):
        raise _bad(path, number, f"{word} stands at `{name}`: only finite numbers are thresholds")
    return value


def _bad(path: Path, number: int, reason: str) -> InputError:
    return InputError(reason, file=f"{path}:{number}", hint=HEADER)


def _threshold_lines(thresholds: Iterable[Threshold]) -> list[str]:
    lines = []
    for t in thresholds:
        numbers = " ".join(repr(float(number)) for number in (t.threshold, t.low, t.high))
        lines.append(f"{_word(t.tensor)} {numbers}")
    return lines


def _mode_lines(modes: Mapping[str, str]) -> list[str]:
    return [f"{_word(name)} {mode}" for name, mode in modes.items()]


def _word(name: str) -> str:
    """A name without white space."""
    # A file's name may hold bytes that the locale does not know, as surrogates (PEP 383).
    return quote(name, safe="/:;.,@[]()+=-_", errors="surrogateescape")


def _write(path: Path, lines: Sequence[str]) -> None:
    write_file(path, "\n".join(lines) + "\n")
