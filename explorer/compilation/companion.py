"""Compiling companion functions: what runs on another target than the first one, by its passes.

   func @main_cpu(%x.cpu) {device = "cpu", companion} { ... }      among functions of vta-16
   func @main_cpu_2(%r.cpu) {device = "cpu", companion} { ... }
=> func @main(%x.cpu.host, %r.cpu.host) {device = "host"} { calls both, without what lies between }
   func @main_cpu ...                                   and all passes after placement
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Block, Region

from explorer.accuracy.execution import execute_compiled
from explorer.compilation.collection import paused_collection
from explorer.compilation.custom_passes.pipelines import IMPORT
from explorer.compilation.running import Run, continued
from explorer.compilation.settings.settings import Settings, device_for, full_pipeline
from explorer.ir.operation import set_identity
from explorer.ir.program import Snapshot
from explorer.ir.rewriting import Names
from explorer.ir.rewriting.copying import copy_operation
from explorer.ir.rewriting.passes import PassResult
from explorer.ir.structure import COMPANION, DEVICE, HOST, value_name
from explorer.ir.top.data import ReturnOp, TransferOp
from explorer.ir.weights import Weights
from explorer.passes.lower.place_on_device import PlaceOnDevice
from explorer.targets import Target


@paused_collection()
def run_companion(
    functions: Sequence[func.FuncOp],
    weights: Weights,
    target: Target,
    parent: Run,
    names: Names | None = None,
) -> Run:
    """The functions compiled for the target; what passes over `top` do has been done to them.

    `names`: that are taken by the programs of other devices; all of them are shown together.
    UnsupportedError where something has no compiled form after all.
    """
    settings = Settings(
        target=target,
        tuned=parent.settings.tuned,
        tuned_threads=parent.settings.tuned_threads,
        host=False,
        open_ranges=parent.settings.open_ranges,
        dimensions=parent.settings.dimensions,
    )
    device = device_for(target)
    passes = full_pipeline(settings, device)
    placed = next(i for i, pass_ in enumerate(passes) if pass_.name == PlaceOnDevice.name)
    first = _alone(functions, weights, target, names or Names())
    return continued([first], Run(settings, device, passes, passes[placed + 1 :], ()))


def _alone(
    functions: Sequence[func.FuncOp], weights: Weights, target: Target, taken: Names
) -> PassResult:
    """The functions as a program of their own."""
    copies = [copy_operation(function) for function in functions]
    for copy in copies:
        copy.attributes.pop(COMPANION, None)
    module = ModuleOp([])
    names = taken.including(ModuleOp([copy_operation(function) for function in functions]))
    module.body.block.add_ops([_entry(copies, target, names), *copies])
    snapshot = Snapshot(module, weights.copy(), "top", execute_compiled)
    return PassResult(
        name=IMPORT,
        description=f"What {target.name} computes for another device.",
        before=snapshot,
        after=snapshot,
        rewrites=(),
        seconds=0.0,
        recording_seconds=0.0,
        names=names,
    )


def _entry(functions: Sequence[func.FuncOp], target: Target, names: Names) -> func.FuncOp:
    """Calls one after the other: what each reads is given, what it makes returned."""
    inputs = [argument for function in functions for argument in function.body.block.args]
    block = Block(arg_types=[argument.type for argument in inputs])
    for own, argument in zip(block.args, inputs, strict=True):
        own.name_hint = f"{value_name(argument)}.host"
    given = iter(block.args)
    returned = []
    for function in functions:
        sent = [TransferOp.make([next(given)], to=target.name) for _ in function.body.block.args]
        made = list(function.function_type.outputs)
        call = func.CallOp(function.sym_name.data, [transfer.output for transfer in sent], made)
        back = [TransferOp.make([result], to=HOST) for result in call.results]
        for result in call.results:
            result.name_hint = names.fresh(f"{function.sym_name.data}_result")
        for stem, transfers in (("send", sent), ("receive", back)):
            for transfer in transfers:
                set_identity(transfer, names.fresh(stem))
        block.add_ops([*sent, call, *back])
        returned += [transfer.output for transfer in back]
    block.add_op(ReturnOp.make([returned]))
    types = [value.type for value in block.args], [value.type for value in returned]
    entry = func.FuncOp("main", types, Region(block))
    entry.attributes[DEVICE] = StringAttr(HOST)
    return entry
