"""What passes of corrections do to weights, and how they say what it gains."""

from __future__ import annotations

from collections.abc import Set
from math import inf, log10

import numpy as np
from xdsl.dialects import func
from xdsl.ir import Operation, SSAValue

from explorer.errors import InputError
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.rewriting import RecordedRewriter, RewriteOptions
from explorer.quantization.choosing import quantizable_tensors


def set_weight(op: TopOperation, index: int, array: np.ndarray, rewriter: RecordedRewriter) -> None:
    """Another array for a constant operand; the old one goes where nothing else reads it."""
    before = op.operands[index].owner
    stored = rewriter.add_weight(op, f"{identity_of(op)}.weight", array, like=op)
    rewriter.set_operand(op, index, stored)
    if isinstance(before, Operation) and not any(r.uses for r in before.results):
        rewriter.erase(before)


def is_wanted(address: str, options: RewriteOptions) -> bool:
    """Whether no decision forbids a correction; InputError for one that is no bool."""
    asked = options.decision(address)
    if asked is None:
        return True
    if not isinstance(asked, bool):
        raise InputError(f"{address} cannot be {asked!r}: it is used, or not", hint="a bool")
    return asked


def float_tensors(function: func.FuncOp, names: Set[str], integers_only: bool) -> set[SSAValue]:
    """Of tensors that could be quantized those with these names, which stay float: products that
    read them compute in floats, with weights that nothing rounds."""
    if not names:
        return set()
    tensors = quantizable_tensors(function, integers_only)
    return {tensor.value for tensor in tensors if tensor.name in names}


def decibels(before: float, after: float) -> str:
    """`2.1 dB`: by how much one squared error is less than another."""
    gain = 10 * log10(before / after) if before > 0 and after > 0 else (inf if before else 0.0)
    return f"{gain:.1f} dB"
