"""onnxruntime in a child process.

    with open_model(model, is_optimized=False) as opened:      the oracle: every node as it is
        opened.run({"image": image}, ["logits"])

    with open_model(model, threads=2, sizes={"batch": 1}, process=own_process()) as opened:
        opened.time({"image": image}, least=3, budget_seconds=0.02)

Without a process of its own a model is opened in the one that this process shares between all
that asks for a reference: starting one takes a third of a second. It holds one model at a time.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import numpy as np
from onnx import GraphProto, ModelProto

from explorer.errors import ModelError
from explorer.importers.model import SourceModel
from explorer.importers.onnx.file.reading import OnnxContent
from explorer.references.process import IDLE_SECONDS, Limits, ReferenceProcess
from explorer.references.saturation import with_unsigned_weights

NAME = "onnxruntime"
PROGRAM = Path(__file__).with_name("onnx_runtime_process.py")
NEWEST_FORMAT = 10
"""The file format's version (`ir_version`) that every onnxruntime from 1.18 on reads. Newer ones
only add element types, which onnxruntime refuses by themselves where it has none of them."""


class OpenedOnnxModel:
    """A model in a child, which nobody else asks until it is closed (`interface.OpenedModel`)."""

    name = NAME

    def __init__(self, process: ReferenceProcess, request: dict[str, Any], model: bytes,
                 label: str, file: str) -> None:  # fmt: skip
        """`label`: the model's name in messages; `file`: its path, empty where it has none."""
        self._process = process
        self._label, self._file = label, file
        self._sent: Mapping[str, np.ndarray] | None = None
        self._end: ModelError | None = None
        process.claim()
        try:
            process.forget_ended()
            process.exchange.clear()
            opened = self._ask({**request, "model": process.exchange.put(model)}, "load")
        except BaseException:
            process.release()
            raise
        self.inputs: tuple[str, ...] = tuple(opened["inputs"])
        self.outputs: dict[str, str] = dict(opened["outputs"])
        """onnxruntime's types of the outputs by name: `tensor(float)`."""
        self._is_open = True
        self.owns_process = False
        """Whether the child ends with the model."""

    @property
    def is_alive(self) -> bool:
        return self._end is None

    def run(
        self, inputs: Mapping[str, np.ndarray], outputs: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """Outputs by name: arrays, or what else ONNX has. ModelError where that fails."""
        names = list(self.outputs if outputs is None else outputs)
        exchange = self._process.exchange
        request = {"do": "run", "inputs": self._put(inputs), "outputs": names}
        values = self._ask(request, "run")["values"]
        try:
            return {name: exchange.take(v) for name, v in zip(names, values, strict=True)}
        finally:
            exchange.clear()

    def time(
        self, inputs: Mapping[str, np.ndarray], least: int, budget_seconds: float
    ) -> list[float]:
        request = {"do": "time", "least": least, "budget_seconds": budget_seconds}
        return self._ask({**request, "inputs": self._put(inputs)}, "run")["seconds"]

    def close(self) -> None:
        """The child forgets the model, and may be asked by others."""
        if not self._is_open:
            return
        self._is_open = False
        try:
            self._process.leave()
        finally:
            self._process.release()
            if self.owns_process:
                self._process.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *of_error: object) -> None:
        self.close()

    def _put(self, inputs: Mapping[str, np.ndarray]) -> dict[str, Any] | None:
        """None where the child has them already."""
        if inputs is self._sent:
            return None
        self._process.exchange.clear()
        described = self._process.put_all(inputs)
        self._sent = inputs
        return described

    def _ask(self, request: dict[str, Any], doing: str) -> Any:
        if self._end is not None:  # the next child has never seen the model
            raise self._end
        try:
            return self._process.ask(request, doing, self._label, self._file)
        except ModelError as error:
            if not self._process.is_running:
                self._end = error
            self._sent = None
            raise


def open_model(
    model: SourceModel,
    *,
    is_optimized: bool = True,
    is_exact: bool = False,
    threads: int = 1,
    sizes: Mapping[str, int] | None = None,
    addition: GraphProto | None = None,
    process: ReferenceProcess | None = None,
) -> OpenedOnnxModel:
    """Loads a model. ModelError where onnxruntime does not load it.

    `is_exact`: an optimized model's products of bytes are right on every processor, which is not
    onnxruntime's default (`saturation`), and slower on some.
    `sizes`: of symbolic dimensions, known beforehand. `addition`: nodes and outputs that the graph
    gets in addition. They are appended to the serialized model: by protobuf's rules that merges
    both messages, so that no copy of the model is made and no type needs to be known.
    """
    content = model.content
    if not isinstance(content, OnnxContent):
        raise ModelError(f"onnxruntime reads no {model.format}")
    return open_proto(
        content.proto,
        model.name,
        "" if model.path is None else str(model.path),
        content.folder,
        is_optimized=is_optimized,
        is_exact=is_exact,
        threads=threads,
        sizes=sizes,
        addition=addition,
        process=process,
    )


def open_proto(
    proto: ModelProto,
    label: str,
    file: str = "",
    folder: Path | None = None,
    *,
    is_optimized: bool = True,
    is_exact: bool = False,
    threads: int = 1,
    sizes: Mapping[str, int] | None = None,
    addition: GraphProto | None = None,
    process: ReferenceProcess | None = None,
) -> OpenedOnnxModel:
    """As `open_model`, of a model that was made here. `label` stands in messages; `folder` holds
    its external data. A model that is to judge, not optimized, has unsigned weights where products
    of bytes would saturate on some processors (`saturation`).
    """
    if not is_optimized:
        proto = with_unsigned_weights(proto)
    request = {
        "do": "open",
        "folder": "" if folder is None else str(folder.resolve()),
        "is_optimized": is_optimized,
        "is_exact": is_exact,
        "threads": threads,
        "sizes": dict(sizes or {}),
    }
    return OpenedOnnxModel(
        shared_process() if process is None else process,
        request,
        _serialized(proto, addition, file),
        label,
        file,
    )


def open_alone(
    model: SourceModel,
    *,
    threads: int = 1,
    is_exact: bool = False,
    sizes: Mapping[str, int] | None = None,
) -> OpenedOnnxModel:
    """As `open_model`, in a child of its own, which ends when the model is closed."""
    process = own_process()
    try:
        opened = open_model(model, is_exact=is_exact, threads=threads, sizes=sizes, process=process)
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


def _serialized(proto: ModelProto, addition: GraphProto | None, file: str) -> bytes:
    """The model with what is appended. A format that is newer than onnxruntime reads is called an
    older one in the same way."""
    newest = min(proto.ir_version, NEWEST_FORMAT)
    try:
        return (
            proto.SerializeToString()
            + ModelProto(graph=addition, ir_version=newest).SerializeToString()
        )
    except ValueError as error:  # 2 GiB and more
        raise ModelError(f"onnxruntime cannot load the model: {error}", file=file) from error
