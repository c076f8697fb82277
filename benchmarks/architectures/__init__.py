"""Architectures by name, in shapes that people deploy, with seeded random weights.

    model = open_architecture("resnet18")       a SourceModel, batch 1

Some are the "light" models that come with the package `onnx`, whose weights are drawn here; the
others are written with `onnx.helper`. Weights keep the signal's size from layer to layer (He et
al., 2015), so that no activation saturates and the numbers can be compared.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path

import onnx
from onnx import numpy_helper

from architectures.convolutional import mobilenetv2, resnet18
from architectures.dynamic import (
    dynamic_attention,
    dynamic_attention_products,
    dynamic_bert_small,
    dynamic_feed_forward,
    dynamic_feed_forward_columns,
)
from architectures.transformers import bert_2x768, vit_tiny
from explorer.cli.latency.reference import onnx_content
from explorer.cli.models import load_with_weights
from explorer.errors import InputError
from explorer.importers import SourceModel
from explorer.importers.onnx.file.reading import from_proto

BUILT: dict[str, Callable[[], onnx.ModelProto]] = {
    "resnet18": resnet18,
    "mobilenetv2": mobilenetv2,
    "bert_2x768": bert_2x768,
    "vit_tiny": vit_tiny,
    "dynamic_feed_forward": dynamic_feed_forward,
    "dynamic_feed_forward_columns": dynamic_feed_forward_columns,
    "dynamic_attention": dynamic_attention,
    "dynamic_attention_products": dynamic_attention_products,
    "dynamic_bert_small": dynamic_bert_small,
}
LIGHT = ("resnet50", "squeezenet", "shufflenet", "densenet121", "inception_v1", "vgg19")
LIGHT_FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
SOFTENED = {"shufflenet": ("gpu_0/pred_w_0", 1 / 128)}
"""A weight of the last layer, and by what it is multiplied: the branches of this architecture add
up, and a softmax that is 1 for one class and 0 for the others would hide every error."""

NAMES = (
    "resnet18",
    "resnet50",
    "mobilenetv2",
    "squeezenet",
    "shufflenet",
    "densenet121",
    "inception_v1",
    "vgg19",
    "bert_2x768",
    "vit_tiny",
    "dynamic_feed_forward",
    "dynamic_feed_forward_columns",
    "dynamic_attention",
    "dynamic_attention_products",
    "dynamic_bert_small",
)


def open_architecture(name: str) -> SourceModel:
    """The model of that name. InputError where there is none."""
    if name in BUILT:
        return from_proto(BUILT[name](), name)
    if name in LIGHT:
        model = load_with_weights(str(LIGHT_FOLDER / f"light_{name}.onnx"))
        return _softened(model, *SOFTENED[name]) if name in SOFTENED else model
    near = difflib.get_close_matches(name, NAMES, n=1)
    raise InputError(
        f"there is no architecture {name!r}",
        hint=f"`{near[0]}`" if near else f"one of {', '.join(NAMES)}",
    )


def _softened(model: SourceModel, weight: str, factor: float) -> SourceModel:
    """The model with one of its weights multiplied."""
    proto = onnx_content(model).proto
    (found,) = [tensor for tensor in proto.graph.initializer if tensor.name == weight]
    array = numpy_helper.to_array(found)
    found.CopyFrom(numpy_helper.from_array(array * array.dtype.type(factor), weight))
    return from_proto(proto, model.name, model.path)
