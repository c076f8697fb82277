"""Edited text can be continued from after every pass, and the program still runs."""

import re
from pathlib import Path

import numpy as np
import pytest

import explorer
from explorer.compilation.settings.settings import Settings, default_pipeline
from explorer.errors import InputError
from explorer.targets import load_target

DIGITS = Path(__file__).parents[2] / "sample_models" / "digits_cnn.onnx"
PASSES = ["import", *(p.name for p in default_pipeline(Settings(load_target("cpu")), None))]


@pytest.fixture(scope="module")
def compiled():
    with_device = explorer.compile(explorer.load(DIGITS))
    yield with_device
    with_device.close()


@pytest.fixture(scope="module")
def logits(compiled):
    return compiled.run(compiled.example_inputs())["logits"]


def test_all_passes_of_the_program_are_continued_from(compiled):
    assert compiled.names == PASSES


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", PASSES)
def test_unchanged_text_of_every_pass_continues_to_an_equal_program(name, compiled, logits):
    again = compiled.continue_from(name, compiled[name].after.dump())
    assert np.array_equal(again.run(again.example_inputs())["logits"], logits)
    assert again.schedule == compiled.schedule
    assert again.memory.offsets == compiled.memory.offsets
    assert again.names == compiled.names
    again.close()


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("fuse-activation", 'activation = "relu"', 'activation = "abs"'),
        ("lower-to-kernels", "arith.maximumf", "arith.minimumf"),
        ("lower-to-loops", "arith.maximumf", "arith.minimumf"),
        ("schedule-loops", "arith.maximumf", "arith.minimumf"),
        ("plan-memory", "arith.maximumf", "arith.minimumf"),
    ],
)
def test_an_edit_after_any_pass_changes_what_is_computed(name, old, new, compiled, logits):
    text = compiled[name].after.dump()
    assert old in text
    edited = compiled.continue_from(name, text.replace(old, new))
    assert not np.allclose(edited.run(edited.example_inputs())["logits"], logits, atol=1e-3)
    edited.close()


def test_an_address_can_be_edited(compiled, logits):
    text = compiled["plan-memory"].after.dump()
    offsets = [int(o) for o in re.findall(r"offset = (\d+)", text)]
    far = 1 << 20
    *_, last = re.finditer(r"offset = \d+", text)
    moved = text[: last.start()] + f"offset = {far}" + text[last.end() :]
    edited = compiled.continue_from("plan-memory", moved)
    assert [edited.memory.offsets[n] for n in compiled.memory.steps] == [*offsets[:-1], far]
    assert edited.memory.peak_bytes > far
    assert np.array_equal(edited.run(edited.example_inputs())["logits"], logits)
    edited.close()


def test_addresses_that_overlap_are_refused(compiled):
    text = compiled["plan-memory"].after.dump()
    with pytest.raises(InputError, match="overlap"):
        compiled.continue_from("plan-memory", re.sub(r"offset = \d+", "offset = 0", text))
