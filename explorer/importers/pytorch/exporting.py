"""Modules and exported programs that are in this process, as models: torch exports, we read.

    read_live(module, (x,), dynamic_shapes={"x": {0: Dim("batch")}})
    read_live(torch.export.export(module, (x,)))

torch is used only where somebody has loaded it already. The archive lies in a file without a name
for as long as the model's weights, which are views of it, are in use.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any  # torch's own types, which are not known here

from explorer.errors import InputError, ModelError
from explorer.files import reading_file
from explorer.importers.model import SourceModel
from explorer.importers.pytorch.file import reading
from explorer.ir.sizes.symbols import parse

_VERSION = "2.13"


def is_live(value: object) -> bool:
    """Whether it is a module or an exported program of torch."""
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    return isinstance(value, torch.nn.Module | torch.export.ExportedProgram)


def read_live(
    value: Any,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
) -> SourceModel:
    """The model of a module, for arguments like these, or of an exported program.

    ModelError where torch cannot export it, with torch's own words.
    """
    torch = sys.modules["torch"]
    name = type(value).__name__
    program = value
    if isinstance(value, torch.nn.Module):
        if args is None and kwargs is None:
            raise InputError(
                f"{name} is a module, whose operations are found by running it",
                hint="give example arguments: args=(x,)",
            )
        program = _exported(torch, value, tuple(args or ()), dict(kwargs or {}), dynamic_shapes)
    else:
        name = type(getattr(value, "_module", value)).__name__
    descriptor, path = tempfile.mkstemp(suffix=".pt2", prefix="explorer-")
    os.close(descriptor)
    try:
        with _torch_saying("save", name):
            torch.export.save(program, path)
        with reading_file(path, "model", hint=f"torch {_VERSION} is read"):
            model = reading.load(Path(path), _dimension_names(program))
    finally:
        os.unlink(path)
    return replace(model, name=name, path=None)


def _dimension_names(program: Any) -> dict[str, str]:
    """The names of `torch.export.Dim` by torch's symbols: {"s77": "batch"}. Archives lack them."""
    found: dict[str, str] = {}
    symbols: set[str] = set()
    for node in program.graph.nodes:
        value = node.meta.get("val")
        symbols.update(_symbols_of(value))
        if node.op != "placeholder":
            continue
        shapes = getattr(getattr(value, "fake_mode", None), "shape_env", None)
        named = getattr(shapes, "source_name_to_debug_name", {})
        for axis, size in enumerate(getattr(value, "shape", ())):
            given = parse(named.get(f"L['{node.name}'].size()[{axis}]", ""))
            own = parse(str(size))
            if len(given.names) == 1 and len(own.names) == 1:
                symbol, name = own.names[0], given.names[0]
                if own.substituted({symbol: parse(name)}) == given and name.isidentifier():
                    found[symbol] = name
    taken = [*found.values(), *symbols - found.keys()]
    return found if len({*taken}) == len(taken) else {}


def _symbols_of(value: Any) -> Iterator[str]:
    """Symbols of the sizes of a node's value: a tensor, a number, or several of them."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        for part in value:
            yield from _symbols_of(part)
    elif value is not None:
        for size in getattr(value, "shape", (value,)):
            yield from parse(str(size)).names


def _exported(torch: Any, module: Any, args: Any, kwargs: Any, dynamic_shapes: Any) -> Any:
    with _torch_saying("export", type(module).__name__), torch.no_grad():
        return torch.export.export(module, args, kwargs, dynamic_shapes=dynamic_shapes)


@contextmanager
def _torch_saying(doing: str, name: str) -> Iterator[None]:
    """ModelError with torch's own words: its exceptions have no base of theirs."""
    try:
        yield
    except Exception as error:
        said = " ".join(str(error).split())[:500]
        raise ModelError(
            f"torch cannot {doing} {name}: {said}",
            hint="torch.export.export(module, args) says where",
        ) from error
