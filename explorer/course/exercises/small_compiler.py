"""Judges of lesson 0: rules are tried on hidden graphs of a compiler as small as the lesson's.

    check(merge, exercises.merges_factors())
        ✗ on a hidden graph with an addition in between the numbers change

A graph is a node: ("add", "x", 2.0) is an operator with its operands, "x" is an input, 2.0 is a
number. Equal nodes are one node. A rule takes an operation, and gives the node that replaces it, or
None.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from explorer.course.predictions import Judge

Node = tuple[Any, ...] | str | float
Rule = Callable[[Any], Any]

ARITY = {"add": 2, "mul": 2, "matmul": 2, "relu": 1, "transpose": 1}
INPUTS = ("x", "y", "z")
SIDE = 3
"""Rows and columns of an input: matrices are square, so that every graph has a meaning."""
TOLERANCE = 1e-9
"""Of the largest number that a graph computes: rules may round elsewhere, in float64."""
MAX_STEPS = 200
MAX_NODE = 400
"""Operators and operands of what a rule gives, each as often as it is written."""
RANDOM_GRAPHS = 30


@dataclass(frozen=True)
class HiddenGraph:
    """A graph on which rules are tried."""

    node: Node
    what: str
    limit: int | None = None
    """Operations that may be left; None: any number."""


class Refused(Exception):
    """A rule that cannot be tried to the end; the message is a part of a sentence."""


def merges_factors() -> Judge:
    """A rule that makes one factor of two factors in a row, and leaves look-alikes alone."""
    looks_alike = {
        "a factor that is an array": ("mul", ("mul", "x", "y"), 2.0),
        "an array as the second factor": ("mul", ("mul", "x", 2.0), "y"),
        "an addition in between": ("mul", ("add", "x", 2.0), 3.0),
        "an addition at the end": ("add", ("mul", "x", 2.0), 3.0),
        "two additions in a row": ("add", ("add", "x", 2.0), 3.0),
        "a relu in between": ("mul", ("relu", ("mul", "x", -2.0)), 3.0),
        "a product that is read twice": _read_twice(("mul", "x", 2.0)),
    }
    chains = {
        "two factors": [2.0, 3.0],
        "a negative factor": [-0.5, 4.0],
        "a factor of zero": [0.0, 3.0],
        "three factors": [0.1, 7.0, -3.0],
    }
    hidden = [HiddenGraph(_scaled("x", chain), what, 1) for what, chain in chains.items()]
    generator = np.random.default_rng(1)
    for _ in range(10):
        inner = random_node(generator, 2, ("add", "relu", "matmul"))
        product = _scaled(inner, generator.uniform(-2, 2, 2).tolist())
        hidden.append(_limited(("relu", product), "a longer way to two factors", saved=1))
    return _of_rule([*hidden, *map(_look_alike, looks_alike.values(), looks_alike)])


def turns_products() -> Judge:
    """A rule that needs one transposition for a product of two, and leaves look-alikes alone."""
    looks_alike = {
        "one transposition, of the left operand": ("matmul", ("transpose", "x"), "y"),
        "one transposition, of the right operand": ("matmul", "x", ("transpose", "y")),
        "a sum of transpositions": ("add", ("transpose", "x"), ("transpose", "y")),
        "a product of elements": ("mul", ("transpose", "x"), ("transpose", "y")),
        "relu in the place of a transposition": ("matmul", ("relu", "x"), ("transpose", "y")),
    }
    plain = _product("x", "y")
    hidden = [
        HiddenGraph(plain, "a product of two transpositions", 2),
        HiddenGraph(("matmul", plain, ("transpose", "z")), "a product of a product", 3),
    ]
    generator = np.random.default_rng(2)
    for _ in range(10):
        left = ("relu", random_node(generator, 1, ("add", "matmul")))
        right = ("add", random_node(generator, 1, ("relu", "matmul")), 0.5)
        product = ("relu", _product(left, right))
        hidden.append(_limited(product, "a longer way to a product", saved=1))
    return _of_rule([*hidden, *map(_look_alike, looks_alike.values(), looks_alike)])


def brings_factors_together() -> Judge:
    """A list of rules after which factors before and after a relu are one, where that is right."""
    looks_alike = {
        "a negative factor before the relu": _around_relu("x", -2.0, 3.0),
        "a negative factor after the relu": _around_relu("x", 2.0, -3.0),
        "two negative factors": _around_relu("x", -2.0, -3.0),
        "an array as a factor before the relu": _around_relu("x", "y", 3.0),
        "an array as a factor after the relu": _around_relu("x", 2.0, "y"),
        "an addition before the relu": ("mul", ("relu", ("add", "x", -2.0)), 3.0),
        "a transposition between factors": ("mul", ("transpose", ("mul", "x", 2.0)), -3.0),
    }
    hidden = [
        HiddenGraph(_around_relu("x", 2.0, 3.0), "a relu between two factors", 2),
        HiddenGraph(_around_relu("y", 0.25, 8.0), "a relu between two other factors", 2),
        HiddenGraph(
            ("mul", ("relu", _around_relu("x", 2.0, 3.0)), 5.0), "relus and factors in turn", 3
        ),
    ]
    generator = np.random.default_rng(3)
    for _ in range(10):
        inner = random_node(generator, 2, ("add", "matmul", "transpose"))
        first, second = generator.uniform(0.1, 3, 2).tolist()
        product = ("transpose", _around_relu(inner, first, second))
        hidden.append(_limited(product, "a longer way to the relu", saved=1))
    return _of_rules([*hidden, *map(_look_alike, looks_alike.values(), looks_alike)])


# -- judging ---------------------------------------------------------------------------------------


def _of_rule(hidden: Sequence[HiddenGraph]) -> Judge:
    def judge(rule: object) -> bool | str:
        if not callable(rule) or isinstance(rule, type):
            return f"a rule is asked for, a function; this is of type {type(rule).__name__}"
        return tried([rule], hidden)

    return judge


def _of_rules(hidden: Sequence[HiddenGraph]) -> Judge:
    def judge(rules: object) -> bool | str:
        if not isinstance(rules, list | tuple):
            return f"a list of rules is asked for; this is of type {type(rules).__name__}"
        strange = [r for r in rules if not callable(r) or isinstance(r, type)]
        if strange:
            return f"a rule is a function; this list has one of type {type(strange[0]).__name__}"
        return tried(rules, hidden)

    return judge


def tried(rules: Sequence[Rule], hidden: Sequence[HiddenGraph]) -> bool | str:
    """Applies the rules to each graph, and then to random ones; True, or what went wrong first."""
    generator = np.random.default_rng(4)
    everything = tuple(ARITY)
    random = [
        HiddenGraph(random_node(generator, 4, everything), "all kinds of operations")
        for _ in range(RANDOM_GRAPHS)
    ]
    for graph in [*hidden, *random]:
        where = f"on a hidden graph with {graph.what}"
        try:
            after = rewritten(graph.node, rules)
        except Refused as refused:
            return f"{where} {refused}"
        if not are_equal(graph.node, after):
            return f"{where} the numbers change"
        count = len(operations(after))
        if graph.limit is not None and count > graph.limit:
            before = len(operations(graph.node))
            return f"{where} there are {before} operations before, and {count} after"
    return True


def are_equal(before: Node, after: Node) -> bool:
    """Whether two graphs give equal numbers, of inputs of all signs and of several sizes."""
    generator = np.random.default_rng(5)
    for scale in (1.0, 1e-3, 1e3):
        inputs = {name: scale * generator.normal(size=(SIDE, SIDE)) for name in INPUTS}
        inputs["x"][0] = 0.0
        expected, found = values(before, inputs), values(after, inputs)
        reach = max(float(np.abs(value).max()) for value in expected.values())
        mine, theirs = np.asarray(found[after]), np.asarray(expected[before])
        if mine.shape != theirs.shape:
            return False
        if not np.allclose(mine, theirs, rtol=TOLERANCE, atol=TOLERANCE * reach):
            return False
    return True


# -- the small compiler ----------------------------------------------------------------------------


def operations(graph: Node) -> list[tuple[Any, ...]]:
    """The different operations of a graph, operands before their readers."""
    found: dict[tuple[Any, ...], None] = {}

    def visit(node: Node) -> None:
        if isinstance(node, tuple) and node not in found:
            for operand in node[1:]:
                visit(operand)
            found[node] = None

    visit(graph)
    return list(found)


def rewritten(graph: Node, rules: Sequence[Rule]) -> Node:
    """The graph after the rules, until none of them changes it. Refused where they never end."""
    for _ in range(MAX_STEPS):
        changed = _step(graph, rules)
        if changed is None:
            return graph
        graph = _plain(changed)
    raise Refused("the rules never come to an end")


def _step(graph: Node, rules: Sequence[Rule]) -> Node | None:
    for node in operations(graph):
        for rule in rules:
            try:
                new = rule(node)
            except Exception as error:  # whatever a learner's rule raises is part of its grade
                kind = type(error).__name__
                raise Refused(f"the rule raises {kind}: {str(error)[:100]}") from None
            if new is not None and (new := _plain(new)) != node:
                return _replaced(graph, node, new)
    return None


def _replaced(graph: Node, old: Node, new: Node) -> Node:
    if graph == old:
        return new
    if not isinstance(graph, tuple):
        return graph
    return (graph[0], *(_replaced(operand, old, new) for operand in graph[1:]))


def _plain(node: object) -> Node:
    """A node of plain tuples, texts and numbers. Refused where it is none, or a very large one."""
    left = MAX_NODE

    def copied(part: object) -> Node:
        nonlocal left
        left -= 1
        if left < 0:
            raise Refused("the rules make the graph larger and larger")
        if type(part) is str and part in INPUTS:
            return part
        is_number = isinstance(part, int | float | np.integer | np.floating)
        if is_number and not isinstance(part, bool):
            with suppress(OverflowError):  # whole numbers of 400 digits are no node
                return float(part)
        if type(part) is tuple and part and len(part) - 1 == ARITY.get(str(part[0])):
            return (str(part[0]), *(copied(operand) for operand in part[1:]))
        raise Refused(f"the rule gives {reprlib.repr(part)}, which is no node")

    return copied(node)


def values(graph: Node, inputs: dict[str, np.ndarray]) -> dict[Node, Any]:
    """What each node of a graph computes, as NumPy does it in float64."""
    meaning: dict[str, Callable[..., Any]] = {
        "add": np.add,
        "mul": np.multiply,
        "matmul": np.dot,  # of a matrix and a number, too
        "relu": lambda array: np.maximum(array, 0),
        "transpose": np.transpose,
    }
    found: dict[Node, Any] = {**inputs}

    def value(node: Node) -> Any:
        return node if isinstance(node, float) else found[node]

    for node in operations(graph):
        found[node] = meaning[node[0]](*map(value, node[1:]))
    found.setdefault(graph, graph)
    return found


# -- hidden graphs ---------------------------------------------------------------------------------


def random_node(generator: np.random.Generator, depth: int, operators: Sequence[str]) -> Node:
    """A random operation of at most that depth; numbers are second operands only."""
    if depth == 0:
        return str(generator.choice(INPUTS))
    operator = str(generator.choice(list(operators)))
    first = random_node(generator, int(generator.integers(depth)), operators)
    if ARITY[operator] == 1:
        return (operator, first)
    if operator in ("add", "mul") and generator.random() < 0.5:
        return (operator, first, float(generator.choice([-2.0, -1.0, 0.0, 0.3, 1.0, 4.0])))
    return (operator, first, random_node(generator, int(generator.integers(depth)), operators))


def _scaled(node: Node, factors: Sequence[float]) -> Node:
    for factor in factors:
        node = ("mul", node, factor)
    return node


def _product(left: Node, right: Node) -> Node:
    return ("matmul", ("transpose", left), ("transpose", right))


def _around_relu(node: Node, before: Node, after: Node) -> Node:
    return ("mul", ("relu", ("mul", node, before)), after)


def _read_twice(node: Node) -> Node:
    return ("add", ("relu", node), ("mul", node, 3.0))


def _limited(node: Node, what: str, saved: int) -> HiddenGraph:
    return HiddenGraph(node, what, len(operations(node)) - saved)


def _look_alike(node: Node, what: str) -> HiddenGraph:
    return _limited(node, what, saved=0)
