"""What a person asks for, as far as it decides a program: model, target, options, sizes.

    request_of(Path("net.onnx"), "cpu", {"disable": ["fuse-bias"]})
        -> ProgramRequest(model="5f3a...", target="cpu", options='{"disable": ["fuse-bias"]}')
    request_of(Path("net.onnx"), "cpu", {"pipeline": [MyPass()]})
        -> Undigested("pipeline: a program of passes of one's own is not kept")

What has no digest (passes, planners, models made in memory) makes no request: such a program is
compiled each time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from explorer.errors import ModelError
from explorer.files import ModelFiles
from explorer.results.runs.saved_program import ModelInterface
from explorer.runtime.cache.digests import digest_of_file, digest_of_files
from explorer.runtime.cache.keys import digest_of

SHORT = 20
"""Hexadecimal digits of a digest in a file's name; the whole ones stand in the file."""
DEFAULTS: Mapping[str, object] = {
    "disable": (),
    "decisions": {},
    "fuel": None,
    "planner": None,
    "budget_bytes": None,
    "flash_bytes": None,
    "tuned": True,
    "tuned_threads": 1,
    "host": True,
    "quantization": None,
    "modes": None,
    "states": (),
    "capacity": None,
}
"""Of the options that can be asked for again. Others are not kept."""
DECIDE_NOTHING = ("progress",)
FILES = ("quantization", "modes")
"""Options that may be files; they stand for what is in them."""

SHOWN_ELEMENTS = 8
Sizes = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True)
class ProgramRequest:
    model: str
    """Digest of the file's bytes, and of its weights' where they are named apart."""
    path: Path
    """Where the file is; not what it is."""
    target: str
    """A name, or `FILE.toml DIGEST`."""
    options: str
    """JSON, without those that have their default."""
    at_ns: int = 0
    """When the file was looked at; what is read later may be another one."""
    weights: Path | None = None
    """Where the weights are, if their file was named apart."""

    @property
    def files(self) -> tuple[Path, ...]:
        return (self.path,) if self.weights is None else (self.path, self.weights)

    @property
    def has_changed(self) -> bool:
        """Whether the files are others now. OSError, EOFError as `digest_of_file`."""
        return digest_of_files(self.files) != self.model

    def prefix(self, sizes: Sizes) -> str:
        """What the names of the files of this request begin with."""
        asked = json.dumps([self.target, self.options, sizes])
        return f"{self.model[:SHORT]}-{digest_of(asked.encode())[:SHORT]}-"


@dataclass(frozen=True)
class Undigested:
    """There is nothing to look for, and why."""

    reason: str


def request_of(
    model: object, target: object, options: Mapping[str, Any]
) -> ProgramRequest | Undigested:
    """ModelError where the model's file cannot be read. Other mistakes are left to compiling."""
    if not isinstance(model, str | Path | ModelFiles):
        return Undigested("the model was made in memory, and has no file")
    chosen: dict[str, object] = {}
    for name, value in options.items():
        if name in DECIDE_NOTHING:
            continue
        if name not in DEFAULTS:
            return Undigested(f"{name}: what was made with it has no digest")
        plain = _content(value) if name in FILES else _plain(value)
        if plain is None and value is not None:
            return Undigested(f"{name}: {type(value).__name__} has no digest")
        if plain != _plain(DEFAULTS[name]) and value is not None:
            chosen[name] = plain
    named = _target(target)
    if named is None:
        return Undigested("the target was made in memory, and has no file")
    files = (model.path, model.weights) if isinstance(model, ModelFiles) else (Path(model),)
    at_ns = time.time_ns()
    if not all(path.is_file() for path in files):
        return Undigested("there is no such file")
    try:
        digest = digest_of_files(files)
    except (OSError, EOFError) as error:
        words = error.strerror if isinstance(error, OSError) else str(error)
        raise ModelError(f"the file cannot be read: {words}", file=str(files[0])) from error
    path, *weights = (path.absolute() for path in files)
    asked = json.dumps(chosen, sort_keys=True)
    return ProgramRequest(digest, path, named, asked, at_ns, *weights)


def varied(request: ProgramRequest, variant: str) -> ProgramRequest:
    """The request for a model that is made of the file by what `variant` says."""
    options = {**json.loads(request.options), "variant": variant}
    return replace(request, options=json.dumps(options, sort_keys=True))


def sizes_of(interface: ModelInterface, given: Mapping[str, int | tuple[int, int]]) -> Sizes | None:
    """Lowest and highest of every symbolic dimension, in order of their names.

    None where one is missing, unknown or no size: compiling says what is wrong with it.
    """
    names = {d for value in interface.inputs for d in value.shape or () if isinstance(d, str)}
    chosen: dict[str, object] = {**dict(interface.defaults), **given}
    if set(chosen) != names:
        return None
    sizes = []
    for name in sorted(chosen):
        size = chosen[name]
        pair = (size, size) if isinstance(size, int) else size
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            return None
        if not all(type(n) is int for n in pair) or not 1 <= pair[0] <= pair[1]:
            return None
        sizes.append((name, pair[0], pair[1]))
    return tuple(sizes)


def preview_of(array: np.ndarray) -> str:
    """`[3, 4]`: the first elements, for people."""
    elements = array.reshape(-1)[:SHOWN_ELEMENTS].tolist()
    more = ", ..." if array.size > SHOWN_ELEMENTS else ""
    return f"[{', '.join(map(str, elements))}{more}]"


def _content(value: object) -> object:
    """The digest of a file, or that of a table; None where it has none."""
    if isinstance(value, str | Path):
        try:
            return digest_of_file(Path(value))
        except (OSError, EOFError):
            return None
    return getattr(value, "digest", None) or _plain(value)


def _target(target: object) -> str | None:
    """A name stands for a file of this package; a file of one's own for its content."""
    if isinstance(target, str) and not target.endswith(".toml"):
        return target
    if not isinstance(target, str | Path):
        return None
    try:
        return f"{Path(target).name} {digest_of_file(Path(target))}"
    except (OSError, EOFError):
        return None


def _plain(value: object) -> object:
    """The value as JSON has it; None for what is not made of plain values."""
    if isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return ["float", repr(value)]
    if isinstance(value, tuple | list):
        parts = [_plain(v) for v in value]
        return None if None in parts else parts
    if isinstance(value, Mapping):
        named = {str(k): _plain(v) for k, v in value.items()}
        return None if None in named.values() else named
    return None
