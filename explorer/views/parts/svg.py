"""SVG elements as text, every attribute and every text escaped.

    rect(0, 0, 10, 5, fill="#fff")  -> '<rect x="0" y="0" width="10" height="5" fill="#fff"/>'

Names with an underscore become attributes with a hyphen: `stroke_width=2` -> `stroke-width="2"`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from explorer.views.parts.markup import escape, shorten
from explorer.views.theme import LIGHT, SANS, dark_counterparts

CHARACTER_WIDTH = 0.6
"""Width of a character of a sans-serif font in units of its size: a careful mean, for a picture
cannot ask the font."""


def document(
    width: float,
    height: float,
    body: str,
    background: str = LIGHT.background,
    is_for_paper: bool = False,
) -> str:
    """A whole picture with a ground of its own: light, or dark where the page's scheme is and it is
    not for paper."""
    drawn = rect(0, 0, width, height, fill=background) + body
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_number(width)}" '
        f'height="{_number(height)}" viewBox="0 0 {_number(width)} {_number(height)}" '
        f'font-family="{escape(SANS)}" font-size="12">'
        f"{'' if is_for_paper else _dark_style(drawn)}{drawn}</svg>"
    )


_COLOUR = re.compile(r'(fill|stroke)="(#[0-9a-f]{6})"')
ON_ITS_OWN_GROUND = {"data_ground": "own"}
"""Attributes of what stands on a colour that both schemes share, and keeps its own."""


def _dark_style(drawn: str) -> str:
    """Rules by which the colours that occur change in a dark scheme. An image asks the element
    that shows it (CSS Color Adjustment 1, 2.2)."""
    darks = dark_counterparts()
    rules = "".join(
        f'[{name}="{colour}"]:not([data-ground]){{{name}:{darks[colour]}}}'
        for name, colour in dict.fromkeys(_COLOUR.findall(drawn))
        if colour in darks
    )
    return f"<style>@media (prefers-color-scheme:dark){{{rules}}}</style>" if rules else ""


def rect(x: float, y: float, width: float, height: float, **attributes: object) -> str:
    return _element("rect", "", x=x, y=y, width=width, height=height, **attributes)


def line(x1: float, y1: float, x2: float, y2: float, **attributes: object) -> str:
    return _element("line", "", x1=x1, y1=y1, x2=x2, y2=y2, **attributes)


def circle(x: float, y: float, radius: float, **attributes: object) -> str:
    return _element("circle", "", cx=x, cy=y, r=radius, **attributes)


def text(x: float, y: float, content: object, **attributes: object) -> str:
    return _element("text", escape(content), x=x, y=y, **attributes)


def path(data: str, **attributes: object) -> str:
    return _element("path", "", d=data, **attributes)


def polyline(points: Sequence[tuple[float, float]], **attributes: object) -> str:
    return _element("polyline", "", points=_joined(points), **attributes)


def polygon(points: Sequence[tuple[float, float]], **attributes: object) -> str:
    return _element("polygon", "", points=_joined(points), **attributes)


def _joined(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{_number(x)},{_number(y)}" for x, y in points)


def fit(content: object, width: float, size: float = 12) -> str:
    """The text, shortened to what fits into `width` pixels at a font size; empty if nothing."""
    characters = int(width / (CHARACTER_WIDTH * size))
    return shorten(content, characters) if characters >= 2 else ""


def route_data(points: Sequence[tuple[float, float]]) -> str:
    """The path of an edge: vertical runs straight, the rest curves with vertical ends."""
    data = f"M{_number(points[0][0])} {_number(points[0][1])}"
    for (x1, y1), (x2, y2) in pairwise(points):
        if x1 == x2:
            data += f"L{_number(x2)} {_number(y2)}"
            continue
        middle = (y1 + y2) / 2
        data += (
            f"C{_number(x1)} {_number(middle)} {_number(x2)} {_number(middle)} "
            f"{_number(x2)} {_number(y2)}"
        )
    return data


def _element(name: str, content: str, **attributes: object) -> str:
    pairs = ""
    for key, value in attributes.items():
        if value != "":
            shown = _number(value) if isinstance(value, float) else escape(value)
            pairs += f' {key.replace("_", "-")}="{shown}"'
    return f"<{name}{pairs}>{content}</{name}>" if content else f"<{name}{pairs}/>"


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
