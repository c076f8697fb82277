"""Activations that an operator applies at its end, named in an attribute.

    LSTM <activations = ["HardSigmoid", ...], activation_alpha = [0.2, ...]>
    FusedConv <activation = "Clip", activation_params = [0.0, 6.0]>

Names are those of ONNX's operators, in any case of letters; parameters stand in the order of the
operator's attributes: alpha, beta and gamma, or least and greatest. Reference: ONNX operators,
LSTM; onnxruntime, docs/ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from explorer.importers.building.build import Build
from explorer.importers.building.expr import Expr, where
from explorer.importers.onnx.program.nodes import Unsupported

_DEFAULTS: Mapping[str, Mapping[str, float]] = {
    "affine": {"alpha": 1.0, "beta": 0.0},
    "clip": {"min": -float("inf"), "max": float("inf")},
    "elu": {"alpha": 1.0},
    "hardsigmoid": {"alpha": 0.2, "beta": 0.5},
    "hardswish": {},
    "leakyrelu": {"alpha": 0.01},
    "relu": {},
    "scaledtanh": {"alpha": 1.0, "beta": 1.0},
    "selu": {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875},
    "sigmoid": {},
    "softplus": {},
    "softsign": {},
    "tanh": {},
    "thresholdedrelu": {"alpha": 1.0},
}
"""The parameters of each in order, with what they are where they are not given."""


def default_parameters(name: str) -> Mapping[str, float]:
    """By name, in order. Unsupported where there is no activation of that name."""
    defaults = _DEFAULTS.get(name.lower())
    if defaults is None:
        raise Unsupported(f"activation {name}")
    return defaults


def activated(x: Expr, name: str, parameters: Sequence[float], build: Build) -> Expr:
    """The activation of x; parameters that are missing at the end have their defaults."""
    defaults = tuple(default_parameters(name).values())
    if len(parameters) > len(defaults):
        raise ValueError(f"{len(parameters)} parameters for activation {name}")
    values = (*parameters, *defaults[len(parameters) :])
    match name.lower():
        case "affine":
            scale, shift = values
            return x.scaled(scale) + shift
        case "clip":
            return x.unary("clip", *values)
        case "elu":
            return x.unary("elu", *values)
        case "hardsigmoid":
            return x.unary("hard_sigmoid", *values)
        case "hardswish":
            return x.unary("hard_swish")
        case "leakyrelu":
            return x.unary("leaky_relu", *values)
        case "scaledtanh":
            scale, inner = values
            return x.scaled(inner).tanh().scaled(scale)
        case "selu":
            alpha, gamma = values
            return x.unary("elu", alpha).scaled(gamma)
        case "softsign":
            return x / (abs(x) + 1)
        case "thresholdedrelu":
            return where(x > values[0], x, 0)
    return x.unary(name.lower())
