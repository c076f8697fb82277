"""Quantization of the PT2E flow (`quantized_decomposed`), judged by PyTorch's own definitions.

They skip where torch is not installed (its CPU build: scripts/setup.sh).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any  # torch's own types, which are not known here

import numpy as np
import pytest

import explorer as ex
from explorer.ir.structure import operations

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own, about itself
torch: Any = pytest.importorskip("torch", reason="torch is not installed: no test of PyTorch runs")
pytest.importorskip("torch.ao.quantization.fx._decomposed", reason="torch has no PT2E")
Q: Any = torch.ops.quantized_decomposed

SCALES = torch.tensor([0.5, 0.03125, 2.0])
ZEROS = torch.tensor([0, -3, 100])
STEPS = torch.tensor(
    [0.0, -0.0, 0.25, -0.25, 0.5, 0.75, 1.25, -1.25, 1e9, -1e9, torch.inf, -torch.inf]
)
"""Ties of a scale of 0.5, signed zeros, and ends of the ranges."""
ROWS = torch.stack([STEPS, STEPS * 4, STEPS - 0.125])
BYTES = torch.arange(-128, 128, 5, dtype=torch.int8)
NOISE = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))

Case = tuple[Callable[..., Any], tuple[Any, ...]]


def to_bytes(dtype: Any, low: int, high: int, zero: int = 3) -> Callable[..., Any]:
    return lambda x: Q.quantize_per_tensor(x, 0.5, zero, low, high, dtype)


def of_choice(choose: Callable[..., Any]) -> Callable[..., Any]:
    def chosen(x: Any) -> Any:
        scale, zero = choose(x)
        q = Q.quantize_per_tensor.tensor(x, scale, zero, -128, 127, torch.int8)
        return scale, zero, q, Q.dequantize_per_tensor.tensor(q, scale, zero, -128, 127, torch.int8)

    return chosen


def of_rows(x: Any) -> Any:
    scale, zero = Q.choose_qparams_per_token_asymmetric(x, torch.int8)
    q = Q.quantize_per_token(x, scale, zero, -128, 127, torch.int8)
    return q, Q.dequantize_per_token(q, scale, zero, -128, 127, torch.int8, torch.float32)


CASES: dict[str, Case] = {
    "int8": (to_bytes(torch.int8, -128, 127), (STEPS,)),
    "uint8": (to_bytes(torch.uint8, 0, 255), (STEPS,)),
    "int16": (to_bytes(torch.int16, -32768, 32767), (STEPS,)),
    "narrow limits": (to_bytes(torch.int8, -127, 100), (STEPS,)),
    "half floats": (to_bytes(torch.uint8, 0, 255), (STEPS.half(),)),
    "per channel": (
        lambda x: Q.quantize_per_channel(x, SCALES, ZEROS, 0, -127, 127, torch.int8),
        (ROWS,),
    ),
    "per channel of the last axis": (
        lambda x: Q.quantize_per_channel(x, SCALES, ZEROS, 1, -128, 127, torch.int8),
        (ROWS.T.contiguous(),),
    ),
    "per channel, doubles": (
        lambda x: Q.quantize_per_channel(x, SCALES.double(), ZEROS, 0, -128, 127, torch.int8),
        (ROWS,),
    ),
    "computed scales per channel": (
        lambda x, s: Q.quantize_per_channel(x, s, ZEROS, 0, -128, 127, torch.int8),
        (ROWS, SCALES),
    ),
    "dequantize": (
        lambda x: Q.dequantize_per_tensor(x, 0.02, 3, -128, 127, torch.int8),
        (BYTES,),
    ),
    "dequantize to bfloat16": (
        lambda x: Q.dequantize_per_tensor(
            x, 0.02, 77, -128, 127, torch.int8, out_dtype=torch.bfloat16
        ).float(),
        (BYTES,),
    ),
    "dequantize per channel without zero points": (
        lambda x: Q.dequantize_per_channel(x, SCALES, None, 0, -128, 127, torch.int8),
        (BYTES[:51].reshape(3, 17),),
    ),
    "dequantize by computed scales per channel": (
        lambda x, s: Q.dequantize_per_channel(x, s, ZEROS, 0, -128, 127, torch.int8),
        (BYTES[:51].reshape(3, 17), SCALES.double()),
    ),
    "scales as tensors": (
        lambda x: Q.quantize_per_tensor.tensor(x, SCALES[0], ZEROS[1], -128, 127, torch.int8),
        (STEPS,),
    ),
    "chosen": (
        of_choice(lambda x: Q.choose_qparams.tensor(x, -128, 127, 1e-5, torch.int8)),
        (NOISE,),
    ),
    "chosen of positive numbers": (
        of_choice(lambda x: Q.choose_qparams.tensor(x, -128, 127, 1e-5, torch.int8)),
        (NOISE.abs() + 1,),
    ),
    "chosen of zeros": (
        of_choice(lambda x: Q.choose_qparams.tensor(x, -128, 127, 1e-5, torch.int8)),
        (0 * NOISE,),
    ),
    "chosen around zero": (
        of_choice(lambda x: Q.choose_qparams_symmetric.tensor(x, -127, 127, 1e-5, torch.int8)),
        (NOISE,),
    ),
    "of rows": (of_rows, (NOISE,)),
    "of rows of one sign": (of_rows, (NOISE.abs() + 1,)),
    "one element": (to_bytes(torch.int8, -128, 127), (STEPS[2:3],)),
    "no elements": (to_bytes(torch.int8, -128, 127), (STEPS[:0].reshape(0, 2),)),
}


@pytest.mark.parametrize("name", CASES)
def test_numbers_are_those_of_pytorch(name: str):
    function, inputs = CASES[name]
    model, expected = exported(function, inputs)
    names = [value.name for value in model.inputs]
    arrays = {n: x.numpy() for n, x in zip(names, inputs, strict=True)}
    found = list(ex.interpret(model, arrays).values())
    assert len(found) == len(expected)
    for own, theirs in zip(found, expected, strict=True):
        assert own.dtype == theirs.numpy().dtype
        np.testing.assert_array_equal(own, theirs.numpy())


class Convolution(torch.nn.Module):
    """A quantized convolution with ReLU, as the flow writes it."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        weight = torch.randint(-127, 128, (4, 3, 3, 3), dtype=torch.int8, generator=generator)
        self.register_buffer("weight", weight)
        self.register_buffer("scales", torch.tensor([0.01, 0.02, 0.005, 0.03]))
        self.register_buffer("zeros", torch.zeros(4, dtype=torch.int64))
        self.register_buffer("bias", torch.tensor([0.5, -0.25, 1.0, 0.0]))

    def forward(self, x: Any) -> Any:
        q = Q.quantize_per_tensor(x, 0.02, 3, -128, 127, torch.int8)
        x = Q.dequantize_per_tensor(q, 0.02, 3, -128, 127, torch.int8)
        w = Q.dequantize_per_channel(self.weight, self.scales, self.zeros, 0, -127, 127, torch.int8)
        y = torch.relu(torch.nn.functional.conv2d(x, w, self.bias))
        q = Q.quantize_per_tensor(y, 0.03, -128, -128, 127, torch.int8)
        return Q.dequantize_per_tensor(q, 0.03, -128, -128, 127, torch.int8)


def test_a_quantized_convolution_sums_integers():
    x = torch.randn(1, 3, 6, 6, generator=torch.Generator().manual_seed(2))
    model, (expected,) = exported(Convolution().eval(), (x,))
    compilation = ex.compile(model)
    kinds = {op.name for p in compilation.passes for op in operations(p.after.program)}
    assert "top.requantize" in kinds
    (found,) = compilation.run({model.inputs[0].name: x.numpy()}).values()
    np.testing.assert_allclose(found, expected.numpy(), rtol=0, atol=0.0300001)  # one step
    assert np.mean(np.abs(found - expected.numpy()) > 1e-6) < 0.02


def exported(function: Callable[..., Any], inputs: tuple[Any, ...]) -> tuple[Any, list[Any]]:
    """The model, and PyTorch's results."""

    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            if isinstance(function, torch.nn.Module):
                self.inner = function

        def forward(self, *x: Any) -> Any:
            return function(*x)

    with torch.no_grad():
        expected = function(*inputs)
        model = ex.load(torch.export.export(Module(), inputs))
    return model, list(expected) if isinstance(expected, tuple) else [expected]
