"""Executing a placed program part by part: the host by NumPy, devices by whoever can.

    run_parts(snapshot, {"x": x}, {}, run_device)     -> every value by name

`run_device(function, arguments, replaced)` gives what a function of a device returns and all its
values by name; `replaced` as in `Snapshot.run`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from xdsl.dialects import func
from xdsl.ir import SSAValue

from explorer.ir.evaluation import check_inputs, entry_function
from explorer.ir.functions.calls import calls_of, returned_values
from explorer.ir.functions.host_functions import HostFunction
from explorer.ir.program import Snapshot
from explorer.ir.structure import HOST, device_of, value_name
from explorer.ir.top.data import TransferOp

RunDevice = Callable[
    [func.FuncOp, Sequence[np.ndarray], Mapping[str, np.ndarray]],
    tuple[list[np.ndarray], dict[str, np.ndarray]],
]


def run_parts(
    snapshot: Snapshot,
    inputs: Mapping[str, np.ndarray],
    replaced: Mapping[str, np.ndarray],
    run_device: RunDevice,
) -> dict[str, np.ndarray]:
    """All values by name; what is returned stands under `output:NAME`, too."""
    entry = entry_function(snapshot.program)
    arrays = check_inputs(entry, inputs)
    known: dict[SSAValue, np.ndarray] = dict(zip(entry.body.block.args, arrays, strict=True))
    called = {call.results: call for call in calls_of(snapshot.program)}
    values: dict[str, np.ndarray] = {}
    for op in entry.body.block.ops:
        if isinstance(op, func.CallOp):
            function = called[tuple(op.results)].function
            given = [known[operand] for operand in op.operands]
            if device_of(function) == HOST:
                host = HostFunction(function, snapshot.weights)
                made, found = host.evaluate(given, replaced)
            else:
                made, found = run_device(function, given, replaced)
            known.update(zip(function.body.block.args, given, strict=True))
            known.update(zip(op.results, made, strict=True))
            values.update(found)
        elif isinstance(op, TransferOp):
            known[op.output] = known[op.input]
    for value, array in known.items():
        values.setdefault(value_name(value), array)
    for value in returned_values(snapshot.program):
        values[f"output:{value_name(value)}"] = known[value]
    return values
