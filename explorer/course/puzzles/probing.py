"""Find the broken pass: one rewrite of many is wrong, and each run of a program costs a probe.

The puzzle does not decide beforehand which rewrite is wrong. It answers each probe so that as many
rewrites as possible remain, then breaks one of those and compares the program for real. So nobody
finds it by luck, and the same probes always have the same answers.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from typing import Any

import numpy as np
from xdsl.ir import Operation

from explorer.compilation.compilation import Compilation
from explorer.course.puzzles.networks import compiled
from explorer.course.puzzles.puzzle import Puzzle, Standing
from explorer.errors import InputError
from explorer.ir.rewriting import RecordedRewriter, Rewrite, RewriteOptions, Rule, apply_rules
from explorer.ir.rewriting.passes import Pass
from explorer.ir.top.linear.convolution import ConvOp
from explorer.passes.analysis.matching import constant

NETWORKS = ("digits_resnet", "digits_mobilenet", "digits_cnn")
LAST_PASS = "legalize"
"""Rewrites after it are required, or count no fuel."""
RUN_AFTER = "eliminate-dead-code"
WRONG_FACTOR = 1.25
TOLERANCE = 1e-4
"""Of the largest difference, relative to the largest output."""
MAX_PROBES = 1_000


class Spoil(Rule):
    """The weights of every convolution become a quarter larger: a fault."""

    matches = (ConvOp,)

    def rewrite(self, op: Operation, rewriter: Any) -> None:
        assert isinstance(op, ConvOp)
        weight = constant(op.weight, rewriter.weights)
        if weight is not None and "spoiled" not in str(op.weight.owner):
            spoiled = rewriter.add_weight(op, "spoiled", weight * np.float32(WRONG_FACTOR))
            rewriter.replace(op, op.altered(weight=spoiled))


class Spoiled(Pass):
    """A fault, which takes no fuel."""

    name = "spoiled"

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        return apply_rules(self.name, [Spoil()], rewriter, RewriteOptions())


class FindTheBrokenPass(Puzzle):
    """`probe(k)` runs the program after its first k rewrites; `play` names the wrong one."""

    name = "find-the-broken-pass"
    title = "Find the broken pass"
    unit = "probes"

    def __init__(self, student: int = 0) -> None:
        super().__init__(student)
        self.probes: list[int] = []

    @property
    def network(self) -> str:
        return NETWORKS[self.student % len(NETWORKS)]

    @property
    def task(self) -> str:
        return (
            f"{self.network} went through {len(self.rewrites)} rewrites, of which one is wrong. "
            "A probe runs the program with only the first ones done, and says whether its numbers "
            "are right. Name the wrong rewrite, counted from 1, with few probes."
        )

    @property
    def moves(self) -> str:
        return "probe(count), then play(number); puzzle.rewrites has the addresses."

    @property
    def proof(self) -> str:
        return "a probe has two answers, so k probes tell at most 2^k rewrites apart"

    @cached_property
    def rewrites(self) -> tuple[str, ...]:
        """Addresses of the optional rewrites in the order in which they were done."""
        c = compiled(self.network)
        names = c.names[: c.names.index(LAST_PASS)]
        optional = [p.name for p in c.pipeline if p.name in names and not p.is_required]
        return tuple(e.address for name in optional for e in c[name].events if e.applied)

    @cached_property
    def optimum(self) -> float:
        return (len(self.rewrites) - 1).bit_length()

    def probe(self, count: int) -> str:
        """`right` or `wrong`: the outputs after the first `count` rewrites. Costs a probe.

        Raises:
            InputError: there are not so many rewrites.
        """
        probes = [*self.probes, self._checked(count)]
        candidates, is_wrong = _answers(self.student, len(self.rewrites), probes)
        self.probes = probes
        if _is_off(self.network, count, candidates[0]) != is_wrong:
            raise AssertionError(f"the program after {count} rewrites is not as it was planted")
        return "wrong" if is_wrong else "right"

    def _checked(self, count: Any) -> int:
        is_number = isinstance(count, int) and not isinstance(count, bool)
        if not is_number or not 0 <= count <= len(self.rewrites):
            raise InputError(
                f"{count!r} is no number of rewrites", hint=f"0 to {len(self.rewrites)}"
            )
        if len(self.probes) >= MAX_PROBES:
            raise InputError("that are too many probes", hint="begin again with a new puzzle")
        return count

    def play(self, state: Any) -> Puzzle:
        """Names the wrong rewrite by its number; or takes probes and answer of a link."""
        if isinstance(state, Mapping):
            self.probes = [self._checked(count) for count in state.get("probes", ())]
            state = state.get("answer")
        if state is None:
            self.state = {"probes": list(self.probes), "answer": None}
            return self
        return super().play({"probes": list(self.probes), "answer": state})

    def judged(self, state: Any) -> Standing:
        answer = state["answer"]
        is_number = isinstance(answer, int) and not isinstance(answer, bool)
        if not is_number or not 1 <= answer <= len(self.rewrites):
            raise InputError(
                f"{answer!r} is no rewrite", hint=f"a number from 1 to {len(self.rewrites)}"
            )
        candidates, _ = _answers(self.student, len(self.rewrites), state["probes"])
        if answer - 1 not in candidates:
            return Standing(None, f"rewrite {answer} is right: the probes rule it out")
        if len(candidates) > 1:
            told = f"{len(candidates)} rewrites may still be the wrong one: that is a guess"
            return Standing(None, told)
        address = self.rewrites[answer - 1]
        return Standing(len(state["probes"]), f"found: {address}")


def _answers(student: int, count: int, probes: Sequence[int]) -> tuple[list[int], bool]:
    """The rewrites, from 0, that may be wrong after the probes, and the last one's verdict.

    The half that needs more probes is kept; of halves that need as many, one by the student.
    """
    candidates = list(range(count))
    is_wrong = False
    for number, probe in enumerate(probes):
        done = [c for c in candidates if c < probe]
        later = [c for c in candidates if c >= probe]
        needs = [(len(half) - 1).bit_length() if half else -1 for half in (done, later)]
        coin = random.Random(f"{student} {probes[: number + 1]}").random() < 0.5
        is_wrong = coin if needs[0] == needs[1] else needs[0] > needs[1]
        candidates = done if is_wrong else later
    return candidates, is_wrong


@cache
def _is_off(network: str, count: int, broken: int) -> bool:
    """Whether the program after the first rewrites, of which one may be broken, is wrong."""
    c = compiled(network)
    inputs = c.example_inputs(seed=1)
    expected = _run(c, inputs)
    partial = c.fork(fuel=count)
    spoiled = partial.insert(Spoiled(), after=LAST_PASS) if broken < count else partial
    found = _run(spoiled, inputs)
    spoiled.close()
    return bool(np.abs(found - expected).max() > TOLERANCE * np.abs(expected).max())


def _run(c: Compilation, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
    """The output, by the interpreter: the last value of networks with one output."""
    return list(c[RUN_AFTER].after.run(inputs).values())[-1]
