"""Calls of ATen by their formulas: losses, statistics, and what is written at places."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer as ex
from tests.importers.pytorch_models import Program, ints, ref

Arrays = Mapping[str, np.ndarray]

_DRAWN = np.random.default_rng(7)
X = _DRAWN.normal(size=(3, 4)).astype(np.float32)
Y = _DRAWN.normal(size=(3, 4)).astype(np.float32)
P, Q = (1 / (1 + np.exp(-v)) for v in (X, Y))
CLASSES = np.array([2, 0, 3])
SIGNS = np.where(Y > 0, 1, -1).astype(np.float32)
ROW = np.array([3, np.nan, 1, 2, 2], np.float32)
PLACES = np.array([0, 2, 0])


def argument(value: object) -> Any:
    if isinstance(value, bool):
        return {"as_bool": value}
    if isinstance(value, int):
        return {"as_int": value}
    if isinstance(value, float):
        return {"as_float": value}
    return {"as_string": value} if isinstance(value, str) else ints(*value)  # pyright: ignore


def called(
    path: Path, target: str, operands: Arrays, settings: Mapping[str, object], expected: np.ndarray
) -> np.ndarray:
    """What a program of one call makes of its operands, which have the names of arguments."""
    program = Program({n: (a.dtype.name, list(a.shape)) for n, a in operands.items()})
    arguments = {name: ref(name) for name in operands}
    arguments |= {name: argument(value) for name, value in settings.items()}
    y = program.call(f"aten.{target}", arguments, expected.dtype.name, list(expected.shape))
    (found,) = ex.interpret(ex.load(program.write(path / "net.pt2", [y])), operands).values()
    return found


def log_softmax(x: np.ndarray) -> np.ndarray:
    return x - np.log(np.exp(x).sum(1, keepdims=True))


def written(kind: Callable[..., Any], includes_own: bool) -> np.ndarray:
    result = X.copy()
    for place in set(PLACES):
        values = Y[place == PLACES]
        result[place] = kind(np.concatenate([X[place][np.newaxis], values][not includes_own :]), 0)
    return result


APART = X - Y
LOSSES: dict[str, tuple[str, Arrays, Mapping[str, object], Any]] = {
    "squares": ("mse_loss.default", {"self": X, "target": Y}, {}, (APART**2).mean()),
    "distances": (
        "l1_loss.default",
        {"self": X, "target": Y},
        {"reduction": 2},
        np.abs(APART).sum(),
    ),
    "smooth": (
        "smooth_l1_loss.default",
        {"self": X, "target": Y},
        {"reduction": 0, "beta": 0.5},
        np.where(np.abs(APART) < 0.5, APART**2, np.abs(APART) - 0.25),
    ),
    "huber": (
        "huber_loss.default",
        {"self": X, "target": Y},
        {"reduction": 0, "delta": 2.0},
        np.where(np.abs(APART) < 2, APART**2 / 2, 2 * (np.abs(APART) - 1)),
    ),
    "divergence": (
        "kl_div.default",
        {"self": X, "target": P},
        {"reduction": 0},
        P * (np.log(P) - X),
    ),
    "soft margins": (
        "soft_margin_loss.default",
        {"self": X, "target": SIGNS},
        {},
        np.log1p(np.exp(-SIGNS * X)).mean(),
    ),
    "hinges": (
        "hinge_embedding_loss.default",
        {"self": X, "target": SIGNS},
        {"reduction": 0},
        np.where(SIGNS == 1, X, np.maximum(0, 1 - X)),
    ),
    "poisson": (
        "poisson_nll_loss.default",
        {"input": X, "target": P},
        {"log_input": True, "full": False, "eps": 1e-8, "reduction": 1},
        (np.exp(X) - P * X).mean(),
    ),
    "probabilities": (
        "binary_cross_entropy.default",
        {"self": P, "target": Q},
        {},
        -(Q * np.log(P) + (1 - Q) * np.log(1 - P)).mean(),
    ),
    "logits": (
        "binary_cross_entropy_with_logits.default",
        {"self": X, "target": Q},
        {},
        -(Q * np.log(P) + (1 - Q) * np.log(1 - P)).mean(),
    ),
    "classes": (
        "cross_entropy_loss.default",
        {"self": X, "target": CLASSES},
        {"ignore_index": 0, "reduction": 1},
        -log_softmax(X)[[0, 2], [2, 3]].mean(),
    ),
    "smoothed classes": (
        "cross_entropy_loss.default",
        {"self": X, "target": CLASSES},
        {"label_smoothing": 0.1},
        -0.9 * log_softmax(X)[np.arange(3), CLASSES].mean() - 0.1 * log_softmax(X).mean(),
    ),
    "likelihoods": (
        "nll_loss_nd.default",
        {"self": X, "target": CLASSES, "weight": P[0]},
        {},
        -(X[np.arange(3), CLASSES] * P[0][CLASSES]).sum() / P[0][CLASSES].sum(),
    ),
    "margins of classes": (
        "multi_margin_loss.default",
        {"self": X, "target": CLASSES},
        {},
        (np.maximum(0, 1 - X[np.arange(3), CLASSES][:, None] + X).sum(1) - 1).mean() / 4,
    ),
    "margins of labels": (
        "multilabel_margin_loss.default",
        {"self": X[:1], "target": np.array([[2, 0, -1, 1]])},
        {},
        sum(max(0, 1 - X[0, t] + X[0, j]) for t in (2, 0) for j in (1, 3)) / 4,
    ),
    "angles": (
        "cosine_embedding_loss.default",
        {"input1": X, "input2": Y, "target": np.ones(3, np.float32)},
        {"reduction": 2},
        3 - ((X * Y).sum(1) / np.linalg.norm(X, axis=1) / np.linalg.norm(Y, axis=1)).sum(),
    ),
    "ranks": (
        "margin_ranking_loss.default",
        {"input1": X, "input2": Y, "target": SIGNS},
        {"margin": 0.5},
        np.maximum(0, 0.5 - SIGNS * APART).mean(),
    ),
    "triplets": (
        "triplet_margin_loss.default",
        {"anchor": X, "positive": Y, "negative": P},
        {},
        np.maximum(0, 1 + np.linalg.norm(X - Y, axis=1) - np.linalg.norm(X - P, axis=1)).mean(),
    ),
}
PLACED: dict[str, tuple[str, Arrays, Mapping[str, object], Any]] = {
    f"{word}, {'with' if includes else 'without'} what was there": (
        "index_reduce.default",
        {"self": X, "index": PLACES, "source": Y},
        {"dim": 0, "reduce": word, "include_self": includes},
        written(kind, includes),
    )
    for word, kind in (("mean", np.mean), ("prod", np.prod), ("amax", np.max), ("amin", np.min))
    for includes in (False, True)
}
STATISTICS: dict[str, tuple[str, Arrays, Mapping[str, object], Any]] = {
    "quantile": (
        "quantile.scalar",
        {"self": X},
        {"q": 0.3, "dim": 1},
        np.quantile(X, 0.3, axis=1).astype(np.float32),
    ),
    "quantile of numbers": ("nanquantile.scalar", {"self": ROW}, {"q": 0.5}, np.float32(2)),
    "quantile with what is none": (
        "quantile.scalar",
        {"self": ROW},
        {"q": 0.5},
        np.float32(np.nan),
    ),
    "median of numbers": ("nanmedian.default", {"self": ROW}, {}, np.float32(2)),
    "histogram": (
        "histc.default",
        {"self": X},
        {"bins": 5, "min": -1, "max": 1},
        np.histogram(X, 5, (-1, 1))[0].astype(np.float32),
    ),
    "members": (
        "isin.Tensor_Tensor",
        {"elements": CLASSES, "test_elements": np.array([3, 2])},
        {},
        np.array([True, False, True]),
    ),
    "area": ("trapezoid.x", {"y": X, "x": Y[0]}, {}, np.trapezoid(X, Y[0]).astype(np.float32)),
    "area so far": (
        "cumulative_trapezoid.dx",
        {"y": X},
        {"dx": 2.0, "dim": 0},
        np.cumsum(X[1:] + X[:-1], axis=0),
    ),
    "distances of rows": (
        "pdist.default",
        {"self": X},
        {},
        np.array([np.linalg.norm(X[a] - X[b]) for a, b in ((0, 1), (0, 2), (1, 2))]),
    ),
    "choices": ("combinations.default", {"self": CLASSES}, {}, CLASSES[[[0, 1], [0, 2], [1, 2]]]),
}
SQUARE = (X @ X.T)[None] + np.eye(3, dtype=np.float32)
MATRICES: dict[str, tuple[str, Arrays, Mapping[str, object], Any]] = {
    "logarithm": ("logdet.default", {"self": SQUARE}, {}, np.linalg.slogdet(SQUARE)[1]),
    "columns": ("linalg_norm.default", {"self": X}, {"ord": 1}, np.linalg.norm(X, 1)),
    "rows": (
        "linalg_matrix_norm.default",
        {"self": X},
        {"ord": float("inf"), "dim": (-2, -1), "keepdim": True},
        np.linalg.norm(X, np.inf, keepdims=True),
    ),
    "powers": ("linalg_vander.default", {"x": X[0]}, {"N": 3}, np.vander(X[0], 3, True)),
    "diagonal": (
        "diagflat.default",
        {"self": X[:2, :2]},
        {"offset": -1},
        np.diagflat(X[:2, :2], -1),
    ),
    "half a turn": ("fft_fftshift.default", {"self": X}, {}, np.fft.fftshift(X)),
    "back": ("fft_ifftshift.default", {"self": X}, {"dim": (0,)}, np.fft.ifftshift(X, 0)),
    "real numbers": ("isreal.default", {"self": X}, {}, np.ones((3, 4), np.bool_)),
}
CALLS = LOSSES | PLACED | STATISTICS | MATRICES


@pytest.mark.parametrize("name", CALLS)
def test_a_call_means_its_formula(name: str, tmp_path: Path):
    target, operands, settings, right = CALLS[name]
    right = np.asarray(right)
    right = right.astype(np.float32) if right.dtype.kind == "f" else right
    found = called(tmp_path, target, operands, settings, right)
    np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-5)


def test_the_most_frequent_element_is_the_least_of_several(tmp_path: Path):
    x = np.array([[4, 2, 2, 4, 1], [3, 3, 0, 5, 3]], np.float32)
    program = Program({"self": ("float32", [2, 5])})
    values = program.call("aten.mode.default", {"self": ref("self")}, "float32", [2])
    program.values["places"] = {**program.values[values], "dtype": 5}
    program.nodes[-1]["outputs"].append(ref("places"))
    model = ex.load(program.write(tmp_path / "net.pt2", [values, "places"]))
    found, places = ex.interpret(model, {"self": x}).values()
    np.testing.assert_array_equal(found, [2, 3])
    np.testing.assert_array_equal(places, [2, 4])


SMALL = np.array([1e-10, -3e-8, 2e-4, -0.5, -1, 1e9, np.inf, 0], np.float32)


def test_the_logarithm_of_one_and_a_small_number_has_its_digits(tmp_path: Path):
    program = Program({"x": ("float32", [8]), "y": ("float32", [8])})
    z = program.call(
        "aten.special_xlog1py.default", {"self": ref("y"), "other": ref("x")}, "float32", [8]
    )
    path = program.write(tmp_path / "net.pt2", [z])
    inputs = {"x": SMALL, "y": np.full(8, 3, np.float32)}
    with np.errstate(divide="ignore"):
        right = 3 * np.log1p(SMALL)
    for found in (ex.interpret(ex.load(path), inputs), ex.compile(path).run(inputs)):
        np.testing.assert_allclose(found[z], right, rtol=1e-6)


def test_the_logarithm_of_one_and_a_power_of_e_is_softplus(tmp_path: Path):
    program = Program({"x": ("float32", [4])})
    power = program.call("aten.exp.default", {"self": ref("x")}, "float32", [4])
    y = program.call("aten.log1p.default", {"self": ref(power)}, "float32", [4])
    x = np.array([-20, 0, 3, 200], np.float32)
    (found,) = ex.interpret(ex.load(program.write(tmp_path / "net.pt2", [y])), {"x": x}).values()
    np.testing.assert_allclose(found, np.logaddexp(0, x), rtol=1e-6)


def test_groups_of_rows_have_weights_of_their_own(tmp_path: Path):
    operands = {"input": ("float32", [5, 2]), "weight": ("float32", [3, 2, 4])}
    program = Program({**operands, "offs": ("int32", [3])})
    arguments = {name: ref(name) for name in (*operands, "offs")}
    y = program.call("transformers.grouped_mm_fallback.default", arguments, "float32", [5, 4])
    model = ex.load(program.write(tmp_path / "net.pt2", [y]))
    generator = np.random.default_rng(0)
    x, w = (generator.random(sizes, np.float32) for _, sizes in operands.values())
    inputs = {"input": x, "weight": w, "offs": np.array([2, 2, 4], np.int32)}
    (found,) = ex.interpret(model, inputs).values()
    expected = np.concatenate([x[:2] @ w[0], x[2:4] @ w[2], np.zeros((1, 4))])
    np.testing.assert_allclose(found, expected, atol=1e-6)
