"""The program of a compilation, laid out from an address on and written as files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from explorer.backends.npu.emitted import write_emitted, write_parts
from explorer.backends.npu.laying_out import LayOutConstants
from explorer.backends.npu.lowered import LoweredLayers
from explorer.backends.npu.network import network_of
from explorer.backends.npu.passes import AssignAddresses, EmitInstructions
from explorer.errors import InputError
from explorer.ir.evaluation import entry_function, input_names
from explorer.ir.functions.calls import calls_of, functions_on
from explorer.ir.program import Snapshot
from explorer.ir.rewriting import RewriteOptions
from explorer.ir.rewriting.passes import PassResult, Working, run_pass
from explorer.ir.structure import device_of
from explorer.kernels.program.parts import value_names
from explorer.npu.layers.tensors import alignment_bytes
from explorer.targets import Target
from explorer.targets.npu.machine import Machine, describe


def emit_results(
    results: Sequence[PassResult], target: Target, folder: Path, base_bytes: int
) -> None:
    """Writes what the machine runs: one part as it is, of several each in a folder of its own,
    with a file that says in which order. InputError where there is none."""
    machine = describe(target)
    final = snapshot_at(results, machine, base_bytes)
    found = functions_on(final.program, machine.name)
    if not found:
        raise InputError(
            f"{machine.name} runs no part of this model: there is nothing to emit",
            hint="`explorer compile` lists what runs elsewhere, and why",
        )
    networks = {f.sym_name.data: network_of(f, final.weights, machine) for f in found}
    if len(networks) == 1:
        write_emitted(networks[found[0].sym_name.data], target, folder, base_bytes)
        return
    write_parts(_parts(final), target, folder)
    for name, network in networks.items():
        write_emitted(network, target, folder / name, base_bytes)


def _parts(final: Snapshot) -> list[dict[str, Any]]:
    """Every part in order, also those of other devices: what each reads and makes, by names that
    model inputs and results of parts have; as its ports are ordered."""
    calls = calls_of(final.program)
    names = value_names(final, calls, input_names(entry_function(final.program)))
    return [
        {
            "function": call.function.sym_name.data,
            "device": device_of(call.function),
            "inputs": [names[value] for value in call.operands],
            "outputs": [names[value] for value in call.results],
        }
        for call in calls
    ]


def snapshot_at(results: Sequence[PassResult], machine: Machine, base_bytes: int) -> Snapshot:
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
        laid_out = next(result for result in results if result.name == LayOutConstants.name)
        working = Working.at(laid_out.after, laid_out.names)
        lowered = LoweredLayers(machine)
        for pass_ in (
            AssignAddresses(machine, base_bytes=base_bytes, lowered=lowered),
            EmitInstructions(machine, lowered),
        ):
            final = run_pass(pass_, working, RewriteOptions()).after
    return final
