"""Sets of instructions of one's own, between the two that are shipped: their machines compute the
same bit by bit, and what they cannot do is refused by its own reason."""

import sys
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from npu_layers import compared, convolution, machine, rescaling

from explorer.errors import InputError
from explorer.npu import LayerError, MatrixProduct, Placement, Transposition, WindowLayer
from explorer.npu.layers.matrices import rows_at_once
from explorer.targets.npu import instruction_sets
from explorer.targets.npu.instruction_sets import FULL, VTA, instruction_set

SETS = {
    "padless": replace(FULL, name="padless", pads_with_values=False),
    "dense": replace(FULL, name="dense", skips_elements=False),
    "narrow": replace(FULL, name="narrow", stored=("outputs",)),
    "blocked": replace(FULL, name="blocked", gathers_weights=False),
    "plain": replace(FULL, name="plain", pads_with_values=False, skips_elements=False,
                     stored=("outputs",), gathers_weights=False),
    "padding-vta": replace(VTA, name="padding-vta", bits=None, pads_with_values=True),
    "skipping-vta": replace(VTA, name="skipping-vta", bits=None, widths=None, skips_elements=True),
}  # fmt: skip


@pytest.fixture(autouse=True)
def installed(monkeypatch):
    """As packages would that have these sets under entry points."""
    points = [EntryPoint(name, f"{__name__}:{name}", instruction_sets.GROUP) for name in SETS]
    monkeypatch.setattr(instruction_sets, "entry_points", lambda group: points)
    monkeypatch.setattr(EntryPoint, "load", lambda self: SETS[self.name])
    instruction_set.cache_clear()
    yield
    instruction_set.cache_clear()


def of_set(name, **overrides):
    """A machine of as many rows as columns, with that set."""
    if "vta" in name:
        return machine("vta-16", **{"instructions.set": name, **overrides})
    own = {"engines.matrix.rows": 12, "engines.matrix.columns": 12, "engines.matrix.batch": 1}
    return machine("odd-12x20", **{**own, "instructions.set": name, **overrides})


def layers(found, random):
    zero = 5 if found.instruction_set.requantizes or found.instruction_set.pads_with_values else 0
    half = 1 << found.input_bits - 1
    yield convolution(found, random, pads=(1, 1, 1, 1), zero_point=zero)
    yield convolution(found, random, rescaling=None)
    yield convolution(found, random, size=(6, 5), kernel=(1, 1),
                      placement=Placement(size=(12, 11), offset=(1, 0), steps=(2, 2)))  # fmt: skip
    yield WindowLayer(name="layer", input_shape=(20, 9, 7), bits=8, kernel=(3, 2), strides=(2, 1),
                      pads=(1, 1, 1, 0))  # fmt: skip
    count = 2 * rows_at_once(found) * 3
    yield Transposition(name="layer", input_shape=(found.rows, 1, count), batch=1)
    yield MatrixProduct(
        name="layer", left_shape=(2 * found.rows, 1, 9), right_shape=(2 * found.rows, 1, count),
        left_zero_point=3, right_zero_point=-2, rescaling=rescaling(found, 1, random, low=-half),
    )  # fmt: skip


@pytest.mark.parametrize("name", SETS)
def test_every_layer_is_computed_or_refused_by_its_own_reason(name):
    found, random = of_set(name), np.random.default_rng(3)
    refused = []
    for layer in layers(found, random):
        try:
            compared(layer, found, random)
        except LayerError as error:
            refused.append(error.message.partition(": ")[2])
    assert refused == []


def test_arrays_of_unlike_sides_need_loads_that_skip_elements():
    found, random = of_set("dense", **{"engines.matrix.rows": 4}), np.random.default_rng(3)
    for layer in (convolution(found, random), WindowLayer(name="w", input_shape=(4, 4, 4), bits=8)):
        with pytest.raises(LayerError, match="cannot skip elements, which rows unlike columns"):
            compared(layer, found, random)


def test_an_unknown_set_is_refused_with_the_near_one_and_shipped_ones_are_not_replaced():
    with pytest.raises(InputError, match=r"instructions.set is 'ful' \(did you mean 'full'\?\)"):
        machine("vta-16", **{"instructions.set": "ful"})
    with pytest.raises(InputError, match=r"no set of instructions 'paddles'.*'padless'"):
        instruction_set("paddles")
    SETS["vta"] = replace(FULL, name="vta")
    try:
        assert instruction_set("vta") is VTA
    finally:
        del SETS["vta"]
