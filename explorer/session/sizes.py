"""Compiling what the host interprets of a kept program, for sizes that come again.

The program itself started without a compiler; the model's file is read when this is first asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from explorer.runtime.cache import ProgramCache
from explorer.runtime.executable import Executable
from explorer.session.source import ModelSource

if TYPE_CHECKING:
    from pathlib import Path

    from explorer.compilation.running import Run
    from explorer.ir.functions.host_functions import HostFunction
    from explorer.runtime.host import CompileFor


def compiler_for_sizes(
    source: ModelSource,
    target: str | Path,
    dimensions: Mapping[str, int | tuple[int, int]],
    options: Mapping[str, Any],
    store: ProgramCache,
    threads: int | None,
    isolated: bool,
    affinity: Sequence[int],
) -> CompileFor:
    """dimensions, options: what the program was compiled with; the rest: how it was opened."""

    @cache
    def whole() -> Run:
        """What the whole program would be compiled with."""
        from explorer.compilation.compilation import settings_for
        from explorer.compilation.running import Run
        from explorer.compilation.settings.settings import device_for

        chosen = {name: value for name, value in options.items() if name != "progress"}
        _, settings = settings_for(source.model, target, dimensions=dimensions, **chosen)
        return Run(settings, device_for(settings.target), (), (), ())

    def compile_for(host: HostFunction, arguments: Sequence[np.ndarray]) -> Executable:
        from explorer.compilation.compiled import Compiled
        from explorer.compilation.sized import run_for_sizes

        sized = Compiled(source.model, run_for_sizes(host, arguments, whole()))
        return sized.open(threads, isolated, affinity=affinity, cache=store)

    return compile_for
