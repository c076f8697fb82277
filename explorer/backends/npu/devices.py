"""The machines that are simulated here, as devices."""

from __future__ import annotations

from explorer.errors import BuildError
from explorer.runtime.devices import DeviceRecord
from explorer.targets import list_targets, load_target
from explorer.targets.npu.machine import describe


def simulated_devices() -> list[DeviceRecord]:
    """One per target with queues that comes with the package; refused without a C compiler."""
    from explorer.runtime.compilers import find_compiler

    refusal, driver, version = "", "", ""
    try:
        compiler = find_compiler()
        driver, version = f"simulator ({' '.join(compiler.command)})", compiler.name
    except BuildError as error:
        refusal = str(error)
    found = []
    for name in list_targets():
        target = load_target(name)
        if not target.queues:
            continue
        machine = describe(target)
        found.append(
            DeviceRecord(
                kind="npu",
                name=name,
                driver=driver,
                version=version,
                compute_units=machine.batch * machine.rows * machine.columns,
                memory_bytes=machine.global_bytes or 0,
                vector_floats=0,
                usable=not refusal,
                refusal=refusal,
                processor="npu",
            )
        )
    return found
