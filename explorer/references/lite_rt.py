"""LiteRT in a child process.

    with open_model(model, is_reference=True) as opened:    every tensor, by the reference kernels
        opened.run({"image": image}, ["conv1_out"])

    with open_alone(model, threads=2) as opened:            as its users run it, with XNNPACK
        opened.time({"image": image}, least=3, budget_seconds=0.02)

LiteRT is the package `ai-edge-litert`, of the extra `tflite`. It is never imported here: models of
strangers may end the process that opens them.
"""

from __future__ import annotations

import os
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from explorer.errors import ModelError
from explorer.importers.model import SourceModel
from explorer.importers.tflite.file.contents import TfliteContent
from explorer.references.opened import OpenedInChild
from explorer.references.process import IDLE_SECONDS, Limits, ReferenceProcess

NAME = "LiteRT"
PACKAGE = "ai-edge-litert"
PROGRAM = Path(__file__).with_name("lite_rt_process.py")
NO_ARRAYS = ("string", "resource", "variant")
"""Element types of tensors that a child cannot show."""


def installed_version() -> str:
    """Of LiteRT; empty where it is not installed."""
    try:
        return version(PACKAGE)
    except PackageNotFoundError:
        return ""


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
    content = model.content
    if not isinstance(content, TfliteContent):
        raise ModelError(f"{NAME} reads no {model.format}")
    file = "" if model.path is None else str(model.path)
    if find_spec("ai_edge_litert") is None:
        raise ModelError(
            f"{NAME} is not installed",
            file=file,
            hint='pip install "nn-compiler-explorer[tflite]"',
        )
    main = content.main
    shown = [t for o in main.operators for t in o.outputs] if is_reference else list(main.outputs)
    request = {
        "do": "open",
        "is_reference": is_reference,
        "threads": threads,
        "inputs": {t.name: t.index for t in main.inputs},
        "outputs": {t.name: t.index for t in shown if t.element_type not in NO_ARRAYS},
    }
    chosen = shared_process() if process is None else process
    return OpenedInChild(chosen, request, bytes(content.file), model.name, file)


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
    return ReferenceProcess(NAME, PROGRAM, limits)


def shared_process() -> ReferenceProcess:
    """The child that this process shares. It ends by itself when nobody asks for a while."""
    return _shared_process(os.getpid())


@lru_cache(maxsize=1)
def _shared_process(process_id: int) -> ReferenceProcess:
    """One for each process: a fork has none of its parent's."""
    return ReferenceProcess(NAME, PROGRAM, idle_seconds=IDLE_SECONDS)
