"""From a person's choice to a trace: the one place where the app asks for a compilation.

    Request("sample_models/digits_cnn.onnx", "cpu", disable=("fuse-activation",))
        -> compile_trace(...) -> Trace -> CompiledTrace(head, chunks as JSON text)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from explorer.errors import ExplorerError
from explorer.results import Trace
from explorer.views.payload import encode, trace_payload

Progress = Callable[[str, int, int], None]
"""Called with (what is done next, how many are done, how many there are)."""
Compiler = Callable[[str, str, Sequence[str], Progress], Trace]


@dataclass(frozen=True)
class Request:
    """What is to be compiled; equal requests have equal results."""

    path: str
    target: str
    disable: tuple[str, ...] = ()
    """Names of passes that are left out."""


@dataclass(frozen=True)
class CompiledTrace:
    """A trace as the page takes it: its head, and all chunks as JSON text by key."""

    head: dict[str, Any]  # JSON, see explorer.views.payload
    chunks: dict[str, str]


@dataclass(frozen=True)
class Failure:
    """Why a compilation gave no trace, as a person reads it."""

    what: str
    where: str
    advice: str


def compile_trace(path: str, target: str, disable: Sequence[str], progress: Progress) -> Trace:
    """Compiles, checks and measures a model; every pass is recorded."""
    # Imported here: it happens in the worker, and the page is up before the compiler is.
    import explorer as ex

    compilation = ex.compile(ex.load(path), target=target, disable=list(disable), progress=progress)
    total = len(compilation.passes) + 2
    progress("comparing every pass with the source model", total - 2, total)
    compilation.accuracy()
    progress("measuring", total - 1, total)
    compilation.profile()
    return compilation.trace()


def compiled_trace(trace: Trace) -> CompiledTrace:
    """All that the page may ask for, made at once, so that the trace needn't be kept."""
    payload = trace_payload(trace)
    return CompiledTrace(payload.head, {key: encode(payload.chunk(key)) for key in payload.keys()})


def failure_of(error: Exception, request: Request) -> Failure:
    """What failed, where, and the way out."""
    if isinstance(error, ExplorerError):
        places = "; ".join(error.places()) or f"compiling {request.path} for {request.target}"
        advice = f"Try: {error.hint}" if error.hint else "Choose another target or model."
        return Failure(error.message, places, advice)
    lines = [line for line in str(error).splitlines() if line.strip()]
    what = lines[0] if lines else type(error).__name__
    details = "\n".join(lines[1:6])
    where = f"{type(error).__name__} while compiling {request.path} for {request.target}"
    if request.disable:
        advice = f"Switch {', '.join(request.disable)} on again, or choose another target or model."
    else:
        advice = "Choose another target or model; what was shown before stays usable."
    return Failure(what, where, f"{details}\n{advice}" if details else advice)
