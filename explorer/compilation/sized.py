"""Compiling a function of the host when the sizes of its arguments are there.

   func @main_cpu_sized(%g: tensor<?x4xf32>) -> tensor<?x5xf32> {device = "host", sized = "cpu"}
=> func @main(%g: tensor<7x4xf32>) -> tensor<7x5xf32>                 and all passes behind it
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from xdsl.dialects.builtin import ModuleOp, StringAttr

from explorer.accuracy.execution import execute_compiled
from explorer.compilation.collection import paused_collection
from explorer.compilation.custom_passes.pipelines import IMPORT
from explorer.compilation.running import Run, continued
from explorer.compilation.settings.settings import full_pipeline, without_disabled
from explorer.errors import UnsupportedError
from explorer.ir.functions.host_functions import HostFunction
from explorer.ir.inspection.measures import module_macs
from explorer.ir.program import Snapshot
from explorer.ir.rewriting import Names, RecordedRewriter
from explorer.ir.rewriting.copying import copy_operation
from explorer.ir.rewriting.passes import PassResult
from explorer.ir.structure import DEVICE, HOST, HOST_REASON, SIZED
from explorer.ir.types import element_type_of, is_static, tensor_type
from explorer.passes.sizes.infer_shapes import infer_function

MIN_MACS = 1_000_000
"""Multiply-adds of one run: NumPy does fewer before a compiler has started."""


@paused_collection()
def run_for_sizes(host: HostFunction, arguments: Sequence[np.ndarray], parent: Run) -> Run:
    """The function compiled for arguments of these sizes, with the settings of the whole program.

    UnsupportedError where there is little to do, where sizes stay unknown, or where something has
    no compiled form after all.
    """
    first = _bound(host, arguments)
    settings = replace(
        parent.settings,
        others=(),
        dimensions={},
        open_ranges=(),
        decisions={},
        fuel=None,
        budget_bytes=None,
        flash_bytes=None,
        pipeline=None,
        edits=(),
        edited=None,
        host=False,
    )
    full = full_pipeline(settings, parent.device)
    known = [name for name in settings.disable if any(p.name == name for p in full)]
    pipeline = without_disabled(full, known)
    return continued([first], Run(settings, parent.device, full, pipeline, ()))


def _bound(host: HostFunction, arguments: Sequence[np.ndarray]) -> PassResult:
    """The function as a program of its own whose arguments have sizes."""
    function = copy_operation(host.function)
    function.sym_name = StringAttr("main")
    function.attributes[DEVICE] = StringAttr(HOST)
    function.attributes.pop(SIZED, None)
    for op in function.body.walk():
        op.attributes.pop(HOST_REASON, None)
    module = ModuleOp([function])
    weights = host.weights.copy()
    rewriter = RecordedRewriter(module, weights, Names.of(module))
    for value, array in zip(list(function.body.block.args), arguments, strict=True):
        rewriter.set_type(value, tensor_type(element_type_of(value), array.shape))
    infer_function(function, rewriter, IMPORT)
    open_value = next(
        (r for op in function.body.block.ops for r in op.results if not is_static(r)), None
    )
    if open_value is not None:
        raise UnsupportedError(
            f"the size of {open_value.name_hint} is not known when all arguments of "
            f"{host.name} are there"
        )
    macs = module_macs(module)
    if macs < MIN_MACS:
        raise UnsupportedError(f"{macs:,} multiply-adds in {host.name} are not worth compiling")
    snapshot = Snapshot(module, weights, "top", execute_compiled)
    what = f"{host.name}, whose arguments have these sizes in a run."
    names = Names.of(module)
    return PassResult(
        name=IMPORT,
        description=what,
        before=snapshot,
        after=snapshot,
        rewrites=(),
        seconds=0.0,
        recording_seconds=0.0,
        names=names,
    )
