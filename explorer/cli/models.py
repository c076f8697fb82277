"""Loading a model whose numbers matter: constant weights become seeded random ones.

Some models show an architecture in a small file: every weight is a `ConstantOfShape`. With them
each layer computes the same number everywhere, which hides faults from `check` and lets `bench`
measure what nobody would run.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

from explorer.cli.terminal import print_note, printable

if TYPE_CHECKING:
    from explorer.compilation.settings.sizes import Size
    from explorer.files import ModelPath
    from explorer.importers import SourceModel

SEED = 0
VARIANT = f"random weights, seed {SEED}"
"""What a program of such a model is kept under."""


def load_with_weights(path: ModelPath) -> SourceModel:
    """The model; where its weights are constants, with random ones, and a note that says so."""
    import explorer

    return with_weights(explorer.load(path))


def with_weights(model: SourceModel) -> SourceModel:
    """The very model, or another one with random weights in the place of constants."""
    from explorer.importers.format import importer_of

    found = importer_of(model).with_random_weights(model, SEED)
    if found is not model:
        print_note("weights are constant; seeded random ones are used")
    return found


def sizes_with_note(
    model: SourceModel, given: Mapping[str, Size], capacity: int | None = None
) -> dict[str, int]:
    """Sizes that the model can take, for dimensions whose size neither the file nor the person
    says, with a note that tells them; none where nothing is missing, and with a capacity, which
    says the sizes that grow."""
    if capacity is not None:
        return {}
    from explorer.compilation.settings.sizes import suggested_sizes
    from explorer.importers.model import is_batch

    largest = {name: s if isinstance(s, int) else s[1] for name, s in given.items()}
    found = suggested_sizes(model, largest)
    chosen = {n: s for n, s in found.items() if n not in given and not is_batch(model, n)}
    if chosen:
        sizes = ", ".join(f"{name}={size}" for name, size in chosen.items())
        other = shlex.quote(f"{next(reversed(chosen))}=N")
        print_note(
            printable(f"sizes that the model does not say: {sizes}; for others: --dim {other}")
        )
    return found
