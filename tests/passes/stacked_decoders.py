"""Decoders with keys and values in one past, in the ways in which exporters take it apart."""

from __future__ import annotations

import re

import numpy as np
import onnx
import onnx.parser
from onnx import numpy_helper

HEADS, SIZE = 2, 4
WIDTH = HEADS * SIZE

FORMS = ("gather", "slice", "split", "turned", "joined")
"""How a half is taken: by its number, as a slice, by a split, by its number and transposed before
rows are joined to it; and halves that are no axis of their own, but heads one after the other."""


def past_shape(form: str, axis: int, rows: int | str) -> list[int | str]:
    """Of the past, `axis` being that of the halves."""
    if form == "joined":
        return [1, 2 * HEADS, rows, SIZE]
    shape: list[int | str] = [1, HEADS, rows, SIZE]
    shape.insert(axis, 2)
    return shape


def row_axis(form: str, axis: int) -> int:
    return past_shape(form, axis, "rows").index("rows")


def _taken(form: str, axis: int, layer: int) -> str:
    """The halves %k and %v of a past, (1, HEADS, rows, SIZE) each."""
    p = f"past_{layer}"
    if form == "joined":
        return f"""
        k{layer}, v{layer} = Split<axis = 1>({p}, {_numbers(HEADS, HEADS)})"""
    if form in ("gather", "turned"):
        return f"""
        k{layer} = Gather<axis = {axis}>({p}, {_number(0)})
        v{layer} = Gather<axis = {axis}>({p}, {_number(1)})"""
    if form == "slice":
        return f"""
        ks{layer} = Slice({p}, {_numbers(0)}, {_numbers(1)}, {_numbers(axis)})
        vs{layer} = Slice({p}, {_numbers(1)}, {_numbers(2)}, {_numbers(axis)})
        k{layer} = Squeeze(ks{layer}, {_numbers(axis)})
        v{layer} = Squeeze(vs{layer}, {_numbers(axis)})"""
    return f"""
        ks{layer}, vs{layer} = Split<axis = {axis}>({p}, {_numbers(1, 1)})
        k{layer} = Squeeze(ks{layer}, {_numbers(axis)})
        v{layer} = Squeeze(vs{layer}, {_numbers(axis)})"""


def _layer(form: str, axis: int, layer: int, halves: str) -> str:
    """Attention of the last layer's rows x{layer}, and the new past."""
    turned = form == "turned"
    order = "[0, 2, 3, 1]" if turned else "[0, 2, 1, 3]"
    text = (
        _taken(form, axis, layer)
        + f"""
        q{layer} = MatMul(x{layer}, wq)
        qh{layer} = Reshape(q{layer}, heads)
        qt{layer} = Transpose<perm = [0, 2, 1, 3]>(qh{layer})
        nk{layer} = MatMul(x{layer}, wk)
        nkh{layer} = Reshape(nk{layer}, heads)
        nkt{layer} = Transpose<perm = {order}>(nkh{layer})"""
    )
    if turned:
        text += f"""
        kt{layer} = Transpose<perm = [0, 1, 3, 2]>(k{layer})
        columns{layer} = Concat<axis = 3>(kt{layer}, nkt{layer})
        keys{layer} = Transpose<perm = [0, 1, 3, 2]>(columns{layer})"""
    else:
        text += f"""
        keys{layer} = Concat<axis = 2>(k{layer}, nkt{layer})
        columns{layer} = Transpose<perm = [0, 1, 3, 2]>(keys{layer})"""
    text += f"""
        scores{layer} = MatMul(qt{layer}, columns{layer})
        shares{layer} = Softmax<axis = -1>(scores{layer})
        nv{layer} = MatMul(x{layer}, wv)
        nvh{layer} = Reshape(nv{layer}, heads)
        nvt{layer} = Transpose<perm = [0, 2, 1, 3]>(nvh{layer})
        values{layer} = Concat<axis = 2>(v{layer}, nvt{layer})
        found{layer} = MatMul(shares{layer}, values{layer})
        foundt{layer} = Transpose<perm = [0, 2, 1, 3]>(found{layer})
        flat{layer} = Reshape(foundt{layer}, width)
        x{layer + 1} = Add(x{layer}, flat{layer})"""
    names = [f"{half}{layer}" for half in halves.split(",")]
    if form == "joined":
        return (
            text
            + f"""
        present_{layer} = Concat<axis = 1>({", ".join(names)})"""
        )
    for name in dict.fromkeys(names):
        text += f"""
        {name}u = Unsqueeze({name}, {_numbers(axis)})"""
    joined = ", ".join(f"{name}u" for name in names)
    return f"""{text}
        present_{layer} = Concat<axis = {axis}>({joined})"""


def stacked(
    form: str, axis: int = 0, layers: int = 1, new: int = 1, halves: str = "keys,values"
) -> onnx.ModelProto:
    """A decoder with inputs x0 and past_*, outputs y and present_*."""
    pasts = [(f"past_{i}", past_shape(form, axis, "past")) for i in range(layers)]
    presents = [(f"present_{i}", past_shape(form, axis, "total")) for i in range(layers)]
    body = "".join(_layer(form, axis, layer, halves) for layer in range(layers))
    inputs = ", ".join(f"float{_text(shape)} {name}" for name, shape in pasts)
    outputs = ", ".join(f"float{_text(shape)} {name}" for name, shape in presents)
    numbers = sorted(set(re.findall(r"numbers?(?:_\d+)+", body)))
    constants = f"""int64[4] heads = {{1, {new}, {HEADS}, {SIZE}}},
        int64[3] width = {{1, {new}, {WIDTH}}}{"".join(map(_constant, numbers))}"""
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17]>
      decoder (float[1, {new}, {WIDTH}] x0, {inputs})
        => (float[1, {new}, {WIDTH}] y, {outputs})
        <{constants}> {{{body}
        y = Identity(x{layers})
      }}""")
    random = np.random.default_rng(0)
    for name in ("wq", "wk", "wv"):
        array = random.standard_normal((WIDTH, WIDTH)).astype(np.float32) / 2
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    return model


def _number(value: int) -> str:
    return f"number_{value}"


def _numbers(*values: int) -> str:
    return "numbers_" + "_".join(map(str, values))


def _constant(name: str) -> str:
    kind, *values = name.split("_")
    size = f"[{len(values)}]" if kind == "numbers" else ""
    return f", int64{size} {name} = {{{', '.join(values)}}}"


def _text(shape: list[int | str]) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"
