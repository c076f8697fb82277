"""Executing snapshots below `top`: their kernels as C, one buffer per value, every value tapped.

The values come back as logical tensors by name, as `Snapshot.run` of the upper levels has them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.dialects import func
from xdsl.ir import SSAValue

from explorer.ir.evaluation import check_inputs, entry_function
from explorer.ir.layout import unpack_tap
from explorer.ir.program import Snapshot
from explorer.ir.structure import device_of, functions, value_name
from explorer.ir.top.data import TransferOp
from explorer.kernels.program import BuiltProgram, build_program, host_ports
from explorer.memory.planners import NoSharingPlanner
from explorer.memory.planning import plan_function, value_offsets
from explorer.results import MemoryPlan
from explorer.results.program import Tap
from explorer.runtime.executable import Arrays, Executable, Taps
from explorer.runtime.native import NativeProgram


def build_for_comparison(snapshot: Snapshot, plan: MemoryPlan | None = None) -> BuiltProgram:
    """The snapshot as C; without a plan every value has a buffer of its own."""
    if plan is None:
        (function,) = [f for f in functions(snapshot.program) if device_of(f) != "host"]
        plan = plan_function(function, snapshot.kernels, NoSharingPlanner(), 64)
    inputs, outputs = host_ports(snapshot)
    return build_program(
        snapshot, value_offsets(plan), plan.peak_bytes, "cpu", "c", inputs, outputs
    )


def execute_compiled(
    snapshot: Snapshot,
    inputs: Mapping[str, np.ndarray],
    replaced: Mapping[str, np.ndarray],
) -> dict[str, np.ndarray]:
    """All values by name. `replaced` overwrites values after they were read (isolated mode)."""
    runner = CompiledRunner()
    try:
        return runner.run(snapshot, inputs, replaced)
    finally:
        runner.close()


class CompiledRunner:
    """Executes snapshots below `top`; what was built last is kept while the code stays the same."""

    def __init__(self) -> None:
        self._key: tuple[tuple[str, ...], bytes] | None = None
        self._tapped: TappedProgram | None = None
        self._built: tuple[Snapshot, BuiltProgram] | None = None

    def run(
        self,
        snapshot: Snapshot,
        inputs: Mapping[str, np.ndarray],
        replaced: Mapping[str, np.ndarray],
        plan: MemoryPlan | None = None,
    ) -> dict[str, np.ndarray]:
        """As `execute_compiled`; with a plan, at its addresses."""
        arrays = check_inputs(entry_function(snapshot.program), inputs)
        if self._built is None or self._built[0] is not snapshot:
            self._built = (snapshot, build_for_comparison(snapshot, plan))
        built = self._built[1]
        ports = built.program.inputs
        named = {port.name: a for port, a in zip(ports, arrays, strict=True)}
        values = self._open(built).values(named, replaced)
        outputs = [values[f"output:{port.name}"] for port in built.program.outputs]
        for name, array in host_values(snapshot, arrays, outputs).items():
            values.setdefault(name, array)
        return values

    def _open(self, built: BuiltProgram) -> TappedProgram:
        key = (built.program.source.lines, hashlib.sha256(built.weights.data).digest())
        if self._tapped is None or key != self._key:
            self.close()
            self._tapped = TappedProgram(NativeProgram(built.program, built.weights))
            self._key = key
        return self._tapped

    def close(self) -> None:
        if self._tapped is not None:
            self._tapped.executable.close()
        self._tapped, self._key = None, None


def host_values(
    snapshot: Snapshot, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]
) -> dict[str, np.ndarray]:
    """Every value of the host's function, and the device's arguments, by name.

    `outputs` are what the device returns.
    """
    (host,) = [f for f in functions(snapshot.program) if device_of(f) == "host"]
    (device,) = [f for f in functions(snapshot.program) if device_of(f) != "host"]
    known: dict[SSAValue, np.ndarray] = dict(zip(host.body.block.args, inputs, strict=True))
    for op in host.body.block.ops:
        if isinstance(op, func.CallOp):
            given = [known[operand] for operand in op.operands]
            known.update(zip(device.body.block.args, given, strict=True))
            known.update(zip(op.results, outputs, strict=True))
        elif isinstance(op, TransferOp):
            known[op.output] = known[op.input]
    return {value_name(value): array for value, array in known.items()}


class TappedProgram:
    """A built program whose every value can be read, and replaced after it was read.

    What was computed last is kept: the same question is answered without running again.
    """

    def __init__(self, executable: Executable):
        self.executable = executable
        self._taps = {(tap.operation, tap.result): tap for tap in executable.program.taps}
        # The questions that were answered last; holding their arrays keeps identities unique.
        self._inputs: Mapping[str, np.ndarray] = {}
        self._replaced: Mapping[str, np.ndarray] = {}
        self._plain: tuple[Arrays, Taps] | None = None
        self._fed: tuple[Arrays, Taps] | None = None

    def values(
        self, inputs: Mapping[str, np.ndarray], replaced: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """Every value that the program makes, as logical tensors by name.

        Outputs stand under `output:NAME`, too. Each value of `replaced` takes the place of the
        computed one for whoever reads it; halo and padding channels stay as the kernel wrote them.
        """
        if self._plain is None or not _are_same(inputs, self._inputs):
            self._inputs, self._fed = dict(inputs), None
            self._plain = self.executable.run_with_taps(inputs)
        if not replaced:
            return self._named(inputs, self._plain)
        if self._fed is None or not _are_same(replaced, self._replaced):
            self._replaced = dict(replaced)
            fed = {
                key: replace_interior(physical, replaced[name], self._taps[key])
                for key, physical in self._plain[1].items()
                if (name := tapped_value(self._taps[key])) in replaced
            }
            self._fed = self.executable.run_with_taps(inputs, fed)
        return self._named(inputs, self._fed)

    def _named(
        self, inputs: Mapping[str, np.ndarray], result: tuple[Arrays, Taps]
    ) -> dict[str, np.ndarray]:
        outputs, taps = result
        values = dict(inputs)
        for key, physical in taps.items():
            tap = self._taps[key]
            values[tapped_value(tap)] = unpack_tap(physical, tap.logical_shape, tap.block, tap.halo)
        values.update({f"output:{name}": array for name, array in outputs.items()})
        return values


def tapped_value(tap: Tap) -> str:
    """The name of the value that a tap reads: the operation's, with a number from the second on."""
    return f"{tap.operation}.{tap.result}" if tap.result else tap.operation


def _are_same(a: Mapping[str, np.ndarray], b: Mapping[str, np.ndarray]) -> bool:
    """The very same arrays under the same names."""
    return a.keys() == b.keys() and all(a[name] is b[name] for name in a)


def replace_interior(physical: np.ndarray, logical: np.ndarray, tap: Tap) -> np.ndarray:
    """A copy of a buffer's array with another logical tensor inside."""
    positions = np.arange(physical.size).reshape(physical.shape)
    inside = unpack_tap(positions, tap.logical_shape, tap.block, tap.halo)
    copy = np.array(physical)
    copy.reshape(-1)[inside.reshape(-1)] = logical.reshape(-1)
    return copy
