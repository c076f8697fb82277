"""Shape inference: every result type follows from operand types and properties.

    %1 = top.shape(%x) : tensor<4xi64>                      %x became tensor<1x3x8x8xf32>
    %2 = top.conv(%x, %w) {...} : tensor<?x8x8x8xf32>
 => %2 = top.conv(%x, %w) {...} : tensor<1x8x8x8xf32>

`infer_again` is the one step that all passes share which make a shape better known: binding
dimensions, folding constants, this pass.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import func
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute

from explorer.errors import PassError
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.origins import sources_of
from explorer.ir.rewriting import RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.rewriting.passes import EventLog, Pass
from explorer.ir.structure import functions
from explorer.ir.types import Dim, element_type_of, layout_of, shape_of, tensor_type

EXPLANATION = "the result's type follows from the operands' types and the properties"


@dataclass(frozen=True)
class InferShapes(Pass):
    """Result types are inferred again in program order, so that what became known spreads."""

    name = "infer-shapes"
    is_required = True

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        events = EventLog(self.name, rewriter)
        for function in functions(rewriter.module):
            for op in function.body.walk(region_first=True):
                if isinstance(op, TopOperation):
                    with events.rewrite("infer", op, EXPLANATION):
                        infer_again(op, rewriter, self.name)
            rewriter.update_signature(function)
        return events.rewrites


def infer_function(function: func.FuncOp, rewriter: RecordedRewriter, pass_name: str) -> None:
    """Infers all types of a function, inner regions before the operations that hold them."""
    for op in list(function.body.walk(region_first=True)):
        if isinstance(op, TopOperation):
            infer_again(op, rewriter, pass_name)
    rewriter.update_signature(function)


def infer_again(op: TopOperation, rewriter: RecordedRewriter, pass_name: str) -> bool:
    """Gives an operation's results the types that follow from its operands; True if one changed.

    PassError names the operation and its source nodes where its operands do not fit.
    """
    try:
        inferred = op.infer_types()
    except ValueError as error:
        sources = ", ".join(sources_of(op))
        raise PassError(
            f"the shapes at {op.name} {identity_of(op)} do not fit: {error}",
            pass_name=pass_name,
            operation=identity_of(op),
            node=sources,
            hint="give the symbolic dimensions other sizes (--dim name=size)",
        ) from error
    changed = False
    for index, new_type in enumerate(inferred):
        chosen = better_known(op.results[index].type, new_type)
        if chosen != op.results[index].type:
            rewriter.set_type(op.results[index], chosen)
            changed = True
    return changed


def better_known(declared: Attribute, inferred: Attribute) -> Attribute:
    """The inferred type, with the declared sizes where inference knows only a name.

    ?x8 declared, 4x"n" inferred  ->  4x8
    """
    if not isinstance(declared, TensorType) or not isinstance(inferred, TensorType):
        return inferred
    old, new = shape_of(declared), shape_of(inferred)
    if len(old) != len(new):
        return inferred
    shape = tuple(_better(a, b) for a, b in zip(old, new, strict=True))
    if shape == old and element_type_of(declared) == element_type_of(inferred):
        return declared
    return tensor_type(element_type_of(inferred), shape, layout_of(declared))


def _better(declared: Dim, inferred: Dim) -> Dim:
    if isinstance(inferred, int) or inferred == declared:
        return inferred
    return declared if isinstance(declared, int) or inferred == "?" else inferred
