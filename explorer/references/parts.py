"""One operation of a model, cut out as a model of its own, so that a reference judges it alone.

    for part in reference_of(model).parts(model, values):
        part.operator, part.operands            "Softmax", (Operand("scores", array), ...)
        part.model_for(part.inputs)             the operation, with inputs of these shapes

Constants stay constants. What other operations compute is an input with the value that it has in
the whole model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from explorer.importers.model import SourceModel

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True, kw_only=True, eq=False)
class Steps:
    """A quantization: real = (stored - zero point) * scale, by tensor or along an axis."""

    scale: np.ndarray
    zero_point: np.ndarray
    axis: int = 0


@dataclass(frozen=True, kw_only=True, eq=False)
class Operand:
    name: str
    array: np.ndarray
    is_constant: bool
    steps: Steps | None = None
    """Of formats that keep quantizations with tensors."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    node: str
    """Its name in the source model."""
    operator: str
    operands: tuple[Operand | None, ...]
    """None for one that is left out."""
    outputs: tuple[str, ...]
    form: str
    """Equal for operations that differ in nothing but the numbers of large constants."""
    model_for: Callable[[Arrays], SourceModel]
    """The operation as a model for inputs of these shapes."""
    attributes: Mapping[str, object] = field(default_factory=dict)
    result: Steps | None = None
    """The quantization of the first output, where the format keeps it with the tensor."""
    is_resizable: bool = True
    """Whether inputs may have other shapes than in the model."""
    exact: Callable[[Arrays], Mapping[str, np.ndarray]] | None = None
    """Its results in float64, where the reference's `nodes` do not have them."""
    unrounded: Callable[[Arrays], Mapping[str, np.ndarray]] | None = None
    """Of results that are quantized from floats: what is rounded to them, in float64."""

    @property
    def inputs(self) -> dict[str, np.ndarray]:
        """The values of its inputs in the whole model."""
        return {o.name: o.array for o in self.operands if o is not None and not o.is_constant}


@dataclass(frozen=True, kw_only=True)
class NoPart:
    """An operation that is not cut out, and why."""

    node: str
    operator: str
    reason: str


SETTINGS: dict[str, tuple[int, ...]] = {
    "reshape": (1,), "slice": (1, 2, 3, 4), "expand": (1,), "tile": (1,), "pad": (1, 2, 3),
    "resize": (1, 2, 3), "upsample": (1,), "squeeze": (1,), "unsqueeze": (1,), "split": (1,),
    "topk": (1,), "topkv2": (1,), "onehot": (1, 2), "cumsum": (1,), "trilu": (1,),
    "constantofshape": (0,), "range": (0, 1, 2), "nonmaxsuppression": (2, 3, 4), "clip": (1, 2),
    "dropout": (1, 2), "centercroppad": (1,), "dft": (1, 2), "stft": (1, 3), "bitshift": (1,),
    "quantizelinear": (1, 2), "dequantizelinear": (1, 2), "affinegrid": (1,),
    "stridedslice": (1, 2, 3), "padv2": (1,), "mirrorpad": (1,), "expanddims": (1,),
    "broadcastto": (1,), "transpose": (1,), "reversev2": (1,),
    "reducesum": (1,), "reducemax": (1,), "reducemin": (1,), "reducemean": (1,),
    "reduceprod": (1,), "reducel1": (1,), "reducel2": (1,), "reducelogsum": (1,),
    "reducelogsumexp": (1,), "reducesumsquare": (1,), "qlinearmatmul": (1, 2, 4, 5, 6, 7),
    "qlinearconv": (1, 2, 4, 5, 6, 7), "qlinearadd": (1, 2, 4, 5, 6, 7),
    "qlinearmul": (1, 2, 4, 5, 6, 7), "batchnormalization": (1, 2, 3, 4), "rightshift": (1,),
}  # fmt: skip
"""Operands that say how an operator works, by position: they keep their values."""


def plain(operator: str) -> str:
    """The name without what formats add: `aten.leaky_relu.default`, `LEAKY_RELU`, `LeakyRelu`."""
    return operator.removeprefix("aten.").split(".")[0].replace("_", "").lower()
