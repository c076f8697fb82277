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
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from onnx import GraphProto, ModelProto

from explorer.errors import ModelError
from explorer.importers.model import SourceModel
from explorer.importers.onnx.file.reading import OnnxContent
from explorer.references.process import IDLE_SECONDS, Limits, ReferenceProcess
from explorer.references.reference_session import ReferenceSession
from explorer.references.saturation import with_exact_rows, with_unsigned_weights

NAME = "onnxruntime"
PROGRAM = Path(__file__).with_name("onnx_runtime_process.py")
NEWEST_FORMAT = 10
"""The file format's version (`ir_version`) that every onnxruntime from 1.18 on reads. Newer ones
only add element types, which onnxruntime refuses by themselves where it has none of them."""


def open_model(
    model: SourceModel,
    *,
    is_optimized: bool = True,
    is_exact: bool = False,
    threads: int = 1,
    sizes: Mapping[str, int] | None = None,
    addition: GraphProto | None = None,
    process: ReferenceProcess | None = None,
) -> ReferenceSession:
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
) -> ReferenceSession:
    """As `open_model`, of a model that was made here. `label` stands in messages; `folder` holds
    its external data. A model that is to judge, not optimized, has unsigned weights where products
    of bytes would saturate on some processors, and exact rows (`saturation`).
    """
    if not is_optimized:
        proto = with_exact_rows(with_unsigned_weights(proto))
    request = {
        "do": "open",
        "folder": "" if folder is None else str(folder.resolve()),
        "is_optimized": is_optimized,
        "is_exact": is_exact,
        "threads": threads,
        "sizes": dict(sizes or {}),
    }
    return ReferenceSession(
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
) -> ReferenceSession:
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
