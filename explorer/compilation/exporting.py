"""A compilation's program as a model file for others: ONNX.

write_model(c, Path("net.onnx"))                        before anything is computed in integers
write_model(c, Path("net.onnx"), at="fold-batch-norm")  as it is after another pass
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from explorer.compilation.settings.capacity import require_any_mask
from explorer.errors import InputError
from explorer.ir.program import Snapshot
from explorer.passes.quantize.compute_in_integers import ComputeInIntegers
from explorer.results.names import near_name

if TYPE_CHECKING:
    from onnx import ModelProto

    from explorer.compilation.compiled import Compiled
    from explorer.exporters.onnx import IntegerForm, WeightType


def onnx_model(
    c: Compiled, at: str = "", weights: WeightType = "uint8", integers: IntegerForm = "pairs"
) -> ModelProto:
    """The program after a pass as an ONNX model; see `Compilation.to_onnx`."""
    from explorer.exporters.onnx import model_of

    name, snapshot = _chosen(c, at)
    require_any_mask(c.passes[0].after.program, "a model of ONNX")
    table = c.settings.quantization
    told = {"explorer.after": name}
    if table is not None:
        told |= {"explorer.thresholds": table.digest, "explorer.method": table.method}
    return model_of(snapshot, c.model.name, told, weights, integers)


def write_model(c: Compiled, path: Path, at: str = "", weights: WeightType = "uint8") -> ModelProto:
    """The same, written into a file."""
    from explorer.exporters.onnx import write_onnx
    from explorer.files import check_output

    check_output(path)
    model = onnx_model(c, at, weights)
    write_onnx(path, model)
    return model


def _chosen(c: Compiled, at: str) -> tuple[str, Snapshot]:
    """The pass, and the program after it: of `top`, with no layouts yet."""
    if at:
        if at not in c.names:
            raise InputError(f"there is no pass {at!r}", hint=near_name(at, c.names))
        return at, c[at].after
    if ComputeInIntegers.name not in c.names:
        raise InputError(
            f"the pipeline has no {ComputeInIntegers.name}, before which programs are written",
            hint="name the pass after which it is to be written",
        )
    before = c.names[c.names.index(ComputeInIntegers.name) - 1]
    return before, c[before].after
