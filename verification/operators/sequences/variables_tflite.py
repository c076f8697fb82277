"""TFLite's operators with states, and resources that are read and assigned: judged by LiteRT.

v = VAR_HANDLE()                       one interpreter of LiteRT is called three times, and so is
a = READ_VARIABLE(v)                   our program, which gets its states back
ASSIGN_VARIABLE(v, MUL(ADD(a, x), k))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any  # Any: LiteRT's interpreter has no types

import numpy as np

import explorer as ex
from explorer.compilation import compile_model
from explorer.errors import ModelError
from explorer.files import write_file
from explorer.importers.model import SourceModel
from explorer.importers.tflite.file.reading import read
from explorer.onnx_backend.backend import TARGETS
from verification.conformance.seeded import ATTEMPTS, OtherNumbersError, require_same
from verification.conformance.tflite.drawing import Draw, Drawn, inputs_of
from verification.conformance.tflite.models import (
    GraphOf,
    OperatorOf,
    TensorOf,
    model_of,
    one_operator,
)
from verification.conformance.tflite.recurrent import DRAWS
from verification.operators.numbers import hostile
from verification.operators.pairs import Pair
from verification.operators.sequences.documented import DocumentedError
from verification.operators.verdicts import disagreements, entries_for, first_reason

VARIABLES = "VARIABLES"
KINDS = ("normal", "ties", "zeros", "special")
CALLS = 3
BINARY = {"ADD": "AddOptions", "MUL": "MulOptions", "SUB": "SubOptions"}
PLAIN = {"MAXIMUM": "MaximumMinimumOptions", "MINIMUM": "MaximumMinimumOptions"}
Arrays = dict[str, np.ndarray]


def drawn(
    operator: str, seed: int, folder: Path | None
) -> tuple[Callable[[str], None], dict[str, Any]]:
    """What runs the calls on a device, or raises AssertionError; type and kind of the numbers."""
    random = np.random.default_rng([seed, 5])
    content, model, example = _file(operator, seed, random)
    kind = str(random.choice(KINDS))
    states = {state.input for state in model.states}
    calls = [
        {
            name: _numbers(random, array, kind)
            for name, array in example.items()
            if name not in states
        }
        for _ in range(CALLS)
    ]
    expected = _of_litert(content, model, calls)
    if folder is not None:
        write_file(folder / f"tflite.{operator}-{seed}.tflite", content)
    dtype = next(iter(example.values())).dtype.name

    def run(device: str) -> None:
        with np.errstate(all="ignore"):
            found = (
                _interpreted(model, calls)
                if device == "INTERPRETER"
                else _compiled(model, calls, device)
            )
        _require(operator, dtype, found, expected, calls)

    return run, {"type": dtype, "kind": kind}


def _numbers(random: np.random.Generator, array: np.ndarray, kind: str) -> np.ndarray:
    if array.dtype.kind == "f":
        return hostile(random, array.dtype.name, array.shape, kind)
    return hostile(random, array.dtype.name, array.shape, "whole")


def _file(
    operator: str, seed: int, random: np.random.Generator
) -> tuple[bytes, SourceModel, Arrays]:
    if operator == VARIABLES:
        content = _variables(random)
        model = read(memoryview(content), operator)
        return content, model, {"x": np.zeros((2, 3), np.float32)}
    for attempt in range(ATTEMPTS):
        draw = Draw(seed, operator, 1, attempt)
        parts: Drawn = DRAWS[operator](draw)
        content = one_operator(
            operator,
            parts.inputs,
            parts.results,
            parts.options,
            parts.values,
            parts.others,
            parts.intermediates,
        )
        model = read(memoryview(content), operator)
        try:
            _opened(content)
        except (RuntimeError, ValueError):  # LiteRT's words for what it does not take
            continue
        return content, model, dict(inputs_of(draw, parts.inputs, parts.ranges))
    raise ModelError("LiteRT takes none of the models that were drawn")


def _variables(random: np.random.Generator) -> bytes:
    """A resource that becomes a chain of one to three operations of itself, x and constants; read
    again after it is assigned, or not."""
    shape = (2, 3)
    tensors = [
        TensorOf(name="x", shape=shape),
        TensorOf(name="v", shape=(), element_type="resource"),
        TensorOf(name="a", shape=shape),
    ]
    handle = OperatorOf(
        kind="VAR_HANDLE",
        inputs=[],
        outputs=[1],
        options="VarHandleOptions",
        values={"SharedName": "v", "Container": ""},
    )
    operators = [
        OperatorOf(
            kind="CALL_ONCE",
            inputs=[],
            outputs=[],
            options="CallOnceOptions",
            values={"InitSubgraphIndex": 1},
        ),
        handle,
        OperatorOf(kind="READ_VARIABLE", inputs=[1], outputs=[2], options="ReadVariableOptions"),
    ]
    last = 2
    for number in range(int(random.integers(1, 4))):
        kind = str(random.choice([*BINARY, *PLAIN]))
        other = 0 if not number else len(tensors)
        if number:
            factor = random.standard_normal(shape).astype(np.float32)
            tensors.append(TensorOf(name=f"k{number}", shape=shape, data=factor))
        tensors.append(TensorOf(name=f"t{number}", shape=shape))
        options = {**BINARY, **PLAIN}[kind]
        pair = [last, other] if random.random() < 0.5 else [other, last]
        last = len(tensors) - 1
        operators.append(OperatorOf(kind=kind, inputs=pair, outputs=[last], options=options))
    operators.append(
        OperatorOf(
            kind="ASSIGN_VARIABLE", inputs=[1, last], outputs=[], options="AssignVariableOptions"
        )
    )
    results = [2, last]
    if random.random() < 0.5:
        tensors.append(TensorOf(name="again", shape=shape))
        place = len(tensors) - 1
        operators.append(
            OperatorOf(
                kind="READ_VARIABLE", inputs=[1], outputs=[place], options="ReadVariableOptions"
            )
        )
        results.append(place)
    start = random.standard_normal(shape).astype(np.float32)
    once = GraphOf(
        tensors=[tensors[1], TensorOf(name="start", shape=shape, data=start)],
        operators=[
            OperatorOf(**{**handle.__dict__, "outputs": [0]}),
            OperatorOf(
                kind="ASSIGN_VARIABLE", inputs=[0, 1], outputs=[], options="AssignVariableOptions"
            ),
        ],
        inputs=[],
        outputs=[],
    )
    return model_of(tensors, operators, [0], results, others=[once])


def _opened(content: bytes) -> Any:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    interpreter = Interpreter(
        model_content=content, experimental_op_resolver_type=OpResolverType.BUILTIN_REF
    )
    interpreter.allocate_tensors()
    return interpreter


def _of_litert(content: bytes, model: SourceModel, calls: Sequence[Arrays]) -> list[Arrays]:
    """One interpreter for all calls: it remembers by itself."""
    interpreter = _opened(content)
    places = {d["name"]: d["index"] for d in interpreter.get_input_details()}
    states = {state.output for state in model.states}
    names = [value.name for value in model.outputs if value.name not in states]
    results = [d["index"] for d in interpreter.get_output_details()]
    found = []
    for inputs in calls:
        for name, array in inputs.items():
            interpreter.set_tensor(places[name], array)
        interpreter.invoke()
        found.append({
            name: interpreter.get_tensor(place).copy()
            for name, place in zip(names, results, strict=True)
        })  # fmt: skip
    return found


def _interpreted(model: SourceModel, calls: Sequence[Arrays]) -> list[Arrays]:
    held = {state.input: state.initial for state in model.states}
    found = []
    for inputs in calls:
        results = ex.interpret(model, {**inputs, **held})
        held = {state.input: np.asarray(results[state.output]) for state in model.states}
        found.append(results)
    return found


def _compiled(model: SourceModel, calls: Sequence[Arrays], device: str) -> list[Arrays]:
    """A program that remembers by itself."""
    executable = compile_model(model, TARGETS[device]).open(isolated=False, remembers=True)
    try:
        return [dict(executable.run(dict(inputs))) for inputs in calls]
    finally:
        executable.close()


def _require(
    operator: str,
    dtype: str,
    found: Sequence[Arrays],
    expected: Sequence[Arrays],
    calls: Sequence[Arrays],
) -> None:

    for number, (ours, right) in enumerate(zip(found, expected, strict=True)):
        try:
            require_same(ours, right)
        except AssertionError as error:
            lists = [[np.asarray(ours[name]) for name in right], list(right.values())]
            given = {str(place): call for place, call in enumerate(calls)}
            inputs = {f"{p}.{n}": a for p, call in given.items() for n, a in call.items()}
            pair = Pair(operator, dtype)
            entries = entries_for(pair, disagreements(), inputs, "tflite")
            why = first_reason(entries, lists[0], lists[1], "float32")
            if why:
                raise DocumentedError(why) from None
            raise OtherNumbersError(f"call {number}: {error}", ours, right) from None
