"""Loading a model whose numbers matter: constant weights are replaced by seeded random ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from explorer.importers import SourceModel


def load_with_weights(path: str) -> SourceModel:
    import explorer

    return explorer.load(path)
