"""The formats of model files: whose a file is, and what reads it. One line of `FORMATS` for each.

    format_of(Path("net.onnx"))     Format("onnx", (".onnx",), importer="...:OnnxImporter", ...)
    importer_of(model)              what reads models of `model.format`

A file belongs to the format whose mark stands in it, or whose members are in it where it is a zip;
else to that of its suffix, and what nobody claims is ONNX, which has no mark of its own. Formats
without an importer are known, so that such files are refused by name, with a way out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from explorer.errors import ModelError

if TYPE_CHECKING:
    import numpy as np
    from xdsl.dialects.builtin import ModuleOp

    from explorer.importers.model import ExaminedModel, OpenedProgram, SourceModel
    from explorer.ir.top.data_dependent import Meaning
    from explorer.ir.weights import Weights

_ZIP = b"PK\x03\x04"
_HEAD_BYTES = 16


class Importer(Protocol):
    """What reads one format. Subclass it, so that what most formats do alike is there.

    What importers share is in `explorer/importers/building/`; `docs/adding-an-importer.md` is the
    guide.
    """

    def load(self, path: Path, is_examined: bool = False) -> SourceModel:
        """A model file, parsed within bounds and checked; nothing in it is executed.

        `is_examined`: what has no place in the IR is noted instead of refused, for `examine`.
        Where a model is several files (weights apart), `path` may be any that names the others.
        ModelError says what is wrong and where; UnsupportedError what cannot be done.
        """
        ...

    def open_program(
        self,
        model: SourceModel,
        dimensions: Mapping[str, int] | None = None,
        has_deferred_nodes: bool = False,
    ) -> OpenedProgram:
        """The model as it is, the same in `top` operations, and one rewrite for every node.

        `dimensions` gives sizes to symbolic dimensions of the inputs; others stay symbolic.
        has_deferred_nodes: nodes whose form a run decides become operations that it imports
        (`top.node`), where the format has such nodes.
        UnsupportedError lists every node that cannot be converted; ModelError names a node whose
        operands do not fit it.
        """
        ...

    def examine(
        self, model: SourceModel, dimensions: Mapping[str, int] | None = None
    ) -> ExaminedModel:
        """What of the model cannot be imported: all of it, with the reasons."""
        ...

    def as_read(self, model: SourceModel) -> ModuleOp:
        """Every node of the file before anything is imported: a quick look at a large model.

        Types are those that the file says. ModelError for a node whose operand nothing makes.
        """
        return self.examine(model).source

    def to_top(
        self, model: SourceModel, dimensions: Mapping[str, int] | None = None
    ) -> tuple[ModuleOp, Weights]:
        """As `open_program`, for who needs the program only."""
        opened = self.open_program(model, dimensions)
        return opened.module, opened.weights

    def files_of(self, model: SourceModel) -> Iterable[str]:
        """Files that the model consists of beside its own, by their paths from its folder. A kept
        program is right for as long as none of them changes."""
        del model
        return ()

    def index_limits(self, model: SourceModel) -> Mapping[str, int]:
        """For integer inputs that are looked up in a table: its rows, below which all must be."""
        del model
        return {}

    def compared_values(self, model: SourceModel) -> Mapping[str, tuple[int, ...]]:
        """For integer inputs of one element that the model compares with constants: these. Other
        numbers may lead into a branch that does not fit."""
        del model
        return {}

    def load_for(self, path: Path, inputs: Mapping[str, Any]) -> SourceModel:
        """As `load`, for values of inputs that are no tensors: sequences become the tensors that
        they hold."""
        del inputs
        return self.load(path)

    def load_both(self, path: Path, weights: Path, is_examined: bool = False) -> SourceModel:
        """As `load`, with the file of the weights named; where a model is one file it is refused.

        `files_of` names it, too, by its whole path.
        """
        del is_examined
        raise ModelError(
            "the weights of such a model are in its own file",
            file=str(path),
            hint=f"leave {weights} away",
        )

    def program_inputs(
        self, model: SourceModel, inputs: Mapping[str, np.ndarray], sizes: Mapping[str, int]
    ) -> dict[str, np.ndarray]:
        """The inputs as a program takes them whose symbolic dimensions have these sizes: code
        points instead of strings, the tensors of sequences."""
        del model, sizes
        return dict(inputs)

    def host_values(self, model: SourceModel, outputs: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """A program's outputs as the values that the model declares: strings, sequences, maps from
        labels to numbers. Any: whatever the format has beside tensors."""
        return {value.name: outputs[value.name] for value in model.outputs}

    def host_arrays(
        self, model: SourceModel, outputs: Mapping[str, np.ndarray]
    ) -> Mapping[str, np.ndarray]:
        """A program's outputs as arrays that a file holds: strings instead of code points."""
        del model
        return outputs

    def read_meaning(self, name: str, content: str) -> Meaning:
        """What a node of a run means, out of a text; ModelError where that is none."""
        del content
        raise ModelError(f"the text says of {name} what no importer reads")

    def with_random_weights(self, model: SourceModel, seed: int) -> SourceModel:
        """The very model; where its weights were replaced by constants, to make a small file of
        it, another one with random weights."""
        del seed
        return model


@dataclass(frozen=True, kw_only=True)
class Format:
    """What is known of a format without loading anything."""

    name: str
    """`SourceModel.format`."""
    suffixes: tuple[str, ...] = ()
    """Of its files, in lower case."""
    mark: tuple[int, bytes] | None = None
    """Bytes that stand at an offset of every such file."""
    members: tuple[str, ...] = ()
    """Beginnings of the names of files that tell such a zip file."""
    member_suffixes: tuple[str, ...] = ()
    """Or their ends, in lower case."""
    pair: tuple[str, str] | None = None
    """Suffixes of the two files that a model is under one name: its layers, their weights."""
    importer: str | Importer | None = None
    """`module:class`, imported with the first model of the format; None: it is not read."""
    reference: str | object | None = None
    """Who is right about its models, `module:class` of a `references.interface.Reference`; None:
    nobody else runs them here, and they are compared with what was imported."""
    differences: tuple[str, ...] = ()
    """Where its layout and rounding are not ONNX's, in sentences for whoever looks at a model."""
    hint: str = ""
    """What to do with a file where the format is not read."""
    refusal: str = ""
    """What a file is that is no model."""


FORMATS: tuple[Format, ...] = (
    Format(
        name="onnx",
        suffixes=(".onnx",),
        importer="explorer.importers.onnx.importer:OnnxImporter",
        reference="explorer.references.onnx_reference:OnnxReference",
    ),
    Format(
        name="tflite",
        suffixes=(".tflite", ".lite"),
        mark=(4, b"TFL3"),
        importer="explorer.importers.tflite.importer:TfliteImporter",
        reference="explorer.references.tflite_reference:TfliteReference",
        differences=(
            "Images keep their channels last: a convolution stands between two transposes, which "
            "the passes remove where they meet.",
            "Integers are rounded as the reference kernels do it, in convolutions twice; "
            "QUANTIZE takes halves away from zero, ONNX to even.",
        ),
    ),
    Format(
        name="caffe",
        suffixes=(".prototxt", ".caffemodel"),
        member_suffixes=(".prototxt",),
        pair=(".prototxt", ".caffemodel"),
        importer="explorer.importers.caffe.importer:CaffeImporter",
        reference="explorer.references.caffe_reference:CaffeReference",
        differences=(
            "Sizes of pools are rounded up, in ONNX down; an average divides by its window's part "
            "of the padded image.",
        ),
    ),
    Format(
        name="trace",
        members=("trace.json",),
        refusal="a saved trace (.nnx) of this program, not a model",
        hint="explorer.open reads it, and the explorer does under a name that ends with .nnx",
    ),
    Format(
        name="keras",
        suffixes=(".h5", ".keras"),
        mark=(0, b"\x89HDF"),
        members=("model.weights.h5", "config.json"),
        hint="convert it to ONNX (tf2onnx)",
    ),
    Format(
        name="pytorch",
        suffixes=(".pt2", ".pt", ".pth"),
        members=("model.json", "data.pkl", "constants.pkl", "serialized_exported_program"),
        importer="explorer.importers.pytorch.importer:PytorchImporter",
        reference="explorer.references.torch_reference:TorchReference",
    ),
    Format(
        name="zip",
        mark=(0, _ZIP),
        refusal="a zip file, not a model",
        hint="unpack it and give the model in it",
    ),
)  # fmt: skip


def format_of(path: Path) -> Format:
    """The format of a file, which can be read. ModelError for others, with what to do instead."""
    found = _claimant(path)
    if found.importer is not None:
        return found
    readable = ", ".join(f.name.upper() for f in FORMATS if f.importer is not None)
    message = found.refusal or f"{found.name} models cannot be read yet, only {readable}"
    raise ModelError(message, file=str(path), hint=found.hint)


def format_named(name: str) -> Format:
    """The format that a model was read from."""
    return next(found for found in FORMATS if found.name == name)


def importer_of(model: SourceModel) -> Importer:
    return importer_for(format_named(model.format))


def importer_for(found: Format) -> Importer:
    assert found.importer is not None, found.name
    return loaded(found.importer)


def model_suffixes() -> tuple[str, ...]:
    """Of files that can be read: what is looked for in folders and may be uploaded."""
    return tuple(s for found in FORMATS if found.importer is not None for s in found.suffixes)


def archive_suffixes() -> tuple[str, ...]:
    """Of files that may hold a model among other things: taken where they are named."""
    return (".zip",) if any(f.member_suffixes and f.importer for f in FORMATS) else ()


def pairs() -> tuple[tuple[str, str], ...]:
    """Suffixes of models that are two files: their layers, their weights."""
    return tuple(f.pair for f in FORMATS if f.pair is not None and f.importer is not None)


def layers_suffix_for(path: Path) -> str:
    """Of the file with the layers whose weights this one holds; empty for any other file."""
    return next((layers for layers, weights in pairs() if path.suffix.lower() == weights), "")


def weights_suffix_for(path: Path) -> str:
    """The other way round; empty for any file but one with the layers of such a model."""
    return next((weights for layers, weights in pairs() if path.suffix.lower() == layers), "")


def models_among(files: Iterable[Path]) -> list[Path]:
    """Those that can be read, in order; of two files that are one model the one with the layers."""
    suffixes = model_suffixes()
    found = {path: None for path in sorted(files) if path.suffix.lower() in suffixes}
    layers = {path: layers_suffix_for(path) for path in found}
    return [p for p in found if not layers[p] or p.with_suffix(layers[p]) not in found]


def loaded(what: Any) -> Any:  # Any: an importer or a reference, as the register names it
    """What a register names by `module:class`; anything else is it already."""
    if not isinstance(what, str):
        return what
    module, _, name = what.partition(":")
    return getattr(import_module(module), name)()


def _claimant(path: Path) -> Format:
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    by_suffix = [f for f in FORMATS if path.suffix.lower() in f.suffixes]
    marked = [f for f in FORMATS if f.mark is not None and _has_mark(head, *f.mark)]
    if head.startswith(_ZIP):
        try:
            return next(iter(_of_members(path)), marked[0])
        except Exception:  # whatever is wrong with the zip file: the suffix has to do
            return next(iter(by_suffix), marked[0])
    return next(iter(marked or by_suffix), FORMATS[0])


def _has_mark(head: bytes, offset: int, mark: bytes) -> bool:
    return head[offset:].startswith(mark)


def _of_members(path: Path) -> list[Format]:
    import zipfile  # seldom needed

    with zipfile.ZipFile(path) as file:
        names = {name.rsplit("/", 1)[-1] for name in file.namelist()}
    return [f for f in FORMATS if any(_tells(f, name) for name in names)]


def _tells(found: Format, member: str) -> bool:
    return member.startswith(found.members) or member.lower().endswith(found.member_suffixes)
