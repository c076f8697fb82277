"""The family of every call, by which the opened model is coloured, counted and sorted.

    family_of("aten.conv2d")          -> "convolution"
    family_of("mylib.unknown")        -> "other"

Families are those of `results.GraphNode.family`. The module of a call's converter decides, also
that of another package.
"""

from __future__ import annotations

from functools import lru_cache

_OF_MODULES = {
    "elementwise": "elementwise",
    "unary": "elementwise",
    "special": "elementwise",
    "bessel": "elementwise",
    "complex_numbers": "elementwise",
    "quantized_decomposed": "quantization",
    "fourier": "convolution",
    "activations": "elementwise",
    "products": "convolution",
    "attention": "convolution",
    "movement": "movement",
    "parts": "movement",
    "joining": "movement",
    "indexing": "movement",
    "embeddings": "movement",
    "torchvision": "movement",
    "scattering": "movement",
    "creation": "weight",
    "repeats": "movement",
    "reductions": "reduction",
    "linear_algebra": "reduction",
    "matrix_factors": "reduction",
    "linear_systems": "reduction",
    "orthogonal_factors": "reduction",
    "singular_values": "reduction",
    "losses": "reduction",
    "statistics": "reduction",
    "normalization": "normalization",
    "pooling": "pooling",
    "sizes": "movement",
    "images": "movement",
    "recurrent": "recurrent",
    "control": "control",
}
_ALSO_REDUCTIONS = ("softmax", "_softmax", "log_softmax", "_log_softmax")


@lru_cache(maxsize=4096)
def family_of(target: str) -> str:
    from explorer.importers.pytorch.operators.register import known  # which takes its time

    name = target.removeprefix("aten.").split(".")[0]
    if name in _ALSO_REDUCTIONS:
        return "reduction"
    convert = known().get(target)
    if convert is None and target.startswith("higher_order."):
        return "control"
    if convert is None:
        overload = target.removeprefix(f"aten.{name}")
        convert = known().get(f"aten.{name.rstrip('_')}{overload}")
    return _OF_MODULES.get(getattr(convert, "__module__", "").rsplit(".", 1)[-1], "other")
