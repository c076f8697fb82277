"""The few pieces of HTML that plain notebooks keep: cards, tables, pictures, all styled inline.

    card("passes", table([["conv_1", "65 ops"]]))  -> '<div style="...">...</div>'

Notebooks that nobody trusted yet strip `<style>`, `<script>` and inline SVG, so styles stand at
the elements and pictures are `data:` URIs. A card brings its own ground and text colour: light
ones, and where the page's colour scheme is dark (JupyterLab sets it) those of the dark surface.

Whoever calls escapes: functions take HTML where a parameter is named `html`, `cells` or `body`,
and text (which they escape) everywhere else.
"""

from __future__ import annotations

import base64
import html as html_library
import re
import unicodedata
from collections.abc import Sequence

from explorer.views.theme import LIGHT, MONOSPACE, SANS, Look, dark_counterparts

BREAKS = "overflow-wrap:break-word;overflow-wrap:anywhere"
"""Long names break anywhere. JupyterLab knows only the first value and drops the second as long
as nobody trusts the notebook; browsers take the last that they know."""
_INVISIBLE = ("Cc", "Cf", "Cs", "Co", "Cn")
"""Unicode categories that a terminal or browser would act on instead of showing them."""


def plain(name: object) -> str:
    """Text from a model on one line, with characters that cannot be seen made visible as `�`.

    Keeps terminals safe from escape sequences, and SVG from characters that XML forbids.
    """
    text = " ".join(str(name).split("\n"))
    return "".join("\ufffd" if unicodedata.category(c) in _INVISIBLE else c for c in text)


def escape(name: object) -> str:
    """Text as HTML or XML, in an element or in a quoted attribute."""
    return html_library.escape(plain(name), quote=True)


def shorten(text: object, characters: int) -> str:
    """At most so many characters; the middle goes, for names differ at their ends."""
    whole = plain(text)
    if len(whole) <= characters:
        return whole
    head = (characters - 1 + 1) // 2
    tail = characters - 1 - head
    return whole[:head] + "…" + (whole[-tail:] if tail else "")


def card(title: str, body: str, subtitle: str = "", look: Look | None = None) -> str:
    """A framed block as wide as its content, at most as wide as the cell."""
    surface = LIGHT
    style = (
        f"display:inline-block;box-sizing:border-box;max-width:100%;padding:12px 16px;"
        f"background-color:{surface.background};color:{surface.text};"
        f"border:1px solid {surface.border};border-radius:6px;"
        f"font-family:{SANS};font-size:13px;line-height:1.45;text-align:left"
    )
    head = f'<div style="font-size:14px;font-weight:600;{BREAKS}">{escape(title)}'
    if subtitle:
        head += (
            f'<span style="font-weight:400;font-size:13px;color:{surface.quiet};'
            f'padding-left:12px">{badge(look) + " " if look else ""}{escape(subtitle)}</span>'
        )
    return in_both_schemes(f'<div style="{style}">{head}</div>{body}</div>')


def in_both_schemes(html: str) -> str:
    """Every colour in a style again, as the pair of light and dark (CSS Color 5, `light-dark()`).

    The light one stands first: what knows no pairs drops the second declaration.
    """
    return _STYLE.sub(lambda found: f'style="{_doubled(found[1])}"', html)


_STYLE = re.compile(r'style="([^"]*)"')  # text has its quotation marks escaped
_HEX = re.compile(r"#[0-9a-f]{6}")


def _doubled(style: str) -> str:
    darks = dark_counterparts()
    declarations = []
    for declaration in style.split(";"):
        declarations.append(declaration)
        if "light-dark(" in style or not any(c in darks for c in _HEX.findall(declaration)):
            continue
        declarations.append(
            _HEX.sub(
                lambda c: f"light-dark({c[0]},{darks[c[0]]})" if c[0] in darks else c[0],
                declaration,
            )
        )
    return ";".join(declarations)


def document(title: str, body: str) -> str:
    """A whole page around a part of one."""
    return (
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)}</title></head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def section(title: str) -> str:
    """A small heading inside a card."""
    return f'<div style="margin-top:12px;font-weight:600;color:{LIGHT.quiet}">{escape(title)}</div>'


def paragraph(html: str, quiet: bool = False) -> str:
    colour = LIGHT.quiet if quiet else LIGHT.text
    return f'<div style="margin-top:6px;max-width:720px;color:{colour};{BREAKS}">{html}</div>'


def note(text: str) -> str:
    """What is not shown, and how to see it."""
    return paragraph(escape(text), quiet=True)


def table(
    rows: Sequence[Sequence[str]],
    header: Sequence[str] = (),
    align: str = "",
    quiet_rows: Sequence[int] = (),
) -> str:
    """Rows of cells (HTML). `align` holds a letter per column: `l` for text that may wrap (also
    where the string ends), `n` for marks and labels that never break, `r` for numbers."""

    def cell(tag: str, html: str, column: int, colour: str, weight: int) -> str:
        kind = align[column : column + 1] or "l"
        side = "right" if kind == "r" else "left"
        breaks = f"{BREAKS};min-width:64px" if kind == "l" else "white-space:nowrap"
        style = (
            f"padding:2px 16px 2px 0;border:0;text-align:{side};vertical-align:top;"
            f"background-color:{LIGHT.background};color:{colour};font-weight:{weight};"
            f"font-size:13px;max-width:none;{breaks}"
        )
        return f'<{tag} style="{style}">{html}</{tag}>'

    lines = []
    if any(header):
        cells = "".join(
            cell("th", escape(title), column, LIGHT.quiet, 400)
            for column, title in enumerate(header)
        )
        lines.append(f'<tr style="background-color:{LIGHT.background}">{cells}</tr>')
    for index, row in enumerate(rows):
        colour = LIGHT.quiet if index in quiet_rows else LIGHT.text
        cells = "".join(cell("td", html, column, colour, 400) for column, html in enumerate(row))
        lines.append(f'<tr style="background-color:{LIGHT.background}">{cells}</tr>')
    style = (
        f"margin:8px 0 0 0;border:0;border-collapse:collapse;max-width:100%;"
        f"background-color:{LIGHT.background}"
    )
    return f'<table style="{style}">{"".join(lines)}</table>'


def code(text: object) -> str:
    """A name or a line in the monospaced font."""
    return f'<span style="font-family:{MONOSPACE};font-size:12px;{BREAKS}">{escape(text)}</span>'


def quiet(text: object) -> str:
    return f'<span style="color:{LIGHT.quiet}">{escape(text)}</span>'


def badge(look: Look, text: str = "") -> str:
    """A glyph in its colour, with its meaning for those who hover or hear; then text."""
    tone = look.tone(LIGHT)
    glyph = (
        f'<span title="{escape(look.title)}" role="img" aria-label="{escape(look.name)}" '
        f'style="color:{tone.ink};font-weight:600">{escape(look.glyph)}</span>'
    )
    return glyph + (f" {escape(text)}" if text else "")


def legend_of(looks: Sequence[tuple[Look, str]]) -> str:
    """Glyphs with their words on one quiet line; an entry never breaks."""
    entries = "".join(
        f'<span style="display:inline-block;padding-right:16px">{badge(look, words)}</span>'
        for look, words in looks
    )
    return paragraph(entries, quiet=True)


def chip(look: Look, text: str) -> str:
    """A name on a tint, e.g. an origin."""
    tone = look.tone(LIGHT)
    style = (
        f"display:inline-block;max-width:100%;margin:2px 6px 2px 0;padding:0 8px;"
        f"border:1px solid {tone.edge};border-radius:8px;background-color:{tone.fill};"
        f"color:{LIGHT.text};{BREAKS}"
    )
    return f'<span style="{style}">{escape(text)}</span>'


def bar(share: float, colour: str, width: int = 120) -> str:
    """A bar of `share` (0 to 1) of `width` pixels; what is above zero is at least one wide."""
    pixels = 0 if share <= 0 else max(1, round(min(share, 1.0) * width))
    return (
        f'<div style="width:{width}px;height:8px;margin-top:5px;background-color:{LIGHT.raised}">'
        f'<div style="width:{pixels}px;height:8px;background-color:{colour}"></div></div>'
    )


MAX_PICTURE_HEIGHT = 500
"""Pixels: a card with a picture then fits on a screen."""
MIN_SCALE = 0.6
"""Text of a picture stays readable."""


def picture(svg: str, width: float, description: str) -> str:
    """An SVG as an image: at its own size, smaller where it is high or the cell is narrower."""
    height = re.match(r'<svg[^>]* height="([\d.]+)"', svg)
    if height is not None:
        width *= min(1.0, max(MIN_SCALE, MAX_PICTURE_HEIGHT / float(height[1])))
    data = base64.b64encode(svg.encode("utf-8")).decode("ascii")
    return image(f"data:image/svg+xml;base64,{data}", width, description)


def image(address: str, width: float, description: str) -> str:
    """An image of a `data:` address; pixels of small ones stay sharp."""
    return (
        f'<img alt="{escape(description)}" src="{escape(address)}" style="display:block;'
        f"margin:8px 0 0 0;width:{width:.0f}px;max-width:100%;height:auto;"
        'image-rendering:pixelated">'
    )


def fold(summary: str, body: str) -> str:
    """A part that is closed at first; `body` is HTML."""
    style = f"margin-top:6px;color:{LIGHT.text}"
    return (
        f'<details style="{style}"><summary style="cursor:pointer">{escape(summary)}</summary>'
        f"{body}</details>"
    )
