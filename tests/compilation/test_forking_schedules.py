"""Schedules given to a fork: choices and whole lists of steps, by the kernel's name."""

from pathlib import Path

import numpy as np
import pytest

import explorer
from explorer.compilation import Compilation
from explorer.errors import InputError
from explorer.targets import load_target

MODEL = Path(__file__).parents[2] / "sample_models" / "digits_cnn.onnx"
KERNEL = "conv_3x3_2"


@pytest.fixture(scope="module")
def compiled() -> Compilation:
    """For a core that multiplies what the definition says, whichever machine this is."""
    target = load_target("cpu", {"vector_floats": 16, "core.family": "neoverse_v1"})
    return explorer.compile(MODEL, target)


def assert_equal_results(first: Compilation, second: Compilation) -> None:
    inputs = first.example_inputs()
    (expected,), (found,) = first.run(inputs).values(), second.run(inputs).values()
    # Sums of 288 products in another order.
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_choices_by_kernel_are_a_shorthand_of_decisions(compiled):
    short = compiled.fork(schedule={KERNEL: {"pixels": 4}})
    long = compiled.fork(decisions={f"schedule-loops/{KERNEL}/pixels": 4})
    assert short.schedule[KERNEL]["pixels"] == 4
    assert short.program.source == long.program.source
    assert_equal_results(compiled, short)


def test_the_unchanged_steps_of_a_kernel_give_the_same_program(compiled):
    again = compiled.fork(schedule={n: k.schedule for n, k in compiled.kernels.items()})
    assert again.program.source.lines == compiled.program.source.lines
    assert again.kernels[KERNEL].schedule == compiled.kernels[KERNEL].schedule
    assert again.schedule[KERNEL]["schedule"] == "steps"
    assert f"{KERNEL} by a list of steps" in again.label


def test_edited_steps_are_followed_and_run(compiled):
    steps = [row for row in compiled.kernels[KERNEL].schedule if row["step"] != "unroll"]
    edited = compiled.fork(schedule={KERNEL: steps})
    assert "unroll" not in [step.name for step in edited.kernels[KERNEL].steps]
    assert_equal_results(compiled, edited)


def test_decisions_of_a_fork_with_steps_replay_it(compiled):
    edited = compiled.fork(schedule={KERNEL: compiled.kernels[KERNEL].schedule[:-1]})
    again = compiled.fork(decisions=edited.decisions())
    assert again.program.source == edited.program.source


def test_none_takes_back_what_was_given_for_a_kernel(compiled):
    edited = compiled.fork(schedule={KERNEL: compiled.kernels[KERNEL].schedule[:-1]})
    assert edited.fork(schedule={KERNEL: None}).settings == compiled.settings
    chosen = edited.fork(schedule={KERNEL: {"pixels": 4}})
    assert dict(chosen.settings.decisions) == {f"schedule-loops/{KERNEL}/pixels": 4}


def test_a_trace_keeps_the_steps_of_its_kernels(compiled, tmp_path):
    edited = compiled.fork(schedule={KERNEL: compiled.kernels[KERNEL].schedule[:-1]})
    saved = explorer.open(edited.save(tmp_path / "edited.nnx"))
    again = compiled.fork(schedule={KERNEL: saved.kernels[KERNEL].schedule})
    assert again.program.source == edited.program.source


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"conv_9": {"pixels": 4}}, "nothing in this program is decided by 'schedule-loops/conv_9"),
        ({KERNEL: {"pixls": 4}}, "there is no choice 'pixls'.*did you mean 'pixels'"),
        ({KERNEL: {"pixels": 99}}, "pixels = 99; 1 to 8 are legal"),
        ({KERNEL: "split"}, "a list of steps is expected"),
        ({KERNEL: [{"step": "cut", "loop": "j"}]}, "step 1, cut: at missing; it takes loop, at"),
        ({KERNEL: [{"step": "cut", "loop": "j", "at": 8}]}, "8 is not inside the 8 iterations"),
        ({KERNEL: [{"step": object()}]}, "step 1 has no name"),
    ],
)  # fmt: skip
def test_a_schedule_that_is_none_names_kernel_step_and_reason(compiled, asked, message):
    with pytest.raises(InputError, match=message) as caught:
        compiled.fork(schedule=asked)
    assert "conv" in str(caught.value)
