"""A model as it is, under construction: `source.node` for nodes, `source.constant` for weights.

    builder = SourceBuilder(module)                             of the converted program
    w = builder.constant("conv1.w", kind, values.get("conv1.w"))
    builder.name_node(op, "conv1", "Conv")                      %node_conv1, location "conv1"
    program = builder.program(block, results, model)

Identities are unlike all of the converted program; constants that became one weight of it share
that weight's identity.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from explorer.importers.building.expr import Expr
from explorer.importers.building.identifiers import argument_name, identifier
from explorer.importers.model import SourceModel
from explorer.ir.dialects.source import ConstantOp, NodeOp, ReturnOp
from explorer.ir.evaluation import INPUT_NAMES, OUTPUT_NAMES
from explorer.ir.operation import IDENTITY, identity_of, set_identity
from explorer.ir.origins import location_of
from explorer.ir.structure import DEVICE
from explorer.ir.top.data import WeightOp


class SourceBuilder:
    def __init__(self, converted: ModuleOp | None) -> None:
        """`converted`: the imported program; None where the model cannot be imported."""
        made = list(converted.walk()) if converted is not None else []
        self._numbers: dict[str, int] = {}
        """The last number that a name got; all below it are taken."""
        self._taken = {identity_of(op) for op in made if IDENTITY in op.attributes}
        self._weights = {
            identity_of(op) for op in made if isinstance(op, WeightOp) and IDENTITY in op.attributes
        }

    def arguments(self, block: Block, inputs: Sequence[tuple[str, Attribute]]) -> list[SSAValue]:
        """The block's arguments, one for each input's name and type."""
        names: set[str] = set()
        for index, (name, kind) in enumerate(inputs):
            argument = block.insert_arg(kind, index)
            argument.name_hint = argument_name(name, names)
            names.add(argument.name_hint)
        self._taken |= names
        return list(block.args)

    def constant(self, name: str, kind: Attribute, weight: object = None) -> ConstantOp:
        """A tensor that the file holds. `weight`: what it became in the converted program."""
        op = ConstantOp.create(result_types=[kind], properties={"tensor": StringAttr(name)})
        made = weight.owner if isinstance(weight, Expr) else None
        if isinstance(made, Operation) and identity_of(made) in self._weights:
            set_identity(op, identity_of(made))
        else:
            set_identity(op, self.unused(f"model_{identifier(name)}"))
        return op

    def name_node(self, op: NodeOp, node: str, operator: str) -> None:
        """Gives a node's operation its identity and its place in the model."""
        op.location = location_of([node])
        name = identifier(node) or identifier(operator) or "unnamed"
        set_identity(op, self.unused(f"node_{name}"))

    def unused(self, name: str) -> str:
        base, number = name, self._numbers.get(name, 1)
        while name in self._taken:
            number += 1
            name = f"{base}x{number}"
        self._numbers[base] = number
        self._taken.add(name)
        return name

    def program(self, block: Block, results: Sequence[SSAValue], model: SourceModel) -> ModuleOp:
        """One function `main` of a block that ends with `source.return`."""
        types = [a.type for a in block.args], [r.type for r in results]
        function = func.FuncOp("main", types, Region(block))
        function.attributes[DEVICE] = StringAttr("host")
        function.attributes[INPUT_NAMES] = _strings(v.name for v in model.inputs)
        function.attributes[OUTPUT_NAMES] = _strings(v.name for v in model.outputs)
        return ModuleOp([function])


def end(block: Block, results: Sequence[SSAValue]) -> None:
    """Ends a graph with what it returns."""
    block.add_op(ReturnOp.create(operands=results))


def _strings(names: Iterable[str]) -> ArrayAttr[StringAttr]:
    return ArrayAttr([StringAttr(name) for name in names])
