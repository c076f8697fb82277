"""The backend of the documentation, added as a module and one line, and a model to compile."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import pytest

import explorer.backends
from explorer.importers import SourceModel
from explorer.tuning import candidate_child

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs" / "adding-a-backend.md"
EXAMPLE = REPOSITORY / "tests" / "backends" / "toy_backend.py"

CHILD = """
import explorer.backends
from explorer.tuning.candidate_process import main
explorer.backends.__path__.append({folder!r})
explorer.backends.NAMES += ("toy",)
main()
"""

SOURCES = SimpleNamespace(**run_path(str(REPOSITORY / "tests" / "source_models.py")))


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """The path of the toy's target file, while the toy is a backend."""
    folder = tmp_path_factory.mktemp("backends")
    (folder / "toy").mkdir()
    (folder / "toy" / "__init__.py").write_bytes(EXAMPLE.read_bytes())
    (target,) = blocks("toml")
    (folder / "toy.toml").write_text(target, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(explorer.backends, "__path__", [*explorer.backends.__path__, str(folder)])
        patch.setattr(explorer.backends, "NAMES", (*explorer.backends.NAMES, "toy"))
        # A folder in the package and the line in its register are there for child processes, too.
        patch.setattr(candidate_child, "PROCESS", ("-c", CHILD.format(folder=str(folder))))
        yield folder / "toy.toml"
    sys.modules.pop("explorer.backends.toy", None)


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> SourceModel:
    """Convolution, batch norm, relu, convolution, relu."""
    return SOURCES.source_model(tmp_path_factory.mktemp("model"), SOURCES.CHAIN)


@pytest.fixture(scope="session")
def sources() -> SimpleNamespace:
    """`source_model` and small graphs."""
    return SOURCES


@pytest.fixture(scope="session")
def page_blocks() -> Callable[[str], list[str]]:
    """The page's blocks of a language."""
    return blocks
