"""Who is right about TFLite models: LiteRT with its reference kernels, on one thread.

    TfliteReference().tensors(model, {"image": image}, ["conv1_out", "logits"])
        -> [("conv1_out", array), ("logits", array)]

Quantized tensors come as they are stored, so that integers are compared bit by bit. Some models
have others:

    operators of TFLite Micro alone, what LiteRT refuses     TFLite Micro
    operators of MediaPipe, that XNNPACK alone has,          LiteRT with XNNPACK: outputs
    and those that the reference kernels lack or get wrong
    sums of signed bytes, which the reference kernels        LiteRT's optimized kernels
    get wrong
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from explorer.importers.model import SourceModel
from explorer.importers.tflite.file.contents import Operator, TfliteContent
from explorer.references.interface import OpenedModel, Reference
from explorer.references.lite_rt import (
    LITE_RT,
    MICRO,
    Kernels,
    check_states,
    content_of,
    open_alone,
    open_micro,
    open_model,
    shared_process,
)
from explorer.references.parts import NoPart, Part
from explorer.references.tflite_parts import tflite_parts

_OF_MICRO = "custom.Signal"
_OF_XNNPACK = (
    *("custom.Convolution2DTransposeBias", "custom.MaxPoolingWithArgmax2D"),
    "custom.MaxUnpooling2D",
    *("CEIL", "ELU", "ROUND", "SEGMENT_SUM", "STABLEHLO_AND", "STABLEHLO_SHIFT_LEFT"),
    "LOCAL_RESPONSE_NORMALIZATION",  # which the reference kernels get wrong
)

_WRONG_SUMS = ("int8", "int16")
"""Element types of which the reference kernel's sums are wrong."""
_TITLES: Mapping[Kernels, str] = {
    "reference": "reference kernels",
    "optimized": "optimized kernels",
    "xnnpack": "XNNPACK",
}


class TfliteReference(Reference):
    name = LITE_RT.name

    def __init__(self) -> None:
        self.title = f"{LITE_RT.named}, reference kernels"

    def title_of(self, model: SourceModel) -> str:
        content = content_of(model)
        if _needs_micro(content):
            return MICRO.named
        return f"{LITE_RT.named}, {_TITLES[_kernels(content)]}"

    def start(self) -> None:
        if LITE_RT.version:
            shared_process(LITE_RT).start()

    def tensors(
        self, model: SourceModel, inputs: Mapping[str, np.ndarray], names: Sequence[str]
    ) -> list[tuple[str, np.ndarray]]:
        """Computed tensors; those that are no arrays (resources, strings) are left out."""
        content = content_of(model)
        check_states(model, inputs, is_settable=not _needs_micro(content))
        if _needs_micro(content):
            known = {t.name for t in content.main.inputs}
            inputs = {name: array for name, array in inputs.items() if name in known}
            opened = open_micro(model)
        else:
            opened = open_model(model, kernels=_kernels(content))
        with opened:
            shown = [name for name in names if name in opened.outputs]
            found = opened.run(inputs, shown)
        return [(name, found[name]) for name in shown]

    def may_tie(self, model: SourceModel) -> frozenset[str]:
        """What is quantized from floats; integers of integers are the kernels' own."""
        return frozenset(
            o.outputs[0].name
            for o in content_of(model).main.operators
            if o.kind == "QUANTIZE" and o.inputs[0] is not None
            if o.inputs[0].element_type == "float32"
        )

    def open(
        self,
        model: SourceModel,
        *,
        threads: int = 1,
        is_exact: bool = False,
        sizes: Mapping[str, int] | None = None,
    ) -> OpenedModel:
        del is_exact, sizes
        return open_alone(model, threads=threads)

    def parts(
        self, model: SourceModel, values: Mapping[str, np.ndarray]
    ) -> Iterator[Part | NoPart]:
        return tflite_parts(model, values)


def _needs_micro(content: TfliteContent) -> bool:
    """Whether LiteRT refuses it and TFLite Micro does not."""
    kinds = {o.kind for graph in content.subgraphs for o in graph.operators}
    return any(kind.startswith(_OF_MICRO) for kind in kinds) or any(
        t.quantization is not None
        and t.quantization.scales.size
        and not 0 <= t.quantization.axis < max(len(t.shape), 1)
        for graph in content.subgraphs
        for t in graph.tensors
    )


def _kernels(content: TfliteContent) -> Kernels:
    """Those that are right about all operators of the model."""
    operators = content.main.operators
    if any(o.kind in _OF_XNNPACK for o in operators):
        return "xnnpack"
    has_wrong_sums = any(o.kind == "SUM" and _element_type(o) in _WRONG_SUMS for o in operators)
    return "optimized" if has_wrong_sums else "reference"


def _element_type(operator: Operator) -> str:
    """Of the first operand."""
    tensor = next(iter(operator.inputs), None)
    return "" if tensor is None else tensor.element_type
