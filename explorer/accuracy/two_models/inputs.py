"""The same data for two models: names, axes and element types of one become those of the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from explorer.accuracy.oracle import random_inputs
from explorer.accuracy.two_models.sides import Side
from explorer.errors import InputError
from explorer.importers import SourceModel
from explorer.importers.model import SourceValue, sizes_of_inputs, symbolic_dimensions
from explorer.ir.types import ELEMENT_TYPES, is_float_dtype, numpy_dtype

Arrays = dict[str, np.ndarray]
USUAL_ORDERS = {4: ((0, 1, 2, 3), (0, 2, 3, 1), (0, 3, 1, 2)), 3: ((0, 1, 2), (0, 2, 1))}
"""Of axes: as they are, channels last, channels first."""
GIVEN = "the arrays that were given"


@dataclass(frozen=True)
class SameData:
    """Both models with their inputs."""

    a: Side
    b: Side
    arrays_a: Arrays
    arrays_b: Arrays
    pairs: tuple[tuple[str, str], ...]
    """Inputs that hold the same data."""
    words_a: str
    words_b: str
    are_random: bool


def same_data(
    a: SourceModel,
    b: SourceModel,
    given: Mapping[str, np.ndarray] | None,
    sizes: Mapping[str, int],
    seed: int,
) -> SameData:
    """Inputs for both models. `given` are those of one of them, of `a` if the names fit both.

    Without `given` they are random numbers from a seed, in the range of a quantized input where
    one of the models has one, or quantizes its input first. InputError where an input of one model
    is none of the other's.
    """
    is_first = _is_of_first(a, b, given)
    model, other = (a, b) if is_first else (b, a)
    known = {k: v for k, v in sizes.items() if k in _dimensions(model)}
    arrays = dict(given) if given is not None else random_inputs(model, seed, known)
    missing = [value.name for value in model.inputs if value.name not in arrays]
    if missing:
        raise InputError(f"there is no array for the input {missing[0]!r}", node=missing[0])
    base = Side(model, {**known, **sizes_of_inputs(model, arrays)})
    pairs = _paired(model, other, arrays)
    turned = {theirs.name: _turned(arrays[ours.name], theirs) for ours, theirs in pairs}
    states = {s.input: s.initial for s in other.states if s.initial is not None}
    found = sizes_of_inputs(other, {**turned, **states})
    wanted = {k: v for k, v in sizes.items() if k in _dimensions(other)}
    second = Side(other, {**wanted, **found})
    words = GIVEN if given is not None else f"random numbers, seed {seed}"
    if given is None:
        for ours, theirs in pairs:
            ends = _quantized_ends(base, ours.name) or _quantized_ends(second, theirs.name)
            if ends and arrays[ours.name].dtype.kind == "f":
                arrays[ours.name] = _drawn_within(arrays[ours.name], ends, seed)
                turned[theirs.name] = _turned(arrays[ours.name], theirs)
                words = f"random numbers in the range to which inputs are quantized, seed {seed}"
    made = {
        theirs.name: _of_type(second, theirs, base, ours.name, turned[theirs.name])
        for ours, theirs in pairs
    }
    converted = f"those of {model.name}, converted"
    names = [(ours.name, theirs.name) for ours, theirs in pairs]
    if is_first:
        return SameData(
            a=base,
            b=second,
            arrays_a=arrays,
            arrays_b=made | states,
            pairs=tuple(names),
            words_a=words,
            words_b=converted,
            are_random=given is None,
        )
    return SameData(
        a=second,
        b=base,
        arrays_a=made | states,
        arrays_b=arrays,
        pairs=tuple((theirs, ours) for ours, theirs in names),
        words_a=converted,
        words_b=words,
        are_random=given is None,
    )


def _is_of_first(a: SourceModel, b: SourceModel, given: Mapping[str, np.ndarray] | None) -> bool:
    """Whether the data are those of `a`; their form decides that of the other model's."""
    if given is None:
        return _has_small_integers(a) or not _has_small_integers(b)
    names = [{value.name for value in model.inputs} for model in (a, b)]
    if set(given) <= names[0]:
        return True
    if set(given) <= names[1]:
        return False
    unknown = next(name for name in given if name not in names[0])
    known = ", ".join(sorted(names[0] | names[1]))
    raise InputError(
        f"neither model has an input {unknown!r}", hint=f"their inputs: {known}", node=unknown
    )


def _has_small_integers(model: SourceModel) -> bool:
    return any(value.element_type in ("int8", "uint8", "int16") for value in model.inputs)


def _quantized_ends(side: Side, name: str) -> tuple[float, float] | None:
    """The range to which a model quantizes a float input before anything else reads it."""
    readers = [node for node in side.nodes if name in node.inputs]
    if not readers or any(node.family != "quantization" for node in readers):
        return None
    return next((ends for node in readers for ends in [side.ends(node.outputs[0])] if ends), None)


def _drawn_within(array: np.ndarray, ends: tuple[float, float], seed: int) -> np.ndarray:
    """Numbers of the array's shape and type, of which each in a range is as likely."""
    return np.random.default_rng(seed).uniform(*ends, array.shape).astype(array.dtype)


def _dimensions(model: SourceModel) -> set[str]:
    return {*symbolic_dimensions(model)}


def _paired(
    model: SourceModel, other: SourceModel, arrays: Arrays
) -> list[tuple[SourceValue, SourceValue]]:
    """Inputs by name, then by position among those that fit; states keep their values."""
    left = [value for value in model.inputs if value.name not in {s.input for s in model.states}]
    wanted = [v for v in other.inputs if v.name not in {s.input for s in other.states}]
    if len(left) != len(wanted):
        raise InputError(
            f"{model.name} has {len(left)} inputs, {other.name} has {len(wanted)}",
            hint="two models are compared on the same data",
        )
    pairs = []
    for theirs in wanted:
        same = [ours for ours in left if ours.name == theirs.name]
        fit = [ours for ours in left if next(_orders(arrays[ours.name].shape, theirs), None)]
        found = next(iter([*(o for o in same if o in fit), *fit]), None)
        if found is None:
            shapes = ", ".join(f"{o.name!r} {arrays[o.name].shape}" for o in left)
            raise InputError(
                f"no input of {model.name} fits {theirs.name!r} {theirs.shape} of {other.name}",
                node=theirs.name,
                hint=f"there are {shapes}; give sizes with --dim NAME=SIZE",
            )
        left.remove(found)
        pairs.append((found, theirs))
    return pairs


def _orders(shape: tuple[int, ...], wanted: SourceValue) -> Iterator[tuple[int, ...]]:
    """Orders of the axes in which an array has the wanted shape, the usual ones first."""
    if wanted.shape is None:
        yield tuple(range(len(shape)))
        return
    if len(shape) != len(wanted.shape):
        return
    usual = USUAL_ORDERS.get(len(shape), (tuple(range(len(shape))),))
    for order in dict.fromkeys((*usual, *permutations(range(len(shape))))):
        sizes = [shape[axis] for axis in order]
        if all(isinstance(w, str) or w == s for w, s in zip(wanted.shape, sizes, strict=True)):
            yield order


def _turned(array: np.ndarray, wanted: SourceValue) -> np.ndarray:
    return np.ascontiguousarray(np.transpose(array, next(_orders(array.shape, wanted))))


def _of_type(
    side: Side, value: SourceValue, base: Side, name: str, array: np.ndarray
) -> np.ndarray:
    """The array in the element type of an input, by the models' scales."""
    dtype = numpy_dtype(ELEMENT_TYPES[value.element_type])
    if dtype == array.dtype and value.name not in side.scales and name not in base.scales:
        return array
    real = base.as_real(name, array)
    kind = side.scales.get(value.name)
    if real is not None and kind is not None:
        limits = np.iinfo(dtype)
        steps = np.rint(real / kind.along(kind.double_scales, array.ndim))
        zero = kind.along(kind.zero_point_array, array.ndim)
        return np.clip(steps + zero, limits.min, limits.max).astype(dtype)
    if real is not None and is_float_dtype(dtype):
        return real.astype(dtype)
    if real is None and array.dtype.kind in "iub" and dtype.kind in "iub":
        return array.astype(dtype)
    raise InputError(
        f"{array.dtype.name} of input {name!r} cannot become {dtype.name} of {value.name!r}: "
        "no scale is known",
        node=value.name,
    )
