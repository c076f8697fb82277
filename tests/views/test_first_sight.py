"""At first sight a person can read the graph of a real model, at 1440 x 900 pixels."""

from pathlib import Path
from typing import Any

import pytest

import explorer
from verification.first_sight.look import FirstSight, look, overlapping_labels, overlapping_now

MODELS = ("digits_cnn", "digits_mlp", "digits_mobilenet", "digits_resnet", "digits_transformer")
SAMPLES = Path(__file__).parents[2] / "sample_models"


@pytest.mark.browser
@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", MODELS)
def test_all_of_a_sample_model_is_read_at_once(name: str, opened: Any) -> None:
    compilation = explorer.compile(str(SAMPLES / f"{name}.onnx"))
    watched = opened(compilation.trace(with_code=False), start=None)
    seen = look(watched.page)
    assert seen.problems() == [], seen
    assert seen.nodes >= 6
    assert overlapping_labels(watched.page) == []
    assert watched.is_clean(), watched


@pytest.mark.browser
def test_labels_that_lie_on_one_another_are_found(watched: Any) -> None:
    """A graph that nothing draws again: two labels share a place, and one is apart from them."""
    labels = {"under": 40, "over": 44, "apart": 90, "hidden": 40}
    watched.page.set_content(
        '<div class="graph"><svg class="canvas" width="200" height="120">'
        + "".join(
            f'<g class="node"><text class="label" x="20" y="{y}">{text}</text></g>'
            for text, y in labels.items()
        )
        + "</svg></div><style>g:last-child { visibility: hidden }</style>"
    )
    assert overlapping_now(watched.page) == ["under / over"]


def test_what_cannot_be_read_is_a_problem() -> None:
    seen = FirstSight(
        nodes=20,
        blocks=0,
        labels=(("conv", 9.6), ("relu", 4.0)),
        outside=("relu_1",),
        upward=("a > b",),
        back=0,
        scale=0.2,
    )
    assert seen.problems() == [
        "2 labels of 20 operations; at least 8",
        "1 of 2 labels have 9 pixels or more; the smallest has 4.0",
        "1 of 20 are outside: relu_1, ...",
        "an edge runs upwards and does not say so: a > b",
    ]
