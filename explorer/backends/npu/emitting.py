"""The program of a compilation, laid out from an address on and written as files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from explorer.backends.npu.emitted import write_emitted
from explorer.backends.npu.network import Network, network_of
from explorer.backends.npu.passes import AssignAddresses, EmitInstructions, TileLayers
from explorer.errors import InputError
from explorer.ir.functions.calls import device_functions
from explorer.ir.rewriting import RewriteOptions
from explorer.ir.rewriting.passes import PassResult, Working, run_pass
from explorer.npu.tensors import alignment_bytes
from explorer.targets import Target
from explorer.targets.npu.machine import Machine, describe


def emit_results(
    results: Sequence[PassResult], target: Target, folder: Path, base_bytes: int
) -> None:
    """Writes the one part that the machine runs. InputError where there are several, or none."""
    machine = describe(target)
    write_emitted(network_from(results, machine, base_bytes), target, folder, base_bytes)


def network_from(results: Sequence[PassResult], machine: Machine, base_bytes: int) -> Network:
    """As compiled, or, for another base, with memory planned again behind it."""
    each = alignment_bytes(machine)
    if base_bytes % each:
        raise InputError(
            f"--base: {base_bytes} is no multiple of {each}, at which tensors of {machine.name} "
            "are aligned",
            hint=f"--base {-(-base_bytes // each) * each}",
        )
    final = results[-1].after
    if base_bytes:
        tiled = next(result for result in results if result.name == TileLayers.name)
        working = Working.at(tiled.after, tiled.names)
        for pass_ in (AssignAddresses(machine, base_bytes=base_bytes), EmitInstructions(machine)):
            final = run_pass(pass_, working, RewriteOptions()).after
    found = device_functions(final.program)
    if len(found) != 1:
        names = ", ".join(function.sym_name.data for function in found) or "none"
        raise InputError(
            f"one program is written, and {machine.name} runs {len(found)} parts: {names}",
            hint="`explorer compile` lists what the host runs between them, and why",
        )
    return network_of(found[0], final.weights, machine)
