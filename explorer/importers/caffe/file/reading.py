"""Reads a Caffe net from its two files, or from a zip file with both.

    load(Path("net.prototxt"))      with net.caffemodel beside it; or the other way round
    load(Path("net.zip"))           one of each in it
    load_both(Path("deploy.prototxt"), Path("iter_1000.caffemodel"))      of any names

Tensors are called after the layers that make them, since results that are written over their
operands have one name with them; of several results of a layer all but the first have their place
behind it (`slice:1`). Weights are `conv1.0`, `conv1.1`. Nothing in a file is executed.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from explorer.errors import ModelError
from explorer.importers.caffe.file import prototxt
from explorer.importers.caffe.file.network import Layer, Network, network_of
from explorer.importers.caffe.file.weights import Blobs, blobs_of
from explorer.importers.model import SourceModel, SourceNode, SourceValue
from explorer.ir.types import Shape

TEXT, WEIGHTS = ".prototxt", ".caffemodel"
MAX_WEIGHT_BYTES = 2 << 30
"""Of a caffemodel: protobuf has no larger messages."""
PLAIN_BYTES = 64 << 20
MAX_RATIO = 100
"""A member of a zip file with more bytes than these has at most so many times its packed ones:
trained numbers hardly shrink, and what shrinks a thousandfold is there to fill the memory."""


@dataclass(frozen=True)
class Flow:
    """A layer with its tensors."""

    layer: Layer
    inputs: tuple[str, ...]
    """What it computes from, then its weights."""
    outputs: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class CaffeContent:
    """Both files, parsed."""

    network: Network
    flows: tuple[Flow, ...]
    text: str
    weights: memoryview
    """Empty where there is no caffemodel."""
    files: tuple[str, ...]
    """Names of what was read beside the model's own file."""


def load(path: Path) -> SourceModel:
    """Both files as records; ModelError says what is wrong with them."""
    if zipfile.is_zipfile(path):
        text, weights = _from_zip(path)
        return read(text, weights, path.stem, path)
    text_path, weight_path = path.with_suffix(TEXT), path.with_suffix(WEIGHTS)
    if path.suffix.lower() == TEXT:
        text_path = path
    else:
        weight_path = path
    if not text_path.is_file():
        raise ModelError(
            f"the layers of these weights are not beside it: {text_path.name}",
            hint=f"put the prototxt there under the name {text_path.name}, or name both files: "
            f"deploy.prototxt --weights {weight_path.name}",
        )
    text = _text_of(text_path)
    weights = memoryview(b"")
    if weight_path.is_file():
        weights = _weights_of(weight_path)
    both = (text_path, weight_path)
    beside = tuple(found.name for found in both if found != path)
    return read(text, weights, path.stem, path, beside)


def load_both(path: Path, weights: Path) -> SourceModel:
    """As `load`, of a pair whose files have not one name in one folder."""
    is_wrong = path.suffix.lower() == WEIGHTS or weights.suffix.lower() == TEXT
    if is_wrong or zipfile.is_zipfile(path):
        raise ModelError(
            f"{path.name} and {weights.name} are not a prototxt and its weights, in this order",
            hint="explorer compile deploy.prototxt --weights net.caffemodel",
        )
    return read(_text_of(path), _weights_of(weights), path.stem, path, (str(weights.absolute()),))


def read(
    text: str, weights: memoryview, name: str, path: Path | None = None, files: tuple[str, ...] = ()
) -> SourceModel:
    """As `load`, of the contents of both files."""
    network = network_of(prototxt.parse(text))
    flows, constants, outputs = _flows(network, blobs_of(weights))
    inputs = {
        name: _known_channels(name, shape, flows, constants)
        for name, shape in network.inputs.items()
    }
    content = CaffeContent(network, flows, text, weights, files)
    return SourceModel(
        name=name,
        format="caffe",
        path=path,
        producer="",
        opset="phase TEST",
        inputs=tuple(SourceValue(n, "float32", shape) for n, shape in inputs.items()),
        outputs=tuple(SourceValue(n, "float32", None) for n in outputs),
        nodes=tuple(SourceNode(f.layer.name, f.layer.kind, _line(f)) for f in flows),
        parameters=sum(array.size for array in constants.values()),
        content=content,
        tensors=tuple(name for flow in flows for name in flow.outputs),
        constants=constants,
    )


def _flows(
    network: Network, blobs: Mapping[str, Blobs]
) -> tuple[tuple[Flow, ...], dict[str, np.ndarray], list[str]]:
    """Layers with tensors instead of blobs, which may be written anew; weights; outputs."""
    current = {name: name for name in network.inputs}
    taken = set(current)
    used: set[str] = set()
    flows: list[Flow] = []
    constants: dict[str, np.ndarray] = {}
    for layer in network.layers:
        for bottom in layer.bottoms:
            if bottom not in current:
                raise ModelError(f"no layer makes {bottom!r}, which it needs", node=layer.name)
        operands = [current[bottom] for bottom in layer.bottoms]
        used.update(operands)
        for index, array in enumerate(blobs.get(layer.blob_name, ())):
            constants[f"{layer.name}.{index}"] = array
            operands.append(f"{layer.name}.{index}")
        results = []
        for index, top in enumerate(layer.tops):
            name = f"{layer.name}:{index}" if index else layer.name
            while name in taken:
                name += "'"
            taken.add(name)
            results.append(name)
            current[top] = name
        flows.append(Flow(layer, tuple(operands), tuple(results)))
    made = [name for flow in flows for name in flow.outputs]
    return tuple(flows), constants, [name for name in made if name not in used]


def _known_channels(
    name: str, shape: Shape, flows: tuple[Flow, ...], constants: Mapping[str, np.ndarray]
) -> Shape:
    """An open number of channels is what the filters of a convolution of the input have."""
    for flow in flows:
        weights = constants.get(f"{flow.layer.name}.0")
        is_convolution = flow.layer.kind == "Convolution" and flow.inputs[0] == name
        if is_convolution and weights is not None and weights.ndim == 4 and len(shape) == 4:
            group = flow.layer.settings.integer("group", 1)
            channels = weights.shape[1] * group if isinstance(shape[1], str) else shape[1]
            return (shape[0], channels, *shape[2:])
    return shape


def _line(flow: Flow) -> str:
    settings = ", ".join(f"{name} = {value}" for name, value in flow.layer.settings.flat())
    shown = f" {{{settings}}}" if settings else ""
    return f"{', '.join(flow.outputs)} = {flow.layer.kind}({', '.join(flow.inputs)}){shown}"


def _text_of(path: Path) -> str:
    with path.open("rb") as file:
        return bytes(_bounded(file, prototxt.MAX_BYTES, path.name)).decode()


def _weights_of(path: Path) -> memoryview:
    with path.open("rb") as file:
        return _bounded(file, MAX_WEIGHT_BYTES, path.name)


def _from_zip(path: Path) -> tuple[str, memoryview]:
    """One file of each kind, wherever in the archive."""
    with zipfile.ZipFile(path) as archive:
        found: dict[str, zipfile.ZipInfo] = {}
        for member in archive.infolist():
            kind = Path(member.filename).suffix.lower()
            if kind not in (TEXT, WEIGHTS) or Path(member.filename).name.startswith("."):
                continue
            if kind in found:
                raise ModelError(
                    f"two {kind} files are in it: {found[kind].filename}, {member.filename}",
                    hint="leave one of each",
                )
            found[kind] = member
        if TEXT not in found:
            raise ModelError("no prototxt is in it", hint="put both files of the net into it")
        text = _member(archive, found[TEXT], prototxt.MAX_BYTES)
        weights = memoryview(b"")
        if WEIGHTS in found:
            weights = _member(archive, found[WEIGHTS], MAX_WEIGHT_BYTES)
        return bytes(text).decode(), weights


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, most: int) -> memoryview:
    """What a member holds: nothing is unpacked to a disk, wherever its name leads. Its sizes are
    what the archive claims, and no more than these is read."""
    name = Path(member.filename).name
    if member.file_size > max(PLAIN_BYTES, MAX_RATIO * member.compress_size):
        raise ModelError(
            f"{name} would be {member.file_size:,} bytes out of {member.compress_size:,}",
            hint="unpack it yourself if it is yours, and give both files",
        )
    with archive.open(member) as file:
        return _bounded(file, most, name)


def _bounded(file: IO[bytes], most: int, name: str) -> memoryview:
    """All of a file. ModelError for one that is larger than it may be, whatever it claims."""
    content = file.read(most + 1)
    if len(content) > most:
        raise ModelError(f"{name} has more than {most:,} bytes", hint="is it the right file?")
    return memoryview(content)
