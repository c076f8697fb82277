"""What a recipe is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from verification.random_models.draft import Draft

Draw = Callable[[Draft], None]


@dataclass(frozen=True)
class Recipe:
    """`draw` adds a node to a draft of an opset from `since` on."""

    draw: Draw
    since: int = 1


def recipes(*draws: Draw, since: int = 1) -> tuple[Recipe, ...]:
    """Each of the functions as a recipe."""
    return tuple(Recipe(draw, since) for draw in draws)


def family(
    draw: Callable[[str, Draft], None], *operators: str, since: int = 1
) -> tuple[Recipe, ...]:
    """One recipe for each of the operators that are drawn alike."""
    return recipes(*(partial(draw, operator) for operator in operators), since=since)
