"""A dimension stays open where the program works row by row, and is refused by name elsewhere."""

import numpy as np
import pytest

from explorer.errors import InputError
from explorer.ir.evaluation import entry_function
from explorer.ir.inspection.printing import dump, parse
from explorer.ir.rewriting import RewriteOptions
from explorer.ir.rewriting.passes import run_pass
from explorer.ir.sizes.ranges import SizeRange, open_size
from explorer.passes.sizes.keep_range import KeepRange

BATCH = SizeRange("n", 1, 4)


def tensor(*shape, element="f32"):
    sizes = "".join("?x" if isinstance(d, str) else f"{d}x" for d in shape)
    names = ", ".join(f'"{d if isinstance(d, str) else ""}"' for d in shape)
    is_static = all(isinstance(d, int) for d in shape)
    encoding = "" if is_static else f", #top.encoding<dims = [{names}]>"
    return f"tensor<{sizes}{element}{encoding}>"


def program(shape, *lines):
    body = "\n".join(lines)
    return f"func.func @main(%x: {tensor(*shape)}) {{\n{body}\n  top.return(%y)\n}}"


ARRAYS = {
    "w": np.ones((8, 5), np.float32),
    "zero": np.array(0, np.int64),
    "one": np.array(1, np.int64),
    "eight": np.array([8], np.int64),
    "target": np.ones((1, 8), np.float32),
    "index": np.array([0, 2], np.int64),
    "picture": np.ones((1, 3, 8, 8), np.float32),
}


def kept(make_program, text, size=BATCH):
    result = run_pass(KeepRange(size), make_program(text, ARRAYS), RewriteOptions())
    return open_size(entry_function(result.after.program))


@pytest.mark.parametrize(
    ("shape", "lines", "rows"),
    [
        (("n", 8), [f'%y = top.unary(%x) {{kind = "relu"}} : {tensor("n", 8)}'], 1),
        (
            ("n", 8),
            [
                f'%w = top.weight() {{weight = "w"}} : {tensor(8, 5)}',
                f"%y = top.matmul(%x, %w) : {tensor('n', 5)}",
            ],
            1,
        ),
        (("n", 3, 8), [f"%y = top.reshape(%x) {{shape = [-1, 4]}} : {tensor('6*n', 4)}"], 6),
        (
            (1, "n", 8),
            [f"%y = top.transpose(%x) {{permutation = [1, 0, 2]}} : {tensor('n', 1, 8)}"],
            1,
        ),
        (
            ("n", 8),
            [f'%y = top.reduce(%x) {{kind = "sum", axes = [1], keepdims = false}} : {tensor("n")}'],
            1,
        ),
        (
            ("n", 8),
            [f"%y = top.slice(%x) {{starts = [0, 2], stops = [9223372036854775807, 6], "
             f"steps = [1, 1]}} : {tensor('n', 4)}"],
            1,
        ),
        (
            ("n", 8),
            [
                f'%i = top.weight() {{weight = "index"}} : {tensor(2, element="i64")}',
                f"%y = top.gather(%x, %i) {{axis = 1}} : {tensor('n', 2)}",
            ],
            1,
        ),
        # The size itself may say a shape ...
        (
            ("n", 8),
            [
                f"%s = top.shape(%x) {{start = 0, end = 2}} : {tensor(2, element='i64')}",
                f'%t = top.weight() {{weight = "target"}} : {tensor(1, 8)}',
                f"%y = top.expand(%t, target = %s) : {tensor('n', 8)}",
            ],
            1,
        ),
    ],
)  # fmt: skip
def test_what_works_row_by_row_stays_open(make_program, shape, lines, rows):
    found = kept(make_program, program(shape, *lines))
    assert found is not None
    assert (found.range, found.inputs, found.outputs) == (BATCH, (1,), (rows,))


@pytest.mark.parametrize(
    ("shape", "lines", "reason"),
    [
        (
            ("n", 8),
            [f'%y = top.reduce(%x) {{kind = "sum", axes = [0], keepdims = false}} : {tensor(8)}'],
            "top.reduce y: it mixes the elements of dimension 0",
        ),
        (
            ("n", 8),
            [f"%y = top.softmax(%x) {{axis = 0, logarithm = false}} : {tensor('n', 8)}"],
            "top.softmax y: it mixes the elements of dimension 0",
        ),
        (
            ("n", 8),
            [f"%y = top.transpose(%x) {{permutation = [1, 0]}} : {tensor(8, 'n')}"],
            r"top.transpose y: 'n' is dimension 1 of \(8, n\), not the first",
        ),
        ((8, "n"), [f'%y = top.unary(%x) {{kind = "relu"}} : {tensor(8, "n")}'], "input x: 'n' is"),
        (
            ("n", 8),
            [f"%y = top.reshape(%x) {{shape = [-1, 16]}} : {tensor('n//2', 16)}"],
            r"dimension 0 of \(n//2, 16\) is no multiple of n",
        ),
        (
            ("n", 8),
            [f"%y = top.concat(%x, %x) {{axis = 0}} : {tensor('2*n', 8)}"],
            "top.concat y: it joins along the rows",
        ),
        (
            ("n", 8),
            [f"%y = top.slice(%x) {{starts = [9223372036854775807, 0], stops = [-1, 8], "
             f"steps = [-1, 1]}} : {tensor('n', 8)}"],
            "top.slice y: it takes some of the rows",
        ),
        # Filters of a convolution, as many as the size says, are no rows of pictures.
        (
            ("n", 3, 3, 3),
            [
                f'%p = top.weight() {{weight = "picture"}} : {tensor(1, 3, 8, 8)}',
                f"%y = top.conv(%p, %x) {{pads = [0, 0, 0, 0], strides = [1, 1], "
                f"dilations = [1, 1], group = 1}} : {tensor(1, 'n', 6, 6)}",
            ],
            "top.conv y: its parameters depend on the size",
        ),
        # ... but not be a number among the model's own.
        (
            ("n", 8),
            [
                f"%s = top.shape(%x) {{start = 0, end = 1}} : {tensor(1, element='i64')}",
                f"%f = top.cast(%s) {{to = f32}} : {tensor(1)}",
                f'%y = top.binary(%x, %f) {{kind = "div"}} : {tensor("n", 8)}',
            ],
            "top.binary y: it computes with the number 'n' itself",
        ),
        (
            ("n", 8),
            [f"%y = top.shape(%x) {{start = 0, end = 1}} : {tensor(1, element='i64')}"],
            "an output is the size itself",
        ),
    ],
)  # fmt: skip
def test_what_needs_all_rows_is_refused_with_its_reason(make_program, shape, lines, reason):
    with pytest.raises(InputError, match=reason) as caught:
        kept(make_program, program(shape, *lines))
    assert (
        caught.value.hint == "give one size: --dim n=1; a session compiles for each size that comes"
    )


def test_a_range_must_meet_the_constraints(make_program):
    text = program(("n", 8), f'%y = top.unary(%x) {{kind = "relu"}} : {tensor("n", 8)}')
    constraint = '#top.constraint<"at most", "n", "3", "take", []>'
    text = text.replace(") {\n", f") attributes {{constraints = [{constraint}]}} {{\n", 1)
    with pytest.raises(InputError, match="the range holds n = 4, but the model needs n <= 3"):
        kept(make_program, text)
    assert kept(make_program, text, SizeRange("n", 1, 3)) is not None


def test_the_range_survives_text(make_program):
    text = program(("n", 8), f'%y = top.unary(%x) {{kind = "relu"}} : {tensor("n", 8)}')
    result = run_pass(KeepRange(BATCH), make_program(text), RewriteOptions())
    again = entry_function(parse(dump(result.after.module)))
    assert open_size(again) == open_size(entry_function(result.after.program))
