"""LiteRT and TFLite Micro, each in a child process.

    with open_model(model, is_reference=True) as opened:    every tensor, by the reference kernels
        opened.run({"image": image}, ["conv1_out"])

    with open_alone(model, threads=2) as opened:            as its users run it, with XNNPACK
        opened.time({"image": image}, least=3, budget_seconds=0.02)

They are the packages `ai-edge-litert` and `tflite-micro`, of the extra `tflite`. They are never
imported here: models of strangers may end the process that opens them.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from explorer.errors import ModelError
from explorer.importers.model import SourceModel
from explorer.importers.tflite.file.contents import Tensor, TfliteContent
from explorer.references.opened import OpenedInChild
from explorer.references.process import IDLE_SECONDS, Limits, ReferenceProcess


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
                f"{self.name} is not installed",
                file=file,
                hint='pip install "nn-compiler-explorer[tflite]"',
            )


_HERE = Path(__file__).parent
LITE_RT = Program("LiteRT", "ai-edge-litert", "ai_edge_litert", _HERE / "lite_rt_process.py")
MICRO = Program("TFLite Micro", "tflite-micro", "tflite_micro", _HERE / "tflite_micro_process.py")
NO_ARRAYS = ("string", "resource", "variant")
"""Element types of tensors that a child cannot show."""
LEAST_ARENA_BYTES = 16 << 20
ARENA_SHARE = 4
"""Of the bytes of all tensors, which an arena has room for: it holds what kernels prepare, too."""


def open_model(
    model: SourceModel,
    *,
    is_reference: bool = False,
    threads: int = 1,
    process: ReferenceProcess | None = None,
) -> OpenedInChild:
    """Loads a model. ModelError where LiteRT is not installed or does not load it.

    `is_reference`: with the reference kernels, and all tensors kept; else the kernels that users
    get, which show outputs only.
    """
    content = content_of(model)
    file = "" if model.path is None else str(model.path)
    LITE_RT.require(file)
    main = content.main
    shown = [t for o in main.operators for t in o.outputs] if is_reference else list(main.outputs)
    request = {
        "do": "open",
        "is_reference": is_reference,
        "threads": threads,
        "inputs": {t.name: t.index for t in main.inputs},
        "outputs": {t.name: t.index for t in shown if t.element_type not in NO_ARRAYS},
    }
    chosen = shared_process(LITE_RT) if process is None else process
    return OpenedInChild(chosen, request, bytes(content.file), model.name, file)


def open_micro(model: SourceModel) -> OpenedInChild:
    """As `open_model` with the reference kernels, in TFLite Micro."""
    content = content_of(model)
    file = "" if model.path is None else str(model.path)
    MICRO.require(file)
    tensors = [t for graph in content.subgraphs for t in graph.tensors]
    whole = sum(math.prod(t.shape) * _most_bytes(t) for t in tensors)
    shown = [t for o in content.main.operators for t in o.outputs]
    request = {
        "do": "open",
        "arena_bytes": min(max(ARENA_SHARE * whole, LEAST_ARENA_BYTES), Limits().bytes),
        "inputs": [t.name for t in content.main.inputs],
        "outputs": {
            t.name: [t.index, list(t.shape)] for t in shown if t.element_type not in NO_ARRAYS
        },
    }
    return OpenedInChild(shared_process(MICRO), request, bytes(content.file), model.name, file)


def content_of(model: SourceModel) -> TfliteContent:
    if not isinstance(model.content, TfliteContent):
        raise ModelError(f"{LITE_RT.name} reads no {model.format}")
    return model.content


def _most_bytes(tensor: Tensor) -> int:
    return 8 if tensor.element_type in ("int64", "float64", "uint64") else 4


def open_alone(model: SourceModel, *, threads: int = 1) -> OpenedInChild:
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
