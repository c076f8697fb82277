"""Architectures by library and name.

LIBRARIES["torchvision"].make("resnet18")        no library is loaded before
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import language
import plain
import vision


@dataclass(frozen=True)
class Library:
    """Names, and what makes one of them: a module with its arguments."""

    names: Callable[[], list[str]]
    make: Callable[[str], plain.Made]


LIBRARIES = {
    "plain": Library(plain.names, plain.make),
    "torchvision": Library(vision.torchvision_names, vision.make_torchvision),
    "timm": Library(vision.timm_names, vision.make_timm),
    "transformers": Library(language.names, language.make),
}


def all_names() -> list[str]:
    return [f"{key}/{name}" for key, library in LIBRARIES.items() for name in library.names()]
