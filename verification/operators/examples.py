"""Examples of the operators that onnx tests with no single node, or with constants alone.

    examples()              {"Scaler": [Template(...)], ...}
    all_templates()         onnx's own ones too

Each is a model in onnx's text form and inputs that fit it. A sequence is a list of arrays.
"""

from __future__ import annotations

from typing import Any  # an input is a tensor or a list of tensors

import numpy as np
import onnx
from onnx import AttributeProto, parser

from verification.operators.templates import Template, collect

HEAD = '<ir_version: 8, opset_import: ["": 18, "ai.onnx.ml": 3]>'
ROWS = np.array([[0.5, -1.0, 2.0], [0.0, 3.0, -0.25], [1.0, 1.0, 1.0]], np.float32)
PLANES = np.linspace(-2, 2, 36, dtype=np.float32).reshape(1, 2, 3, 6)
PARTS = [np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((2, 3), np.float32)]
FIRST = np.array(0, np.int64)
VECTORS = (
    "coefficients = [0.5, -1.0, 0.25], support_vectors = "
    "[0.0, 1.0, 2.0, 0.5, -0.5, 1.5, 1.0, 1.0, -1.0], rho = [0.25]"
)
WEIGHTS = "coefficients = [0.5, -1.0, 2.0, 0.25, 0.0, 1.0], intercepts = [0.5, -0.5]"
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO")
KERNELS = {"LINEAR": "0.0, 0.0, 0.0", "POLY": "0.5, 0.25, 2.0", "RBF": "0.5, 0.0, 0.0"}

Line = tuple[str, str, tuple[Any, ...]]
"""Inputs and results, the node, and arrays for the inputs."""

ARRAYS: list[Line] = [
    ("(float[1,2,3,6] x) => (float[1,2,1,1] y)", f"y = GlobalLpPool <p = {p}> (x)", (PLANES,))
    for p in (1, 2, 3)
]
ARRAYS += [
    ("(float[1,2,3,6] x) => (float[1,2,3,6] y)", f"y = MeanVarianceNormalization{axes} (x)",
     (PLANES,))
    for axes in ("", " <axes = [0, 2, 3]>", " <axes = [1]>")
]  # fmt: skip
RANDOM: list[Line] = [
    ("() => (float[2,3] y)", "y = RandomNormal <shape = [2, 3], seed = 1.0> ()", ()),
    ("() => (float[2,3] y)", "y = RandomUniform <shape = [2, 3], seed = 1.0> ()", ()),
    ("(float[3,3] x) => (float[3,3] y)", "y = RandomNormalLike <seed = 1.0> (x)", (ROWS,)),
    ("(float[3,3] x) => (float[3,3] y)", "y = RandomUniformLike <seed = 1.0> (x)", (ROWS,)),
    ("(float[3,3] x) => (int32[3,4] y)", "y = Multinomial <sample_size = 4> (x)", (ROWS,)),
]
SEQUENCES: list[Line] = [
    ("() => (seq(float[2,3]) y)", "y = SequenceEmpty <dtype = 1> ()", ()),
    ("(float[2,3] a, float[2,3] b) => (seq(float[2,3]) y)", "y = SequenceConstruct (a, b)",
     tuple(PARTS)),
    ("(seq(float[2,3]) s, int64 i) => (float[2,3] y)", "y = SequenceAt (s, i)", (PARTS, FIRST)),
    ("(seq(float[2,3]) s, int64 i) => (seq(float[2,3]) y)", "y = SequenceErase (s, i)",
     (PARTS, FIRST)),
    ("(seq(float[2,3]) s) => (int64 y)", "y = SequenceLength (s)", (PARTS,)),
    ("(seq(float[2,3]) s) => (float[M,3] y)", "y = ConcatFromSequence <axis = 0> (s)", (PARTS,)),
    ("(seq(float[2,3]) s) => (float[2,K,3] y)",
     "y = ConcatFromSequence <axis = 1, new_axis = 1> (s)", (PARTS,)),
]  # fmt: skip
BRANCHES: list[Line] = [
    ("(bool c, float[2,3] x) => (float[2,3] y)",
     "y = If (c) <then_branch = t () => (float[2,3] a) { a = Identity (x) }, "
     "else_branch = e () => (float[2,3] b) { b = Transpose <perm = [0, 1]> (x) }>",
     (np.array(flag), PARTS[0]))
    for flag in (True, False)
]  # fmt: skip
BRANCHES += [("(float[2,3] x) => (optional(float[2,3]) y)", "y = Optional (x)", (PARTS[0],))]
CLASSICAL: list[Line] = [
    ("(float[3,3] x) => (float[3,3] y)", f"y = ai.onnx.ml.{node} (x)", (ROWS,))
    for node in (
        "Imputer <imputed_value_floats = [1.5, -2.0, 0.0], replaced_value_float = 1.0>",
        "Imputer <imputed_value_int64s = [7], replaced_value_int64 = 1>",
        *(f'Normalizer <norm = "{norm}">' for norm in ("MAX", "L1", "L2")),
        "Scaler <offset = [0.5, -1.0, 0.0], scale = [2.0, 0.0, -1.0]>",
        "Scaler <offset = [0.5], scale = [3.0]>",
    )
]
CLASSICAL += [
    ("(float[3,3] x) => (float[3,2] y)",
     f'y = ai.onnx.ml.LinearRegressor <{WEIGHTS}, targets = 2, post_transform = "{how}"> (x)',
     (ROWS,))
    for how in TRANSFORMS
]  # fmt: skip
CLASSICAL += [
    ("(float[3,3] x) => (int64[3] y, float[3,2] z)",
     f"y, z = ai.onnx.ml.LinearClassifier <{WEIGHTS}, classlabels_ints = [3, -1], "
     f'post_transform = "{how}"> (x)',
     (ROWS,))
    for how in TRANSFORMS
]  # fmt: skip
CLASSICAL += [
    ("(float[3,3] x) => (float[3,1] y)",
     f'y = ai.onnx.ml.SVMRegressor <{VECTORS}, n_supports = 3, kernel_type = "{kernel}", '
     f"kernel_params = [{parameters}]> (x)",
     (ROWS,))
    for kernel, parameters in KERNELS.items()
]  # fmt: skip
CLASSICAL += [
    ("(float[3,3] x) => (int64[3] y, float[3,2] z)",
     f"y, z = ai.onnx.ml.SVMClassifier <{VECTORS}, vectors_per_class = [2, 1], "
     f'classlabels_ints = [5, 8], kernel_type = "{kernel}", kernel_params = [{parameters}]> (x)',
     (ROWS,))
    for kernel, parameters in KERNELS.items()
]  # fmt: skip
CLASSICAL += [
    ("(float[3] x) => (float[3,3] y)",
     f"y = ai.onnx.ml.OneHotEncoder <cats_int64s = [0, 1, -3], zeros = {zeros}> (x)",
     (np.array([1, 0, -3], np.float32),))
    for zeros in (1, 0)
]  # fmt: skip
CLASSICAL += [
    ("(float[3,3] x, float[3,2] z) => (float[3,6] y)",
     "y = ai.onnx.ml.FeatureVectorizer <inputdimensions = [2, 4]> (x, z)",
     (ROWS, ROWS[:, :2])),
    ("(int64[4] x) => (string[4] y)",
     'y = ai.onnx.ml.CategoryMapper <cats_int64s = [1, 2, 2], cats_strings = ["a", "b", "c"]> (x)',
     (np.array([1, 2, 3, -1]),)),
]  # fmt: skip


def examples() -> dict[str, list[Template]]:
    """By operator."""
    found: dict[str, list[Template]] = {}
    for signature, node, inputs in (*ARRAYS, *RANDOM, *SEQUENCES, *BRANCHES, *CLASSICAL):
        model = parser.parse_model(f"{HEAD} example {signature} {{ {node} }}")
        _forget_types_of_branches(model)
        operator = model.graph.node[0].op_type
        template = Template(f"example of {operator}", model, inputs)
        found.setdefault(operator, []).append(template)
    return found


def all_templates() -> dict[str, list[Template]]:
    """By operator: these and those of onnx's node tests. Takes some 20 seconds."""
    found = collect()
    for operator, own in examples().items():
        found.setdefault(operator, []).extend(own)
    return found


def _forget_types_of_branches(model: onnx.ModelProto) -> None:
    """They follow what the branches take from around them."""
    for attribute in model.graph.node[0].attribute:
        if attribute.type == AttributeProto.GRAPH:
            for value in attribute.g.output:
                value.ClearField("type")
