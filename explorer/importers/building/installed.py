"""Operators that other packages bring, found by their entry points.

    [project.entry-points."explorer.onnx_operators"]
    trees = "my_package.trees"              # a module; what it declares with @converts is known

    [project.entry-points."explorer.pytorch_operators"]
    bessel = "my_package.bessel"            # a module with CONVERTERS, by names without `aten.`

The project's own such package is `nn-compiler-explorer-extras`, the folder extras/ of the
repository: operators that few models have.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from types import ModuleType

from explorer.errors import InputError

ONNX = "explorer.onnx_operators"
PYTORCH = "explorer.pytorch_operators"
EXTRAS = "nn-compiler-explorer-extras"


@cache
def installed_modules(group: str) -> tuple[ModuleType, ...]:
    """The modules of a group of entry points, by name.

    InputError, with the package, where one cannot be imported.
    """
    found = []
    for point in sorted(entry_points(group=group), key=lambda point: point.name):
        try:
            module = point.load()
        except Exception as error:  # a package of others may raise anything
            package = point.dist.name if point.dist else point.value
            raise InputError(
                f"operators of the package {package} cannot be loaded "
                f"(entry point {point.name} of {group}): {error}"
            ) from error
        found.append(module)
    return tuple(found)


@cache
def extras_note() -> str:
    """ "; ..." for the reason why an operator is unknown while the extras are not installed."""
    points = entry_points(group=ONNX)
    if any(point.dist and point.dist.name == EXTRAS for point in points):
        return ""
    return f"; the package {EXTRAS}, which is not installed, has more operators"
