"""From a person's choice to a trace: the one place where the app asks for a compilation.

Request("sample_models/digits_cnn.onnx", "cpu", disable=("fuse-activation",))
    -> compile_trace(...) -> Compiled(trace, optional passes)
    -> drawn(...)         -> DrawnTrace(head, chunks as JSON text, optional passes)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from explorer.errors import ExplorerError
from explorer.results import Trace
from explorer.views.payload import encode, trace_payload

Progress = Callable[[str, int, int], None]
"""Called with (what is done next, how many are done, how many there are)."""


@dataclass(frozen=True)
class Compiled:
    """What a compiler gives the app."""

    trace: Trace
    optional: tuple[str, ...]
    """Names of the passes that ran and may be left out."""


Compiler = Callable[[str, str, Sequence[str], Progress], Compiled]


@dataclass(frozen=True)
class Request:
    """What is to be compiled; equal requests have equal results."""

    path: str
    target: str
    disable: tuple[str, ...] = ()
    """Names of passes that are left out."""


@dataclass(frozen=True)
class DrawnTrace:
    """A trace as the page takes it: its head, and all chunks as JSON text by key."""

    head: dict[str, Any]  # JSON, see explorer.views.payload
    chunks: dict[str, str]
    optional: tuple[str, ...] = ()


@dataclass(frozen=True)
class Failure:
    """Why a compilation gave no trace, as a person reads it."""

    what: str
    where: str
    advice: str


def compile_trace(path: str, target: str, disable: Sequence[str], progress: Progress) -> Compiled:
    """Compiles, checks and measures a model; every pass is recorded."""
    # Imported here: it happens in the worker, and the page is up before the compiler is.
    import explorer as ex

    compilation = ex.compile(ex.load(path), target=target, disable=list(disable), progress=progress)
    compilation.accuracy(
        progress=lambda name, index, total: progress(f"comparing: {name}", index, total)
    )
    progress("measuring", 0, 0)
    compilation.profile()
    optional = tuple(p.name for p in compilation.pipeline if not p.is_required)
    return Compiled(compilation.trace(), optional)


def drawn(compiled: Compiled) -> DrawnTrace:
    """All that the page may ask for, made at once, so that the trace needn't be kept."""
    payload = trace_payload(compiled.trace)
    chunks = {key: encode(payload.chunk(key)) for key in payload.chunk_keys()}
    return DrawnTrace(payload.head, chunks, compiled.optional)


def failure_of(error: Exception, request: Request) -> Failure:
    """What failed, where, and the way out."""
    where = f"{Path(request.path).name} for {request.target}"
    if isinstance(error, ExplorerError):
        places = "; ".join(error.places()) or where
        advice = f"Try: {error.hint}" if error.hint else "Choose another target or model."
        return Failure(error.message, places, advice)
    lines = [line for line in str(error).splitlines() if line.strip()]
    what = lines[0] if lines else type(error).__name__
    details = "\n".join(lines[1:6])
    where = f"{type(error).__name__} while compiling {where}"
    if request.disable:
        advice = f"Switch {', '.join(request.disable)} on again, or choose another target or model."
    else:
        advice = "Choose another target or model; what was shown before stays usable."
    return Failure(what, where, f"{details}\n{advice}" if details else advice)
