"""Text can be read on every ground, in light and in dark, and colour never stands alone."""

import re
from itertools import pairwise

import pytest

from explorer.views.theme import (
    DARK,
    DIFFERENCES,
    EQUAL,
    FAMILIES,
    LIGHT,
    NOT_RUN,
    SURFACES,
    UNKNOWN_FAMILY,
    UNSUPPORTED,
    VERDICTS,
    WITHIN,
    WRONG,
    Look,
    Surface,
    cividis,
    contrast,
    css_variables,
    dark_counterparts,
    family,
    judge,
    luminance,
    stylesheet,
    text_on,
)

LOOKS = (*FAMILIES, *VERDICTS, *DIFFERENCES, UNSUPPORTED)
GRAPH_NODE_FAMILIES = (
    *("convolution", "elementwise", "normalization", "pooling", "movement", "reduction"),
    *("control", "recurrent", "quantization", "sequence", "transfer", "other"),
    *("input", "output", "weight"),
)


def test_contrast_is_that_of_the_guidelines() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)
    assert contrast("#ffffff", "#0072b2") == contrast("#0072b2", "#ffffff")


@pytest.mark.parametrize("surface", SURFACES, ids=lambda s: s.name)
@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.name)
def test_text_of_every_look_reads_on_its_grounds(look: Look, surface: Surface) -> None:
    tone = look.tone(surface)
    assert contrast(tone.ink, surface.background) >= 4.5
    assert contrast(tone.ink, surface.raised) >= 4.5
    assert contrast(tone.ink, tone.fill) >= 4.5
    assert contrast(surface.text, tone.fill) >= 4.5
    assert contrast(surface.quiet, tone.fill) >= 4.5, "the second line of a node"
    assert contrast(tone.edge, surface.background) >= 3


@pytest.mark.parametrize("surface", SURFACES, ids=lambda s: s.name)
def test_neutral_text_reads_on_its_grounds(surface: Surface) -> None:
    for colour in (surface.text, surface.quiet, surface.accent):
        assert contrast(colour, surface.background) >= 4.5
        assert contrast(colour, surface.raised) >= 4.5
    assert contrast(surface.line, surface.background) >= 3


@pytest.mark.parametrize("looks", [FAMILIES, VERDICTS, DIFFERENCES])
def test_glyphs_tell_looks_apart_without_colour(looks: tuple[Look, ...]) -> None:
    glyphs = [look.glyph for look in looks]
    assert len(set(glyphs)) == len(glyphs)
    assert all(len(glyph) == 1 for glyph in glyphs)


def test_every_family_of_the_records_has_a_look() -> None:
    assert set(GRAPH_NODE_FAMILIES) <= {look.name for look in FAMILIES}
    assert family("convolution").glyph == "▦"
    assert family("of another version") is UNKNOWN_FAMILY


def test_a_verdict_follows_the_worst_error() -> None:
    assert judge(0.0, 1e-4) is EQUAL
    assert judge(1e-5, 1e-4) is EQUAL
    assert judge(9e-5, 1e-4) is WITHIN
    assert judge(2e-4, 1e-4) is WRONG
    assert judge(5e-6, 1e-6) is WRONG, "a tolerance below rounding holds too"
    assert judge(float("nan"), 1.0) is WRONG
    assert judge(None, 1.0) is NOT_RUN


def test_cividis_gets_lighter_all_the_way_and_is_clipped() -> None:
    shades = [luminance(cividis(i / 20)) for i in range(21)]
    assert all(a < b for a, b in pairwise(shades))
    assert cividis(-1) == cividis(0) == "#00204c"
    assert cividis(2) == cividis(1) == "#ffe945"


def test_text_on_the_scale_reads_at_both_ends() -> None:
    for i in range(21):
        ground = cividis(i / 20)
        assert contrast(text_on(ground), ground) >= 4


def test_the_stylesheet_defines_the_same_variables_for_light_and_dark() -> None:
    css = stylesheet(".explorer")
    light, dark = css_variables(LIGHT), css_variables(DARK)
    assert light.keys() == dark.keys()
    for name in light:
        assert css.count(f"{name}:") == 3, f"{name} in light, in dark by the system and by the host"
    assert "--explorer-convolution-fill: #d9eaf3;" in css
    assert 'body[data-jp-theme-light="false"] .explorer' in css
    assert not re.search(r"url\(|@import", css)


def test_a_malformed_colour_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a colour as #rrggbb, found 'red'"):
        luminance("red")


def test_a_colour_of_the_light_surface_has_one_of_the_dark_one_that_reads_as_well():
    darks = dark_counterparts()
    assert darks[LIGHT.background] == DARK.background and darks[LIGHT.text] == DARK.text
    for look in FAMILIES:
        assert contrast(darks[look.light.ink], DARK.background) >= 4.5, look.name
        assert contrast(darks[look.light.edge], DARK.background) >= 3, look.name
        assert contrast(darks[look.light.fill], DARK.text) >= 4.5, look.name
