"""Layers of a Caffe net as nets of their own.

layer { name: "prob" type: "Softmax" bottom: "fc8" top: "prob" }
Part(node="prob", operator="Softmax", operands=(fc8,), outputs=("prob",), ...)
"""

from __future__ import annotations

from collections.abc import Iterator

from explorer.importers.caffe.file.network import Network
from explorer.importers.caffe.file.reading import CaffeContent, Flow, read
from explorer.importers.model import SourceModel
from explorer.references.open_cv import content_of
from explorer.references.parts import Arrays, NoPart, Operand, Part


def caffe_parts(model: SourceModel, values: Arrays) -> Iterator[Part | NoPart]:
    """One for each layer. values: the tensors of a run by name, weights included."""
    content = content_of(model)
    for flow in content.flows:
        count = len(flow.layer.bottoms)
        operands, weights = flow.inputs[:count], flow.inputs[count:]
        missing = [name for name in (*operands, *flow.outputs) if name not in values]
        if not operands or missing:
            reason = f"{missing[0]!r} is no tensor of numbers" if missing else "it has no operand"
            yield NoPart(node=flow.layer.name, operator=flow.layer.kind, reason=reason)
        else:
            yield _part(content, flow, operands, weights, values)


def _part(
    content: CaffeContent,
    flow: Flow,
    operands: tuple[str, ...],
    weights: tuple[str, ...],
    values: Arrays,
) -> Part:
    layer = flow.layer
    given = dict(zip(layer.bottoms, operands, strict=True))
    inputs = tuple(
        Operand(name=bottom, array=values[name], is_constant=False)
        for bottom, name in given.items()
    )
    constants = tuple(Operand(name=n, array=values[n], is_constant=True) for n in weights)

    def model_for(arrays: Arrays) -> SourceModel:
        sizes = {bottom: tuple(arrays[bottom].shape) for bottom in given}
        alone = Network(layer.name, dict(sizes), (layer,), True)
        return read(alone.text(sizes), content.weights, layer.name)

    shapes = [o.array.shape for o in (*inputs, *constants)]
    settings = dict(layer.settings.flat())
    return Part(
        node=layer.name,
        operator=layer.kind,
        operands=(*inputs, *constants),
        outputs=tuple(model_for({o.name: o.array for o in inputs}).tensors),
        form=f"{layer.kind} {settings} {shapes} {len(layer.tops)}",
        model_for=model_for,
        attributes=settings,
        is_resizable=False,
    )
