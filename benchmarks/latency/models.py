"""What is measured: architectures by name, sample models, and the folder of models.

    open_model("resnet18")      (SourceModel, dimensions, arrays that belong to it)
    open_model("net.onnx")

The folder of models is what `EXPLORER_MODELS` names (from the repository's root; `../shared/models`
if it is not set). `benchmarks/models.toml` knows the sizes and inputs that some of them need.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from architectures import NAMES, open_architecture

from explorer.cases.cases import Case, read_cases
from explorer.cases.sources import read_all
from explorer.cli.models import load_with_weights
from explorer.errors import InputError
from explorer.importers import SourceModel
from explorer.importers.inputs import check_arrays

REPOSITORY = Path(__file__).resolve().parent.parent.parent
SAMPLES = REPOSITORY / "sample_models"
MODELS = REPOSITORY / os.environ.get("EXPLORER_MODELS", "../shared/models")
CASES = REPOSITORY / "benchmarks" / "models.toml"
LIGHT = "light_"
"""Names of the folder's models that the architectures have already."""
QUANTIZED = ("Quantize", "QLinear", "Integer", "QGemm", "RequantShift")
"""Parts of names of operators."""


@dataclass(frozen=True)
class Opened:
    """A model with what is known of its inputs."""

    model: SourceModel
    dimensions: Mapping[str, int]
    inputs: Mapping[str, np.ndarray]
    """Those that belong to it; the others are random."""


FORMATS = {".onnx": "onnx", ".tflite": "tflite"}
"""Suffixes, and the folder's part where such files are."""


def every_name(is_tflite: bool = False) -> list[str]:
    """All architectures, all sample models, and every model of the folder that is none of them; or
    the folder's TFLite models."""
    if is_tflite:
        return [path.name for path in sorted((MODELS / "tflite").glob("*.tflite"))]
    found = sorted(SAMPLES.glob("*.onnx")) + sorted((MODELS / "onnx").glob("*.onnx"))
    return [*NAMES, *(path.stem for path in found if not path.stem.startswith(LIGHT))]


def label(name: str) -> str:
    """What a model is called in rows: names of architectures and files may have dots."""
    plain = Path(name).name
    return next((plain.removesuffix(s) for s in FORMATS if plain.endswith(s)), plain)


def find_file(name: str) -> Path | None:
    """A path as it is; else a sample model or one of the folder's."""
    if Path(name).is_file():
        return Path(name)
    for suffix, part in FORMATS.items():
        for folder in (SAMPLES, MODELS / part):
            path = folder / f"{Path(name).name.removesuffix(suffix)}{suffix}"
            if path.is_file():
                return path
    return None


def open_model(name: str) -> Opened:
    """InputError where there is no such model."""
    path = None if name in NAMES else find_file(name)
    if path is None:
        return Opened(open_architecture(name), {}, {})
    case = read_cases(CASES).get(path.stem, Case())
    inputs = read_all(case.inputs, MODELS) if _is_below(path, MODELS) else {}
    model = load_with_weights(str(path))
    return Opened(model, check_arrays(model, inputs, case.dimensions, path), inputs)


def is_quantized(model: onnx.ModelProto) -> bool:
    """Whether some operator computes with quantized numbers."""
    return any(part in node.op_type for node in model.graph.node for part in QUANTIZED)


def _is_below(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder.resolve())


def check_name(name: str) -> None:
    """InputError where neither an architecture nor a file has the name."""
    if name in NAMES or find_file(name) is not None:
        return
    open_architecture(name)
    raise InputError(f"no model {name!r}")
