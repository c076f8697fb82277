"""What every test may ask for: the folders of models, and whether golden files are rewritten."""

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write what is generated into the golden files instead of comparing with them",
    )


@pytest.fixture(scope="session")
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be rewritten (`--update-golden`)."""
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture(scope="session")
def sample_models() -> Path:
    """The folder of the small models that are part of this repository."""
    return REPOSITORY / "sample_models"


@pytest.fixture(scope="session")
def models_folder() -> Path:
    """The folder of the many models of others that are not part of this repository.

    `EXPLORER_MODELS` names it; a relative path counts from the repository's root.
    """
    folder = (REPOSITORY / os.environ.get("EXPLORER_MODELS", "../shared/models")).resolve()
    if not folder.is_dir():
        pytest.skip(f"no folder of models at {folder}: name one with EXPLORER_MODELS")
    return folder


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A browser test gets a second chance: on a busy machine Chromium may answer too late."""
    for item in items:
        if item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.flaky(reruns=2))
