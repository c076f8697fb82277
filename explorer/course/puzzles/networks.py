"""The compilations that puzzles are about: for one core, so that all students have one program."""

from __future__ import annotations

from functools import cache

from explorer.compilation.compilation import Compilation, compile_model
from explorer.course.lessons import REPOSITORY
from explorer.errors import InputError
from explorer.importers import load
from explorer.targets import load_target

CORE = {"vector_floats": 4, "core": {"family": "neoverse_v1"}}
"""Four floats in a vector, 32 registers."""


@cache
def compiled(name: str, *left_out: str) -> Compilation:
    """A sample model without some passes. InputError where sample models are not here."""
    path = REPOSITORY / "sample_models" / f"{name}.onnx"
    if not path.is_file():
        raise InputError(
            f"sample_models/{name}.onnx is not here",
            hint="puzzles run in a clone of the repository",
        )
    return compile_model(load(path), load_target("cpu", CORE), disable=list(left_out))
