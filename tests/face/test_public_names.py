"""What is public stays: the names of the last release are there, or warn.

`python tests/face/test_public_names.py > tests/face/public_names.txt` writes the names of a new
release.
"""

import inspect
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

import explorer
from explorer.compilation import Accuracy, Comparison, Compilation, Inspection, SavedCompilation
from explorer.errors import ExplorerError, InputError
from explorer.importers import SourceModel
from explorer.ir.program import Snapshot
from explorer.ir.rewriting.passes import PassResult
from explorer.quantization.table import ThresholdTable
from explorer.reducing import Reduced
from explorer.results import SearchResult
from explorer.results.model_comparison import ModelComparison
from explorer.results.runs.sensitivity import MixedPrecision
from explorer.runtime.devices import DeviceRecord
from explorer.session import Session, Started
from explorer.traces.collections import Kernels, Knobs
from explorer.traces.saving import SavedPass
from explorer.views.view import Shown

REPOSITORY = Path(__file__).resolve().parents[2]
RELEASED = Path(__file__).with_name("public_names.txt")
CLASSES = (
    Accuracy,
    Comparison,
    Compilation,
    DeviceRecord,
    ExplorerError,
    InputError,
    Inspection,
    Kernels,
    Knobs,
    MixedPrecision,
    ModelComparison,
    PassResult,
    Reduced,
    SavedCompilation,
    SavedPass,
    SearchResult,
    Session,
    Shown,
    Snapshot,
    SourceModel,
    Started,
    ThresholdTable,
)


def public_names() -> list[str]:
    """`ex.compile`, `ex.compile(target)`, `Compilation.run`, `Compilation.run(inputs)` ..."""
    found: list[str] = []
    for name in explorer.__all__:
        found += [f"ex.{name}", *_parameters(f"ex.{name}", getattr(explorer, name))]
    for kind in CLASSES:
        for name in sorted(_attributes(kind)):
            called = f"{kind.__name__}.{name}"
            found += [called, *_parameters(called, inspect.getattr_static(kind, name, None))]
    return found


def _attributes(kind: type) -> set[str]:
    """Those without an underscore, fields of dataclasses among them."""
    own = {name for base in kind.__mro__ for name in getattr(base, "__annotations__", ())}
    plain = {n for base in kind.__mro__ if base.__module__ != "builtins" for n in vars(base)}
    return {name for name in own | plain if not name.startswith("_")}


def _parameters(called: str, value: object) -> Iterator[str]:
    if isinstance(value, type):
        value = value.__init__
    if not inspect.isfunction(value):
        return
    for parameter in inspect.signature(value).parameters.values():
        if parameter.name != "self" and parameter.kind is not parameter.VAR_KEYWORD:
            yield f"{called}({parameter.name})"


def missing(released: list[str], present: list[str]) -> list[str]:
    """Names of a release that neither are there nor warn."""
    classes = {kind.__name__: kind for kind in CLASSES} | {"ex": explorer}
    gone = []
    for name in sorted(set(released) - set(present)):
        of, _, attribute = name.partition("(")[0].partition(".")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            if "(" in name or not hasattr(classes[of], attribute):
                gone.append(name)
    return gone


def test_every_public_name_of_the_last_release_is_there():
    released = RELEASED.read_text(encoding="utf-8").split()
    assert len(released) > 300
    assert missing(released, public_names()) == []


def test_a_name_that_is_gone_is_found():
    present = public_names()
    for name in ("ex.compile(target)", "ex.tune", "Compilation.fork", "Compilation.fork(disable)"):
        assert name in present
    assert missing(["ex.compile(goal)", "ex.tune"], present) == ["ex.compile(goal)"]
    assert missing(["Compilation.gone"], present) == ["Compilation.gone"]


def test_dir_has_the_public_names_and_nothing_else():
    assert sorted(dir(explorer)) == sorted([*explorer.__all__, "__version__"])


@pytest.mark.parametrize("name", [*explorer.__all__, *(kind.__name__ for kind in CLASSES)])
def test_the_page_names_what_is_public(name):
    page = (REPOSITORY / "docs" / "public-interface.md").read_text(encoding="utf-8")
    assert f"ex.{name}" in page or f"`{name}`" in page


if __name__ == "__main__":
    print("\n".join(public_names()))
