"""What the entry function calls, in order: the parts of a placed program, and what goes between.

%a = top.transfer(%x) {to = "cpu"}
%r = func.call @main_cpu(%a)          ->   PartCall(main_cpu, operands=(%x,), results=(%r,))
%y = top.transfer(%r) {to = "host"}
return %y                             ->   returned_values: (%r,)
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from explorer.errors import InputError
from explorer.ir.evaluation import entry_function
from explorer.ir.structure import device_of, functions
from explorer.ir.top.data import ReturnOp, TransferOp


@dataclass(frozen=True, eq=False)
class PartCall:
    """One call of a part; operands are the entry's values, without the transfers between."""

    function: func.FuncOp
    operands: tuple[SSAValue, ...]
    results: tuple[SSAValue, ...]


def calls_of(program: ModuleOp) -> list[PartCall]:
    """The calls in the entry function, in the order in which they run."""
    called = {f.sym_name.data: f for f in functions(program)}
    return [
        PartCall(
            called[op.callee.string_value()],
            tuple(without_transfers(operand) for operand in op.operands),
            tuple(op.results),
        )
        for op in entry_function(program).body.block.ops
        if isinstance(op, func.CallOp)
    ]


def returned_values(program: ModuleOp) -> tuple[SSAValue, ...]:
    """What the entry function returns, without transfers."""
    last = entry_function(program).body.block.last_op
    assert isinstance(last, ReturnOp)
    return tuple(without_transfers(operand) for operand in last.operands)


def without_transfers(value: SSAValue) -> SSAValue:
    """The value as the transfers found it where it came from."""
    while isinstance(value.owner, TransferOp):
        value = value.owner.input
    return value


def device_functions(program: ModuleOp) -> list[func.FuncOp]:
    """The functions that run on devices, none of them on the host."""
    return [f for f in functions(program) if device_of(f) != "host"]


def functions_on(program: ModuleOp, device: str) -> list[func.FuncOp]:
    """The functions that run on one device."""
    return [f for f in functions(program) if device_of(f) == device]


def only_device_function(program: ModuleOp) -> func.FuncOp:
    """The one function that runs on a device; InputError where there are none or several."""
    found = device_functions(program)
    if len(found) != 1:
        names = ", ".join(f.sym_name.data for f in found) or "none"
        raise InputError(
            f"one function on a device is asked for, and there are: {names}",
            hint="`explorer.ir.functions.calls.calls_of` lists them in the order in which they run",
        )
    return found[0]
