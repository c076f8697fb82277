"""Optimizers of training: elementwise formulas over weights X, gradients G and their states.

    Momentum   V' = alpha V + beta G,  X' = X - R V'
    Adagrad    H' = H + G²,            X' = X - R / (1 + T decay) G / (sqrt(H') + epsilon)
    Adam       both moments, corrected for the first steps

R is the learning rate, T counts the steps, and G includes `norm_coefficient` X.
Reference: ONNX operators, ai.onnx.preview.training.
"""

from __future__ import annotations

from collections.abc import Sequence

from explorer.importers.building.expr import Expr
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Node, converts
from explorer.ir.top.elementwise import SelectOp

DOMAIN = "ai.onnx.preview.training"


@converts("Adagrad", domain=DOMAIN)
def adagrad(node: Node, build: Build) -> Sequence[Expr]:
    rate, step, groups = _groups(node, 3)
    epsilon, decay = node.number("epsilon", 1e-6), node.number("decay_factor", 0.0)
    results: list[list[Expr]] = [[], []]
    for x, g, h in groups:
        gradient = _regularized(x, g, node)
        squares = h + gradient * gradient
        slowed = _plus(step.astype(x.dtype).scaled(decay), 1.0)
        speed = rate.astype(x.dtype) / slowed
        change = gradient / _plus(squares.sqrt(), epsilon)
        results[0].append(x - speed * change)
        results[1].append(squares)
    return [value for kind in results for value in kind]


@converts("Momentum", domain=DOMAIN)
def momentum(node: Node, build: Build) -> Sequence[Expr]:
    """In the first step (T = 0) beta is 1. `nesterov` looks one step ahead."""
    rate, step, groups = _groups(node, 3)
    alpha, beta = node.number("alpha"), node.number("beta")
    is_nesterov = node.text("mode", "standard") == "nesterov"
    results: list[list[Expr]] = [[], []]
    for x, g, v in groups:
        gradient = _regularized(x, g, node)
        is_later = step > 0
        factor = build.value(SelectOp, [is_later, x.constant(beta), x.constant(1.0)])
        moved = v.scaled(alpha) + factor * gradient
        change = moved
        if is_nesterov:
            change = gradient + moved.scaled(alpha)
        scaled = rate.astype(x.dtype) * change
        results[0].append(x - scaled)
        results[1].append(moved)
    return [value for kind in results for value in kind]


@converts("Adam", domain=DOMAIN)
def adam(node: Node, build: Build) -> Sequence[Expr]:
    """Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2015, algorithm 1."""
    rate, step, groups = _groups(node, 4)
    alpha, beta = node.number("alpha", 0.9), node.number("beta", 0.999)
    results: list[list[Expr]] = [[], [], []]
    for x, g, v, h in groups:
        gradient = _regularized(x, g, node)
        square = gradient * gradient
        first = v.scaled(alpha) + gradient.scaled(1 - alpha)
        second = h.scaled(beta) + square.scaled(1 - beta)
        root = _plus(second.sqrt(), node.number("epsilon", 1e-6))
        speed = _corrected_rate(rate.astype(x.dtype), step, alpha, beta, build)
        change = speed * first / root
        moved = x - change
        kept = 1 - node.number("norm_coefficient_post", 0.0)
        for kind, value in zip(results, (moved.scaled(kept), first, second), strict=True):
            kind.append(value)
    return [value for kind in results for value in kind]


def _corrected_rate(rate: Expr, step: Expr, alpha: float, beta: float, build: Build) -> Expr:
    """R sqrt(1 - beta^T) / (1 - alpha^T) for T > 0: the states begin at zero."""
    one = rate.constant(1.0)
    exponent = step.astype(rate.dtype)
    powers = [b**exponent for b in (alpha, beta)]
    first, second = (one - power for power in powers)
    corrected = rate * second.sqrt() / first
    return build.value(SelectOp, [step > 0, corrected, rate])


def _groups(node: Node, count: int) -> tuple[Expr, Expr, list[tuple[Expr, ...]]]:
    """R, T, and for each weight its `count` tensors; all weights come first, then all gradients."""
    rate, step, *rest = node.given()
    if not rest or len(rest) % count:
        raise ValueError(f"{len(rest)} tensors are not {count} for each weight")
    each = len(rest) // count
    kinds = [rest[kind * each : (kind + 1) * each] for kind in range(count)]
    return rate, step, list(zip(*kinds, strict=True))


def _regularized(x: Expr, gradient: Expr, node: Node) -> Expr:
    norm = node.number("norm_coefficient", 0.0)
    return x.scaled(norm) + gradient if norm else gradient


def _plus(x: Expr, number: float) -> Expr:
    return x + number if number else x
