"""A compiler for neural networks that explains itself.

    import explorer as ex
    model = ex.load(ex.sample("digits_cnn"))  of one's own: ex.load("net.onnx")
    ex.inspect(model)                         its nodes, and whether they can be imported
    c = ex.compile(model, target="cpu")
    c.passes                                  what every pass did
    c["fuse-activation"].diff                 one of them
    c.run({"image": x})                       on the device
    c.accuracy()                              every pass against the source model
    d = c.fork(disable=["fuse-activation"])   another decision, compared
    c.compare(d)
    ex.start("net.onnx").run({"image": x})    what was compiled before starts at once
    ex.compile(module, args=(x,))             a module of PyTorch

Everything is imported when it is first used, so that `import explorer` costs little: a Ctrl-C that
comes while this file is loaded ends the command line with a traceback, so nothing else is loaded.
"""

from __future__ import annotations

TYPE_CHECKING = False  # that of `typing`, which takes 5 ms to load

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from typing import Any, Literal, TypeVar, Unpack

    import numpy as np
    from onnx import ModelProto

    from explorer.compilation import Compilation, Inspection, SavedCompilation
    from explorer.compilation import compile as compile
    from explorer.compilation.settings.options import CompileOptions
    from explorer.compilation.settings.settings import Progress as OnProgress
    from explorer.errors import ExplorerError as ExplorerError
    from explorer.exporters.onnx import IntegerForm, WeightType
    from explorer.files import ModelPath
    from explorer.importers import InputValue, SourceModel
    from explorer.importers.pytorch.live import TorchModel
    from explorer.importers.samples import SampleName
    from explorer.progress import Progress as Progress
    from explorer.quantization.block_numbers import BlockType
    from explorer.quantization.corrections.record import CorrectionName
    from explorer.quantization.table import ThresholdTable
    from explorer.reducing import Condition, Reduced
    from explorer.reducing.trials import Report
    from explorer.results.model_comparison import ModelComparison
    from explorer.results.runs.sensitivity import MixedPrecision
    from explorer.runtime.cache import ProgramCache
    from explorer.runtime.devices import DeviceRecord
    from explorer.session import Session as Session
    from explorer.session import Started
    from explorer.targets.names import TargetName
    from explorer.tuning.block_weights import Rounding
    from explorer.tuning.calibration import Arithmetic, Method
    from explorer.tuning.examples import Chosen, Data
    from explorer.tuning.search import tune as tune

    Function = TypeVar("Function", bound=Callable[..., Any])  # Any: functions of all kinds


__version__ = "0.2.0"

__all__ = [
    "ExplorerError",
    "Progress",
    "Session",
    "calibrate",
    "compare_models",
    "compile",
    "convert",
    "devices",
    "edit",
    "host_values",
    "inspect",
    "interpret",
    "last_compilation",
    "load",
    "mixed",
    "open",
    "reduce",
    "sample",
    "start",
    "targets",
    "tune",
]


def _named(function: Function) -> Function:
    """`explorer.calling.named_arguments`, for functions of a module that loads nothing."""

    def call(*arguments: Any, **named: Any) -> Any:
        from explorer.calling import check_call

        check_call(function, arguments, named)
        return function(*arguments, **named)

    for name in ("__name__", "__qualname__", "__doc__", "__module__"):
        setattr(call, name, getattr(function, name))
    call.__wrapped__ = function  # pyright: ignore[reportFunctionMemberAccess]  inspect reads it
    return call  # pyright: ignore[reportReturnType]


@_named
def load(
    path: ModelPath | TorchModel,
    inputs: Mapping[str, InputValue] | None = None,
    *,
    weights: str | Path | None = None,
    args: Sequence[object] | None = None,
    kwargs: Mapping[str, object] | None = None,
    dynamic_shapes: object = None,
) -> SourceModel:
    """Reads a model file (ONNX, TFLite, Caffe, PyTorch's .pt2). ModelError says why it cannot be
    read. Or takes a module of PyTorch, with example arguments, or a program of torch.export.

    inputs: values of inputs that are sequences or optionals: lists of arrays, or None. The model is
    the one for sequences of that length. weights: their file, where a model is two files (Caffe)
    that have not one name in one folder. args, kwargs, dynamic_shapes: of a module, as
    torch.export.export takes them.
    """
    from explorer.importers.live import load_any

    return load_any(path, inputs, weights, args=args, kwargs=kwargs, dynamic_shapes=dynamic_shapes)


@_named
def inspect(
    model: SourceModel | ModelPath, dimensions: Mapping[str, int] | None = None
) -> Inspection:
    """The model as it is: its operators, its nodes, and why some of them cannot be imported.

    Opens what `compile` refuses with UnsupportedError, too. dimensions: sizes of symbolic
    dimensions by name.
    """
    from explorer.compilation import inspect_model

    return inspect_model(model, dimensions)


@_named
def interpret(
    model: SourceModel | ModelPath, inputs: Mapping[str, InputValue]
) -> dict[str, np.ndarray]:
    """The model's outputs by name, computed in NumPy as the IR means it: nothing is compiled.

    inputs: arrays by name, whose shapes tell symbolic dimensions, or what `load` takes.
    """
    from explorer.compilation.interpreting import interpret as interpret_model

    source = _loaded(model, inputs)
    return interpret_model(source, inputs)


@_named
def compare_models(
    a: SourceModel | ModelPath,
    b: SourceModel | ModelPath,
    inputs: Mapping[str, np.ndarray] | None = None,
    *,
    dimensions: Mapping[str, int] | None = None,
    seed: int = 0,
    tolerance: float = 1e-4,
) -> ModelComparison:
    """Two models of any formats on the same data: tensors that belong together, their errors, and
    the first one that differs by more than rounding explains.

    inputs: arrays by the names of the inputs of one model, seeded random numbers by default; axes,
    names and element types of the other model's inputs may differ. dimensions: sizes of symbolic
    dimensions by name. tolerance: of two tensors of floats, root mean square in parts of the
    first one's.

    Raises:
        InputError: where the inputs of one model cannot be made of the other's.
        ModelError: where nothing runs one of the models.
    """
    from explorer.accuracy.two_models import compare_models as compare

    return compare(
        _loaded(a),
        _loaded(b),
        inputs,
        dimensions=dimensions,
        seed=seed,
        tolerance=tolerance,
    )


@_named
def convert(
    model: SourceModel | ModelPath,
    path: str | Path | None = None,
    *,
    dimensions: Mapping[str, int] | None = None,
    weights: WeightType = "uint8",
    integers: IntegerForm = "pairs",
    progress: OnProgress | None = None,
) -> ModelProto:
    """A model of any format as ONNX, opset 21, written where there is a path.

    Integers become pairs of QuantizeLinear and DequantizeLinear around floats, which runtimes round
    in their own way; `exact`: whole numbers of 64 bits, slower, and equal to the bit but for
    softmax of bytes. weights: see `Compilation.to_onnx`. UnsupportedError names what
    ONNX has no form for, all at once.
    """
    from pathlib import Path

    from explorer.compilation.converting import check_written
    from explorer.compilation.converting import convert as convert_model
    from explorer.exporters.onnx import write_onnx

    if path is not None:
        check_written(Path(path))
    source = _loaded(model)
    made = convert_model(source, dimensions, weights, integers, progress)
    if path is not None:
        write_onnx(Path(path), made)
    return made


@_named
def calibrate(
    model: SourceModel | ModelPath,
    data: Data | str | Path | None = None,
    *,
    method: Method = "best",
    corrections: str | Sequence[CorrectionName] | None = None,
    dimensions: Mapping[str, int] | None = None,
    progress: OnProgress | None = None,
    arithmetic: Arithmetic = "float",
    weights: BlockType | Literal[""] = "",
    block: int = 32,
    rounding: Rounding | Literal[""] = "",
    weight_bits: int = 8,
    chosen: Chosen | None = None,
    state: Path | None = None,
) -> ThresholdTable:
    """Thresholds for quantizing a model, from data: arrays by input, whose first axis counts
    examples, or `.npz` files of them. `compile(model, quantization=table)` takes them.

    method: best (all together, by the error of the outputs), min-max, moving-average, percentile,
    kl, mse, aciq-gauss, aciq-laplace (`explorer.quantization.methods`). corrections: cle,
    smooth, adaround, bias, or () for none: what passes before the quantization make better
    (`explorer.quantization.corrections`). By default what has made no model worse, adaround; with
    `best` those that it finds to be better for the outputs (`explorer.tuning.judging`).
    arithmetic: that of the target: tables for targets without floats name more tensors.

    weights: int4, uint4, int8 or uint8, where weights alone are to be quantized, with one scale
    for every `block` rows: by `rounding` nearest, which takes no data, or gptq. weight_bits: 4 for
    weights of 4 bits next to activations of 8, one scale for each channel.

    chosen: how many examples, at random (`explorer.tuning.examples.Chosen`). state: a file from
    which a calibration that was killed goes on.
    """
    from explorer.errors import InputError
    from explorer.quantization.block_numbers import BlockForm
    from explorer.quantization.corrections.record import chosen_kinds
    from explorer.tuning.block_weights import quantized_weights
    from explorer.tuning.correcting import calibrate_corrected

    source = _loaded(model)
    if weights:
        if weight_bits != 8:
            raise InputError("weights alone have a type, and weight_bits is for thresholds")
        form = BlockForm(weights, block)
        return quantized_weights(source, form, data, rounding, dimensions, progress, chosen)
    if rounding:
        raise InputError("rounding is one of weights in blocks", hint='weights="int4"')
    if data is None:
        raise InputError("thresholds come from data", hint="arrays by input, or weights alone")
    kinds = None if corrections is None else chosen_kinds(corrections)
    return calibrate_corrected(
        source, data, method, kinds, dimensions, progress, arithmetic, chosen, state, weight_bits
    )


@_named
def mixed(
    model: SourceModel | ModelPath,
    data: Data,
    *,
    table: ThresholdTable | str | Path,
    labels: np.ndarray | None = None,
    accuracy: float | None = None,
    sqnr: float | None = None,
    latency: float | None = None,
    dimensions: Mapping[str, int] | None = None,
    jobs: int | None = None,
    backend: str | None = "threading",
    progress: OnProgress | None = None,
    chosen: Chosen | None = None,
) -> MixedPrecision:
    """Which tensors of a table are better INT16 or F32: how sensitive outputs are to each, and the
    cheapest modes that reach an accuracy (per cent, which takes labels), an SQNR (dB) or the best
    within a latency (ms). `compile(model, quantization=table, modes=point.modes)` takes them.

    data: arrays, or what `explorer.tuning.examples.read_data` reads. jobs, backend: how joblib runs
    the trials. chosen: how many of the examples, at random.
    """
    from explorer.tuning.mixed import Wanted, mixed_precision

    source = _loaded(model)
    wanted = Wanted(accuracy=accuracy, sqnr_db=sqnr, milliseconds=latency)
    return mixed_precision(
        source, table, data, wanted, labels, dimensions, jobs, backend, progress, chosen
    )


@_named
def open(path: str | Path) -> SavedCompilation:
    """Reads a trace (`.nnx`) that `Compilation.save` wrote. Needs no compiler and no device."""
    from explorer.compilation import open_trace

    return open_trace(path)


@_named
def start(
    model: SourceModel | ModelPath,
    target: TargetName | str | Path = "cpu",
    *,
    dimensions: Mapping[str, int | tuple[int, int]] | None = None,
    threads: int | None = None,
    isolated: bool = True,
    affinity: Sequence[int] = (),
    programs: Path | None = None,
    cache: ProgramCache | None = None,
    **options: Unpack[CompileOptions],
) -> Started:
    """A program that is ready to run; one that was compiled before starts without compiling.

    programs: a file of `explorer cache export`. threads, isolated, affinity: as in
    `Compilation.open`. options: those of `compile`. The result has `run(inputs)`, `why` and
    `close()`.
    """
    from explorer.session import start as start_program

    return start_program(
        model,
        target,
        dimensions=dimensions,
        threads=threads,
        isolated=isolated,
        affinity=affinity,
        programs=programs,
        cache=cache,
        **options,
    )


@_named
def host_values(model: SourceModel, outputs: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """A program's outputs as the model declares them: strings, sequences, and maps from labels.

    `c.run(x)` gives tensors: `probabilities` and `probabilities.labels` are here, as in ONNX, one
    dictionary for each row.
    """
    from explorer.importers import host_values as values_of

    return values_of(model, outputs)


@_named
def edit(
    model: SourceModel | ModelPath, edits: Sequence[str], path: str | Path | None = None
) -> SourceModel:
    """An ONNX model with edits, written where there is a path.

    edits: lines, made one after the other: `cut a, b : c`, `outputs a, b`, `rename old = new`,
    `attribute NODE.NAME = JSON`, `value WEIGHT = JSON`, `delete NODE`. InputError for an edit that
    names nothing or leaves no valid model; nothing is written then.
    """
    from pathlib import Path

    from explorer.editing.model import edit_model, write_edited

    found = _loaded(model)
    if path is not None:
        write_edited(found, edits, Path(path))
    return edit_model(found, edits)


@_named
def reduce(
    model: SourceModel | ModelPath,
    inputs: Mapping[str, np.ndarray],
    path: str | Path,
    *,
    condition: Literal["check", "crash"] | str | Condition = "check",
    target: TargetName | str = "cpu",
    tolerance: float = 1e-4,
    decisions: Mapping[str, object] | None = None,
    seconds: float = 300.0,
    report: Report | None = None,
) -> Reduced:
    """Writes the smallest model that still fails, its inputs (.npz) and a page (.md) next to it.

    condition: `check` (as `explorer check` judges), `crash`, a command with {model} and {input}, or
    a function of an `explorer.reducing.Candidate`. An interrupted call goes on when it is repeated.
    tolerance, decisions: as for `compile` and `accuracy`. seconds: of each trial. report: called
    with what is done. InputError for what does not fail.
    """
    from pathlib import Path

    from explorer.reducing.files import reduce_files

    found = _loaded(model, inputs)
    return reduce_files(
        found,
        inputs,
        Path(path),
        condition=condition,
        target=target,
        tolerance=tolerance,
        decisions=decisions,
        seconds=seconds,
        report=report,
    )


@_named
def sample(name: SampleName) -> Path:
    """The path of a model that comes with the package: digits_cnn, digits_mlp, digits_mobilenet,
    digits_resnet, digits_transformer, roundings_int8; or of `digits_test`, images and labels.

    `load`, `compile` and the others take it. InputError with the names there are.
    """
    from explorer.importers.samples import sample as sample_file

    return sample_file(name)


def devices() -> list[DeviceRecord]:
    """The devices of this machine, and why something was refused (list of DeviceRecord)."""
    from explorer.backends import list_devices

    return list_devices()


def last_compilation() -> Compilation | None:
    """What `torch.compile(module, backend="explorer")` compiled last in this process; the largest
    part where some nodes were left to torch. None before the module was called."""
    from explorer.session.torch_backend import last_compilation as last

    return last()


def targets() -> list[str]:
    """Names of the targets that there are."""
    from explorer.targets import list_targets

    return list_targets()


def _loaded(
    model: SourceModel | ModelPath, inputs: Mapping[str, InputValue] | None = None
) -> SourceModel:
    from explorer.importers.live import load_any

    return load_any(model, inputs)


_ELSEWHERE = {
    "ExplorerError": "explorer.errors",
    "Progress": "explorer.progress",
    "Session": "explorer.session",
    "compile": "explorer.compilation",
    "tune": "explorer.tuning.search",
}
"""Names that are defined in other modules, which are loaded when the name is first used."""


def __getattr__(name: str) -> object:
    if name not in _ELSEWHERE:
        raise AttributeError(f"module 'explorer' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_ELSEWHERE[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
