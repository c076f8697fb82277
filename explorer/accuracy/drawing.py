"""Inputs for a model without data: seeded, from what is known of each input.

known = {"image": KnownValues(CALIBRATED, low=0.0, high=16.0)}
drawn = draw_inputs(model, 0, {}, known)       floats between 0 and 16
how_drawn(model, known)                        (("image", "calibrated range"),)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from explorer.accuracy.oracle import random_inputs
from explorer.importers.model import SourceModel
from explorer.ir.types import ELEMENT_TYPES, is_float_dtype, numpy_dtype
from explorer.results.data import NORMAL, OBSERVED, WHOLE


@dataclass(frozen=True)
class KnownValues:
    """What is known of the values of an input: `how` is a word of `results.data`."""

    how: str
    low: float
    high: float
    counts: tuple[int, ...] = ()
    """For `OBSERVED`: elements in equal bins from low to high."""
    limits: tuple[float, float] | None = None
    """For `OBSERVED`: the lowest and the highest number, inside of the outer bins."""


Known = Mapping[str, KnownValues]
NOTHING_KNOWN: Known = {}


def draw_inputs(
    model: SourceModel, seed: int, sizes: Mapping[str, int], known: Known = NOTHING_KNOWN
) -> dict[str, np.ndarray]:
    """As `random_inputs` draws; floats of which something is known are drawn from that."""
    inputs = random_inputs(model, seed, sizes)
    for number, (name, array) in enumerate(inputs.items()):
        if name in known and is_float_dtype(array.dtype):
            # A generator of its own: what is known of one input changes no other.
            generator = np.random.default_rng((seed, number))
            inputs[name] = _drawn(generator, known[name], array.shape).astype(array.dtype)
    return inputs


def how_drawn(model: SourceModel, known: Known = NOTHING_KNOWN) -> tuple[tuple[str, str], ...]:
    """(input, how it is drawn) without the states, which begin with what the model says."""
    states = {s.input for s in model.states if s.initial is not None}
    found = []
    for value in model.inputs:
        if value.name in states:
            continue
        is_float = is_float_dtype(numpy_dtype(ELEMENT_TYPES[value.element_type]))
        rule = known[value.name].how if value.name in known else NORMAL
        found.append((value.name, rule if is_float else WHOLE))
    return tuple(found)


def _drawn(
    generator: np.random.Generator, values: KnownValues, shape: tuple[int, ...]
) -> np.ndarray:
    count = int(np.prod(shape))
    total = sum(values.counts)
    if values.how == OBSERVED and total:
        bins = len(values.counts)
        chosen = generator.choice(bins, count, p=np.asarray(values.counts) / total)
        places = (chosen + generator.random(count)) / bins
    else:
        places = generator.random(count)
    numbers = values.low + (values.high - values.low) * places
    if values.limits is not None:
        numbers = np.clip(numbers, *values.limits)
    return numbers.reshape(shape)
