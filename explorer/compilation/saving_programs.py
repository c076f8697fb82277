"""Saving compiled programs, so that they start without compiling the next time.

request = request_of(path, "cpu", options)       before the file is read
model = load(path)
compilation = compile_model(model, ...)
with compilation.open(cache=cache) as executable:
    keep(compilation, request, cache)            "", or why it is not kept
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from explorer.backends.loading import saved_programs
from explorer.compilation.saved_parts import saved_parts
from explorer.errors import ExplorerError
from explorer.importers import SourceModel, files_of
from explorer.importers.model import is_batch, symbolic_dimensions
from explorer.ir.evaluation import entry_function, specialized_inputs
from explorer.results.runs.saved_program import (
    FixedContent,
    ModelInput,
    ModelInterface,
    SavedProgram,
)
from explorer.runtime.cache import ProgramCache
from explorer.runtime.cache.digests import digest_of_file
from explorer.runtime.cache.requests import ProgramRequest, Sizes, preview_of
from explorer.runtime.cache.saved_program_files import without_text
from explorer.runtime.cache.saved_programs import SavedPrograms

if TYPE_CHECKING:
    from explorer.compilation.compiled import Compiled

MAX_CONTENT_BYTES = 1 << 16
"""Of an input that decides a shape."""
CLOCK_NS = 20_000_000
"""How much later than it was written a file may say that it was: a tick of the system."""


def keep(
    compilation: Compiled,
    request: ProgramRequest,
    cache: ProgramCache,
    inputs: Mapping[str, np.ndarray] | None = None,
    seconds: float = 0.0,
) -> str:
    """Keeps a program that was opened with the cache; why it is not kept, or nothing.

    `inputs`: what the program was compiled for, where contents decided shapes. `seconds`: that
    compiling took.
    """
    programs = saved_programs(cache)
    try:
        kept = finished(compilation, request, programs, inputs or {}, seconds)
    except (ExplorerError, OSError, EOFError, ValueError) as error:
        return str(error)
    if isinstance(kept, str):
        return kept
    return programs.store(*kept)


def finished(
    compilation: Compiled,
    request: ProgramRequest,
    programs: SavedPrograms,
    inputs: Mapping[str, np.ndarray],
    seconds: float,
) -> tuple[SavedProgram, np.ndarray] | str:
    """The program as it is kept, but for its weights' digest, and these; or why it cannot be."""
    model = compilation.model
    if request.has_changed:
        return "the model's file changed while it was compiled"
    if not programs.circumstances.is_as_loaded:
        return "the explorer's own sources changed since this process began"
    if compilation.companions:
        return "programs with functions of several targets are not kept"
    language = compilation.backend.kept
    if language is None:
        return f"programs of the backend {compilation.backend.name} are not kept"
    keys = compilation.keys_by_function
    if any(programs.cache.held(key.digest()) is None for key in keys.values()):
        return "the driver gives no binary of its programs"
    if any(value.shape is None for value in model.inputs):
        return "the model does not say how many axes its inputs have"
    contents = fixed_contents(compilation, inputs)
    if contents is None:
        return "an input that decides a shape is too large to be kept"
    binaries = [key.digest() for key in keys.values()]
    of_parts = saved_parts(compilation.built, {name: k.digest() for name, k in keys.items()})
    kept = SavedProgram(
        model=interface_of(model, request),
        path=str(request.path),
        target=request.target,
        options=request.options,
        sizes=sizes_of_compilation(compilation),
        contents=contents,
        circumstances=programs.circumstances.of_language(language),
        program=without_text(compilation.built.program),
        language=compilation.backend.name,
        binary=binaries[0] if binaries else "",
        weights="",
        sums="",
        compile_seconds=round(seconds, 3),
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        parts=of_parts.parts,
        arrays=of_parts.arrays,
    )
    return kept, of_parts.weights


def interface_of(model: SourceModel, request: ProgramRequest) -> ModelInterface:
    """What calling needs to know of a model. ValueError for external data that just changed."""
    folder = request.path.parent
    files = []
    for name in sorted(set(files_of(model))):
        state = os.stat(folder / name)
        if max(state.st_mtime_ns, state.st_ctime_ns) >= request.at_ns - CLOCK_NS:
            raise ValueError(f"{name} beside the model changed while it was compiled")
        files.append((name, digest_of_file(folder / name)))
    return replace(plain_interface(model), digest=request.model, files=tuple(files))


def plain_interface(model: SourceModel) -> ModelInterface:
    """A model's inputs; without the digests of its files."""
    names = symbolic_dimensions(model)
    return ModelInterface(
        model.name,
        digest="",
        inputs=tuple(ModelInput(v.name, v.element_type, v.shape) for v in model.inputs),
        defaults=tuple((name, 1) for name in names if is_batch(model, name)),
    )


def sizes_of_compilation(compilation: Compiled) -> Sizes:
    """Lowest and highest of every symbolic dimension, in order of their names."""
    settings = compilation.settings
    sizes = {name: (size, size) for name, size in settings.dimensions.items()}
    sizes |= {r.name: (r.lowest, r.highest) for r in settings.open_ranges}
    return tuple((name, *sizes[name]) for name in sorted(sizes))


def fixed_contents(
    compilation: Compiled, inputs: Mapping[str, np.ndarray]
) -> tuple[FixedContent, ...] | None:
    """What the inputs hold that decide shapes, as far as it is known; None where it is too much."""
    entry = entry_function(compilation.passes[0].after.program)
    contents = []
    for name in specialized_inputs(entry):
        array = inputs.get(name)
        if array is None:
            contents.append(FixedContent(name, None))
            continue
        if array.nbytes > MAX_CONTENT_BYTES:
            return None
        contents.append(FixedContent(name, array.tobytes().hex(), preview_of(array)))
    return tuple(contents)
