"""Weights and code within the flash of a device.

    require_weights(program, 65536)
        -> MemoryBudgetError: the weights take 126,696 bytes, 61,160 more than the flash of 65,536

The weights are known once the program is made, and refused then. Code is known when it is compiled
for the machine, which is when the program is opened.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from explorer.errors import InputError, MemoryBudgetError
from explorer.packaging.objects import read_object
from explorer.results import Program

MAX_LISTED = 6
"""Weights that the message lists, the largest ones."""


def require_weights(program: Program, flash_bytes: int) -> None:
    """MemoryBudgetError where the weights alone are too many."""
    if program.weights_bytes > flash_bytes:
        missing = program.weights_bytes - flash_bytes
        raise refusal(
            program,
            flash_bytes,
            program.weights_bytes,
            f"the weights take {program.weights_bytes:,} bytes, {missing:,} more than the flash "
            f"of {flash_bytes:,}",
        )


def require_code(program: Program, libraries: Sequence[Path], flash_bytes: int) -> None:
    """MemoryBudgetError where weights and machine code together are too many.

    Code is what the program's libraries have of instructions.
    """
    code = sum(read_object(path).code_bytes for path in libraries)
    needed = program.weights_bytes + code
    if needed > flash_bytes:
        raise refusal(
            program,
            flash_bytes,
            needed,
            f"the weights take {program.weights_bytes:,} bytes and the code {code:,}, "
            f"{needed - flash_bytes:,} more than the flash of {flash_bytes:,}",
        )


def code_of(libraries: Sequence[Path]) -> int | None:
    """Bytes of instructions in them; None where they have a form that is not read."""
    try:
        return sum(read_object(path).code_bytes for path in libraries)
    except (InputError, OSError):
        return None


def refusal(program: Program, flash_bytes: int, needed: int, message: str) -> MemoryBudgetError:
    largest = sorted(program.weights, key=lambda slot: -slot.size_bytes)[:MAX_LISTED]
    listed = ", ".join(f"{slot.name} {slot.size_bytes:,}" for slot in largest)
    return MemoryBudgetError(
        f"flash: {message}. The largest weights: {listed or 'none'}",
        budget_bytes=flash_bytes,
        needed_bytes=needed,
        hint=f"a flash of at least {needed} bytes, `quantize`, or --decide target/optimize=size",
    )
