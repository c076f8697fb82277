"""Dynamically quantized products are exact, whatever the bytes and their zero points are."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import explorer
from explorer.compilation import Compilation
from explorer.importers.onnx import from_proto
from explorer.ir.structure import operations
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.linear.matmul import MatMulOp

BYTES = {"u8": np.uint8, "s8": np.int8}
ROWS, COLUMNS = 7, 19  # whole tiles and what they leave over


@dataclass(frozen=True)
class Form:
    """One product: types, where the right operand and its zero points come from, the depth."""

    left: str
    right: str
    is_constant: bool
    zeros: str
    """Of the right operand: none, one, each (column)."""
    depth: int

    @property
    def name(self) -> str:
        where = "constant" if self.is_constant else "computed"
        return f"{self.left}_{self.right}_{where}_{self.zeros}_{self.depth}"


FORMS = [
    *(Form(*f) for f in product(BYTES, BYTES, (True, False), ("none", "one", "each"), (8,))),
    *(Form(*f) for f in product(BYTES, BYTES, (True, False), ("each",), (13,))),
]


def extreme(random: np.random.Generator, kind: str, shape: tuple[int, ...]) -> np.ndarray:
    """Bytes among which the least and the greatest stand side by side."""
    limits = np.iinfo(BYTES[kind])
    array = random.integers(limits.min, limits.max + 1, shape)
    array[..., :3, :4], array[..., 3:5, 4:] = limits.max, limits.min
    return array.astype(BYTES[kind])


class Products:
    """A model of many nodes MatMulInteger, its inputs, and the results that are right."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(3)
        self.inputs: dict[str, np.ndarray] = {}
        self.weights: dict[str, np.ndarray] = {}
        self.nodes: list[onnx.NodeProto] = []
        self.expected: dict[str, np.ndarray] = {}

    def add(self, form: Form) -> None:
        name, random = form.name, self.random
        left = extreme(random, form.left, (ROWS, form.depth))
        right = extreme(random, form.right, (form.depth, COLUMNS))
        left_zero = extreme(random, form.left, (1, 1)).reshape(())
        self.inputs |= {f"a_{name}": left, f"za_{name}": left_zero}
        given = self.weights if form.is_constant else self.inputs
        given[f"b_{name}"] = right
        operands = [f"a_{name}", f"b_{name}", f"za_{name}"]
        right_zero = np.zeros((), np.int64)
        if form.zeros != "none":
            shape = () if form.zeros == "one" else (COLUMNS,)
            right_zero = random.integers(0, 100, shape).astype(BYTES[form.right])
            given[f"zb_{name}"] = right_zero
            operands.append(f"zb_{name}")
        self.nodes.append(helper.make_node("MatMulInteger", operands, [name]))
        centered = [x.astype(np.int64) - z for x, z in ((left, left_zero), (right, right_zero))]
        self.expected[name] = np.matmul(*centered).astype(np.int32)

    def add_convolution(self, filters: str) -> None:
        """3x3, padded on some sides, of 8 channels with a zero point of run time."""
        name = f"convolution_{filters}"
        x, w = extreme(self.random, "u8", (1, 8, 5, 6)), extreme(self.random, filters, (6, 8, 3, 3))
        zero = np.array(201, np.uint8)
        self.inputs |= {f"x_{name}": x, f"zx_{name}": zero}
        self.weights[f"w_{name}"] = w
        operands = [f"x_{name}", f"w_{name}", f"zx_{name}"]
        self.nodes.append(helper.make_node("ConvInteger", operands, [name], pads=[1, 0, 1, 2]))
        wide = np.pad(x.astype(np.int64) - zero, [(0, 0), (0, 0), (1, 1), (0, 2)])
        windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (2, 3))
        sums = np.einsum("ncijpq,ocpq->noij", windows, w.astype(np.int64))
        self.expected[name] = sums.astype(np.int32)

    def add_batch(self) -> None:
        """Products of two activations, of several matrices at once."""
        left, right = (extreme(self.random, "u8", (2, 3, *s)) for s in ((5, 8), (8, 9)))
        zeros = {"za_batch": np.array(120, np.uint8), "zb_batch": np.array(131, np.uint8)}
        self.inputs |= {"a_batch": left, "b_batch": right, **zeros}
        self.nodes.append(
            helper.make_node("MatMulInteger", ["a_batch", "b_batch", *zeros], ["batch"])
        )
        centered = [left.astype(np.int64) - 120, right.astype(np.int64) - 131]
        self.expected["batch"] = np.matmul(*centered).astype(np.int32)

    def model(self) -> onnx.ModelProto:
        return model(self.nodes, self.inputs, self.expected, self.weights)


def model(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, np.ndarray],
    outputs: dict[str, np.ndarray],
    weights: dict[str, np.ndarray],
) -> onnx.ModelProto:
    def values(arrays: dict[str, np.ndarray]) -> list[onnx.ValueInfoProto]:
        return [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )
            for name, array in arrays.items()
        ]

    graph = helper.make_graph(
        nodes,
        "products",
        values(inputs),
        values(outputs),
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


@pytest.fixture(scope="module")
def products() -> Products:
    made = Products()
    for form in FORMS:
        made.add(form)
    for filters in BYTES:
        made.add_convolution(filters)
    made.add_batch()
    return made


@pytest.fixture(scope="module")
def compiled(products) -> Compilation:
    return explorer.compile(from_proto(products.model()), tuned=False)


def require_exact(products: Products, found: Mapping[str, np.ndarray]) -> None:
    for name, expected in products.expected.items():
        np.testing.assert_array_equal(found[name], expected, err_msg=name)


def test_products_of_bytes_are_exact_in_c(products, compiled):
    with compiled.open() as executable:
        require_exact(products, executable.run(products.inputs))


def test_products_of_bytes_are_exact_in_opencl(products):
    opencl = explorer.compile(from_proto(products.model()), "opencl", tuned=False)
    with opencl.open() as executable:
        require_exact(products, executable.run(products.inputs))


def test_every_form_is_a_product_of_bytes(products, compiled):
    """Also in the interpreter."""
    after = compiled["fuse-quantization"].after
    linear = [op for op in operations(after.module) if isinstance(op, ConvOp | MatMulOp)]
    assert len(linear) == len(products.expected)
    assert all(op.sums is not None for op in linear)
    values = after.run(products.inputs)
    by_tensor = {origin.tensor: values[name] for name, origin in after.origins.items()}
    require_exact(products, by_tensor)
