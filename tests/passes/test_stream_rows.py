"""Chains in bands of rows: which rows each band computes, and that no number changes."""

from __future__ import annotations

import re
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import onnx.parser
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer
from explorer.compilation.fitting.chains import counts
from explorer.errors import InputError
from explorer.importers.onnx.file.reading import from_proto
from explorer.ir.rewriting import RewriteOptions
from explorer.ir.rewriting.passes import KNOBS, PassResult, run_pass
from explorer.ir.structure import own_functions
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.movement.concat import ConcatOp
from explorer.ir.types import layout_of
from explorer.passes.lower.assign_layouts import AssignLayouts
from explorer.passes.lower.bands import NotInBands, bands_of, chain_bytes, chain_of, rows_read
from explorer.passes.lower.place_on_device import PlaceOnDevice
from explorer.passes.lower.stream_rows import StreamRows, chain_between, spatial_operations

programs = SimpleNamespace(**run_path(str(Path(__file__).parents[1] / "programs.py")))


def conv(name: str, x: str, rows: tuple[int, int], kernel=3, stride=1, pad=(1, 1)) -> str:
    """A convolution of 4 channels over `rows` (before, after) x 5 pixels, which pads columns."""
    columns = f"[{pad[0]}, {kernel // 2}, {pad[1]}, {kernel // 2}]"
    return f"""
      %{name}_w = top.weight() {{weight = "{name}_w"}} : tensor<4x4x{kernel}x{kernel}xf32>
      %{name} = top.conv(%{x}, %{name}_w) {{strides = [{stride}, 1], pads = {columns},
        dilations = [1, 1], group = 1}} : tensor<1x4x{rows[1]}x5xf32>"""


def main(body: str, rows: tuple[int, int], result: str = "y") -> str:
    types = [f"tensor<1x4x{size}x5xf32>" for size in rows]
    return f"""func.func @main(%x : {types[0]}) -> ({types[1]}) {{{body}
      top.return(%{result})\n}}"""


def take(name: str, x: str, rows: int, taps: int = 1) -> str:
    """As many rows as `rows` says, by the table `NAME_t`, of several weighted by `NAME_f`."""
    after = f"tensor<1x4x{rows}x5xf32>"
    if taps == 1:
        return f"""
      %{name}_t = top.weight() {{weight = "{name}_t"}} : tensor<{rows}xi64>
      %{name} = top.gather(%{x}, %{name}_t) {{axis = 2}} : {after}"""
    return f"""
      %{name}_t = top.weight() {{weight = "{name}_t"}} : tensor<{rows}x{taps}xi64>
      %{name}_f = top.weight() {{weight = "{name}_f"}} : tensor<{rows}x{taps}xf32>
      %{name} = top.interpolate(%{x}, %{name}_t, %{name}_f) {{axis = 2}} : {after}"""


def placed(text: str, block: int = 0, arrays: dict[str, np.ndarray] | None = None):
    working = programs.program(text, arrays)
    programs.run_passes(working, [PlaceOnDevice("cpu"), AssignLayouts(block)])
    return working


def streamed(
    text: str,
    decisions: dict[str, object],
    block: int = 0,
    alignment: int = 1,
    arrays: dict[str, np.ndarray] | None = None,
):
    """The pass's result, checked by the interpreter to compute what the program did before."""
    working = placed(text, block, arrays)
    inputs = programs.random_inputs(working.snapshot)
    before = working.snapshot.run(inputs)
    result = run_pass(StreamRows(alignment), working, RewriteOptions(decisions))
    after = result.after.run(inputs)
    for name in before.keys() & after.keys():
        np.testing.assert_array_equal(after[name], before[name], name)
    return result


def rows_of_convs(result: PassResult) -> list[int]:
    (function,) = own_functions(result.after.program)
    return [
        op.output.type.get_shape()[2] for op in function.body.block.ops if isinstance(op, ConvOp)
    ]


CHAIN = main(conv("a", "x", (12, 12)) + conv("y", "a", (12, 12)), (12, 12))

PADDED = main(conv("a", "x", (12, 12)) + conv("y", "a", (12, 14), pad=(0, 4)), (12, 14))


def test_rolling_bands_compute_every_row_once():
    result = streamed(CHAIN, {"stream-rows/chain/y": "a:3:roll"})
    # The first conv is one row ahead; its share is 4 rows, so that a last band drains the chain.
    assert rows_of_convs(result) == [4, 3, 4, 4, 4, 4, 1]
    (event,) = result.rewrites
    assert event.applied and "4 bands" not in event.reason


def test_recomputing_bands_need_no_copies_and_more_rows():
    result = streamed(CHAIN, {"stream-rows/chain/y": "a:3:recompute"})
    assert rows_of_convs(result) == [5, 4, 6, 4, 5, 4]
    assert str(result.after.program).count("convert_layout") == 1  # the halo of the input


def test_bands_lie_in_the_buffer_of_the_whole_and_have_its_edges():
    text = main(conv("a", "x", (8, 8)) + conv("b", "a", (8, 8)) + conv("y", "b", (8, 8)), (8, 8))
    result = streamed(text, {"stream-rows/chain/b": "a:2:recompute"})
    (function,) = own_functions(result.after.program)
    concat = next(op for op in function.body.block.ops if isinstance(op, ConcatOp))
    halos = [(layout_of(o).halo, layout_of(o).pitch) for o in concat.operands]
    assert halos == [((1, 1, 0, 1), 10), ((0, 1, 1, 1), 10)]
    row_bytes = (5 + 2) * 4
    assert [part.offset_bytes for part in concat.parts()] == [0, 5 * row_bytes]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("block", [0, 4])
@pytest.mark.parametrize("halo", ["roll", "recompute"])
@pytest.mark.parametrize("count", [2, 3, 7])
def test_a_residual_block_with_strides_keeps_its_numbers(block: int, halo: str, count: int):
    body = (
        conv("a", "x", (15, 15))
        + conv("b", "a", (15, 15), kernel=1, pad=(0, 0))
        + """
      %s = top.binary(%b, %a) {kind = "add"} : tensor<1x4x15x5xf32>"""
        + conv("c", "s", (15, 7), stride=2, pad=(0, 0))
        + conv("y", "c", (7, 7), kernel=5, pad=(2, 2))
    )
    streamed(main(body, (15, 7)), {"stream-rows/chain/y": f"a:{count}:{halo}"}, block)


TABLES = {
    "nearest": [[i // 2] for i in range(16)],
    "from the end": [[i // 2 - 8] for i in range(16)],
    "cropped": [[i + 3] for i in range(4)],
    "upside down": [[7 - i] for i in range(8)],
    "out of order": [[i] for i in (2, 0, 1, 1, 7, 3, 4, 7, 7, 6, 5)],
    "linear": [[max(0, (i - 1) // 2), min(7, (i + 1) // 2)] for i in range(16)],
    "far apart": [[i, 7 - i, 3] for i in range(8)],
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("halo", ["roll", "recompute"])
@pytest.mark.parametrize("name", TABLES)
def test_rows_that_a_table_names_keep_their_numbers(name: str, halo: str):
    table = np.array(TABLES[name], np.int64)
    after, taps = table.shape
    body = conv("a", "x", (8, 8)) + take("t", "a", after, taps) + conv("y", "t", (after, after))
    arrays = {"t_t": table if taps > 1 else table[:, 0], "t_f": np.float32(table + 1) / 8}
    for count in counts(after):
        decisions: dict[str, object] = {"stream-rows/chain/y": f"a:{count}:{halo}"}
        streamed(main(body, (8, after)), decisions, arrays=arrays)


def test_rows_that_a_run_names_are_in_no_chain():
    body = (
        """
      %i = top.cast(%n) {to = i64} : tensor<8xi64>"""
        + conv("a", "x", (8, 8))
        + """
      %y = top.gather(%a, %i) {axis = 2} : tensor<1x4x8x5xf32>"""
    )
    text = main(body, (8, 8)).replace("(%x :", "(%n : tensor<8xf32>, %x :")
    with pytest.raises(InputError, match="takes rows that a run names"):
        streamed(text, {"stream-rows/chain/y": "a:2:roll"})


@pytest.mark.parametrize("taps", [1, 2])
def test_a_table_of_no_rows_is_in_no_chain(taps: int):
    text = main(conv("a", "x", (8, 8)) + take("y", "a", 0, taps), (8, 0))
    arrays = {"y_t": np.zeros((0, taps)[:taps], np.int64), "y_f": np.zeros((0, taps), np.float32)}
    assert not streamed(text, {}, arrays=arrays).rewrites
    with pytest.raises(InputError, match="y takes no rows"):
        streamed(text, {"stream-rows/chain/y": "a:2:roll"}, arrays=arrays)


@st.composite
def chains(draw: st.DrawFn):
    """Text of a chain of random convolutions and selections of rows; its last rows; its tables."""
    rows, body, value = draw(st.integers(6, 24)), "", "x"
    first, arrays = rows, {}
    for number in range(draw(st.integers(2, 4))):
        if number and draw(st.booleans()):
            name, after = f"v{number}", draw(st.integers(2, 30))
            table = draw(st.lists(st.integers(-rows, rows - 1), min_size=after, max_size=after))
            table = sorted(table) if draw(st.booleans()) else table
            arrays[f"{name}_t"] = np.array(table, np.int64)
            body, value, rows = body + take(name, value, after), name, after
            continue
        kernel = draw(st.sampled_from([1, 2, 3, 5]))
        stride = draw(st.integers(1, 3))
        pad = draw(st.integers(0, kernel // 2)), draw(st.integers(0, kernel // 2))
        after = (rows + sum(pad) - kernel) // stride + 1
        if after < 2:
            break
        name = f"v{number}"
        columns = [draw(st.just(0)), 0]
        columns = [(kernel - 1) // 2, kernel // 2]
        body += f"""
      %{name}_w = top.weight() {{weight = "{name}_w"}} : tensor<4x4x{kernel}x{kernel}xf32>
      %{name} = top.conv(%{value}, %{name}_w) {{strides = [{stride}, 1],
        pads = [{pad[0]}, {columns[0]}, {pad[1]}, {columns[1]}],
        dilations = [1, 1], group = 1}} : tensor<1x4x{after}x5xf32>"""
        value, rows = name, after
    return main(body, (first, rows), value), value, arrays


@settings(max_examples=25, deadline=None)
@given(chains(), st.integers(2, 6), st.sampled_from(["roll", "recompute"]))
def test_every_row_is_computed_and_what_is_read_is_there(drawn, count: int, halo):
    text, last, arrays = drawn
    if last == "x":
        return
    working = placed(text, arrays=arrays)
    (function,) = own_functions(working.module)
    operations = spatial_operations(function)
    names = [op.results[0].name_hint for op in operations if op.results]
    begin = next(i for i, op in enumerate(operations) if isinstance(op, ConvOp))
    chain = chain_of(operations[begin : names.index(last) + 1], working.weights)
    try:
        bands = bands_of(chain, count, halo)
    except NotInBands:
        return
    held = [(0, 0)] * len(chain.operations)
    computed: list[set[int]] = [set() for _ in chain.operations]
    for band in bands:
        for index, own in enumerate(band):
            if own.is_empty:
                continue
            op = chain.operations[index]
            for operand, reach in zip(op.operands, chain.reaches[index], strict=True):
                rows = rows_read(op, operand, reach, own.new)
                made = [i for i, o in enumerate(chain.operations) if o.results[0] is operand]
                if rows is not None and made:
                    assert held[made[0]][0] <= rows[0] and rows[1] <= held[made[0]][1]
            new = set(range(*own.new))
            if halo == "roll":
                assert not computed[index] & new
                assert own.kept[0] == own.new[0] or held[index][1] == own.new[0]
            computed[index] |= new
            held[index] = own.kept
    assert computed[-1] == set(range(chain.rows))
    assert (chain_bytes(chain, bands) > 0) is (len(chain.operations) > 1)


def test_what_is_no_chain_is_refused_with_the_reason():
    twice = conv("a", "x", (8, 8)) + conv("b", "a", (8, 8)) + conv("y", "b", (8, 8))
    read_outside = twice.replace("%y = top.conv(%b", "%y = top.conv(%a")
    for text, value, reason in (
        (CHAIN, "a:40:roll", "12 rows make no 40 bands"),
        (CHAIN, "a:1:roll", "12 rows make no 1 bands"),
        (CHAIN, "q:2:roll", "q is no operation before y"),
        (CHAIN, "a:2", "FIRST:BANDS"),
        (CHAIN, True, "FIRST:BANDS"),
        (CHAIN, "a:two:roll", "FIRST:BANDS"),
        (main(read_outside, (8, 8)), "a:2:roll", "a is read outside"),
        (PADDED, "a:7:roll", "a band of y reads padding only"),
        (PADDED, "a:7:recompute", "a band of y reads padding only"),
    ):
        address = "stream-rows/chain/b" if "outside" in reason else "stream-rows/chain/y"
        with pytest.raises(InputError) as refused:
            streamed(text, {address: value})
        assert reason in f"{refused.value} {refused.value.hint}"


def test_bands_that_would_begin_between_aligned_bytes_are_refused():
    with pytest.raises(InputError, match=r"a row of \d+ bytes is no multiple of 64"):
        streamed(CHAIN, {"stream-rows/chain/y": "a:2:roll"}, alignment=64)
    streamed(CHAIN, {"stream-rows/chain/y": "a:2:roll"}, alignment=4)


def test_what_may_run_in_bands_is_a_knob_and_nothing_changes_by_itself():
    result = streamed(CHAIN, {})
    assert not result.changed
    knobs = result.artifacts[KNOBS]
    assert isinstance(knobs, tuple)
    found = [(k.address, k.value) for k in knobs]
    assert found == [("stream-rows/chain/a", ""), ("stream-rows/chain/y", "")]


def test_a_layout_with_a_pitch_is_read_back_from_text():
    result = streamed(CHAIN, {"stream-rows/chain/y": "a:3:roll"})
    pitched = re.findall(r"tensor<[^>]*pitch = [^>]*>>", result.after.dump())
    assert pitched
    for text in set(pitched):
        body = "top.return(%x)"
        again = programs.program(f"func.func @main(%x : {text}) -> ({text}) {{ {body} }}")
        assert again.snapshot.dump().count(text) >= 2


MODEL = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
  net (float[1, 3, 21, 14] x) => (float[1, 6, 10, 6] y)
{
    a = Conv<pads = [1, 1, 1, 1]>(x, w1, b)
    r = Relu(a)
    d = Conv<pads = [1, 1, 1, 1], group = 6>(r, w2)
    p = Conv(d, w3)
    s = Add(p, r)
    y = MaxPool<kernel_shape = [3, 3], strides = [2, 2]>(s)
  }""")


def model():
    """A residual block with an input of 14 columns, and a pool."""
    rng, proto = np.random.default_rng(5), onnx.ModelProto()
    proto.CopyFrom(MODEL)
    shapes = {"w1": (6, 3, 3, 3), "w2": (6, 1, 3, 3), "w3": (6, 6, 1, 1), "b": (6,)}
    for name, shape in shapes.items():
        array = rng.standard_normal(shape).astype(np.float32)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return from_proto(proto)


@pytest.fixture(scope="module", params=["cpu", "opencl"])
def compiled(request: pytest.FixtureRequest):
    return explorer.compile(model(), request.param)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("halo", ["roll", "recompute"])
def test_compiled_bands_are_equal_to_the_whole(compiled, halo: str):
    c = compiled
    knobs = [k.address for k in c.knobs if k.address.startswith("stream-rows/chain/")]
    last = knobs[-1].rsplit("/", 1)[1]
    first = c["stream-rows"].after.operations
    conv1 = next(name for name, op in first.items() if isinstance(op, ConvOp))
    d = c.fork(decisions={f"stream-rows/chain/{last}": f"{conv1}:4:{halo}"})
    inputs = c.example_inputs()
    found, wanted = d.run(inputs), c.run(inputs)
    np.testing.assert_array_equal(found["y"], wanted["y"])
    assert d.memory.peak_bytes < c.memory.peak_bytes
    assert d.accuracy(inputs, golden={}).passed
    parts = [p for placed in d.memory.placements for p in placed.buffer.parts]
    assert any(part.pitch_bytes for part in parts)


def test_a_chain_between_two_operations_is_found_by_name():
    working = placed(CHAIN)
    (function,) = own_functions(working.module)
    last = spatial_operations(function)[-2]
    chain = chain_between(function, "a", last, working.weights)
    assert [op.results[0].name_hint for op in chain.operations] == ["a", "y"]
