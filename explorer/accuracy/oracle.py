"""The oracle: what the source model computes, according to who is right about its format.

    reference(model, {"image": image}, ["conv1_out", "logits"])
        -> {"conv1_out": array, "logits": array}

All intermediate tensors can be had, by their names in the model. The same inputs always give the
same numbers. Who is right is another program (`explorer/references/`), in a child process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from explorer.errors import InputError, ModelError
from explorer.importers import compared_values, index_limits
from explorer.importers.model import SourceModel, bind_dimensions, with_sizes
from explorer.ir.types import ELEMENT_TYPES, is_float_dtype, numpy_dtype
from explorer.references.interface import reference_of

TENSORS_PER_RUN = 256
"""Tensors of a model that are held at once; a larger model runs several times."""

HINT = (
    "compare with the outputs that come with the model (--golden FILE.npz), or with the imported "
    "program (--golden imported)"
)


def reference(
    model: SourceModel,
    inputs: Mapping[str, np.ndarray],
    tensors: Sequence[str] | None = None,
) -> dict[str, np.ndarray]:
    """The named tensors of the model, or all of its outermost graph, for these inputs.

    InputError for a tensor that the model does not have; ModelError where the reference cannot
    load or run the model.
    """
    return dict(iterate_reference(model, inputs, tensors))


def iterate_reference(
    model: SourceModel,
    inputs: Mapping[str, np.ndarray],
    tensors: Sequence[str] | None = None,
    tensors_per_run: int = TENSORS_PER_RUN,
) -> Iterator[tuple[str, np.ndarray]]:
    """As `reference`, some tensors at a time: for models whose tensors don't fit into memory."""
    computed = dict.fromkeys(model.tensors)
    wanted = list(dict.fromkeys(model.tensors if tensors is None else tensors))
    to_run = []
    for name in wanted:
        if name in computed:
            to_run.append(name)
        elif name in inputs:
            yield name, np.asarray(inputs[name])
        elif name in model.constants:
            yield name, model.constants[name]
        else:
            raise InputError(f"the model has no tensor {name!r}", node=name)
    for begin in range(0, len(to_run), tensors_per_run):
        try:
            names = to_run[begin : begin + tensors_per_run]
            yield from reference_of(model).tensors(model, inputs, names)
        except ModelError as error:
            error.hint = HINT
            raise


def random_inputs(
    model: SourceModel, seed: int, dimensions: Mapping[str, int] | None = None
) -> dict[str, np.ndarray]:
    """Inputs drawn from a seeded generator, by type, shape and what the name tells.

    Floats are normal (mean 0, deviation 1), integers of at most 16 bits cover their range, wider
    ones are indices: below the size of the table that they are looked up in where a weight tells
    it, else below 8; a single one that the model compares with constants is one of these. Masks are
    0 or 1. Symbolic dimensions take their size from `dimensions`; a
    batch is 1 by default (`bind_dimensions`). States hold what the model says of their beginning.
    """
    sizes = bind_dimensions(model, dimensions or {})
    generator = np.random.default_rng(seed)
    limits, compared = index_limits(model), compared_values(model)
    inputs = {s.input: s.initial for s in model.states if s.initial is not None}
    for value in model.inputs:
        if value.name in inputs:
            continue
        shape = with_sizes(value.shape or (), sizes)
        numbers = [size for size in shape if isinstance(size, int)]
        dtype = numpy_dtype(ELEMENT_TYPES[value.element_type])
        inputs[value.name] = _draw(generator, value.name, dtype, numbers, limits)
        if value.name in compared:
            among = compared[value.name]
            inputs[value.name] = np.full(numbers, among[int(generator.integers(len(among)))], dtype)
    return inputs


def _draw(
    generator: np.random.Generator,
    name: str,
    dtype: np.dtype,
    shape: Sequence[int],
    limits: Mapping[str, int],
) -> np.ndarray:
    if is_float_dtype(dtype):
        return generator.standard_normal(shape).astype(dtype)
    if dtype.kind == "b":
        return generator.integers(0, 2, shape).astype(dtype)
    if dtype.kind in "iu" and dtype.itemsize <= 2:
        limits_of = np.iinfo(dtype)
        return generator.integers(limits_of.min, limits_of.max + 1, shape).astype(dtype)
    default = 2 if "mask" in name or "type" in name or "segment" in name else 8
    return generator.integers(0, limits.get(name, default), shape).astype(dtype)
