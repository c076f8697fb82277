"""The synthetic trace and generated ones as fixtures.

`synthetic.py` and `generated.py` are loaded by their paths, for xDSL's wheel installs a top-level
package `tests`.
"""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from explorer.results import Trace


def _load(name: str) -> ModuleType:
    path = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"{name}_views_trace", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up here
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def synthetic() -> ModuleType:
    """The module itself: `make_trace(label, mark, fused)` and `HOSTILE`."""
    return _load("synthetic")


@pytest.fixture(scope="session")
def generated() -> ModuleType:
    """Traces of any size: `make_large_trace(operations, scoped)`."""
    return _load("generated")


@pytest.fixture(scope="session")
def trace(synthetic: ModuleType) -> Trace:
    """A compilation of a small residual network by twelve passes."""
    return synthetic.make_trace()


@pytest.fixture(scope="session")
def fork(synthetic: ModuleType) -> Trace:
    """The same without fusion."""
    return synthetic.make_trace(label="no fusion", fused=False)


@pytest.fixture(scope="session")
def hostile_trace(synthetic: ModuleType) -> Trace:
    """The same from a model whose names are markup."""
    return synthetic.make_trace(mark=synthetic.HOSTILE)
