"""What a page may open: model files and saved traces, each under a name that is told apart.

offered(["nets/", "old/net.onnx", "run.nnx"])
    ->  Choice("0", "nets/net.onnx", ...), Choice("1", "old/net.onnx", ...), Choice("2", "run.nnx")
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from explorer.app.protocol import TRACE_SUFFIX, CompileRequest
from explorer.errors import InputError
from explorer.importers.format import archive_suffixes, model_suffixes, models_among


def offered_suffixes() -> tuple[str, ...]:
    """Of the files that a page can open."""
    return (*model_suffixes(), *archive_suffixes(), TRACE_SUFFIX)


@dataclass(frozen=True)
class Choice:
    """A model or a trace that the page offers."""

    key: str
    label: str
    path: str
    is_upload: bool = False

    @property
    def kind(self) -> str:
        return "trace" if Path(self.path).suffix.lower() == TRACE_SUFFIX else "model"


def offered_files(paths: Sequence[Path | str]) -> list[Path]:
    """The files, and the models and traces in the folders, each once.

    Raises InputError when one isn't there, or none is left.
    """
    files: dict[Path, None] = {}
    for path in map(Path, paths):
        if path.is_dir():
            suffixes = (*model_suffixes(), TRACE_SUFFIX)
            traces = [f for f in path.iterdir() if f.suffix.lower() == TRACE_SUFFIX]
            found = sorted([*models_among(path.iterdir()), *traces])
            if not found:
                raise InputError(
                    f"no model in this folder: no {' and no '.join(suffixes)} file",
                    file=str(path),
                    hint="explorer serve net.onnx",
                )
            files.update(dict.fromkeys(found))
        elif path.is_file():
            files[path] = None
        else:
            raise InputError("no such file", file=str(path), hint="check the path")
    if not files:
        raise InputError("no model to show", hint="explorer serve net.onnx")
    return list(files)


def choices_of(files: Sequence[Path]) -> tuple[Choice, ...]:
    """Files of the same name get as much of their folder's path as tells them apart."""
    labels = [path.name for path in files]
    depth = 1
    while depth < 8 and max(Counter(labels).values(), default=0) > 1:
        depth += 1
        counts = Counter(labels)
        labels = [
            "/".join(path.resolve().parts[-depth:]) if counts[label] > 1 else label
            for path, label in zip(files, labels, strict=True)
        ]
    return tuple(
        Choice(str(number), label, str(path))
        for number, (path, label) in enumerate(zip(files, labels, strict=True))
    )


def first_request(choice: Choice, target: str) -> CompileRequest:
    """A model as it is compiled by default, or a trace as it was saved."""
    return CompileRequest(choice.path, "" if choice.kind == "trace" else target)
