"""Published names that were renamed: the old one works for one release, and warns.

__getattr__ = renamed_names(__name__, {"Beside": "Companion"})       at a module's end
from explorer.backends.records import Beside                         a DeprecationWarning
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from warnings import warn


def renamed_names(module: str, names: Mapping[str, str]) -> Callable[[str], object]:
    """A module's `__getattr__` which gives the present value of an old name (`names`: old to new).

    AttributeError for names that it never had.
    """

    def __getattr__(name: str) -> object:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warn_renamed(f"{module}.{name}", names[name], stacklevel=3)
        return getattr(sys.modules[module], names[name])

    return __getattr__


def warn_renamed(old: str, new: str, stacklevel: int = 3) -> None:
    """Warns that `old` has the name `new` now. `stacklevel`: that of the caller's caller is 3."""
    warn(f"{old} is called {new} now", DeprecationWarning, stacklevel=stacklevel)
