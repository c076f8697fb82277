"""Models that onnxruntime optimized and saved, against the models that they came from.

    python benchmarks/saved_models.py MODELS/onnx sample_models --files MODELS \
        --cases benchmarks/models.toml --record saved.jsonl --report docs/saved-models.md

Each model is saved at each level (`optimized_model_filepath`), imported, and run on seeded or given
inputs; its outputs are compared with those of the model that it came from in onnxruntime without
optimizations. All this happens in a child process with a time limit, for onnxruntime may end it;
another one goes on then. The record is kept line by line: what stands in it is not run again.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from verification.children import Child

LEVELS = ("itself", "basic", "extended", "all")
"""`itself`: the model as it is, for what the import makes of it without onnxruntime."""
SEED = 0
LISTED = 1e-4
"""Deviations above it are explained."""
Finding = dict[str, Any]


def main() -> int:
    if sys.argv[1:2] == ["--child"]:
        return answer(int(sys.argv[2]))
    arguments = parser().parse_args()
    models = [p for name in arguments.models for p in found_in(Path(name))]
    kept = read_record(arguments.record)
    jobs = [(m, level) for m in models for level in arguments.levels.split(",")]
    child = Child((str(Path(__file__).resolve()), "--child"))
    try:
        for model, level in [job for job in jobs if (job[0].stem, job[1]) not in kept]:
            finding = ask(child, arguments, model, level)
            kept[model.stem, level] = finding
            print(f"{model.stem:32} {level:10} {cell(finding)}", flush=True)
            with arguments.record.open("a") as file:
                file.write(json.dumps(finding) + "\n")
    finally:
        child.close()
    if arguments.report is not None:
        names = [model.stem for model in models]
        arguments.report.write_text(report(names, kept), encoding="utf-8")
    return 0


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    result.add_argument("models", nargs="+", help="files or folders")
    result.add_argument("--files", type=Path, default=Path(), help="folder of the cases' paths")
    result.add_argument("--cases", type=Path, help="sizes and inputs (benchmarks/models.toml)")
    result.add_argument("--levels", default=",".join(LEVELS))
    result.add_argument("--target", choices=("interpreter", "cpu"), default="interpreter")
    result.add_argument("--seconds", type=float, default=300.0, help="for one model and level")
    result.add_argument("--record", type=Path, default=Path("saved.jsonl"))
    result.add_argument("--report", type=Path)
    return result


def found_in(path: Path) -> list[Path]:
    return sorted(path.glob("*.onnx")) if path.is_dir() else [path]


def read_record(path: Path) -> dict[tuple[str, str], Finding]:
    lines = path.read_text().splitlines() if path.exists() else []
    findings = [json.loads(line) for line in lines]
    return {(finding["model"], finding["level"]): finding for finding in findings}


def ask(child: Child, arguments: argparse.Namespace, model: Path, level: str) -> Finding:
    request = {
        "path": str(model),
        "level": level,
        "target": arguments.target,
        "files": str(arguments.files),
        "cases": str(arguments.cases or ""),
    }
    found = child.ask(request, arguments.seconds)
    return {"model": model.stem, "level": level, "target": arguments.target, **found}


# -- the child -----------------------------------------------------------------------------------


def answer(replies: int) -> int:
    with open(replies, "w") as file:
        for line in sys.stdin:
            file.write(json.dumps(examine(json.loads(line))) + "\n")
            file.flush()
    return 0


def examine(request: Mapping[str, str]) -> Finding:
    """Deviations of the saved model, or why there are none."""
    from explorer.cases.cases import Case, read_cases
    from explorer.cases.sources import read_all
    from explorer.errors import ExplorerError
    from verification.checks.examine import one_line

    path, files = Path(request["path"]), Path(request["files"])
    cases = read_cases(Path(request["cases"])) if request["cases"] else {}
    case = cases.get(path.stem, Case())
    try:
        return compared(path, request, case.dimensions, read_all(case.inputs, files))
    except ExplorerError as error:
        reasons = getattr(error, "problems", ()) or (str(error),)
        return {"status": "refused", "reason": one_line(reasons[0]), "problems": len(reasons)}


def compared(
    path: Path,
    request: Mapping[str, str],
    dimensions: Mapping[str, int],
    given: Mapping[str, np.ndarray],
) -> Finding:
    from explorer.accuracy.oracle import random_inputs
    from explorer.importers.model import bind_dimensions
    from explorer.importers.onnx import load
    from verification.checks.examine import one_line

    model = load(path)
    sizes = bind_dimensions(model, {**sizes_of(model, given), **dimensions})
    inputs = {**random_inputs(model, SEED, sizes), **given}
    with tempfile.TemporaryDirectory() as folder:
        file = path
        try:
            if request["level"] != "itself":
                file = Path(folder) / path.name
                session(path, request["level"], file)
            expected = run(path, inputs)
        except Exception as error:  # of onnxruntime, which has no type of its own for it
            return {"status": "not loaded", "reason": one_line(error)}
        source = load(file)
        own = {n: s for n, s in sizes.items() if n in {*_names(source)}}
        inputs = {**random_inputs(source, SEED, own), **inputs}
        found = computed(file, request["target"], inputs, own)
        again = run(file, inputs)
        domains = Counter(
            f"{node.domain}.{node.op_type}" if node.domain else node.op_type
            for node in onnx.load(file, load_external_data=False).graph.node
            if node.domain or node.op_type == "SimplifiedLayerNormalization"
        )
    return {
        "status": "compared",
        "deviation": deviation(found, expected),
        "onnxruntime": deviation(again, expected),
        "operators": dict(domains),
    }


def _names(model: Any) -> list[str]:
    """Any: SourceModel, which the parent does not import."""
    return [size for v in model.inputs for size in v.shape or () if isinstance(size, str)]


def sizes_of(model: Any, given: Mapping[str, np.ndarray]) -> dict[str, int]:
    """Symbolic sizes that given arrays tell."""
    pairs = [(v.shape or (), given[v.name].shape) for v in model.inputs if v.name in given]
    told = [pair for declared, shape in pairs for pair in zip(declared, shape, strict=True)]
    return {name: size for name, size in told if isinstance(name, str)}


def session(path: Path, level: str, to: Path | None = None) -> Any:
    """Any: onnxruntime is loaded in children only."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = getattr(levels, f"ORT_{level.upper()}", None) or getattr(
        levels, f"ORT_ENABLE_{level.upper()}"
    )
    if to is not None:
        options.optimized_model_filepath = str(to)
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def run(path: Path, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """By onnxruntime without optimizations, products of bytes exact on every processor."""
    from explorer.importers.onnx import load
    from explorer.references.onnx_runtime import open_model

    with open_model(load(path), is_optimized=False) as opened:
        found = opened.run({name: inputs[name] for name in opened.inputs})
    return [np.asarray(array) for array in found.values()]


def computed(
    path: Path, target: str, inputs: Mapping[str, np.ndarray], sizes: Mapping[str, int]
) -> list[np.ndarray]:
    import explorer
    from explorer.importers.onnx import load, to_top
    from explorer.ir.evaluation import outputs_by_name
    from explorer.ir.program import Snapshot

    model = load(path)
    fed = {v.name: inputs[v.name] for v in model.inputs}
    if target == "cpu":
        compilation = explorer.compile(path, dimensions=sizes)
        try:
            return list(compilation.run(fed).values())
        finally:
            compilation.close()
    program = Snapshot(*to_top(model, sizes))
    return list(outputs_by_name(program.program, program.run(fed)).values())


def deviation(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """The largest of all outputs, in parts of the output's largest number."""
    from explorer.accuracy.metrics import tensor_error

    pairs = zip(found, expected, strict=True)
    return max(tensor_error("", "", a, b).max_relative for a, b in pairs)


# -- the table -----------------------------------------------------------------------------------


def cell(finding: Finding | None) -> str:
    if finding is None:
        return "not run"
    if finding["status"] != "compared":
        return str(finding["status"])
    in_c = " (C)" if finding["target"] == "cpu" else ""
    return f"{finding['deviation']:.1e}{in_c}" if finding["deviation"] else f"0{in_c}"


def report(names: Sequence[str], kept: Mapping[tuple[str, str], Finding]) -> str:
    import onnxruntime

    loaded = [n for n in names if _status(kept, n, "all") != "not loaded"]
    lines = [
        "# Models that onnxruntime saved",
        "",
        "Made by `python benchmarks/saved_models.py models/onnx sample_models --files models "
        "--cases benchmarks/models.toml --report docs/saved-models.md`; "
        f"onnxruntime {onnxruntime.__version__}.",
        "",
        INTRODUCTION,
        "",
        "| level | imported | refused |",
        "| --- | --- | --- |",
    ]
    for level in LEVELS:
        states = Counter(_status(kept, name, level) for name in loaded)
        right = states.pop("compared", 0)
        others = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
        lines.append(f"| {level} | {right} of {len(loaded)} | {others} |")
    lines += ["", "## Deviations", "", "| model | " + " | ".join(LEVELS) + " | onnxruntime |"]
    lines.append("| --- " * (len(LEVELS) + 2) + "|")
    for name in loaded:
        cells = [cell(kept.get((name, level))) for level in LEVELS]
        its = kept.get((name, "all"), {}).get("onnxruntime")
        lines.append(f"| {name} | {' | '.join(cells)} | {'' if its is None else f'{its:.1e}'} |")
    lines += ["", "## Operators", "", OPERATORS, "", "| operator | basic | extended | all |"]
    lines.append("| --- | --- | --- | --- |")
    counts = {level: _operators(kept, level) for level in LEVELS}
    for operator in sorted({o for found in counts.values() for o in found}):
        numbers = [str(counts[level][operator] or "") for level in LEVELS[1:]]
        lines.append(f"| {operator} | {' | '.join(numbers)} |")
    lines += _reasons(names, kept)
    return "\n".join(lines) + "\n"


def _status(kept: Mapping[tuple[str, str], Finding], name: str, level: str) -> str:
    return str(kept.get((name, level), {"status": "not run"})["status"])


def _operators(kept: Mapping[tuple[str, str], Finding], level: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for (_, of), finding in kept.items():
        if of == level:
            found.update(finding.get("operators", {}))
    return found


def _reasons(names: Sequence[str], kept: Mapping[tuple[str, str], Finding]) -> list[str]:
    """One line for each model and reason; files without their folders."""
    levels_of: dict[tuple[str, str], list[str]] = {}
    for name, level in [(name, level) for name in names for level in LEVELS]:
        finding = kept.get((name, level))
        if finding is not None and finding["status"] != "compared":
            why = re.sub(r"\S*/(\S+\.onnx)", r"\1", str(finding.get("reason", "")))
            words = f"{finding['status']}: {why}".replace("|", "\\|")
            levels_of.setdefault((name, words), []).append(level)
    lines = ["", "## Not compared", "", "| model | levels | what |", "| --- | --- | --- |"]
    return lines + [f"| {n} | {', '.join(its)} | {why} |" for (n, why), its in levels_of.items()]


INTRODUCTION = f"""\
onnxruntime writes the model that it optimized where `SessionOptions.optimized_model_filepath`
says so, at the graph optimization level of the session. Such a file has operators that no
exporter writes, and at level `all` it is made for the processor of the machine: tensors in blocks
of 8 or 16 channels, weights in that order. It is imported as the model that it was: the same
convolutions, the same channels, nothing reordered.

A deviation is the largest difference of any output from the model *that it came from*, run by
onnxruntime without optimizations, in parts of the output's largest number. `itself` is that
model, imported as it is. The last column is onnxruntime's own deviation: the file saved at level
`all`, run by onnxruntime. Where numbers are above {LISTED:g}, those of `itself` or of onnxruntime
are of the same size: such a model magnifies the rounding of its first layers. In quantized models
a tie is a whole step; onnxruntime makes integer arithmetic of the real one at level `extended`.
Its products of 8 bits saturate on processors without VNNI; what judges here multiplies unsigned
weights, which is exact ([quantization](quantization.md)).

How large the blocks are is not said in the file. It follows from sizes that only one of them
allows; else from the weights, whose filters differ less when they are read in the wrong order;
and where neither tells, it is the size that onnxruntime uses on this machine, which is how
onnxruntime itself reads the file. A file of level `all` belongs to the machine that saved it:
save at level `extended` what goes elsewhere."""
OPERATORS = "Those of onnxruntime's own, in all models together."


if __name__ == "__main__":
    sys.exit(main())
