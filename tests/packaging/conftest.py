"""What the tests of packages share: small packages, and compilers that build them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import explorer
from tests.packaging.building import MODELS, run


@pytest.fixture(scope="session")
def packaged(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """The package of a sample model for a target, made once; options are those of `package`."""
    made: dict[tuple[object, ...], Path] = {}

    def package(model: str, target: str = "cpu", **options: object) -> Path:
        key = (model, target, *sorted(options.items()))
        if key not in made:
            compilation = explorer.compile(MODELS / f"{model}.onnx", target=target)
            folder = tmp_path_factory.mktemp("packages") / "package"
            made[key] = compilation.package(folder, **options)  # pyright: ignore
            compilation.close()
        return made[key]

    return package


@pytest.fixture
def copied(tmp_path: Path) -> Callable[[Path], Path]:
    """A package that the test may change."""

    def copy(folder: Path) -> Path:
        return Path(shutil.copytree(folder, tmp_path / "copy"))

    return copy


@pytest.fixture
def built(tmp_path: Path) -> Callable[..., Path]:
    """Runs `make selftest` of a package in a copy, with more flags; the copy is returned."""

    def build(package: Path, *flags: str, cc: str = "cc", link: str = "") -> Path:
        copy = Path(shutil.copytree(package, tmp_path / f"built-{len(list(tmp_path.iterdir()))}"))
        run("make", f"CC={cc}", f"CFLAGS={' '.join(flags)}", f"LDFLAGS={link}", "selftest",
            folder=copy)  # fmt: skip
        return copy

    return build
