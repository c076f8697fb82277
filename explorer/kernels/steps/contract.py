"""Step contract: a scratch buffer that fusion left without a reader or writer is no argument.

kernel(x, y, sums): acc = 0; for c: acc += ...; y[o] = requantized(acc)
->
kernel(x, y):       acc = 0; for c: acc += ...; y[o] = requantized(acc)
"""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, i64

from explorer.kernels.loops.nest import LoopNest
from explorer.kernels.loops.row_wise import ROWS


def contract(nest: LoopNest, buffer: str) -> None:
    """Removes an argument. Illegal unless it is scratch and nothing touches it."""
    value = nest.buffer(buffer, "contract")
    if nest.roles[buffer] != "scratch":
        raise nest.error("contract", f"{buffer} is {nest.roles[buffer]}, not scratch")
    if value.first_use is not None:
        raise nest.error("contract", f"{buffer} is used")
    position = next(index for index, other in enumerate(nest.block.args) if other is value)
    nest.block.erase_arg(nest.block.args[position])
    for name in ("kernel.names", "kernel.roles"):
        listed = nest.function.attributes[name]
        assert isinstance(listed, ArrayAttr)
        kept = [item for index, item in enumerate(listed.data) if index != position]
        nest.function.attributes[name] = ArrayAttr(kept)
    rows = nest.function.attributes.get(ROWS)
    if isinstance(rows, DenseArrayBase):
        units = [unit for index, unit in enumerate(rows.get_values()) if index != position]
        nest.function.attributes[ROWS] = DenseArrayBase.from_list(i64, units)
    nest.function.update_function_type()
    del nest.buffers[buffer], nest.roles[buffer]
