"""Colours, glyphs and CSS variables: one visual language for every view.

Families of operations differ by hue *and* glyph, verdicts by colour *and* mark, differences by
colour *and* stroke: colour never carries meaning alone. Hues are Okabe and Ito's eight, which
people with any common colour blindness tell apart (Color Universal Design, 2008); errors use
cividis, which is perceptually uniform (Nuñez, Anderton, Renslow, PLoS ONE 13(7), 2018).

    family("convolution").glyph                      -> "▦"
    family("convolution").light.fill                 -> "#d9eaf4", text on it "#1f2328"
    judge(worst=1.2e-6, tolerance=1e-4)              -> the verdict "equal", green, "✓"
    stylesheet(".explorer")                          -> CSS variables for light and dark

Text on its ground has a contrast of at least 4.5 (WCAG 2.2, 1.4.3), in light and in dark.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from explorer.results import TensorError

BLACK = "#000000"
ORANGE = "#e69f00"
SKY_BLUE = "#56b4e9"
BLUISH_GREEN = "#009e73"
YELLOW = "#f0e442"
BLUE = "#0072b2"
VERMILLION = "#d55e00"
REDDISH_PURPLE = "#cc79a7"
GREY = "#8a8f98"

TEXT_CONTRAST = 4.5
"""Least contrast of text with its ground (WCAG 2.2, success criterion 1.4.3)."""
SHAPE_CONTRAST = 3.0
"""Least contrast of a line that carries meaning (WCAG 2.2, success criterion 1.4.11)."""
EQUAL_WITHIN = 1e-5
"""A relative error up to this is rounding of float32 sums, shown as equal."""


@dataclass(frozen=True)
class Surface:
    """The neutral colours of light or dark."""

    name: str
    background: str
    raised: str
    """Ground of headings, code and tracks."""
    border: str
    text: str
    quiet: str
    """Text of second rank; still readable on `background` and on `raised`."""
    line: str
    """Edges of a graph, axes."""
    accent: str
    """Selection and focus."""


LIGHT = Surface(
    name="light",
    background="#ffffff",
    raised="#f4f5f7",
    border="#d3d7de",
    text="#1f2328",
    quiet="#59616b",
    line="#7b838e",
    accent="#0061a1",
)
DARK = Surface(
    name="dark",
    background="#16191d",
    raised="#21252b",
    border="#3b424b",
    text="#e8eaed",
    quiet="#a5adb8",
    line="#818a96",
    accent="#6cbdf0",
)
SURFACES = (LIGHT, DARK)


@dataclass(frozen=True)
class Tone:
    """One hue on one surface."""

    fill: str
    """A tint of the hue: the ground of a node, which holds the surface's text."""
    edge: str
    """Outline or bar: contrast of at least 3 with the surface."""
    ink: str
    """The hue as text: contrast of at least 4.5 with the surface and with `fill`."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """How a family of operations, a verdict or a kind of difference is shown."""

    name: str
    title: str
    """What it means, for a legend or on hover."""
    glyph: str
    """One character that common fonts hold; says the same as the colour does."""
    hue: str
    light: Tone
    dark: Tone
    dashes: str = ""
    """Value of SVG's `stroke-dasharray` for its outline; empty for a solid line."""

    def tone(self, surface: Surface) -> Tone:
        return self.dark if surface.name == "dark" else self.light


def toned(role: str) -> str:
    """The light colour of `pooling-fill`, `chosen-schedule-edge`: fill, edge or ink of a look."""
    name, _, tone = role.rpartition("-")
    looks = (*FAMILIES, *VERDICTS, *DIFFERENCES, *TIERS, *SCHEDULES, *STALLS)
    return getattr({look.name: look for look in looks}[name].light, tone)


def luminance(colour: str) -> float:
    """Relative luminance of `#rrggbb` between 0 and 1 (WCAG 2.2, definition)."""
    channels = [value / 255 for value in _channels(colour)]
    red, green, blue = (
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: str, second: str) -> float:
    """Contrast ratio of two colours, 1 to 21 (WCAG 2.2, definition)."""
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def mix(first: str, second: str, share: float) -> str:
    """`share` (0 to 1) of the second colour in the first, per sRGB channel."""
    pairs = zip(_channels(first), _channels(second), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)


def text_on(ground: str) -> str:
    """Near-black or white, whichever reads better on a filled `ground`."""
    return max((LIGHT.text, "#ffffff"), key=lambda colour: contrast(colour, ground))


def tone_of(hue: str, surface: Surface) -> Tone:
    """The tint, outline and text colour of a hue on a surface, each with enough contrast."""
    fill = mix(surface.background, hue, 0.15 if surface.name == "light" else 0.18)
    toward = surface.text
    edge = _until_readable(hue, toward, (surface.background,), SHAPE_CONTRAST)
    grounds = (surface.background, surface.raised, fill)
    ink = _until_readable(hue, toward, grounds, TEXT_CONTRAST)
    return Tone(fill, edge, ink)


def _until_readable(hue: str, toward: str, grounds: tuple[str, ...], least: float) -> str:
    """The hue with as little of `toward` in it as the contrast with all grounds asks for."""
    for step in range(21):
        colour = mix(hue, toward, step / 20)
        if all(contrast(colour, ground) >= least for ground in grounds):
            return colour
    raise ValueError(f"no shade of {hue} has a contrast of {least} with {', '.join(grounds)}")


def _channels(colour: str) -> tuple[int, int, int]:
    if len(colour) != 7 or not colour.startswith("#"):
        raise ValueError(f"expected a colour as #rrggbb, found {colour!r}")
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _look(name: str, title: str, glyph: str, hue: str, dashes: str = "") -> Look:
    return Look(
        name=name,
        title=title,
        glyph=glyph,
        hue=hue,
        light=tone_of(hue, LIGHT),
        dark=tone_of(hue, DARK),
        dashes=dashes,
    )


FAMILIES: tuple[Look, ...] = (
    _look("convolution", "convolution, matrix multiplication", "▦", BLUE),
    _look("elementwise", "elementwise", "ƒ", ORANGE),
    _look("normalization", "normalization", "μ", BLUISH_GREEN),
    _look("pooling", "pooling", "▽", SKY_BLUE),
    _look("reduction", "reduction", "Σ", YELLOW),
    _look("movement", "data movement", "⇄", REDDISH_PURPLE),
    _look("control", "control flow", "◇", "#4b5563"),
    _look("recurrent", "recurrent layer", "↻", mix(BLUE, BLACK, 0.35)),
    _look("sequence", "sequences, text", "≡", mix(BLUISH_GREEN, BLACK, 0.35)),
    _look("quantization", "quantization", "#", VERMILLION),
    _look("transfer", "transfer between devices", "⇅", mix(REDDISH_PURPLE, BLACK, 0.35)),
    _look("input", "input", "▸", GREY),
    _look("output", "output", "■", GREY),
    _look("weight", "weight, constant", "●", GREY),
    _look("other", "other", "·", GREY),
    _look("block", "collapsed block", "⊞", GREY),
)
UNKNOWN_FAMILY = _look("", "other", "·", GREY)


def family(name: str) -> Look:
    """The look of a family; a neutral one for a name that this version doesn't know."""
    return next((known for known in FAMILIES if known.name == name), UNKNOWN_FAMILY)


EQUAL = _look("equal", "equal to the source model up to rounding", "✓", BLUISH_GREEN)
WITHIN = _look("within-tolerance", "differs, but within the tolerance", "≈", ORANGE)
WRONG = _look("wrong", "differs by more than the tolerance", "✗", VERMILLION)
NOT_RUN = _look("not-run", "not compared with the source model", "○", GREY)
REFERENCE = _look("reference", "the source model: the reference itself", "◆", BLUE)
VERDICTS = (EQUAL, WITHIN, WRONG, NOT_RUN, REFERENCE)


def judged_error(error: TensorError, tolerance: float) -> float:
    """What a verdict is about: at most the tolerance where float64 says that it is right."""
    return min(error.max_relative, tolerance) if error.as_exact else error.max_relative


def judge(worst: float | None, tolerance: float) -> Look:
    """The verdict on a worst relative error; `None` where nothing was compared.

    An error that is not a number is wrong.
    """
    if worst is None:
        return NOT_RUN
    if worst <= min(EQUAL_WITHIN, tolerance):
        return EQUAL
    return WITHIN if worst <= tolerance else WRONG


FROM_MEMORY = _look("memory", "this process had it", "●", BLUISH_GREEN)
FROM_FOLDER = _look("folder", "from the program cache on disk", "◐", SKY_BLUE)
FROM_FILE = _look("shipped", "from a file of exported programs", "◆", BLUE)
FROM_SOURCE = _look("source", "built from source", "▲", ORANGE)
FROM_FALLBACK = _look("fallback", "answered without a program", "○", GREY)
TIERS = (FROM_MEMORY, FROM_FOLDER, FROM_FILE, FROM_SOURCE)
"""Where compiled programs come from, in the order in which they are looked for."""


def tier_look(tier: str) -> Look:
    """How a tier is shown; what is not known reads as built."""
    return next((look for look in TIERS if look.name == tier), FROM_SOURCE)


DEFAULT_SCHEDULE = _look("default-schedule", "the schedule without a search", "■", BLUE)
CHOSEN_SCHEDULE = _look("chosen-schedule", "the schedule that was kept", "◆", BLUISH_GREEN)
OTHER_SCHEDULE = _look("other-schedule", "a schedule that was tried", "●", GREY)

SCHEDULES = (DEFAULT_SCHEDULE, CHOSEN_SCHEDULE, OTHER_SCHEDULE)

STALLS = (
    _look("fetch", "the instruction was not fetched yet", "─", GREY),
    _look("token", "another queue has to give its token first", "╱", REDDISH_PURPLE),
    _look("room", "the queue that gets its token has no room for one", "│", BLUISH_GREEN),
    _look("channel", "every channel of the DMA engine is busy", "╲", ORANGE),
    _look("bank", "a bank of a scratchpad is in use", "┼", VERMILLION),
)
"""What instructions wait for, by the name that the simulator has for it; the glyph is the pattern
that the wait is hatched with."""

UNSUPPORTED = _look("unsupported", "cannot be imported", "⊘", VERMILLION, dashes="2 2")

ADDED = _look("added", "new after the pass", "+", BLUISH_GREEN)
REMOVED = _look("removed", "gone after the pass", "−", VERMILLION, dashes="4 3")
CHANGED = _look("changed", "same operation, another attribute, operand or type", "•", ORANGE)
FUSED = _look("fused", "took over the work of the operations named", "⊃", REDDISH_PURPLE)
DIFFERENCES = (ADDED, REMOVED, CHANGED, FUSED)

_CIVIDIS = (
    "#00204c", "#002b68", "#06366e", "#2c416b", "#414d6b", "#51586c", "#60646e", "#6f6f72",
    "#7c7b78", "#8c8878", "#9c9477", "#aca173", "#bdaf6e", "#cebd67", "#e0cb5d", "#f3db4f",
    "#ffe945",
)  # fmt: skip


def cividis(position: float) -> str:
    """The colour at `position` (0 dark blue, 1 yellow; clipped) of the cividis scale."""
    place = min(max(position, 0.0), 1.0) * (len(_CIVIDIS) - 1)
    index = min(int(place), len(_CIVIDIS) - 2)
    return mix(_CIVIDIS[index], _CIVIDIS[index + 1], place - index)


@cache
def dark_counterparts() -> dict[str, str]:
    """By every colour of the light surface the one that has its place on the dark one.

    Of tones that are one colour on light, text comes before outlines and outlines before grounds.
    """
    roles = ("background", "raised", "border", "text", "quiet", "line", "accent")
    pairs = [(getattr(LIGHT, role), getattr(DARK, role)) for role in roles]
    hues = (ORANGE, SKY_BLUE, BLUISH_GREEN, YELLOW, BLUE, VERMILLION, REDDISH_PURPLE, GREY)
    looks = (*FAMILIES, *VERDICTS, *DIFFERENCES, *TIERS, *SCHEDULES, *STALLS, UNSUPPORTED)
    used = dict.fromkeys((*hues, *(look.hue for look in looks)))
    tones = [(tone_of(hue, LIGHT), tone_of(hue, DARK)) for hue in used]
    for role in ("ink", "edge", "fill"):
        pairs += [(getattr(light, role), getattr(dark, role)) for light, dark in tones]
    return dict(reversed(pairs))


SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
MONOSPACE = "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace"


def css_variables(surface: Surface) -> dict[str, str]:
    """All colours of a surface by the name of their CSS variable, e.g. `--explorer-text`.

    A family has three: `--explorer-convolution-fill`, `-edge` and `-ink`; verdicts and
    differences likewise (`--explorer-wrong-ink`, `--explorer-added-edge`).
    """
    variables = {
        f"--explorer-{role}": getattr(surface, role)
        for role in ("background", "raised", "border", "text", "quiet", "line", "accent")
    }
    for look in (*FAMILIES, *VERDICTS, *DIFFERENCES, *TIERS, *SCHEDULES, *STALLS, UNSUPPORTED):
        tone = look.tone(surface)
        variables[f"--explorer-{look.name}-fill"] = tone.fill
        variables[f"--explorer-{look.name}-edge"] = tone.edge
        variables[f"--explorer-{look.name}-ink"] = tone.ink
    variables["--explorer-sans"] = SANS
    variables["--explorer-monospace"] = MONOSPACE
    return variables


def stylesheet(root: str = ".explorer") -> str:
    """CSS that sets the variables on `root`: light, or dark as the host asks for.

    The host is, in this order: `data-theme` on the root itself, JupyterLab's theme (an attribute
    of `body`), the system's preference.
    """
    light, dark = (_declarations(surface) for surface in SURFACES)
    system_dark = f'body:not([data-jp-theme-light]) {root}:not([data-theme="light"])'
    return "\n".join(
        (
            f"{root} {{ color-scheme: light; {light} }}",
            "@media (prefers-color-scheme: dark) {",
            f"{system_dark} {{ color-scheme: dark; {dark} }}",
            "}",
            f'body[data-jp-theme-light="false"] {root}:not([data-theme="light"]),',
            f'{root}[data-theme="dark"] {{ color-scheme: dark; {dark} }}',
        )
    )


def _declarations(surface: Surface) -> str:
    return " ".join(f"{name}: {value};" for name, value in css_variables(surface).items())
