"""Programs with the C driver that this process has compiled before.

    compile_program(first, folder, gcc)     kernels and driver in one translation unit
    compile_program(second, folder, gcc)    the driver as an object file, then the kernels
    compile_program(third, folder, gcc)     the kernels alone

For the driver gcc 12 takes 0.25 s of processor time (-O2, Sapphire Rapids), for a kernel less.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from threading import Lock

from explorer.errors import BuildError
from explorer.runtime.compilers import Compiler, compile_shared_library
from explorer.runtime.scratch import own_folder


def compile_program(
    source: str,
    folder: Path,
    compiler: Compiler,
    flags: Sequence[str] = (),
    time_limit_seconds: float = 300.0,
    parts: int = 1,
    flags_of_first: Sequence[str] = (),
) -> Path:
    """As `compile_shared_library`: the source is a whole program of `emit_program`, or any other
    text, which is compiled as it is."""
    # Processes that load a kept program compile nothing.
    from explorer.kernels.program.shared_driver import without_driver

    rest = without_driver(source) if parts == 1 else None
    driver = None if rest is None else _driver_of(compiler, tuple(flags)).content()
    if rest is None or driver is None:
        return compile_shared_library(
            source, folder, compiler, flags, time_limit_seconds, parts, flags_of_first
        )
    with tempfile.TemporaryDirectory(dir=folder, prefix="driver-") as scratch:
        object_file = Path(scratch, "driver.o").absolute()
        object_file.write_bytes(driver)
        inputs = (*flags_of_first, str(object_file))
        return compile_shared_library(
            rest, folder, compiler, flags, time_limit_seconds, flags_of_first=inputs
        )


@dataclass
class _Driver:
    """The driver for one compiler and its flags."""

    compiler: Compiler
    flags: tuple[str, ...]
    asked: int = 0
    compiled: bytes | None = None
    lock: Lock = field(default_factory=Lock)

    def content(self) -> bytes | None:
        """The object file, from the second question on; None where it cannot be compiled."""
        from explorer.kernels.program.shared_driver import driver_source

        with self.lock:
            self.asked += 1
            if self.asked == 2:
                try:
                    self.compiled = _compile_object(driver_source(), self.compiler, self.flags)
                except BuildError:  # the whole program's own error has the line and the reason
                    self.compiled = None
            return self.compiled


@lru_cache(maxsize=16)
def _driver_of(compiler: Compiler, flags: tuple[str, ...]) -> _Driver:
    return _Driver(compiler, flags)


def _compile_object(source: str, compiler: Compiler, flags: tuple[str, ...]) -> bytes:
    with tempfile.TemporaryDirectory(prefix="driver-", dir=own_folder()) as folder:
        return compile_shared_library(source, Path(folder), compiler, (*flags, "-c")).read_bytes()
