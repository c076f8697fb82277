"""Steps that mark loops: unroll (registers need constant indices) and parallel (tasks).

affine.for %jp = 0 to 14 { .. } {loop.kind = "unroll"}       every iteration written out
affine.for %ot = 0 to 4 { .. } {loop.kind = "parallel"}      iterations are tasks of threads
"""

from __future__ import annotations

from xdsl.dialects import affine
from xdsl.dialects.builtin import StringAttr

from explorer.kernels.loops.nest import LoopNest, body_of, extent_of, kind_of
from explorer.kernels.steps.dependences import conflict

MAX_UNROLLED = 512
"""Iterations of one loop; more only make the program large."""


def unroll(nest: LoopNest, loops: str) -> None:
    """Marks loops to be written out. Illegal for parallel and for very long loops."""
    for name in loops.split():
        for loop in nest.loops(name, "unroll"):
            if kind_of(loop) == "parallel":
                raise nest.error("unroll", f"{name} is parallel")
            if extent_of(loop) > MAX_UNROLLED:
                raise nest.error(
                    "unroll", f"{name} has {extent_of(loop)} iterations, at most {MAX_UNROLLED}"
                )
            loop.attributes["loop.kind"] = StringAttr("unroll")


def parallel(nest: LoopNest, loops: str) -> None:
    """Marks loops whose iterations become tasks.

    Illegal for loops whose iterations depend on one another (reductions too), and for loops that
    don't lead their nest: every loop around them must be parallel and hold nothing else.
    """
    for name in loops.split():
        for loop in nest.loops(name, "parallel"):
            parent = loop.parent_op()
            if isinstance(parent, affine.ForOp) and (
                kind_of(parent) != "parallel" or len(body_of(parent)) != 1
            ):
                raise nest.error("parallel", f"{name} does not lead its loop nest")
            culprit = conflict(loop)
            if culprit is not None:
                raise nest.error(
                    "parallel",
                    f"iterations of {name} touch the same elements of "
                    f"{nest.name_of_buffer(culprit)}",
                )
            loop.attributes["loop.kind"] = StringAttr("parallel")
