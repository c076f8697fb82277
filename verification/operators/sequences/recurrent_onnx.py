"""ONNX's recurrent operators, whose last states are the first ones of the next call.

    Y, Y_h, Y_c = LSTM(X, W, R, B, h, c)        three times, with h, c = Y_h, Y_c in between

An attention keeps its keys and values in the same way. Each program feeds its own states back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any  # Any: an answer of a child

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper

from explorer.onnx_backend import Representation
from explorer.references.onnx_runtime import open_proto
from verification.conformance.suite import open_here
from verification.operators.comparing import same
from verification.operators.numbers import hostile
from verification.operators.pairs import Pair
from verification.operators.sequences.documented import DocumentedError
from verification.operators.verdicts import disagreements, entries_for, first_reason

GATES = {"GRU": 3, "LSTM": 4, "RNN": 1}
ATTENTION = "Attention"
OPERATORS = (*GATES, ATTENTION)
KINDS = ("normal", "ties", "zeros", "large", "tiny", "special")
OPSET = 24
CALLS = 3
Arrays = dict[str, np.ndarray]
Sizes = dict[str, tuple[int, ...]]
"""Shapes by name."""


def drawn(
    operator: str, seed: int, folder: Path | None
) -> tuple[Callable[[str], None], dict[str, Any]]:
    """What runs the calls on a device, or raises AssertionError; type and kind of the numbers."""
    random = np.random.default_rng([seed, OPERATORS.index(operator)])
    draw = _attention if operator == ATTENTION else _recurrent
    model, states, shapes = draw(operator, random)
    kind = str(random.choice(KINDS))
    calls = [
        {name: hostile(random, "float32", shape, kind) for name, shape in shapes.items()}
        for _ in range(CALLS)
    ]
    first = {name: hostile(random, "float32", shape, "normal") for name, shape in states.items()}
    if folder is not None:
        onnx.save(model, folder / f"onnx.{operator}-{seed}.onnx")

    def run(device: str) -> None:
        with open_proto(model, "sequence", is_optimized=False) as opened:
            expected = _called(lambda inputs: dict(opened.run(inputs)), calls, first)
        representation = Representation(model, device, open_here)
        names = [value.name for value in model.graph.output]

        def ours(inputs: Arrays) -> Arrays:
            return dict(zip(names, representation.run(inputs), strict=True))

        with np.errstate(all="ignore"):
            found = _called(ours, calls, first)
        representation.close()
        every = {f"{n}.{name}": a for n, call in enumerate(calls) for name, a in call.items()}
        _require(operator, found, expected, {**first, **every})

    return run, {"type": "float32", "kind": kind}


def _called(
    run: Callable[[Arrays], Arrays], calls: list[Arrays], states: Mapping[str, np.ndarray]
) -> list[Arrays]:
    """The results of each call; state `h` is the result `h_next` of the call before."""
    found, held = [], dict(states)
    for inputs in calls:
        found.append(run({**inputs, **held}))
        held = {name: found[-1][f"{name}_next"] for name in held}
    return found


def _require(
    operator: str, found: list[Arrays], expected: list[Arrays], inputs: Mapping[str, Any]
) -> None:
    """Both feed their own states back: a difference of the first call goes on."""

    for number, (ours, right) in enumerate(zip(found, expected, strict=True)):
        lists = [list(ours.values()), list(right.values())]
        problem = same(lists[0], lists[1], "float32")
        if not problem:
            continue
        entries = entries_for(Pair(operator, "float32"), disagreements(), inputs)
        fitting = [entry for entry in entries if entry.right != "onnxruntime"]
        why = first_reason(fitting, lists[0], lists[1], "float32")
        if why:
            raise DocumentedError(why)
        raise AssertionError(f"call {number}: {problem}")


def _value(name: str, shape: Any) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def _recurrent(operator: str, random: np.random.Generator) -> tuple[ModelProto, Sizes, Sizes]:
    """Model, shapes of its states and of its inputs."""
    steps, batch, size, hidden = (int(n) for n in random.integers(1, (4, 4, 7, 10)))
    direction = str(random.choice(["forward", "reverse", "bidirectional"]))
    count, gates = 1 + (direction == "bidirectional"), GATES[operator]
    shapes = {
        "W": (count, gates * hidden, size),
        "R": (count, gates * hidden, hidden),
        "B": (count, 2 * gates * hidden),
    }
    weights = [
        numpy_helper.from_array((random.standard_normal(shape) / 2).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    states: Sizes = {"h": (count, batch, hidden)}
    if operator == "LSTM":
        states["c"] = states["h"]
    attributes: dict[str, Any] = {"hidden_size": hidden, "direction": direction}
    if operator == "GRU":
        attributes["linear_before_reset"] = int(random.integers(2))
    if operator == "LSTM":
        attributes["input_forget"] = int(random.integers(2))
    node = helper.make_node(
        operator,
        ["X", "W", "R", "B", "", *states],
        ["Y", *(f"{name}_next" for name in states)],
        **attributes,
    )
    inputs: Sizes = {"X": (steps, batch, size)}
    given = [_value(name, shape) for name, shape in {**inputs, **states}.items()]
    return _model(node, given, weights), states, inputs


def _attention(operator: str, random: np.random.Generator) -> tuple[ModelProto, Sizes, Sizes]:
    """With a past of keys and values, which grows with every call."""
    batch, heads, rows, size, past = (int(n) for n in random.integers(1, (3, 4, 4, 9, 4)))
    inputs = dict.fromkeys("QKV", (batch, heads, rows, size))
    states: Sizes = {"k": (batch, heads, past, size), "v": (batch, heads, past, size)}
    node = helper.make_node(
        operator,
        [*inputs, "", *states],
        ["Y", *(f"{name}_next" for name in states)],
        is_causal=int(random.integers(2)),
    )
    given = [_value(name, shape) for name, shape in inputs.items()]
    given += [_value(name, (batch, heads, "past", size)) for name in states]
    return _model(node, given, []), states, inputs


def _model(
    node: onnx.NodeProto, inputs: list[onnx.ValueInfoProto], weights: list[TensorProto]
) -> ModelProto:
    results = [_value(name, None) for name in node.output]
    graph = helper.make_graph([node], "sequence", inputs, results, weights)
    opsets = [helper.make_opsetid("", OPSET)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)
