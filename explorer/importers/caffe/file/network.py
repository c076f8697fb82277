"""The layers of a net, whichever form its prototxt has, as they are when it is used.

    V2  layer { type: "Convolution" convolution_param { kernel_size: 3 } }
    V1  layers { type: CONVOLUTION convolution_param { kernel_size: 3 } }
    V0  layers { layer { type: "conv" kernelsize: 3 } }

Of a net for training and testing the layers of phase TEST remain, without data, losses and
accuracies. Source: caffe.proto and src/caffe/util/upgrade_proto.cpp of BVLC/caffe.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from explorer.errors import ModelError
from explorer.importers.caffe.file.prototxt import Message, Text
from explorer.ir.types import Shape

_V1_KINDS = {
    "ABSVAL": "AbsVal",
    "ARGMAX": "ArgMax",
    "BNLL": "BNLL",
    "HDF5_DATA": "HDF5Data",
    "LRN": "LRN",
    "MVN": "MVN",
    "PRELU": "PReLU",
    "RELU": "ReLU",
    "SIGMOID_CROSS_ENTROPY_LOSS": "SigmoidCrossEntropyLoss",
    "SOFTMAX_LOSS": "SoftmaxWithLoss",
    "TANH": "TanH",
}
"""Where a kind is not its V1 name in one word: INNER_PRODUCT is InnerProduct."""
_V0_KINDS = {
    "bnll": "BNLL",
    "conv": "Convolution",
    "innerproduct": "InnerProduct",
    "lrn": "LRN",
    "pool": "Pooling",
    "relu": "ReLU",
    "softmax_loss": "SoftmaxWithLoss",
    "tanh": "TanH",
}
_V0_SETTINGS = {"kernelsize": "kernel_size", "biasterm": "bias_term", "concat_dim": "axis"}
_SETTINGS = {
    "Deconvolution": "convolution_param",
    "DepthwiseConvolution": "convolution_param",
    "ConvolutionDepthwise": "convolution_param",
    "Normalize": "norm_param",
    "PSROIPooling": "psroi_pooling_param",
    "ROIPooling": "roi_pooling_param",
    "ReLU": "relu_param",
}
"""Where the field of a kind's settings is not called after it."""
_DATA = ("Data", "DummyData", "HDF5Data", "ImageData", "Input", "MemoryData", "WindowData")
_DATA += ("AnnotatedData",)
_JUDGING = ("Accuracy", "DetectionEvaluate", "HDF5Output", "Silence", "InfogainLoss")


@dataclass(frozen=True)
class Layer:
    """One layer."""

    name: str
    """Unique: the second of a name is `name_1`, as OpenCV calls it."""
    blob_name: str
    """By which its weights are found."""
    kind: str
    bottoms: tuple[str, ...]
    tops: tuple[str, ...]
    settings: Message
    """Those of its kind: `convolution_param` of a convolution."""
    message: Message
    """All that the file says of it, in the form V2."""


@dataclass(frozen=True)
class Network:
    name: str
    inputs: dict[str, Shape]
    """Sizes that the file does not say have names."""
    layers: tuple[Layer, ...]
    is_reduced: bool
    """Whether it is a part of what the file says: that without training."""

    def text(self, sizes: dict[str, tuple[int, ...]]) -> str:
        """It in the form V2 with inputs of these sizes."""
        fields: list[tuple[str, str | Message]] = []
        for name, shape in sizes.items():
            dims = Message([("dim", str(size)) for size in shape])
            fields += [("input", Text(name)), ("input_shape", dims)]
        fields += [("layer", layer.message) for layer in self.layers]
        return Message(fields).text()


def network_of(net: Message) -> Network:
    """The layers of a parsed prototxt. ModelError where they are none."""
    inputs = _declared(net)
    layers: list[Layer] = []
    names: dict[str, int] = {}
    is_reduced = False
    for message in (*net.messages("layers"), *net.messages("layer")):
        layer = _upgraded(message)
        if not _is_used(message, net.message("state")):
            is_reduced = True
            continue
        kind = layer.word("type")
        if kind in _DATA:
            inputs |= _data(layer, kind)
            is_reduced |= kind != "Input"
        elif kind in _JUDGING or kind.endswith("Loss"):
            is_reduced = True
        else:
            layers.append(_layer(layer, kind, names))
    if not layers:
        raise ModelError(
            "no layer computes anything", hint="is it the file of a net, and not of its solver?"
        )
    used = {bottom for layer in layers for bottom in layer.bottoms}
    inputs = {name: shape for name, shape in inputs.items() if name in used}
    inputs = {name: _completed(name, shape) for name, shape in inputs.items()}
    return Network(net.word("name"), inputs, tuple(layers), is_reduced)


def _layer(message: Message, kind: str, names: dict[str, int]) -> Layer:
    blob_name = message.word("name")
    tops = tuple(message.words("top"))
    if not kind or not tops:
        raise ModelError("a layer without a kind or without a result", node=blob_name)
    count = names.get(blob_name, 0)
    names[blob_name] = count + 1
    name = f"{blob_name}_{count}" if count or not blob_name else blob_name
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", kind).lower()
    field = _SETTINGS.get(kind, f"{words}_param")
    field = field if message.has(field) else f"{kind.lower()}_param"
    bottoms = tuple(message.words("bottom"))
    return Layer(
        name=name,
        blob_name=blob_name,
        kind=kind,
        bottoms=bottoms,
        tops=tops,
        settings=message.message(field),
        message=message,
    )


# -- forms -----------------------------------------------------------------------------------------
def _upgraded(message: Message) -> Message:
    """A layer in the form V2."""
    if message.has("layer"):
        return _upgraded_v0(message)
    kind = next((v for name, v in message.fields if name == "type"), "")
    if isinstance(kind, Message | Text):
        return message
    upgraded = _V1_KINDS.get(kind, kind.title().replace("_", "") if kind.isupper() else kind)
    return _with_kind(message, upgraded)


def _upgraded_v0(message: Message) -> Message:
    inner = message.message("layer")
    kind = inner.word("type")
    upgraded = _V0_KINDS.get(kind, kind.title().replace("_", ""))
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", upgraded).lower()
    settings = [
        (_V0_SETTINGS.get(name, name), value)
        for name, value in inner.fields
        if name not in ("name", "type", "blobs_lr", "weight_decay", "blobs")
    ]
    around = [entry for entry in message.fields if entry[0] in ("bottom", "top")]
    made = [("name", Text(inner.word("name"))), ("type", Text(upgraded)), *around]
    return Message([*made, (f"{words}_param", Message(settings))] if settings else made)


def _with_kind(message: Message, kind: str) -> Message:
    trained = ("blobs_lr", "weight_decay", "include", "exclude")
    kept = [entry for entry in message.fields if entry[0] not in trained]
    return Message([(n, Text(kind) if n == "type" else v) for n, v in kept])


# -- phases ----------------------------------------------------------------------------------------
def _is_used(layer: Message, state: Message) -> bool:
    """Whether a layer is one of phase TEST, by its rules."""
    includes, excludes = layer.messages("include"), layer.messages("exclude")
    if includes:
        return any(_holds(rule, state) for rule in includes)
    return not any(_holds(rule, state) for rule in excludes)


def _holds(rule: Message, state: Message) -> bool:
    level, stages = state.integer("level", 0), set(state.words("stage"))
    return (
        rule.word("phase", "TEST") in ("TEST", "1")
        and rule.integer("min_level", level) <= level <= rule.integer("max_level", level)
        and stages.issuperset(rule.words("stage"))
        and stages.isdisjoint(rule.words("not_stage"))
    )


# -- inputs ----------------------------------------------------------------------------------------
def _declared(net: Message) -> dict[str, Shape]:
    """Inputs that stand outside of layers."""
    names, dims = net.words("input"), net.integers("input_dim")
    shapes = [_shape(shape) for shape in net.messages("input_shape")]
    if not shapes:
        shapes = [tuple(dims[4 * i : 4 * i + 4]) for i in range(len(dims) // 4)]
    if names and len(shapes) not in (0, len(names)):
        raise ModelError(f"{len(names)} inputs, and sizes for {len(shapes)}")
    return dict(zip(names, shapes or [()] * len(names), strict=True))


def _data(layer: Message, kind: str) -> dict[str, Shape]:
    """What a layer of data brings; its batch is that of training, and stays open."""
    tops = layer.words("top")
    if kind == "Input":
        shapes = [_shape(shape) for shape in layer.message("input_param").messages("shape")]
    elif kind == "DummyData":
        shapes = [_shape(shape) for shape in layer.message("dummy_data_param").messages("shape")]
    else:
        shapes = []
    if len(shapes) not in (0, 1, len(tops)):
        raise ModelError(f"{len(tops)} inputs, and sizes for {len(shapes)}")
    shapes = shapes * len(tops) if len(shapes) == 1 else shapes or [()] * len(tops)
    return dict(zip(tops, shapes, strict=True))


def _shape(message: Message) -> Shape:
    return tuple(message.integers("dim"))


def _completed(name: str, shape: Shape) -> Shape:
    """Images have a batch, channels, height and width; sizes below 1 are open."""
    axes = ("batch", f"{name}_channels", f"{name}_height", f"{name}_width")
    if not shape:
        return axes
    return tuple(
        size if isinstance(size, int) and size > 0 else axes[i] if i < 4 else f"{name}_{i}"
        for i, size in enumerate(shape)
    )
