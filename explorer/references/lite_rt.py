"""LiteRT and TFLite Micro, each in a child process.

    with open_model(model, kernels="reference") as opened:    every tensor, by the reference kernels
        opened.run({"image": image}, ["conv1_out"])

    with open_alone(model, threads=2) as opened:            as its users run it, with XNNPACK
        opened.time({"image": image}, least=3, budget_seconds=0.02)

They are the packages `ai-edge-litert` and `tflite-micro`, of the extra `tflite`. They are never
imported here: models of strangers may end the process that opens them.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import numpy as np

from explorer.errors import ModelError
from explorer.importers.model import SourceModel
from explorer.importers.tflite.file.contents import Tensor, TfliteContent
from explorer.references.process import IDLE_SECONDS, Limits, ReferenceProcess
from explorer.references.reference_session import ReferenceSession

Kernels = Literal["reference", "optimized", "xnnpack"]
EXTRA = "nn-compiler-explorer[tflite]"


@dataclass(frozen=True)
class Program:
    """One that runs TFLite models."""

    name: str
    package: str
    module: str
    path: Path

    @property
    def version(self) -> str:
        """Empty where it is not installed."""
        try:
            return version(self.package)
        except PackageNotFoundError:
            return ""

    @property
    def named(self) -> str:
        return " ".join(filter(None, (self.name, self.version)))

    def require(self, file: str) -> None:
        """ModelError where it is not installed."""
        if find_spec(self.module) is None:
            raise ModelError(
                f"{self.name} is not installed (pip install {EXTRA!r})",
                file=file,
                hint="without it, give --golden FILE.npz, or --golden imported",
            )


_HERE = Path(__file__).parent
LITE_RT = Program("LiteRT", "ai-edge-litert", "ai_edge_litert", _HERE / "lite_rt_process.py")
MICRO = Program("TFLite Micro", "tflite-micro", "tflite_micro", _HERE / "tflite_micro_process.py")
NO_ARRAYS = ("string", "resource", "variant")
"""Element types of tensors that a child cannot show."""
MIN_ARENA_BYTES = 16 << 20
ARENA_SHARE = 4
"""Of the bytes of all tensors, which an arena has room for: it holds what kernels prepare, too."""


def open_model(
    model: SourceModel,
    *,
    kernels: Kernels = "xnnpack",
    threads: int = 1,
    process: ReferenceProcess | None = None,
) -> ReferenceSession:
    """Loads a model. ModelError where LiteRT is not installed or does not load it.

    `kernels`: those that are written for clarity (`reference`) or for speed (`optimized`), with all
    tensors kept; or `xnnpack`, which users get, and which shows outputs only.
    """
    content = content_of(model)
    file = "" if model.path is None else str(model.path)
    LITE_RT.require(file)
    main = content.main
    request = {
        "do": "open",
        "kernels": kernels,
        "threads": threads,
        "inputs": {t.name: t.index for t in main.inputs},
        "states": _settable(content),
        "outputs": {name: t.index for name, t in _shown(content, kernels != "xnnpack").items()},
    }
    chosen = shared_process(LITE_RT) if process is None else process
    return ReferenceSession(chosen, request, bytes(content.file), model.name, file)


def open_micro(model: SourceModel) -> ReferenceSession:
    """As `open_model` with the reference kernels, in TFLite Micro."""
    content = content_of(model)
    file = "" if model.path is None else str(model.path)
    MICRO.require(file)
    tensors = [t for graph in content.subgraphs for t in graph.tensors]
    whole = sum(math.prod(t.shape) * _most_bytes(t) for t in tensors)
    request = {
        "do": "open",
        "arena_bytes": min(max(ARENA_SHARE * whole, MIN_ARENA_BYTES), Limits().bytes),
        "inputs": [t.name for t in content.main.inputs],
        "outputs": {name: [t.index, list(t.shape)] for name, t in _shown(content, True).items()},
    }
    return ReferenceSession(shared_process(MICRO), request, bytes(content.file), model.name, file)


def _settable(content: TfliteContent) -> dict[str, int]:
    """Places of the states that a program can be given: variable tensors."""
    states = content.states
    names = [s.input for s in states.found if s.input not in states.resources]
    return {name: states.tensors[name].index for name in names}


def _shown(content: TfliteContent, is_all: bool) -> dict[str, Tensor]:
    """Tensors that can be read, by name: of all operators, or outputs."""
    states = content.states
    shown = {t.name: t for t in content.main.outputs}
    shown |= {state.output: states.tensors[state.output] for state in states.found}
    if is_all:
        for operator in content.main.operators:
            flow = states.flows[operator.name]
            shown |= dict(zip(flow.outputs, flow.results, strict=True))
    return {name: t for name, t in shown.items() if t.element_type not in NO_ARRAYS}


def check_states(model: SourceModel, inputs: Mapping[str, np.ndarray], is_settable: bool) -> None:
    """ModelError for contents of a state that the program cannot be given."""
    content = content_of(model)
    for state in model.states:
        given = inputs.get(state.input)
        is_fixed = not is_settable or state.input in content.states.resources
        if given is None or state.initial is None:
            continue
        if is_fixed and not np.array_equal(given, state.initial):
            raise ModelError(
                f"the state {state.input!r} cannot be given to the program that judges",
                hint="leave it as it is at first",
            )


def content_of(model: SourceModel) -> TfliteContent:
    if not isinstance(model.content, TfliteContent):
        raise ModelError(f"{LITE_RT.name} reads no {model.format}")
    return model.content


def _most_bytes(tensor: Tensor) -> int:
    return 8 if tensor.element_type in ("int64", "float64", "uint64") else 4


def open_alone(model: SourceModel, *, threads: int = 1) -> ReferenceSession:
    """As `open_model`, in a child of its own, which ends when the model is closed."""
    process = own_process()
    try:
        opened = open_model(model, threads=threads, process=process)
    except BaseException:
        process.close()
        raise
    opened.owns_process = True
    return opened


def own_process(limits: Limits | None = None) -> ReferenceProcess:
    """A child for one model that stays open."""
    return ReferenceProcess(LITE_RT.name, LITE_RT.path, limits)


def shared_process(program: Program) -> ReferenceProcess:
    """The child that this process shares. It ends by itself when nobody asks for a while."""
    return _shared_process(program, os.getpid())


@lru_cache(maxsize=2)
def _shared_process(program: Program, process_id: int) -> ReferenceProcess:
    """One for each process: a fork has none of its parent's."""
    return ReferenceProcess(program.name, program.path, idle_seconds=IDLE_SECONDS)
