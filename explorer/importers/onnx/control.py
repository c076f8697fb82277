"""Control flow: nested graphs become regions."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Region, SSAValue

from explorer.importers.onnx.build import Build
from explorer.importers.onnx.nodes import Node, converts
from explorer.ir.top.control import IfOp


@converts("If")
def branch(node: Node, build: Build) -> Sequence[SSAValue]:
    """Each branch in a region; both may use values from outside."""
    condition = node.operand(0)
    if build.rank(condition):
        condition = build.reshape(condition, [])
    then_block, _ = build.region(node.graph("then_branch"))
    else_block, _ = build.region(node.graph("else_branch"))
    op = IfOp.make_with_regions(condition, Region(then_block), Region(else_block))
    return build.append(op).results
