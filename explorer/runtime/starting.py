"""A finished program that was kept, opened on its device: nothing is compiled.

found = KeptPrograms(cache).find(request, sizes)
with open_kept(found, cache) as executable:
    executable.run(inputs)
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import numpy as np

from explorer.errors import InputError
from explorer.results import ProgramLookup
from explorer.runtime.cache.kept import Startable
from explorer.runtime.cache.store import ProgramCache
from explorer.runtime.cache.weights import MappedWeights
from explorer.runtime.executable import Executable
from explorer.runtime.native import NativeProgram


def open_kept(
    found: Startable,
    cache: ProgramCache,
    threads: int | None = None,
    isolated: bool = True,
    affinity: Sequence[int] = (),
) -> Executable:
    """The program on its device; threads and affinity as in `Compilation.open`."""
    started = time.perf_counter()
    kept = found.kept
    program = kept.program
    values = (*program.inputs, *program.outputs, *program.taps)
    know_element_types(value.element_type for value in values)
    name = kept.model.name
    if kept.language == "opencl":
        if affinity:
            raise InputError("affinity: an OpenCL driver has its own threads")
        # Only here: it imports pyopencl.
        from explorer.runtime.opencl import OpenCLProgram

        mapped = found.weights
        weights = mapped.array if isinstance(mapped, MappedWeights) else mapped
        return OpenCLProgram(kept.program, weights, compute_units=threads, name=name, cache=cache)
    executable = NativeProgram(
        kept.program,
        found.weights,
        isolated,
        threads or 1,
        affinity=affinity,
        binary=found.binary,
        name=name,
        cache=cache,
    )
    cache.looked.append(lookup_of(found, time.perf_counter() - started))
    return executable


def lookup_of(found: Startable, seconds: float) -> ProgramLookup:
    """Where the binary came from, as the cache says of programs that it is asked for."""
    key = found.binary.key
    described = tuple(
        (field, " ".join(map(str, value)) if isinstance(value, list) else str(value))
        for field, value in key.items()
    )
    return ProgramLookup(
        found.kept.model.name, found.kept.binary, found.tier, "", seconds, described
    )


def know_element_types(names: Iterable[str]) -> None:
    """Types that NumPy has not of its own (bfloat16, int4 ...) are known once they are imported."""
    try:
        for name in set(names):
            np.dtype(name)
    except TypeError:
        import ml_dtypes  # noqa: F401
