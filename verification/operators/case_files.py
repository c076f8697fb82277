"""Cases as files: NAME.onnx and NAME.npz, as `explorer run` and `explorer reduce` take them.

write_case(case, Path("out/Add-int8-7"))
case_of_files(Pair("Add", "int8"), 7, Path("out/Add-int8-7.onnx"), Path("out/Add-int8-7.npz"))
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any  # Any: an input is a tensor, a list of tensors, or None

import numpy as np
import onnx

from explorer.importers.arrays import read_arrays
from verification.operators.drawing import Case
from verification.operators.pairs import Pair


def case_of_files(pair: Pair, seed: int, model: Path, inputs: Path) -> Case:
    """A case that was written and made smaller."""
    proto = onnx.load(model)
    return Case(pair, seed, proto, _assembled(proto, read_arrays(inputs)), "reduced", 0)


def write_case(case: Case, stem: Path) -> list[Path]:
    """NAME.onnx and NAME.npz: a sequence `s` as `s.0`, `s.1` ..., nothing for what is not there."""
    files = [stem.with_suffix(suffix) for suffix in (".onnx", ".npz")]
    onnx.save(case.model, files[0])
    np.savez(files[1], **dict(_named(case.inputs)))
    return files


def _named(inputs: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in inputs.items():
        if isinstance(value, list | tuple):
            yield from _named({f"{name}.{place}": item for place, item in enumerate(value)})
        elif value is not None:
            array = np.asarray(value)
            yield name, array.astype(np.str_) if array.dtype.kind == "O" else array


def _assembled(model: onnx.ModelProto, arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The inversion of `_named`, by the types of the model's inputs."""
    found: dict[str, Any] = {}
    for value in model.graph.input:
        kind, name = value.type, value.name
        if kind.WhichOneof("value") == "optional_type":
            kind = kind.optional_type.elem_type
        if name in arrays or value.type.WhichOneof("value") == "optional_type":
            found[name] = _array(arrays.get(name))
        elif kind.WhichOneof("value") == "sequence_type":
            places = range(sum(key.startswith(f"{name}.") for key in arrays))
            found[name] = [_array(arrays[f"{name}.{place}"]) for place in places]
    return found


def _array(array: np.ndarray | None) -> np.ndarray | None:
    return array.astype(object) if array is not None and array.dtype.kind == "U" else array
