"""What calibration found out for corrections, and the file beside a table that holds it.

    record = Corrections(kinds=("adaround", "bias"), roundings={"conv1": Rounding(...)}, ...)
    write_corrections(path, record)         an .npz, the same bytes for the same record
    read_corrections(path, digest)          refused where it is another than the table says

A table names its record and the record's digest, so that the digest of a table decides both. What
belongs to an operation's weights says whose, by a digest of them: where another pass made other
weights, it is not applied.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args
from urllib.parse import quote, unquote

import numpy as np

from explorer.errors import InputError
from explorer.files import reading_file, write_file
from explorer.quantization.block_numbers import BlockForm, BlockNumbers

CorrectionName = Literal["cle", "smooth", "adaround", "bias"]
KINDS: tuple[CorrectionName, ...] = get_args(CorrectionName)
"""In the order in which they are applied: each is found for a program with those before it."""
CLE, SMOOTH, ADAROUND, BIAS = KINDS
GPTQ = "gptq"
"""Of weights in blocks, which nothing else corrects."""
DEFAULT = (ADAROUND,)
"""What has made no model worse that was measured (docs/quantization.md)."""
DIGITS = 16
MAX_BYTES = 1 << 30


@dataclass(frozen=True, kw_only=True)
class Rounding:
    """Weights of one operation as signed bytes, each one of its two neighbours."""

    integers: np.ndarray
    """i8, the weights' shape."""
    scales: np.ndarray
    """f32, one for each slice of the axis; the weights are integers * scales."""
    axis: int
    weights: str
    """Digest of the weights that were rounded."""
    error: float
    """Mean squared error of the sums with the nearest integers, in the result's unit squared."""
    error_after: float


@dataclass(frozen=True, kw_only=True)
class BlockRounding:
    """Weights of one operation as integers in blocks."""

    numbers: BlockNumbers
    weights: str
    """Digest of the weights that were rounded."""
    error: float
    """Mean squared error of the sums with the nearest integers, in the result's unit squared."""
    error_after: float


@dataclass(frozen=True, kw_only=True)
class Shift:
    """What is added to the bias of one operation."""

    numbers: np.ndarray
    """f32, one per channel of the result."""
    weights: str
    """Digest of the weights that the sums were made with."""
    error: float
    """Mean over the channels of the magnitude of the mean error, in the result's unit."""
    error_after: float


@dataclass(frozen=True, kw_only=True)
class Corrections:
    """All that passes of corrections need to know from data, by operation."""

    kinds: tuple[str, ...]
    """What there is: some of `KINDS`, in that order, or `GPTQ` alone."""
    roundings: Mapping[str, Rounding] = field(default_factory=dict)
    shifts: Mapping[str, Shift] = field(default_factory=dict)
    blocks: Mapping[str, BlockRounding] = field(default_factory=dict)
    limits: Mapping[str, np.ndarray] = field(default_factory=dict)
    """By tensor (2, slices) f32: lowest and highest number of each channel, without factors."""
    eighths: Mapping[str, np.ndarray] = field(default_factory=dict)
    """By tensor (slices,) i16: the factors 2^(e / 8) with which the table's threshold was found."""

    def stretched(self, tensor: str, eighths: tuple[int, ...]) -> tuple[float, float]:
        """By how much both ends of a tensor's range move where factors are others than were seen.

        The ends of all numbers do; a method's threshold is taken to keep its share of them.
        """
        limits = self.limits.get(tensor)
        if limits is None:
            return 1.0, 1.0
        none = np.zeros(limits.shape[1])
        before = np.asarray(self.eighths.get(tensor, none), np.float64)
        now = np.asarray(eighths or none, np.float64)
        if now.shape != before.shape or np.array_equal(now, before):
            return 1.0, 1.0
        wide = limits.astype(np.float64)
        ends = [
            (min((wide[0] * f).min(), 0.0), max((wide[1] * f).max(), 0.0))
            for f in (np.exp2(before / 8), np.exp2(now / 8))
        ]
        (low, high), (low_now, high_now) = ends
        return low_now / low if low else 1.0, high_now / high if high else 1.0

    @property
    def digest(self) -> str:
        """Of all that is in it."""
        digest = hashlib.sha256()
        for name, array in sorted(_arrays(self).items()):
            digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()[:DIGITS]


def digest_of_weights(array: np.ndarray) -> str:
    """Equal for weights of one shape that are equal bit by bit."""
    head = f"{array.dtype.str} {array.shape}\n".encode()
    return hashlib.sha256(head + np.ascontiguousarray(array).tobytes()).hexdigest()[:DIGITS]


def effects_of(record: Corrections) -> dict[str, list[dict[str, object]]]:
    """What each correction does to each operation, as plain data: the error before and after."""
    found: dict[str, list[dict[str, object]]] = {}
    of_kinds = ((ADAROUND, record.roundings), (BIAS, record.shifts), (GPTQ, record.blocks))
    for kind, parts in of_kinds:
        if kind in record.kinds:
            found[kind] = [
                {"operation": name, "error": part.error, "error_after": part.error_after}
                for name, part in parts.items()
            ]
    return found


def chosen_kinds(names: str | Sequence[str]) -> tuple[str, ...]:
    """Names of corrections, in the order in which they are applied; InputError for others."""
    given = [n.strip() for n in names.split(",")] if isinstance(names, str) else list(names)
    wanted = [n for n in given if n and n != "none"]
    for name in wanted:
        if name not in KINDS:
            raise InputError(
                f"there is no correction {name!r}", hint=f"{', '.join(KINDS)}, or none of them"
            )
    return tuple(kind for kind in KINDS if kind in wanted)


def write_corrections(path: Path, record: Corrections) -> None:
    """What `read_corrections` reads again."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **_arrays(record))  # pyright: ignore[reportArgumentType]
    write_file(path, buffer.getvalue())


def read_corrections(path: Path, digest: str) -> Corrections:
    """The record of that digest.

    Raises:
        InputError: where the file is missing or damaged, or is another one.
    """
    hint = "explorer calibrate writes table and corrections together; move them together"
    if not path.is_file():
        raise InputError("the corrections that the table names are not there", file=str(path))
    if path.stat().st_size > MAX_BYTES:
        raise InputError(f"more than {MAX_BYTES >> 20} MiB are no corrections", file=str(path))
    with (
        reading_file(path, "corrections", hint=hint, kind=InputError),
        np.load(path, allow_pickle=False) as file,
    ):
        record = _record({name: file[name] for name in file.files})
    if record.digest != digest:
        raise InputError("these are not the corrections of the table", file=str(path), hint=hint)
    return record


_ROUNDING = ("integers", "scales", "axis", "weights", "error", "error_after")
LIMITS, EIGHTHS = "limits", "eighths"
_SHIFT = ("numbers", "weights", "error", "error_after")
_BLOCKS = ("weights", "error", "error_after")


def _arrays(record: Corrections) -> dict[str, np.ndarray]:
    """Every part by `kind/operation/field`; texts are arrays of one string."""
    found = {"kinds": np.array(record.kinds, dtype=np.str_)}
    for kind, fields, parts in (
        (ADAROUND, _ROUNDING, record.roundings),
        (BIAS, _SHIFT, record.shifts),
        (GPTQ, _BLOCKS, record.blocks),
    ):
        for name, part in parts.items():
            for field_ in fields:
                found[f"{kind}/{quote(name, safe='')}/{field_}"] = np.asarray(getattr(part, field_))
    for name, part in record.blocks.items():
        head = f"{GPTQ}/{quote(name, safe='')}"
        for field_, array in _block_arrays(part.numbers).items():
            found[f"{head}/{field_}"] = array
    for field_, arrays in ((LIMITS, record.limits), (EIGHTHS, record.eighths)):
        for name, array in arrays.items():
            found[f"{CLE}/{quote(name, safe='')}/{field_}"] = array
    return found


def _record(arrays: Mapping[str, np.ndarray]) -> Corrections:
    """The inverse; KeyError and ValueError for what is none."""
    found: dict[str, dict[str, dict[str, np.ndarray]]] = {kind: {} for kind in (*KINDS, GPTQ)}
    for key, array in arrays.items():
        if key != "kinds":
            kind, name, field_ = key.split("/")
            found[kind].setdefault(unquote(name), {})[field_] = array
    named = tuple(str(kind) for kind in arrays["kinds"])
    kinds = named if named == (GPTQ,) else chosen_kinds(named)
    roundings = {
        name: Rounding(
            integers=part["integers"].astype(np.int8, casting="safe"),
            scales=part["scales"].astype(np.float32, casting="safe"),
            axis=int(part["axis"]),
            weights=str(part["weights"]),
            error=float(part["error"]),
            error_after=float(part["error_after"]),
        )
        for name, part in found[ADAROUND].items()
    }
    shifts = {
        name: Shift(
            numbers=part["numbers"].astype(np.float32, casting="safe"),
            weights=str(part["weights"]),
            error=float(part["error"]),
            error_after=float(part["error_after"]),
        )
        for name, part in found[BIAS].items()
    }
    blocks = {
        name: BlockRounding(
            numbers=_block_numbers(part),
            weights=str(part["weights"]),
            error=float(part["error"]),
            error_after=float(part["error_after"]),
        )
        for name, part in found[GPTQ].items()
    }
    ranges = found[CLE].items()
    return Corrections(
        kinds=kinds,
        roundings=roundings,
        shifts=shifts,
        blocks=blocks,
        limits={n: part[LIMITS].astype(np.float32) for n, part in ranges if LIMITS in part},
        eighths={n: part[EIGHTHS].astype(np.int16) for n, part in ranges if EIGHTHS in part},
    )


def _block_arrays(found: BlockNumbers) -> dict[str, np.ndarray]:
    """Numbers of four bits have no type in such files: a byte each."""
    wide = np.int8 if found.form.is_symmetric else np.uint8
    arrays = {
        "form": np.array([found.form.name, str(found.form.block)], dtype=np.str_),
        "numbers": found.numbers.astype(wide),
        "scales": found.scales,
    }
    return arrays | ({} if found.zeros is None else {"zeros": found.zeros.astype(wide)})


def _block_numbers(part: Mapping[str, np.ndarray]) -> BlockNumbers:
    """The inverse."""
    form = BlockForm(str(part["form"][0]), int(part["form"][1]))
    for name in ("numbers", "zeros"):
        low, high = form.limits
        if name in part and not np.all((part[name] >= low) & (part[name] <= high)):
            raise ValueError(f"{name} that are no {form.name}")
    return BlockNumbers(
        form=form,
        numbers=part["numbers"].astype(form.dtype),
        scales=part["scales"].astype(np.float32, casting="safe"),
        zeros=part["zeros"].astype(form.dtype) if "zeros" in part else None,
    )
