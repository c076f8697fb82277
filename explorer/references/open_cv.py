"""OpenCV's dnn module in a child process, which reads Caffe nets up to OpenCV 4.

    with open_net(model, {"data": (1, 3, 24, 24)}) as opened:
        opened.run({"data": image}, ["conv1", "prob1"])

It is the package `opencv-python-headless`, of the extra `caffe`, and is never imported here: files
of strangers may end the process that opens them. OpenCV gets the files as they are; of a net for
training, which it does not read, the layers that are left of it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from explorer.errors import ModelError
from explorer.importers.caffe.file.reading import CaffeContent
from explorer.importers.model import SourceModel
from explorer.references.process import IDLE_SECONDS, ReferenceProcess
from explorer.references.reference_session import ReferenceSession

NAME = "OpenCV"
PACKAGE = "opencv-python-headless"
PROGRAM = Path(__file__).parent / "open_cv_process.py"
EXTRA = "nn-compiler-explorer[caffe]"


def open_cv_version() -> str:
    """Empty where it is not installed."""
    try:
        return version(PACKAGE)
    except PackageNotFoundError:
        return ""


def require(file: str) -> None:
    """ModelError where OpenCV is not installed."""
    if find_spec("cv2") is None:
        raise ModelError(
            f"{NAME} is not installed (pip install {EXTRA!r})",
            file=file,
            hint="without it, give --golden FILE.npz, or --golden imported",
        )


def open_net(
    model: SourceModel,
    sizes: Mapping[str, tuple[int, ...]],
    *,
    threads: int = 1,
    is_exact: bool = False,
    process: ReferenceProcess | None = None,
) -> ReferenceSession:
    """Loads a net whose inputs have these sizes. ModelError where OpenCV is not installed or does
    not load it. `is_exact`: every layer by itself, none fused with others."""
    content = content_of(model)
    file = "" if model.path is None else str(model.path)
    require(file)
    network = content.network
    request = {
        "do": "open",
        "text": network.text(dict(sizes)) if network.is_reduced else content.text,
        "threads": threads,
        "is_exact": is_exact,
        "inputs": list(network.inputs),
        "outputs": {
            name: [flow.layer.name, flow.layer.tops[index], index]
            for flow in content.flows
            for index, name in enumerate(flow.outputs)
        },
        "shown": [value.name for value in model.outputs],
    }
    chosen = shared_process() if process is None else process
    return ReferenceSession(chosen, request, bytes(content.weights), model.name, file)


def open_alone(
    model: SourceModel,
    sizes: Mapping[str, tuple[int, ...]],
    *,
    threads: int = 1,
    is_exact: bool = False,
) -> ReferenceSession:
    """As `open_net`, in a child of its own, which ends when the net is closed."""
    process = ReferenceProcess(NAME, PROGRAM)
    try:
        opened = open_net(model, sizes, threads=threads, is_exact=is_exact, process=process)
    except BaseException:
        process.close()
        raise
    opened.owns_process = True
    return opened


def content_of(model: SourceModel) -> CaffeContent:
    if not isinstance(model.content, CaffeContent):
        raise ModelError(f"{NAME} judges no {model.format}")
    return model.content


def shared_process() -> ReferenceProcess:
    """The child that this process shares. It ends by itself when nobody asks for a while."""
    return _shared_process(os.getpid())


@lru_cache(maxsize=1)
def _shared_process(process_id: int) -> ReferenceProcess:
    """One for each process: a fork has none of its parent's."""
    return ReferenceProcess(NAME, PROGRAM, idle_seconds=IDLE_SECONDS)
