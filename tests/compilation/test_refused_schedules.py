"""A schedule that cannot be applied gives way to the next one, and the kernel's record says so."""

from dataclasses import replace

import numpy as np
import onnx.parser
import pytest

import explorer
from explorer.importers.onnx import from_proto
from explorer.kernels import schedules
from explorer.kernels.steps.restructure import reorder
from explorer.views.payload.measures import kernel_payload
from explorer.views.static.kernels import kernel_html, kernel_text

MODEL = """<ir_version: 8, opset_import: ["": 17]>
  product (float[20, 24] x, float[24, 40] w) => (float[20, 40] y) {
    y = MatMul (x, w)
  }"""
NOTE = "scheduled plain, not tiled: its tiles are crooked"


def crooked(schedule, machine, packs, choices):
    """Fails when a step is done already."""
    schedule.apply(reorder, order="n m k")
    raise schedule.nest.error("reorder", "its tiles are crooked")


def compiled():
    return explorer.compile(from_proto(onnx.parser.parse_model(MODEL)), tuned=False)


@pytest.fixture
def fallen_back(monkeypatch):
    kinds = [
        replace(kind, use=crooked) if kind.name == "tiled" else kind for kind in schedules.KINDS
    ]
    monkeypatch.setattr(schedules, "KINDS", tuple(kinds))
    return compiled()


def test_a_schedule_that_fails_is_told_in_the_kernels_record(fallen_back):
    (kernel,) = fallen_back.kernels.values()
    assert kernel.note == NOTE
    assert kernel_payload(kernel)["note"] == NOTE
    assert NOTE in kernel_text(kernel)
    assert NOTE in kernel_html(kernel)
    assert fallen_back.schedule[kernel.name]["schedule"] == "plain"


def test_what_comes_instead_computes_the_same(fallen_back):
    inputs = fallen_back.example_inputs()
    (result,) = fallen_back.run(inputs).values()
    expected = inputs["x"].astype(np.float64) @ inputs["w"]
    assert np.abs(result - expected).max() < 24 * 2**-23 * np.abs(expected).max()


def test_a_kernel_with_its_own_schedule_has_no_note():
    (kernel,) = compiled().kernels.values()
    assert kernel.note == ""
    assert "not tiled" not in kernel_text(kernel)
