"""What programs of a backend can do on a target: the record that passes and their rules ask.

    capabilities = backend.capabilities(target, lanes)
    top_pipeline(sizes, capabilities=capabilities)

A rule that pays only where the device has an instruction for it asks for that instruction here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """By default kernels of loops on a processor that multiplies bytes by an instruction."""

    fuses_attention: bool = True
    """Whether one kernel computes softmax(q k) v: its tasks have memory of their own for rows of
    scores."""
    multiplies_pairs: bool = False
    """Whether products of bytes are added up in pairs of 16 bits, for want of better ones."""
    splits_signs: bool = False
    """Whether such pairs take the sizes of weights, and flip bits for their signs: vectors of 256
    bits have instructions for absolute values of bytes."""
    multiplies_blocks: bool = True
    """Whether kernels multiply bytes in blocks with weights in blocks: vectors of sums stay in
    registers, where else every block of every result would be a number in memory."""
    widens_operands: bool = True
    """Whether products of floats read a computed right side of fewer bytes, and widen it in
    registers."""
    multiplies_bf16: bool = False
    """Whether an instruction adds two products of bfloat16 to a sum of float32."""


ORDINARY = Capabilities()


def common_capabilities(found: Sequence[Capabilities]) -> Capabilities:
    """What programs of all of them can do: an operation may run on each."""
    if len(found) == 1:
        return found[0]
    names = [one.name for one in fields(Capabilities)]
    return Capabilities(**{name: all(getattr(one, name) for one in found) for name in names})
