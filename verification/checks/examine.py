"""One model on one target: imported, compared after every pass, run on its device, golden tensors.

    examine(Path("net.onnx"), "cpu", case, folder)  ->  Finding

A finding is plain data (JSON), so that it crosses processes and is kept between runs.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import explorer
from explorer.accuracy.metrics import is_right, tensor_error
from explorer.cases.cases import Case, Golden
from explorer.cases.sources import read_all, read_source
from explorer.cases.steps import run_steps
from explorer.cli.models import load_with_weights, sizes_with_note
from explorer.compilation import Compilation
from explorer.compilation.checking import Accuracy
from explorer.errors import ExplorerError, ModelError
from explorer.importers.inputs import check_arrays
from explorer.results import AccuracyReport, PassAccuracy, TensorError

TOLERANCE = 1e-4
SEED = 0

PASSED, WRONG, REFUSED, FAILED = "passed", "wrong", "refused", "failed"
STATUSES = {
    PASSED: "equal to the reference after every pass and on the device, goldens reached",
    WRONG: "it runs, and a number differs",
    REFUSED: "an error that names what is not supported",
    FAILED: "an error that this project did not foresee",
    "hung": "the time limit was reached",
    "crashed": "the process was ended",
}


@dataclass
class Finding:
    """What is known of a model on a target; filled as far as it came."""

    model: str
    target: str
    status: str = FAILED
    reason: str = ""
    nodes: int = 0
    operations: int = 0
    """Of the imported program, weights not counted."""
    inputs: str = ""
    """given or seeded."""
    dimensions: dict[str, int] = field(default_factory=dict)
    """Sizes of the symbolic dimensions."""
    reference: str = ""
    reference_note: str = ""
    """Why that is not onnxruntime, where the case does not say it."""
    passes: int = 0
    """Programs that were compared: after the import, after every pass, and the binary."""
    tensors: int = 0
    """Of the source that were compared at least once."""
    worst: float = -1.0
    """Largest `max_relative` of all passes and both modes, -1 before anything was compared."""
    worst_tensor: str = ""
    worst_pass: str = ""
    binary: float = -1.0
    """Largest `max_relative` of what the device computed."""
    coarse: dict[str, list[float]] = field(default_factory=dict)
    """Tensors where the oracle is off: [ours from the oracle, ours from float64, its own]."""
    goldens: list[dict[str, object]] = field(default_factory=list)
    """`passed`, `metric`, `value`, `note`."""
    seconds: float = 0.0


def examine(path: Path, target: str, case: Case, folder: Path) -> Finding:
    """Checks a model; what goes wrong is a part of the finding."""
    finding = Finding(path.stem, target)
    started = time.perf_counter()
    try:
        _examine(path, case, folder, finding)
    except ExplorerError as error:
        finding.status = REFUSED
        finding.reason = one_line(error)
    finding.seconds = round(time.perf_counter() - started, 1)
    return finding


def one_line(error: BaseException | str, limit: int = 300) -> str:
    """A message without the paths that only this machine has."""
    text = str(error)
    if isinstance(error, ExplorerError):
        problems = "; ".join(getattr(error, "problems", ()))
        text = f"{error.message}: {problems}" if problems else error.message
        text += f" (node {error.node})" if error.node else ""
    words = " ".join(text.split())
    return words if len(words) <= limit else words[: limit - 1] + "…"


def _examine(path: Path, case: Case, folder: Path, finding: Finding) -> None:
    model = load_with_weights(str(path))
    finding.nodes = len(model.nodes)
    given = read_all(case.inputs, folder)
    finding.inputs = "given" if given else "seeded"
    sizes = check_arrays(model, given, case.dimensions, path)
    sizes = {**sizes_with_note(model, sizes), **sizes}
    compilation = explorer.compile(model, finding.target, dimensions=sizes)
    finding.dimensions = dict(compilation.settings.dimensions)
    try:
        finding.operations = compilation.passes[0].after.operation_count
        inputs = {**compilation.example_inputs(SEED), **given}
        accuracy = _compare(compilation, inputs, case, folder)
        record_report(finding, accuracy.report)
        finding.reason = _fault(accuracy)
        finding.status = PASSED if accuracy.passed else WRONG
        for golden in case.goldens:
            _reach(finding, compilation, golden, inputs, case, folder)
    finally:
        compilation.close()


def _compare(
    compilation: Compilation, inputs: Mapping[str, np.ndarray], case: Case, folder: Path
) -> Accuracy:
    """Against onnxruntime, against golden tensors, or against the program as it was imported."""
    if case.reference == "onnxruntime":
        return compilation.accuracy(inputs, TOLERANCE)
    if case.reference == "imported":
        return compilation.accuracy(inputs, TOLERANCE, golden={})
    golden = case.goldens[0]
    tensors = {**golden.outputs, **case.layers}
    own = {**inputs, **read_all(golden.inputs, folder)}
    return compilation.accuracy(own, golden.tolerance, golden=read_all(tensors, folder))


def _fault(accuracy: Accuracy) -> str:
    """Empty where everything is right."""
    if accuracy.passed:
        return ""
    fault = accuracy.bisect()
    text = accuracy.report.problem if fault is None else str(fault)
    refusal = "" if accuracy.exact is None else accuracy.exact.__dict__.get("refusal", "")
    return f"{text}; not measured in float64: {refusal}" if refusal else text


def record_report(finding: Finding, report: AccuracyReport) -> None:
    """Takes what the table shows out of a report."""
    finding.reference, finding.reference_note = report.oracle, report.oracle_note
    finding.passes = len(report.passes)
    both = [*report.passes, *report.isolated]
    finding.tensors = len({t.tensor for p in both for t in p.tensors})
    for accuracy in both:
        worst = _worst(accuracy)
        if worst is not None and not worst.max_relative <= finding.worst:
            finding.worst = worst.max_relative
            finding.worst_tensor, finding.worst_pass = worst.tensor, accuracy.name
    last = [p for p in both if p.name == report.passes[-1].name]
    errors = [*(t for p in last for t in p.tensors), *report.outputs]
    finding.binary = max((t.max_relative for t in errors), default=-1.0)
    for tensor in (t for p in both for t in p.tensors):
        is_coarse = tensor.max_relative > report.tolerance and is_right(tensor, report.tolerance)
        known = finding.coarse.get(tensor.tensor)
        if is_coarse and (known is None or known[0] < tensor.max_relative):
            distances = (tensor.from_exact or 0.0, tensor.reachable or 0.0)
            finding.coarse[tensor.tensor] = [tensor.max_relative, *distances]


def _worst(accuracy: PassAccuracy) -> TensorError | None:
    """NaN, which compares with nothing, is the worst of all."""
    return max(
        accuracy.tensors,
        key=lambda t: (t.max_relative != t.max_relative, t.max_relative),
        default=None,
    )


# -- golden tensors --------------------------------------------------------------------------------


def _reach(
    finding: Finding,
    compilation: Compilation,
    golden: Golden,
    inputs: Mapping[str, np.ndarray],
    case: Case,
    folder: Path,
) -> None:
    """Runs the compiled program on the golden's inputs and adds what came of it."""
    own = read_all(golden.inputs, folder)
    if golden.states:
        outputs = _stream(compilation, {**inputs, **own}, own, golden)
    else:
        outputs = _run_fitting(compilation, {**inputs, **own}, case, finding.target)
    for name, source in golden.outputs.items():
        if name not in outputs:
            raise ModelError(f"the model has no output {name!r}", hint=", ".join(outputs))
        computed = run_steps(outputs[name], golden.steps)
        passed, value = judge(computed, read_source(source, folder), golden)
        record = {"output": name, "passed": passed, "metric": golden.metric, "value": value}
        finding.goldens.append({**record, "note": golden.note})
        if not passed:
            finding.status = WRONG
            text = f"output {name} misses its golden: {golden.metric} {value:.2g}"
            finding.reason = "; ".join(filter(None, (finding.reason, text)))


def _run_fitting(
    compilation: Compilation, inputs: Mapping[str, np.ndarray], case: Case, target: str
) -> Mapping[str, np.ndarray]:
    """The outputs; compiled again where the inputs have other sizes."""
    sizes = check_arrays(compilation.model, inputs, case.dimensions, Path("golden inputs"))
    if sizes == dict(compilation.settings.dimensions):
        return compilation.run(inputs)
    fitting = explorer.compile(compilation.model, target, dimensions=sizes)
    try:
        return fitting.run(inputs)
    finally:
        fitting.close()


def _stream(
    compilation: Compilation,
    inputs: Mapping[str, np.ndarray],
    framed: Mapping[str, np.ndarray],
    golden: Golden,
) -> dict[str, np.ndarray]:
    """Runs frame by frame, states carried over (zeros first); outputs stacked by frame."""
    given = {**inputs, **{name: np.zeros_like(inputs[name]) for name in golden.states}}
    kept: dict[str, list[np.ndarray]] = {name: [] for name in golden.outputs}
    for frame in range(min(len(array) for array in framed.values())):
        for name, array in framed.items():
            given[name] = np.ascontiguousarray(array[frame])
        outputs = compilation.run(given)
        for name, output in golden.states.items():
            given[name] = outputs[output]
        for name in kept:
            kept[name].append(outputs[name])
    return {name: np.stack(arrays) for name, arrays in kept.items()}


def judge(computed: np.ndarray, expected: np.ndarray, golden: Golden) -> tuple[bool, float]:
    """Whether an output reaches its golden, and the number that says so."""
    if golden.metric == "argmax":
        wanted = int(expected.flat[0]) if expected.size == 1 else int(np.argmax(expected))
        found = int(np.argmax(computed))
        return found == wanted, float(found)
    if golden.metric == "top-5":
        common = best(computed, 5) & best(expected, 5)
        return len(common) == 5, float(len(common))
    if golden.metric == "cosine":
        value = float(tensor_error("", "", computed, expected).cosine)
        return value >= 1 - golden.tolerance, value
    off = tensor_error("", "", computed, expected.astype(computed.dtype)).max_relative
    limit = 0.0 if golden.metric == "equal" else golden.tolerance
    return bool(off <= limit), float(off)


def best(scores: np.ndarray, count: int) -> set[int]:
    """Positions of the largest values."""
    return set(np.argsort(-scores.reshape(-1).astype(np.float64), kind="stable")[:count].tolist())
