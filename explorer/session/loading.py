"""One program of a model, ready to run: the saved one, or one that is compiled and saved now.

    with start("net.onnx", dimensions={"batch": 4}) as started:
        started.run({"image": images})
        started.why                      "started from the kept program"

Who wants to look at passes and kernels compiles; who wants to run starts.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import numpy as np

from explorer.backends.loading import load_saved
from explorer.calling import require_arrays
from explorer.closing import Closing
from explorer.results.displayed import Displayed
from explorer.results.program import Program
from explorer.results.runs.saved_program import ModelInterface
from explorer.runtime.cache import ProgramCache
from explorer.runtime.cache.requests import Sizes, sizes_of
from explorer.runtime.cache.saved_programs import Startable
from explorer.runtime.executable import Executable
from explorer.session.options import require_options
from explorer.session.sizes import compiler_for_sizes
from explorer.session.source import ModelSource, cache_with

if TYPE_CHECKING:
    from explorer.compilation import Compilation
    from explorer.compilation.settings.options import CompileOptions
    from explorer.files import ModelPath
    from explorer.importers import SourceModel

FROM_KEPT = "started from the kept program"
START_OPTIONS = ("dimensions", "threads", "isolated", "affinity", "programs", "cache")


@dataclass(eq=False, kw_only=True, repr=False)
class Started(Closing, Displayed):
    """A program on its device; close it, or use it in a `with` statement."""

    executable: Executable
    model: ModelInterface
    sizes: Sizes
    """(name, lowest, highest) of every symbolic dimension."""
    why: str
    """`FROM_KEPT`, or why it was compiled."""
    compilation: Compilation | None
    """None where nothing was compiled."""
    seconds: float
    """Until it was there."""
    not_kept: str = ""
    """Why what was compiled will be compiled again; nothing where it is kept now."""

    @property
    def program(self) -> Program:
        """Launches, ports, offsets."""
        return self.executable.program

    @property
    def is_kept(self) -> bool:
        """Whether nothing was compiled."""
        return self.compilation is None

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Outputs by name, computed on the device."""
        if type(inputs) is not dict:
            require_arrays(inputs, (value.name for value in self.model.inputs), "started.run")
        return self.executable.run(inputs)

    def close(self) -> None:
        self.executable.close()
        if self.compilation is not None:
            self.compilation.close()


def start(
    model: SourceModel | ModelPath,
    target: str | Path = "cpu",
    *,
    dimensions: Mapping[str, int | tuple[int, int]] | None = None,
    threads: int | None = None,
    isolated: bool = True,
    affinity: Sequence[int] = (),
    programs: Path | None = None,
    cache: ProgramCache | None = None,
    source: ModelSource | None = None,
    **options: Unpack[CompileOptions],
) -> Started:
    """Opens the program of a model; nothing is compiled where it is kept.

    dimensions, options: as for `explorer.compile`. threads, isolated, affinity: as for
    `Compilation.open`. programs: a file that `explorer cache export` wrote. source: of the same
    model, target and options, where the caller has looked at it already.
    """
    begin = time.perf_counter()
    require_options("start", options, START_OPTIONS)
    cache = cache_with(cache, programs) if source is None else source.kept.cache
    source = ModelSource(model, target, options, cache) if source is None else source
    missed = source.undigested
    sizes = sizes_of(source.interface, dimensions or {})
    if source.request is not None and sizes is not None:
        found = source.kept.find(source.request, sizes)
        if isinstance(found, Startable):
            compile_for = compiler_for_sizes(
                source, target, dimensions or {}, options, cache, threads, isolated, affinity
            )
            executable = load_saved(found, cache, threads, isolated, affinity, compile_for)
            seconds = time.perf_counter() - begin
            return Started(
                executable=executable,
                model=found.kept.model,
                sizes=sizes,
                why=FROM_KEPT,
                compilation=None,
                seconds=seconds,
            )
        missed = found.reason
    from explorer.compilation import compile_model
    from explorer.compilation.saving_programs import keep, sizes_of_compilation

    compilation = compile_model(source.model, target, dimensions=dimensions, **options)
    executable = compilation.open(threads, isolated, affinity=affinity, cache=cache)
    seconds = time.perf_counter() - begin
    not_kept = source.undigested
    if source.request is not None:
        not_kept = keep(compilation, source.request, cache, seconds=seconds)
    return Started(
        executable=executable,
        model=source.interface,
        sizes=sizes_of_compilation(compilation),
        why=missed,
        compilation=compilation,
        seconds=seconds,
        not_kept=not_kept,
    )
