"""PyTorch in a child process, which runs the graph that our own reader made of a file.

    with open_graph(model) as opened:
        opened.run({"x": image}, ["relu", "linear"])

It is the package `torch`, of the extra `pytorch`, and is never imported here. No file reaches it:
weights are sent as bytes, calls as names and numbers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any  # JSON

import numpy as np

from explorer.errors import ModelError
from explorer.importers.model import SourceModel
from explorer.importers.pytorch.file.program import (
    Argument,
    Call,
    ElementType,
    Graph,
    Ref,
    Word,
)
from explorer.importers.pytorch.file.reading import PytorchContent
from explorer.importers.pytorch.operators.register import is_known
from explorer.references.process import IDLE_SECONDS, ReferenceProcess
from explorer.references.reference_session import ReferenceSession

NAME = "PyTorch"
PACKAGE = "torch"
PROGRAM = Path(__file__).parent / "torch_process.py"
EXTRA = "nn-compiler-explorer[pytorch]"
_ALIGNMENT_BYTES = 64


def torch_version() -> str:
    """Empty where it is not installed."""
    try:
        return version(PACKAGE)
    except PackageNotFoundError:
        return ""


def open_graph(
    model: SourceModel,
    *,
    threads: int = 1,
    compiles: bool = False,
    process: ReferenceProcess | None = None,
) -> ReferenceSession:
    """Sends a graph. ModelError where PyTorch is not installed, or a call is none that is run.

    compiles: what is timed is what `torch.compile` makes of it."""
    content = content_of(model)
    file = "" if model.path is None else str(model.path)
    if find_spec(PACKAGE) is None:
        raise ModelError(
            f"{NAME} is not installed (pip install {EXTRA!r})",
            file=file,
            hint="without it, give --golden FILE.npz, or --golden imported",
        )
    content_bytes, constants = _joined(model.constants)
    steps = zip(content.graph.calls, content.steps, strict=True)
    tensors = {version: n for step in content.steps for version, n in step.tensors.items()}
    request = {
        "do": "open",
        "threads": threads,
        "compiles": compiles,
        "constants": constants,
        "inputs": [value.name for value in model.inputs],
        "complexes": sorted(
            content.complexes & {*model.constants, *(v.name for v in model.inputs)}
        ),
        "numbers": [v.name for v in model.inputs if v.name not in content.graph.types],
        "calls": [[*_described_call(call, file), dict(step.tensors)] for call, step in steps],
        "shown": {tensors.get(v.name, v.name): v.element_type for v in model.outputs},
    }
    chosen = shared_process() if process is None else process
    return ReferenceSession(chosen, request, content_bytes, model.name, file)


def open_alone(model: SourceModel, *, threads: int = 1, compiles: bool = False) -> ReferenceSession:
    """As `open_graph`, in a child of its own, which ends when the graph is closed."""
    process = ReferenceProcess(NAME, PROGRAM)
    try:
        opened = open_graph(model, threads=threads, compiles=compiles, process=process)
    except BaseException:
        process.close()
        raise
    opened.owns_process = True
    return opened


def content_of(model: SourceModel) -> PytorchContent:
    if not isinstance(model.content, PytorchContent):
        raise ModelError(f"{NAME} judges no {model.format}")
    return model.content


def _joined(constants: Mapping[str, np.ndarray]) -> tuple[bytes, dict[str, Any]]:
    """All weights behind one another, and where each begins."""
    content = bytearray()
    places: dict[str, Any] = {}
    for name, array in constants.items():
        content.extend(bytes(-len(content) % _ALIGNMENT_BYTES))
        places[name] = [len(content), array.dtype.name, list(array.shape)]
        content.extend(np.ascontiguousarray(array).tobytes())
    return bytes(content), places


def _described_call(call: Call, file: str) -> list[Any]:
    if not is_known(call):
        raise ModelError(f"{NAME} is not asked for {call.target}", file=file, node=call.name)
    target = call.target
    if target.startswith("aten.") and target.count(".") == 1:
        target = f"{target}.default"
    arguments = {name: described(a, file) for name, a in call.arguments.items()}
    return [target, arguments, list(call.results)]


def described(argument: Argument, file: str) -> Any:
    """An argument as JSON."""
    if isinstance(argument, Ref):
        return {"ref": argument.name}
    if isinstance(argument, ElementType):
        return {"dtype": argument.name}
    if isinstance(argument, Word):
        kind, _, number = argument.text.partition("=")
        return {kind: int(number)} if number.isdigit() else {"device": "cpu"}
    if isinstance(argument, Graph):
        calls: Sequence[Any] = [[*_described_call(call, file), {}] for call in argument.calls]
        outputs = [described(output, file) for output in argument.outputs]
        return {"graph": {"inputs": list(argument.inputs), "calls": calls, "outputs": outputs}}
    if isinstance(argument, tuple):
        return [described(part, file) for part in argument]
    if isinstance(argument, complex):
        return {"complex": [argument.real, argument.imag]}
    return argument


def shared_process() -> ReferenceProcess:
    """The child that this process shares. It ends by itself when nobody asks for a while."""
    return _shared_process(os.getpid())


@lru_cache(maxsize=1)
def _shared_process(process_id: int) -> ReferenceProcess:
    """One for each process: a fork has none of its parent's."""
    return ReferenceProcess(NAME, PROGRAM, idle_seconds=IDLE_SECONDS)
