"""Concats and slices in place: what lies where, what is copied, what is left alone and why."""

from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import pytest

from explorer.errors import ModelError
from explorer.ir.rewriting import Fuel, RewriteOptions
from explorer.ir.rewriting.passes import KNOBS, run_pass
from explorer.ir.structure import index_operations
from explorer.ir.top.data import ConvertLayoutOp
from explorer.ir.types import layout_of
from explorer.kernels.passes import LowerToLoops, ScheduleLoops
from explorer.kernels.schedules import Machine
from explorer.memory.planning import MEMORY, PlanMemory, value_offsets
from explorer.passes.lower.assign_layouts import AssignLayouts
from explorer.passes.lower.join_in_place import JoinInPlace
from explorer.passes.lower.lower_to_kernels import LowerToKernels
from explorer.passes.lower.place_on_device import PlaceOnDevice
from explorer.results import MemoryPlan

programs = SimpleNamespace(**run_path(str(Path(__file__).parents[1] / "programs.py")))

PLAIN = "tensor<1x16x4x4xf32>"
BYTES = 16 * 4 * 4 * 4
"""Of a plain tensor."""


def conv(name: str, x: str, inside: int, outside: int, size: int = 3) -> str:
    pads = [size // 2] * 4
    return f"""
      %{name}_w = top.weight() {{weight = "{name}_w"}}
        : tensor<{outside}x{inside}x{size}x{size}xf32>
      %{name} = top.conv(%{x}, %{name}_w) {{strides = [1, 1], pads = {pads}, dilations = [1, 1],
        group = 1}} : tensor<1x{outside}x8x8xf32>"""


def unary(name: str, x: str, kind: str = "tanh", shape: str = PLAIN) -> str:
    return f"""
      %{name} = top.unary(%{x}) {{kind = "{kind}"}} : {shape}"""


def concat(name: str, pieces: str, shape: str, axis: int = 1) -> str:
    values = ", ".join(f"%{piece}" for piece in pieces.split())
    return f"""
      %{name} = top.concat({values}) {{axis = {axis}}} : {shape}"""


def cut(name: str, x: str, start: int, stop: int, size: int = 4) -> str:
    return f"""
      %{name} = top.slice(%{x}) {{starts = [0, {start}, 0, 0], stops = [1, {stop}, {size}, {size}],
        steps = [1, 1, 1, 1]}} : tensor<1x{stop - start}x{size}x{size}xf32>"""


def main(body: str, returned: str, types: str, x: str = PLAIN) -> str:
    values = ", ".join(f"%{value}" for value in returned.split())
    return f"func.func @main(%x : {x}) -> ({types}) {{{body}\n      top.return({values})\n}}"


class Joined:
    """The program after the pass, and its buffers; what runs computes what the model did."""

    def __init__(
        self, text: str, decisions: dict[str, object] | None = None, fuel: int | None = None
    ):
        working = programs.program(text)
        inputs = programs.random_inputs(working.snapshot)
        expected = working.snapshot.run(inputs)
        programs.run_passes(working, [PlaceOnDevice("cpu"), AssignLayouts(16)])
        options = RewriteOptions(decisions or {}, Fuel(fuel))
        self.result = run_pass(JoinInPlace(), working, options)
        self.snapshot = self.result.after
        rest = [
            LowerToKernels(),
            LowerToLoops(),
            ScheduleLoops(Machine(vector_floats=16, language="c")),
            PlanMemory(),
        ]
        results = programs.run_passes(working, rest)
        plan = results[-1].artifacts[MEMORY]
        assert isinstance(plan, MemoryPlan)
        self.plan = plan
        self.offsets = value_offsets(plan)
        actual = programs.run_binary(results, inputs)
        for name, array in expected.items():
            if name in actual:
                assert programs.max_relative(actual[name], array) <= 1e-5, name

    @property
    def in_place(self) -> list[str]:
        operations = self.snapshot.operations.items()
        return [name for name, op in operations if "in_place" in op.properties]

    @property
    def copied(self) -> list[str]:
        """The values that are copied into a concat."""
        copies = {
            name: op
            for name, op in self.snapshot.operations.items()
            if isinstance(op, ConvertLayoutOp) and name.startswith("copy")
        }
        return [index_operations(self.snapshot.walked)[name].operands[0] for name in copies]

    @property
    def declined(self) -> dict[str, str]:
        return {r.site: r.reason for r in self.result.rewrites if not r.applied}

    def inside(self, whole: str) -> dict[str, int]:
        """Bytes behind the beginning of a value, for all that lies in one buffer with it."""
        (buffer,) = [p.buffer for p in self.plan.placements if whole in p.buffer.values]
        return {v: self.offsets[v] - self.offsets[whole] for v in buffer.values}


FIRE = main(
    conv("s", "x", 16, 16, 1)
    + conv("a", "s", 16, 32, 1)
    + conv("b", "s", 16, 16)
    + concat("y", "a b", "tensor<1x48x8x8xf32>")
    + conv("z", "y", 48, 16, 1),
    "z",
    "tensor<1x16x8x8xf32>",
    "tensor<1x16x8x8xf32>",
)


def test_pieces_of_whole_blocks_are_computed_where_the_concat_has_them():
    joined = Joined(FIRE)
    assert joined.in_place == ["y"] and not joined.copied
    assert joined.inside("y") == {"y": 0, "a": 0, "b": 32 * 64 * 4}
    assert "y" not in joined.plan.steps


def test_a_chain_of_concats_is_one_buffer():
    text = main(
        unary("a", "x") + unary("b", "a") + concat("ab", "a b", "tensor<1x32x4x4xf32>")
        + unary("c", "ab", shape="tensor<1x32x4x4xf32>")
        + concat("abc", "ab c", "tensor<1x64x4x4xf32>")
        + unary("y", "abc", shape="tensor<1x64x4x4xf32>"),
        "y",
        "tensor<1x64x4x4xf32>",
    )  # fmt: skip
    joined = Joined(text)
    assert joined.in_place == ["ab", "abc"]
    assert joined.inside("abc") == {"abc": 0, "a": 0, "ab": 0, "b": BYTES, "c": 2 * BYTES}


def test_concats_that_begin_with_the_same_values_are_one_buffer():
    text = main(
        unary("a", "x") + unary("b", "a") + concat("ab", "a b", "tensor<1x32x4x4xf32>")
        + conv_like("c", "ab")
        + concat("abc", "a b c", "tensor<1x64x4x4xf32>")
        + unary("y", "abc", shape="tensor<1x64x4x4xf32>"),
        "y",
        "tensor<1x64x4x4xf32>",
    )  # fmt: skip
    joined = Joined(text)
    assert joined.in_place == ["ab", "abc"] and not joined.copied
    assert joined.inside("abc")["ab"] == 0


def conv_like(name: str, x: str) -> str:
    return unary(name, x, shape="tensor<1x32x4x4xf32>")


def test_a_value_at_the_end_of_one_concat_and_the_beginning_of_another_lies_in_both():
    text = main(
        unary("a", "x") + unary("b", "a", "neg") + unary("c", "a", "abs")
        + concat("ab", "a b", "tensor<1x32x4x4xf32>")
        + concat("ca", "c a", "tensor<1x32x4x4xf32>"),
        "ab ca",
        "tensor<1x32x4x4xf32>, tensor<1x32x4x4xf32>",
    )  # fmt: skip
    joined = Joined(text)
    assert joined.in_place == ["ab", "ca"] and not joined.copied
    assert joined.inside("ca") == {"ca": 0, "c": 0, "a": BYTES, "ab": BYTES, "b": 2 * BYTES}


def test_a_value_beside_which_another_one_lies_is_copied():
    text = main(
        unary("a", "x") + unary("b", "a", "neg") + unary("c", "a", "abs")
        + concat("ab", "a b", "tensor<1x32x4x4xf32>")
        + concat("ac", "a c", "tensor<1x32x4x4xf32>"),
        "ab ac",
        "tensor<1x32x4x4xf32>, tensor<1x32x4x4xf32>",
    )  # fmt: skip
    joined = Joined(text)
    assert joined.in_place == ["ab", "ac"] and joined.copied == ["a"]


def test_a_value_twice_in_a_concat_is_copied_for_the_second_place():
    text = main(
        unary("a", "x") + concat("y", "a a", "tensor<1x32x4x4xf32>"), "y", "tensor<1x32x4x4xf32>"
    )
    joined = Joined(text)
    assert joined.in_place == ["y"] and joined.copied == ["a"]


def test_an_input_and_a_constant_are_copied_into_their_places():
    text = main(
        '\n      %w = top.weight() {weight = "w"} : tensor<1x16x4x4xf32>'
        + unary("a", "x") + unary("b", "a", "neg")
        + concat("y", "x a w b", "tensor<1x64x4x4xf32>"),
        "y",
        "tensor<1x64x4x4xf32>",
    )  # fmt: skip
    joined = Joined(text)
    assert joined.in_place == ["y"] and len(joined.copied) == 2
    assert joined.inside("y")["a"] == BYTES and joined.inside("y")["b"] == 3 * BYTES


def test_a_concat_of_which_most_would_be_copied_stays():
    text = main(
        unary("a", "x", shape=PLAIN)
        + concat("y", "x x a", "tensor<1x48x4x4xf32>"),
        "y",
        "tensor<1x48x4x4xf32>",
    )  # fmt: skip
    joined = Joined(text)
    assert not joined.in_place
    assert joined.declined["y"].startswith("most of it would be copied all the same: an input has")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("shape", "axis", "joined_shape", "reason"),
    [
        ("1x16x4x4", 2, "1x16x8x4", "axis 2 is not the outermost one of more than one element"),
        ("2x16x4x4", 1, "2x32x4x4", "axis 1 is not the outermost one of more than one element"),
        ("1x3x4x4", 1, "1x6x4x4", ""),
        ("1x3x3x4", 1, "1x6x3x4", "it would begin at byte 144, no multiple of 64"),
        ("1x0x4x4", 1, "1x0x4x4", "a part is empty"),
    ],
)
def test_pieces_that_are_not_one_aligned_run_of_bytes_are_not_joined(
    shape, axis, joined_shape, reason
):
    kind, whole = f"tensor<{shape}xf32>", f"tensor<{joined_shape}xf32>"
    body = unary("a", "x", shape=kind) + unary("b", "x", "neg", kind)
    joined = Joined(main(body + concat("y", "a b", whole, axis), "y", whole, kind))
    assert joined.declined.get("y", "") == reason
    assert joined.in_place == ([] if reason else ["y"])


def test_pieces_get_the_padding_that_a_window_over_the_concat_reads():
    text = main(
        conv("a", "x", 16, 16, 1) + conv("b", "x", 16, 32)
        + concat("y", "a b", "tensor<1x48x8x8xf32>") + conv("z", "y", 48, 16),
        "z",
        "tensor<1x16x8x8xf32>",
        "tensor<1x16x8x8xf32>",
    )  # fmt: skip
    joined = Joined(text)
    assert joined.in_place == ["y"]
    operations = joined.snapshot.operations
    halos = {name: layout_of(operations[name].results[0]).halo for name in "aby"}
    assert set(halos.values()) == {(1, 1, 1, 1)}


def test_a_piece_whose_padding_would_make_the_concat_much_larger_is_copied():
    text = main(
        conv("a", "x", 16, 16, 1) + conv("b", "x", 16, 32) + conv("c", "a", 16, 16)
        + concat("y", "a b", "tensor<1x48x8x8xf32>") + conv("z", "y", 48, 16, 1),
        "z c",
        "tensor<1x16x8x8xf32>, tensor<1x16x8x8xf32>",
        "tensor<1x16x8x8xf32>",
    )  # fmt: skip
    joined = Joined(text)
    assert joined.in_place == ["y"] and joined.copied == ["a"]
    assert layout_of(joined.snapshot.operations["y"].results[0]).halo == (0, 0, 0, 0)


def test_slices_along_the_outermost_axis_are_views():
    text = main(
        unary("a", "x") + cut("s", "a", 0, 4) + cut("t", "a", 4, 16)
        + unary("u", "s", "neg", "tensor<1x4x4x4xf32>")
        + unary("v", "t", "neg", "tensor<1x12x4x4xf32>"),
        "u v",
        "tensor<1x4x4x4xf32>, tensor<1x12x4x4xf32>",
    )  # fmt: skip
    joined = Joined(text)
    assert joined.in_place == ["s", "t"]
    assert joined.inside("a") == {"a": 0, "s": 0, "t": 4 * 64}
    parts = [p.buffer.parts for p in joined.plan.placements if p.buffer.id == "a"]
    assert all(part.is_view for part in parts[0])


def test_slices_of_blocked_tensors_are_views_of_whole_blocks():
    text = main(
        conv("a", "x", 16, 32) + cut("s", "a", 16, 32, 8) + conv("y", "s", 16, 16, 1)
        + cut("t", "a", 8, 32, 8) + unary("u", "t", "neg", "tensor<1x24x8x8xf32>"),
        "y u",
        "tensor<1x16x8x8xf32>, tensor<1x24x8x8xf32>",
        "tensor<1x16x8x8xf32>",
    )  # fmt: skip
    joined = Joined(text)
    assert "s" in joined.in_place
    assert layout_of(joined.snapshot.operations["s"].results[0]).block == 16
    assert joined.inside("a")["s"] == 8 * 8 * 16 * 4


def test_a_slice_of_an_input_that_is_returned_is_a_copy():
    text = main(cut("s", "x", 0, 4), "s", "tensor<1x4x4x4xf32>")
    joined = Joined(text)
    assert not joined.in_place
    assert joined.declined["s"] == "what is returned or reshaped shares no memory with an input"


def test_a_slice_of_a_concat_lies_in_its_pieces():
    text = main(
        unary("a", "x") + unary("b", "x", "neg") + concat("y", "a b", "tensor<1x32x4x4xf32>")
        + cut("s", "y", 8, 24) + unary("z", "s"),
        "z y",
        "tensor<1x16x4x4xf32>, tensor<1x32x4x4xf32>",
    )  # fmt: skip
    joined = Joined(text)
    assert joined.in_place == ["y", "s"]
    assert joined.inside("y") == {"y": 0, "a": 0, "b": BYTES, "s": BYTES // 2}


def test_pieces_that_are_reshaped_lie_in_the_concat():
    text = main(
        unary("a", "x") + "\n      %f = top.reshape(%a) {shape = [1, 256]} : tensor<1x256xf32>"
        + "\n      %g = top.unary(%f) {kind = \"neg\"} : tensor<1x256xf32>"
        + "\n      %y = top.concat(%f, %g) {axis = 1} : tensor<1x512xf32>",
        "y",
        "tensor<1x512xf32>",
    )  # fmt: skip
    joined = Joined(text)
    assert joined.in_place == ["y"]
    assert joined.inside("y") == {"y": 0, "a": 0, "f": 0, "g": BYTES}


def test_a_decision_leaves_a_concat_alone():
    address = "join-in-place/concat/y"
    joined = Joined(FIRE, {address: False})
    assert not joined.in_place and "y" in joined.plan.steps
    knobs = joined.result.artifacts[KNOBS]
    assert isinstance(knobs, tuple)
    (knob,) = knobs
    assert (knob.address, knob.value, knob.choices) == (address, False, (True, False))
    assert not Joined(FIRE, {"join-in-place/concat": False}).in_place


def test_without_fuel_nothing_is_joined():
    assert Joined(FIRE, fuel=0).in_place == []
    assert Joined(FIRE, fuel=1).in_place == ["y"]


def test_a_concat_in_place_whose_pieces_cannot_lie_there_does_not_verify():
    text = main(
        unary("a", "x")
        + "\n      %y = top.concat(%a, %a) {axis = 2, in_place = true} : tensor<1x16x8x4xf32>",
        "y",
        "tensor<1x16x8x4xf32>",
    )
    with pytest.raises(ModelError, match=r"in place: axis 2 is not the outermost"):
        programs.program(text)


def test_values_of_a_concat_are_read_and_replaced_one_by_one():
    joined = Joined(FIRE)
    values = joined.snapshot.run(programs.random_inputs(programs.program(FIRE).snapshot))
    np.testing.assert_array_equal(np.concatenate([values["a"], values["b"]], 1), values["y"])
