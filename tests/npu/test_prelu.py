"""PReLU with a slope for each channel: four layers, bit-equal to the operation."""

import sys
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerType, Signedness
from xdsl.dialects.test import TestOp

sys.path.insert(0, str(Path(__file__).parent))
from npu_layers import compared, machine

from explorer.ir.requantization import Requantization, RequantizationAttr
from explorer.ir.top.data import WeightOp
from explorer.ir.top.quantization.fixed_point import FixedPointOp
from explorer.ir.types import QuantizedType, tensor_type
from explorer.npu.layers.from_operations import read_operation
from explorer.npu.layers.value_layout import stored_form

SIGNED, UNSIGNED = IntegerType(8), IntegerType(8, Signedness.UNSIGNED)
SLOPES = QuantizedType.get(IntegerType(16), [3 / 32767], [0])


def prelu_of(how, storage, zeros, limits=None, shape=(1, 11, 4, 3)):
    """The operation, its weights and its input: all numbers of 8 bits, slopes of either sign."""
    own = QuantizedType.get(storage, [0.05], [zeros[0]])
    to = QuantizedType.get(storage, [0.03], [zeros[1]])
    slopes = np.linspace(-32767, 32767, 11).astype(np.int16).reshape(11, 1, 1)
    value = TestOp(result_types=[tensor_type(own, shape)]).results[0]
    weight = WeightOp.make([], [tensor_type(SLOPES, (11, 1, 1))], weight="slopes")
    by = RequantizationAttr.get(to, how, limits)
    op = FixedPointOp.make([value, weight.results[0]], kind="prelu", by=by)
    low = 0 if storage is UNSIGNED else -128
    x = (np.arange(np.prod(shape)) * 7 % 256 + low).reshape(shape)
    return op, {"slopes": slopes}, x.astype(np.uint8 if storage is UNSIGNED else np.int8)


@pytest.mark.parametrize("name", ["tiny-8", "odd-12x20", "vta-16"])
@pytest.mark.parametrize(
    ("storage", "zeros", "limits"),
    [
        (SIGNED, (0, 0), None),
        (SIGNED, (-128, 127), None),
        (UNSIGNED, (120, 30), (40, 200)),
        (UNSIGNED, (255, 0), (0, 20)),
    ],
)
def test_layers_are_the_operation(name, storage, zeros, limits):
    found, random = machine(name), np.random.default_rng(1)
    how = Requantization(found.scheme, found.rounding)
    op, weights, x = prelu_of(how, storage, zeros, limits)
    (expected,) = op.evaluate(x, weights["slopes"])
    given, made = stored_form(op.left).signed(x), []
    for read in read_operation(op, weights, found):
        inputs = [
            made[one] if isinstance(one, int) else given.reshape(tensor.shape)
            for one, tensor in zip(read.reads, read.layer.inputs, strict=True)
        ]
        made.append(read.layer.run(*inputs))
        compared(read.layer, found, random, given=inputs)
    assert len(made) == 4
    np.testing.assert_array_equal(stored_form(op.output).logical(made[-1]), expected)
