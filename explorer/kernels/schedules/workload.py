"""What a kernel computes, as text: two kernels with the same one may share a tuned schedule.

    workload_text(function, packs, Machine(16, "c"))

It is the whole compute definition (statements with their access maps, so strides and dilations;
bodies, so the epilogue; shapes, element types and roles of all arguments), the layouts in which
activations come, and the machine. Only names of the model's are left out: the kernel's own.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import asdict

from xdsl.dialects import func
from xdsl.dialects.builtin import StringAttr
from xdsl.printer import Printer

from explorer.kernels.schedules.machine import Machine
from explorer.kernels.steps.pack import Pack, is_identity


def workload_text(function: func.FuncOp, packs: Mapping[str, Pack], machine: Machine) -> str:
    """The text; equal for kernels that compute the same on the same layouts."""
    anonymous = function.clone()
    anonymous.properties["sym_name"] = StringAttr("kernel")
    stream = io.StringIO()
    Printer(stream).print_op(anonymous)
    facts = asdict(machine)
    if machine.optimize == "speed":
        del facts["optimize"]  # digests of schedules that were kept before there was a choice
    layouts = {name: list(map(list, p)) for name, p in sorted(packs.items()) if not is_identity(p)}
    return "\n".join(
        [
            stream.getvalue(),
            f"layouts {json.dumps(layouts)}",
            f"machine {json.dumps(facts, sort_keys=True)}",
        ]
    )


def workload_digest(function: func.FuncOp, packs: Mapping[str, Pack], machine: Machine) -> str:
    """SHA-256 of the text, 64 hexadecimal digits."""
    return hashlib.sha256(workload_text(function, packs, machine).encode()).hexdigest()
