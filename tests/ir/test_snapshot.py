"""Snapshots: looked at in any order, written as text and read back at every level."""

from itertools import pairwise
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import pytest

from explorer.errors import DeviceError
from explorer.ir.inspection.printing import dump, parse
from explorer.ir.program import Snapshot

programs = SimpleNamespace(**run_path(str(Path(__file__).parents[1] / "programs.py")))

CONV_RELU = """
func.func @main(%x : tensor<1x3x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %w = top.weight() {weight = "w"} : tensor<2x3x3x3xf32>
  %c = top.conv(%x, %w) {strides = [1, 1], pads = [1, 1, 1, 1], dilations = [1, 1], group = 1}
    : tensor<1x2x4x4xf32>
  %y = top.unary(%c) {kind = "tanh"} : tensor<1x2x4x4xf32>
  top.return(%y)
}
"""


@pytest.fixture(scope="module")
def results():
    return programs.lower(programs.program(CONV_RELU), lanes=4)


def test_counts_and_sizes_of_a_small_program():
    snapshot = programs.program(CONV_RELU).snapshot
    assert snapshot.operation_count == 2  # neither the weight nor the return
    assert snapshot.macs == 2 * 3 * 9 * 16
    assert snapshot.peak_bytes == (3 + 2) * 16 * 4  # the convolution's input and result


def test_the_text_of_every_level_is_read_back_as_it_was_written(results):
    for result in results:
        text = result.after.dump()
        assert dump(parse(text)) == text, result.name


def test_what_was_read_back_computes_the_same(results):
    inputs = programs.random_inputs(results[0].before)
    expected = results[0].before.run(inputs)["y"]
    for result in results[1:]:
        after = result.after
        again = Snapshot(parse(after.dump()), after.weights, after.level, after.execute_compiled)
        values = again.run(inputs)
        # 27 products in another order, and tanh of two libraries.
        assert programs.max_relative(values["y"], expected) <= 2e-6, result.name


def test_a_snapshot_does_not_follow_later_passes(results):
    texts = [r.after.text.lines for r in results]
    assert len(set(texts)) == len(texts)
    assert all(a.after is b.before for a, b in pairwise(results))


def test_the_order_in_which_things_are_asked_for_changes_nothing():
    one, two = (programs.lower(programs.program(CONV_RELU), lanes=4)[-1].after for _ in range(2))
    graph, index, text = one.graph, one.index, one.text
    assert two.text == text
    assert two.index == index
    assert two.graph == graph
    assert one.dump() == two.dump()
    assert one.dump() == one.dump()


def test_below_top_a_program_needs_generated_code(results):
    after = results[-1].after
    saved = Snapshot(after.module, after.weights, after.level)
    with pytest.raises(
        DeviceError, match="a program of level memory is executed through generated"
    ):
        saved.run({"x": np.zeros((1, 3, 4, 4), np.float32)})


def test_operations_are_found_by_identity_at_every_level(results):
    names = {"c", "y"}
    for result in results:
        assert names <= set(result.after.operations)
        assert names <= set(result.after.origins)


def test_snapshots_share_the_kernels_that_no_pass_replaced_and_show_them_all():
    results = programs.lower(programs.program(CONV_RELU), lanes=4)
    scheduled, planned = results[-2].after, results[-1].after
    assert list(planned.kernels) == list(scheduled.kernels)
    assert all(planned.kernels[n] is k for n, k in scheduled.kernels.items())
    lowered = results[-3].after
    assert all(scheduled.kernels[n] is not k for n, k in lowered.kernels.items())
    for snapshot in (lowered, scheduled, planned):
        shown = [op.sym_name.data for op in snapshot.module.ops]
        assert shown == ["main", "main_cpu", *snapshot.kernels]
        assert snapshot.module is snapshot.module  # copied once
