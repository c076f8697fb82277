"""What compilations, saved ones and inspections have in common: they are looked at.

    c.view("memory")              one view, as text and as HTML
    c.explore()                   the interactive explorer in a notebook
    c.export_html("net.html")     the explorer as one file

The views are above this layer. They are loaded with the first call.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from explorer.calling import named_arguments
from explorer.results import Trace
from explorer.results.displayed import Displayed
from explorer.results.pass_names import PassName
from explorer.traces.overlays import OverlayLike

if TYPE_CHECKING:
    from anywidget import AnyWidget

ViewName = Literal[
    "ir",
    "diff",
    "graph",
    "passes",
    "operators",
    "models",
    "rewrites",
    "memory",
    "accuracy",
    "quantization",
    "sensitivity",
    "timeline",
    "chrome-trace",
    "roofline",
    "layers",
    "scratchpads",
    "landscape",
    "sweep",
    "program",
    "kernels",
    "weights",
    "models",
    "ports",
    "packages",
    "placement",
    "insights",
    "report",
    "constraints",
]
"""Views that are shown outside of the page; `explorer.views.register` has what draws them."""


class Explorable(Displayed, ABC):
    """A base for what has a trace."""

    @abstractmethod
    def trace(self) -> Trace:
        """Everything that is known, as plain data."""

    @named_arguments
    def view(
        self,
        name: ViewName,
        pass_name: PassName | str | None = None,
        overlay: OverlayLike | None = None,
    ) -> Displayed:
        """One of the registered views, after a pass (the last one by default).

        overlay: own numbers on the view `graph`, as `explore` takes them.

        Raises:
            InputError: for a name that no view or pass has, or where there is nothing to see.
        """
        return _exploring().view(self, name, pass_name, overlay)

    @named_arguments
    def explore(
        self,
        height: str = "720px",
        overlay: OverlayLike | None = None,
        at: Mapping[Literal["pass", "operation", "dock", "tab"], str] | None = None,
    ) -> AnyWidget:
        """The interactive explorer in a notebook's output, without a server or a port.

        overlay: own numbers for the graph, a mapping from names of operations or source nodes, or a
        CSV or JSON file of these. at: where it opens, e.g. {"pass": "fuse-activation", "operation":
        "conv8", "dock": "rewrites", "tab": "ir"}; InputError for a pass or a tab that there is not.
        """
        return _exploring().explore(self, height, overlay, at)

    @named_arguments
    def export_html(self, path: str | Path, overlay: OverlayLike | None = None) -> Path:
        """Writes the explorer with this compilation as one HTML file that works offline.

        overlay: own numbers for the graph, as `explore` takes them.
        """
        return _exploring().export_html(self, path, overlay)


def _exploring() -> Any:  # a module of a layer above
    return import_module("explorer.representations")
