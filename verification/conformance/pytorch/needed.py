"""What PyTorch's own list of operators needs: it is part of PyTorch's tests."""

from importlib.util import find_spec

from explorer.errors import InputError


def require_torch() -> None:
    """InputError that names the package which is not installed."""
    from explorer.references.torch_graph import EXTRA, torch_version

    if not torch_version() or find_spec("expecttest") is None:
        missing = "expecttest" if torch_version() else "torch"
        raise InputError(
            f"{missing} is not installed", hint=f"pip install {EXTRA!r} expecttest scipy"
        )
