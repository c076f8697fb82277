"""Calls of ATen that reduce, order, move and join: what NumPy makes of the same arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer as ex
from tests.importers.pytorch_models import Program, ints, meta, ref, refs

_DRAWN = np.random.default_rng(11)
X = _DRAWN.normal(size=(3, 4)).astype(np.float32)
Y = _DRAWN.normal(size=(3, 4)).astype(np.float32)
Z = _DRAWN.normal(size=(2, 3, 4)).astype(np.float32)
V = np.array([3, -1, 4, 1, -5], np.float32)
SQUARE = _DRAWN.normal(size=(4, 4)).astype(np.float32)
P = (1 / (1 + np.exp(-X))).astype(np.float32)
HOLES = np.where(np.abs(X) < 0.4, np.nan, X).astype(np.float32)
ENDS = np.array([[0.0, -0.0, np.inf], [-np.inf, np.nan, 2.5]], np.float32)
WHOLE = np.array([[0, 3, 0], [-2, 0, 7]], np.int64)
D = X.astype(np.float64)

Case = tuple[str, Mapping[str, object], Mapping[str, object], Any]


def argument(value: object) -> Any:
    if isinstance(value, bool):
        return {"as_bool": value}
    if isinstance(value, int):
        return {"as_int": value}
    if isinstance(value, float):
        return {"as_float": value}
    if isinstance(value, str):
        return {"as_string": value}
    return ints(*value)  # pyright: ignore


def computed(
    path: Path, target: str, operands: Mapping[str, object], settings: Mapping[str, object], y: Any
) -> np.ndarray:
    """What a program of one call makes of its operands; a list of arrays is a list of tensors."""
    arrays: dict[str, np.ndarray] = {}
    arguments: dict[str, Any] = {}
    for name, given in operands.items():
        if isinstance(given, np.ndarray):
            arrays[name], arguments[name] = given, ref(name)
            continue
        assert isinstance(given, Sequence)
        names = [f"{name}{place}" for place in range(len(given))]
        arrays |= dict(zip(names, given, strict=True))
        arguments[name] = refs(*names)
    program = Program({n: (a.dtype.name, list(a.shape)) for n, a in arrays.items()})
    arguments |= {name: argument(value) for name, value in settings.items()}
    name = program.call(f"aten.{target}", arguments, y.dtype.name, list(y.shape))
    (found,) = ex.interpret(ex.load(program.write(path / "net.pt2", [name])), arrays).values()
    return found


def rows_below(norm: float) -> np.ndarray:
    lengths = np.linalg.norm(D, axis=1, keepdims=True)
    return D * np.where(lengths > norm, norm / (lengths + 1e-7), 1)


REDUCED: dict[str, Case] = {
    "sum": ("sum.dim_IntList", {"self": Z}, {"dim": [0, -1]}, Z.sum((0, 2))),
    "sum of all": ("sum.default", {"self": Z}, {}, Z.sum()),
    "mean": ("mean.dim", {"self": Z}, {"dim": [1], "keepdim": True}, Z.mean(1, keepdims=True)),
    "product": ("prod.dim_int", {"self": X}, {"dim": 1}, D.prod(1)),
    "nansum": ("nansum.default", {"self": HOLES}, {"dim": [1]}, np.nansum(HOLES, 1)),
    "nanmean": ("nanmean.default", {"self": HOLES}, {"dim": [0]}, np.nanmean(HOLES, 0)),
    "amax": ("amax.default", {"self": Z}, {"dim": [0, 2]}, Z.max((0, 2))),
    "amin": ("amin.default", {"self": Z}, {"dim": [1], "keepdim": True}, Z.min(1, keepdims=True)),
    "max of all": ("max.default", {"self": Z}, {}, Z.max()),
    "any": ("any.dim", {"self": WHOLE}, {"dim": 0}, WHOLE.any(0)),
    "all": ("all.dim", {"self": WHOLE}, {"dim": 0, "keepdim": True}, WHOLE.all(0, keepdims=True)),
    "argmax": ("argmax.default", {"self": X}, {"dim": 1}, X.argmax(1)),
    "argmin of all": ("argmin.default", {"self": X}, {}, X.argmin()),
    "variance": ("var.correction", {"self": X}, {"dim": [1]}, D.var(1, ddof=1)),
    "whole deviation": ("std.correction", {"self": X}, {"correction": 0}, D.std()),
    "norm": (
        "linalg_vector_norm.default", {"self": X}, {"ord": 3.0, "dim": [1]},
        (np.abs(D) ** 3).sum(1) ** (1 / 3),
    ),
    "largest magnitude": (
        "linalg_vector_norm.default", {"self": X}, {"ord": float("inf")}, np.abs(X).max(),
    ),
    "count in a norm": (
        "linalg_vector_norm.default", {"self": WHOLE.astype(np.float32)}, {"ord": 0.0, "dim": [0]},
        np.count_nonzero(WHOLE, 0).astype(np.float32),
    ),
    "logsumexp": ("logsumexp.default", {"self": X}, {"dim": [1]}, np.log(np.exp(D).sum(1))),
    "logsumexp far out": (
        "logsumexp.default", {"self": X + np.float32(1e4)}, {"dim": [0]},
        np.log(np.exp((X + np.float32(1e4)).astype(np.float64) - 1e4).sum(0)) + 1e4,
    ),
    "nonzeros": (
        "count_nonzero.dim_IntList", {"self": WHOLE}, {"dim": [1]}, np.count_nonzero(WHOLE, 1),
    ),
    "running sum": ("cumsum.default", {"self": X}, {"dim": 1}, D.cumsum(1)),
    "running product": ("cumprod.default", {"self": X}, {"dim": 0}, D.cumprod(0)),
    "running logsumexp": (
        "logcumsumexp.default", {"self": X}, {"dim": 1}, np.log(np.exp(D).cumsum(1)),
    ),
    "differences": ("diff.default", {"self": X}, {"n": 2, "dim": 1}, np.diff(D, 2, 1)),
    "trace": ("trace.default", {"self": SQUARE}, {}, np.trace(SQUARE.astype(np.float64))),
    "cross product": (
        "linalg_cross.default", {"self": Z[:, :, 0], "other": Z[:, :, 1]}, {"dim": 1},
        np.cross(Z[:, :, 0].astype(np.float64), Z[:, :, 1]),
    ),
    "renormalized rows": (
        "renorm.default", {"self": X}, {"p": 2.0, "dim": 0, "maxnorm": 1.5}, rows_below(1.5),
    ),
    "distance": (
        "dist.default", {"self": X, "other": Y}, {"p": 2.0},
        np.linalg.norm(D - Y),
    ),
    "median of all": ("median.default", {"self": V}, {}, np.float32(1)),
    "median of an even count": ("median.default", {"self": V[:4]}, {}, np.float32(1)),
}  # fmt: skip

MOVED: dict[str, Case] = {
    "flip": ("flip.default", {"self": Z}, {"dims": [0, 2]}, np.flip(Z, (0, 2))),
    "roll": (
        "roll.default", {"self": Z}, {"shifts": [1, -2], "dims": [0, 2]},
        np.roll(Z, (1, -2), (0, 2)),
    ),
    "roll of all": ("roll.default", {"self": X}, {"shifts": [5]}, np.roll(X, 5)),
    "quarter turn": (
        "rot90.default", {"self": Z}, {"k": 1, "dims": [1, 2]}, np.rot90(Z, 1, (1, 2)),
    ),
    "half turn": ("rot90.default", {"self": Z}, {"k": -2, "dims": [0, 1]}, np.rot90(Z, 2, (0, 1))),
    "three quarters": (
        "rot90.default", {"self": Z}, {"k": 3, "dims": [2, 0]}, np.rot90(Z, 3, (2, 0)),
    ),
    "stack": ("stack.default", {"tensors": [X, Y]}, {"dim": -1}, np.stack([X, Y], -1)),
    "rows on rows": ("vstack.default", {"tensors": [X, Y]}, {}, np.vstack([X, Y])),
    "columns": ("column_stack.default", {"tensors": [V, 2 * V]}, {}, np.column_stack([V, 2 * V])),
    "depths": ("dstack.default", {"tensors": [X, Y]}, {}, np.dstack([X, Y])),
    "blocks": (
        "block_diag.default", {"tensors": [X, V]}, {},
        np.block([[X, np.zeros((3, 5))], [np.zeros((1, 4)), V[np.newaxis]]]).astype(np.float32),
    ),
    "repeats": (
        "repeat_interleave.self_int", {"self": X}, {"repeats": 3, "dim": 1}, np.repeat(X, 3, 1),
    ),
    "narrowed": ("narrow.default", {"self": Z}, {"dim": 2, "start": -3, "length": 2}, Z[..., 1:3]),
    "diagonal": (
        "diagonal.default", {"self": Z}, {"offset": 1, "dim1": -2, "dim2": -1},
        np.diagonal(Z, 1, 1, 2),
    ),
    "diagonal below": (
        "diagonal.default", {"self": Z}, {"offset": -1, "dim1": 2, "dim2": 0},
        np.diagonal(Z, -1, 2, 0),
    ),
    "matrix of a diagonal": (
        "diag_embed.default", {"self": X}, {"offset": -1},
        np.stack([np.diag(row, -1) for row in X]),
    ),
    "diagonal of a matrix": ("diag.default", {"self": SQUARE}, {"diagonal": 2}, np.diag(SQUARE, 2)),
    "matrix of a vector": ("diag.default", {"self": V}, {"diagonal": 1}, np.diag(V, 1)),
    "lower triangle": ("tril.default", {"self": Z}, {"diagonal": -1}, np.tril(Z, -1)),
    "upper triangle": ("triu.default", {"self": X}, {"diagonal": 2}, np.triu(X, 2)),
}  # fmt: skip

BY_ELEMENT: dict[str, Case] = {
    "decimals": ("round.decimals", {"self": X}, {"decimals": 2}, np.round(D, 2)),
    "halves": (
        "round.default", {"self": np.array([-2.5, -0.5, 0.5, 1.5], np.float32)}, {},
        np.array([-2, -0.0, 0, 2], np.float32),
    ),
    "fractions": ("frac.default", {"self": X}, {}, D - np.trunc(D)),
    "sign": ("sign.default", {"self": WHOLE}, {}, np.sign(WHOLE)),
    "sign bit": ("signbit.default", {"self": ENDS[:1]}, {}, np.signbit(ENDS[:1])),
    "is NaN": ("isnan.default", {"self": ENDS}, {}, np.isnan(ENDS)),
    "is infinite": ("isinf.default", {"self": ENDS}, {}, np.isinf(ENDS)),
    "is finite": ("isfinite.default", {"self": ENDS}, {}, np.isfinite(ENDS)),
    "bits": ("bitwise_not.default", {"self": WHOLE}, {}, ~WHOLE),
    "expm1": ("expm1.default", {"self": X * np.float32(1e-5)}, {}, np.expm1(D * 1e-5)),
    "logit": ("logit.default", {"self": P}, {}, np.log(P.astype(np.float64) / (1 - P))),
    "entropy": ("special_entr.default", {"self": P}, {}, -P * np.log(P.astype(np.float64))),
    "angle": ("angle.default", {"self": X}, {}, np.where(X < 0, np.pi, 0.0)),
    "elu": (
        "elu.default", {"self": X}, {"alpha": 0.5, "scale": 1.5, "input_scale": 2.0},
        1.5 * np.where(D > 0, D, 0.5 * np.expm1(2 * D)),
    ),
    "celu": ("celu.default", {"self": X}, {"alpha": 2.0}, np.where(D > 0, D, 2 * np.expm1(D / 2))),
    "softplus": (
        "softplus.default", {"self": 10 * X}, {"beta": 2.0, "threshold": 5.0},
        np.where(20 * D > 5, 10 * D, np.log1p(np.exp(20 * D)) / 2),
    ),
    "hard shrink": (
        "hardshrink.default", {"self": X}, {"lambd": 0.4}, np.where(np.abs(X) > 0.4, X, 0),
    ),
    "soft shrink": (
        "softshrink.default", {"self": X}, {"lambd": 0.4},
        np.sign(D) * np.maximum(np.abs(D) - 0.4, 0),
    ),
    "prelu": (
        "prelu.default", {"self": X, "weight": np.array([0.1, 0.2, 0.3, -1], np.float32)}, {},
        np.where(D > 0, D, D * [0.1, 0.2, 0.3, -1]),
    ),
    "glu": ("glu.default", {"self": Z}, {"dim": 2},
            Z[..., :2] / (1 + np.exp(-Z[..., 2:].astype(np.float64)))),
}  # fmt: skip
CASES = {**REDUCED, **MOVED, **BY_ELEMENT}


@pytest.mark.parametrize("name", CASES)
def test_a_call_is_what_numpy_computes(name: str, tmp_path: Path):
    """What moves and what rounds is exact; the rest is computed by NumPy in double precision."""
    target, operands, settings, wanted = CASES[name]
    expected = np.asarray(wanted)
    if expected.dtype == np.float64:
        expected = expected.astype(np.float32)
    found = computed(tmp_path, target, operands, settings, expected)
    assert found.shape == expected.shape and found.dtype == expected.dtype
    if name in MOVED or name == "halves" or expected.dtype.kind != "f":
        np.testing.assert_array_equal(found, expected)
    else:
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-6)


def test_a_median_along_an_axis_has_its_place(tmp_path: Path):
    """A number is its own median, at place 0."""
    for number, x in enumerate((Z, np.array(2.5, np.float32))):
        wanted = np.sort(x, -1)[..., 1] if x.ndim else x
        places = np.argsort(x, -1, kind="stable")[..., 1] if x.ndim else np.array(0, np.int64)
        program = Program({"x": ("float32", list(x.shape))})
        arguments = {"self": ref("x"), "dim": argument(-1)}
        name = program.call("aten.median.dim", arguments, "float32", wanted.shape)
        program.nodes[-1]["outputs"].append(ref("places"))
        program.values["places"] = meta("int64", wanted.shape)
        path = program.write(tmp_path / f"{number}.pt2", [name, "places"])
        found = ex.interpret(ex.load(path), {"x": x}).values()
        for array, expected in zip(found, (wanted, places), strict=True):
            np.testing.assert_array_equal(array, expected)
