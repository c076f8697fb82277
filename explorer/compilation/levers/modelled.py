"""Predictions of a machine's model: each choice of a layer, without compiling.

predict_by_model(lever, "cycles", model)
    tile-layers/conv3/rows = 7        812 cycles less, by the timeline of the whole program

What a value takes is between 20 and 500 ms, so that a lever has predictions of a few values: those
next to the present one, then each twice as far away, and the ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain, zip_longest

from explorer.backends.interface import ModelOfChoices
from explorer.compilation.compiled import Compiled
from explorer.errors import ExplorerError
from explorer.results.knobs import KnobValue
from explorer.results.levers import LeverOption, LeverRecord, Quantity

MAX_VALUES = 12
SECONDS = 0.8
"""For the values of one lever: one is predicted in any case."""
OF_MODEL: tuple[Quantity, ...] = ("cycles", "traffic_bytes", "energy_picojoules")
"""Quantities that a machine of instructions decides."""
SOURCE = "the timeline of the whole program with this choice, all others as they are"


def model_of(compiled: Compiled) -> ModelOfChoices | None:
    """A new model of a compilation; None where nothing models its choices."""
    settings = compiled.settings
    return compiled.backend.model_of_choices(
        list(compiled.passes), compiled.target, settings.decisions
    )


def predict_by_model(
    lever: LeverRecord,
    quantity: Quantity,
    model: ModelOfChoices,
    seconds: float = SECONDS,
    clock: Callable[[], float] = time.perf_counter,
) -> LeverRecord:
    """The lever with predictions of some values, the most helpful first."""
    end, known, problem = clock() + seconds, list[LeverOption](), ""
    failed: dict[KnobValue, LeverOption] = {}
    values = [option.value for option in lever.options]
    options = {option.value: option for option in lever.options}
    for value in spread(values, lever.value):
        if (known or failed) and clock() > end:
            break
        try:
            effect = model.effect(lever.address, value)
        except ExplorerError as error:
            problem = error.message
            failed[value] = replace(options[value], also=problem)
            continue
        known.append(replace(options[value], change=float(getattr(effect, quantity))))
    known.sort(key=lambda option: option.change or 0.0)
    predicted = {option.value for option in known}
    rest = [failed.get(v, options[v]) for v in values if v not in predicted]
    if not known:
        return replace(lever, options=tuple(rest), unpredicted=problem)
    return replace(lever, options=(*known, *rest), source=SOURCE, unpredicted="")


def spread(values: Sequence[KnobValue], now: KnobValue) -> list[KnobValue]:
    """At most `MAX_VALUES`; of numbers those next to the present one first."""
    if not isinstance(now, int) or not all(isinstance(one, int) for one in values):
        return list(values[:MAX_VALUES])
    above = sorted(one for one in values if isinstance(one, int) and one > now)
    below = sorted((one for one in values if isinstance(one, int) and one < now), reverse=True)
    pairs = zip_longest(_doubled(above), _doubled(below))
    found = [one for one in chain.from_iterable(pairs) if one is not None]
    return list(dict.fromkeys(found))[:MAX_VALUES]


def _doubled(values: Sequence[int]) -> list[int]:
    """The first, second, fourth and so on, and the last."""
    found = [values[2**place - 1] for place in range(len(values).bit_length())]
    return list(dict.fromkeys([*found, *values[-1:]]))
