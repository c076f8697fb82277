"""A random model on the interpreter, in C, in OpenCL C and in onnxruntime: do the numbers agree?

    compare_seed(7, ("INTERPRETER", "CPU"))
    -> {"status": "agreed", "operators": ["Conv", "Relu"], "devices": {"CPU": "agreed", ...}}

A disagreement is a defect of one side; the model is written out with its inputs. What the importer
refuses by name, and what onnxruntime refuses, is counted and is none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from explorer.compilation import compile_model
from explorer.errors import InputError, UnsupportedError
from explorer.importers import to_top
from explorer.importers.arrays import read_arrays
from explorer.importers.onnx import from_proto
from explorer.ir.evaluation import outputs_by_name
from explorer.ir.program import Snapshot
from explorer.onnx_backend.backend import TARGETS, Opener, Representation
from explorer.runtime.child import Answer
from verification.conformance.oracle import OracleRepresentation
from verification.random_models.generation import Generated, generate

AGREED, DIFFERS, REFUSED, REJECTED, FAILED = "agreed", "differs", "refused", "rejected", "failed"
STATUSES = {
    AGREED: "same shapes, types and numbers as onnxruntime",
    REFUSED: "the importer or a lowering says by name what it does not know",
    REJECTED: "onnxruntime does not run the model",
    DIFFERS: "another shape, type or number than onnxruntime",
    FAILED: "an error that was not foreseen",
}
DEFECTS = (DIFFERS, FAILED, "crashed", "hung", "finding")

TOLERANCES = {"float64": 1e-9, "float32": 5e-5, "float16": 1e-2, "bfloat16": 8e-2}
"""Largest |a - b| / max|b| of a tensor. A few nodes in another order of summation cost some units
in the last place (2e-16, 1.2e-7, 1e-3, 8e-3); exp and its like multiply that by their argument."""


def compare_seed(
    seed: int,
    devices: Sequence[str],
    open_program: Opener,
    folder: Path | None = None,
) -> Answer:
    """Generates the model of a seed and compares every device with onnxruntime.

    Models with a defect are written to `folder` as SEED.onnx and SEED.npz. They are written before
    they are tried, in case this process does not live to say what happened.
    """
    generated = generate(seed)
    kept = () if folder is None else (folder / f"{seed}.onnx", folder / f"{seed}.npz")
    if kept:
        model, inputs = kept
        onnx.save(generated.model, model)
        np.savez(inputs, **generated.inputs)  # pyright: ignore[reportArgumentType]
    answer = _compared(generated, seed, devices, open_program)
    if answer["status"] not in DEFECTS:
        for path in kept:
            path.unlink()
    return answer


def compare_files(
    model: Path, inputs: Path, seed: int, devices: Sequence[str], open_program: Opener
) -> Answer:
    """As `compare_seed`, of what is left of a seed's model: its outputs are as coarse as the
    coarsest of the whole model's."""
    left = onnx.load(model)
    whole = generate(seed).precisions.values()
    coarsest = max(whole, key=lambda name: TOLERANCES.get(name, 0.0), default="")
    precisions = {output.name: coarsest for output in left.graph.output}
    generated = Generated(seed, left, read_arrays(inputs), precisions, {})
    return _compared(generated, seed, devices, open_program)


def _compared(
    generated: Generated, seed: int, devices: Sequence[str], open_program: Opener
) -> Answer:
    answer: Answer = {
        "seed": seed,
        "operators": list(generated.operators),
        "types": [f"{n} {t}" for n, t in sorted(generated.types())],
        "devices": {},
    }
    try:
        expected = _outputs(generated, OracleRepresentation(generated.model).run)
    except Exception as error:  # whatever onnxruntime raises
        return {**answer, "status": REJECTED, "reason": _line(error)}
    for device in devices:
        answer["devices"][device] = _verdict(generated, device, open_program, expected)
    verdicts = list(answer["devices"].values())
    worst = next((v for v in verdicts if v[0] in DEFECTS), next(iter(verdicts)))
    return answer | {"status": worst[0], "reason": worst[1]}


def _verdict(
    generated: Generated, device: str, open_program: Opener, expected: list[np.ndarray]
) -> tuple[str, str]:
    """(status, reason) of one device."""
    try:
        if generated.is_symbolic:
            actual = _symbolic_outputs(generated, device, open_program)
        else:
            representation = Representation(generated.model, device, open_program)
            try:
                actual = _outputs(generated, representation.run)
            finally:
                representation.close()
    except UnsupportedError as error:
        return REFUSED, _line("; ".join(error.problems) or error.message)
    except InputError as error:
        # A size for which the program does not hold, as its constraints say.
        return REFUSED if generated.is_symbolic else FAILED, _line(error)
    except Exception as error:  # a defect is the result here
        return FAILED, _line(f"{type(error).__name__}: {error}")
    names = [output.name for output in generated.model.graph.output]
    for name, a, b in zip(names, actual, expected, strict=True):
        problem = difference(a, b, generated.precisions.get(name, ""))
        if problem:
            return DIFFERS, f"{device}: {name}: {problem}"
    return AGREED, ""


def _outputs(generated: Generated, run: Callable[[Any], tuple[Any, ...]]) -> list[np.ndarray]:
    names = [i.name for i in generated.model.graph.input]
    with np.errstate(all="ignore"):
        return [np.asarray(o) for o in run([generated.inputs[n] for n in names])]


def _symbolic_outputs(generated: Generated, device: str, open_program: Opener) -> list[np.ndarray]:
    """Outputs of a model that is imported with names for sizes, and not made for its inputs."""
    source = from_proto(generated.model)
    names = [i.name for i in generated.model.graph.output]
    if device == "INTERPRETER":
        snapshot = Snapshot(*to_top(source))
        outputs = outputs_by_name(snapshot.program, snapshot.run(generated.inputs))
        return [outputs[name] for name in names]
    compilation = compile_model(source, TARGETS[device], dimensions=generated.sizes)
    executable = open_program(compilation)
    try:
        outputs = executable.run(generated.inputs)
    finally:
        executable.close()
    return [outputs[name] for name in names]


def difference(actual: np.ndarray, expected: np.ndarray, precision: str = "") -> str:
    """What is not the same; empty where everything is. `precision`: the coarsest type before it."""
    if (actual.shape, actual.dtype) != (expected.shape, expected.dtype):
        return (
            f"{actual.dtype} of shape {actual.shape} instead of {expected.dtype} of shape "
            f"{expected.shape}"
        )
    tolerance = TOLERANCES.get(expected.dtype.name)
    tolerance = tolerance and max(tolerance, TOLERANCES.get(precision, 0.0))
    if tolerance is None:
        count = int(np.sum(actual != expected))
        return f"{count} of {expected.size} elements differ" if count else ""
    a, b = actual.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(b)
    if (
        not np.array_equal(a[~finite], b[~finite], equal_nan=True)
        or not np.isfinite(a[finite]).all()
    ):
        return "infinities or NaN stand elsewhere"
    if not finite.any():
        return ""
    error = np.abs(a[finite] - b[finite]).max()
    relative = float(error / max(np.abs(b[finite]).max(), 1e-3))
    return f"max relative {relative:.1e}" if relative > tolerance else ""


def _line(error: object) -> str:
    return " ".join(str(error).split())[:300]
