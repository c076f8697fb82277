"""Control flow: nested graphs become regions."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from explorer.importers.onnx.build import Build
from explorer.importers.onnx.nodes import Node, converts
from explorer.ir.top.control import IfOp


@converts("If")
def branch(node: Node, build: Build) -> Sequence[SSAValue]:
    """Each branch in a region; both may use values from outside.

    Where the condition follows from shapes, only the branch that is taken is imported: the other
    often has results of another rank (PyTorch's `squeeze`), which no type could hold.
    """
    condition = node.operand(0)
    known = build.knowledge.array(condition)
    if known is not None:
        return build.inline(node.graph("then_branch" if known.item() else "else_branch"))
    if build.rank(condition):
        condition = build.reshape(condition, [])
    then_region = build.region(node.graph("then_branch"))
    else_region = build.region(node.graph("else_branch"))
    return build.append(IfOp.make_with_regions(condition, then_region, else_region)).results
