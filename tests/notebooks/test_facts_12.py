"""What lesson 12 says, and what its cells show."""

from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT answers here: the extra tflite")
lessons = SimpleNamespace(**run_path(str(Path(__file__).parent / "lessons.py")))
KEY = {"far": 1, "begins": "edges", "nearer": "xnnpack"}


@pytest.fixture(scope="module")
def lesson():
    lesson = lessons.Lesson("12_one_rounding")
    lesson.run("cell-17", KEY)
    return lesson


def test_predictions_answered_with_the_key_are_right(lesson):
    cells = ("cell-03", "cell-05", "cell-09")
    assert [lesson.shown[cell].state for cell in cells] == ["right"] * 3


def test_few_codes_differ(lesson):
    apart = lesson["apart"]("xnnpack", "codes")
    assert 0.01 < np.count_nonzero(apart) / apart.size < 0.1  # "a few codes of a hundred"
    assert (
        lesson["scale"]("shapes").size == 1
        and lesson["answers"]["reference"]["shapes"][0].size == 1024
    )


def test_the_followed_product_lies_near_a_half_that_the_first_rounding_makes(lesson):
    exact = float(lesson["exact"])
    assert 0 < abs(exact % 1 - 0.5) < 0.002  # "within a thousandth or two of a half"
    assert lesson["high"] / lesson["unit"] % 1 == 0.5
    found = {k: int(v["edges"][lesson["place"]]) + 128 for k, v in lesson["answers"].items()}
    assert abs(found["reference"] - found["xnnpack"]) == 1
    assert found["xnnpack"] == round(exact)


def test_the_compiled_program_is_the_reference(lesson):
    assert lesson["accuracy"].passed
    assert "doubling high multiply" in str(lesson["conv"].get("requantization").how)
    assert "high_product" in lesson.printed["cell-13"]


def test_every_set_rounds_as_the_text_says(lesson):
    table = lesson["table"]
    two, _, once = lesson["WAYS"]
    for layer in ("edges", "shapes"):
        assert not table["reference", layer, two] and table["reference", layer, once]
    assert not table["reference", "codes", once] and table["reference", "codes", two]
    assert not any(table["xnnpack", layer, once] for layer in lesson["LAYERS"])


def test_the_sample_model_is_what_its_script_makes():
    made = run_path(str(lessons.MODELS / "roundings_to_tflite.py"))
    assert made["make"]() == made["PATH"].read_bytes()
