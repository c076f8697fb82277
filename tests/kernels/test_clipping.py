"""Loops over rows end with the size at run time; tiles that cross the last row are whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects import affine
from xdsl.dialects.builtin import StringAttr

from explorer.ir.compute import KernelBuilder
from explorer.ir.structure import walk_inside
from explorer.ir.types import ELEMENT_TYPES
from explorer.kernels.loops.clipping import Clip, clip_kernel, clip_of, clip_text
from explorer.kernels.loops.lowering import lower_to_loops
from explorer.kernels.loops.nest import LoopNest, name_of
from explorer.kernels.loops.row_wise import SIZE
from explorer.kernels.printing.c import print_c
from explorer.kernels.printing.opencl import print_opencl
from explorer.kernels.steps.restructure import cut, split

F32 = ELEMENT_TYPES["float32"]


@pytest.fixture
def doubled():
    """y[n, c] = 2 x[n, c] for 8 rows of 5."""
    k = KernelBuilder("doubled")
    x, y = k.argument("x", (8, 5), F32, "input"), k.argument("y", (8, 5), F32, "output")
    n, c = k.dimensions(n=8, c=5)
    k.generic("plain", [(x, [n, c])], (y, [n, c]), lambda s, a: a + a)
    return lower_to_loops(k.finish("elementwise", {}))


def clips(function):
    loops = [op for op in walk_inside(function) if isinstance(op, affine.ForOp)]
    return {name_of(loop): clip_of(loop) for loop in loops if clip_of(loop) is not None}


def test_the_loop_over_rows_is_clipped_and_no_other(doubled):
    assert clip_kernel(doubled, (1, 1))
    assert clips(doubled) == {"n": Clip(1, 0, 1)}


def test_tiles_and_tails_know_which_rows_are_theirs(doubled):
    nest = LoopNest(doubled)
    cut(nest, "n", 6)
    split(nest, "n", "nt np", (3,))
    assert clip_kernel(doubled, (2, 2))
    assert clips(doubled) == {"nt": Clip(2, 0, 3), "n_tail": Clip(2, 6, 1)}


def test_a_result_without_rows_is_never_clipped(doubled):
    assert not clip_kernel(doubled, (1, 0))
    assert clips(doubled) == {}


def test_a_store_into_other_rows_keeps_a_loop_whole():
    k = KernelBuilder("flipped")
    x, y = k.argument("x", (8, 5), F32, "input"), k.argument("y", (8, 5), F32, "output")
    n, c = k.dimensions(n=8, c=5)
    k.generic("plain", [(x, [n, c])], (y, [n * -1 + 7, c]), lambda s, a: a + a)
    function = lower_to_loops(k.finish("elementwise", {}))
    assert not clip_kernel(function, (1, 1))


@given(st.integers(1, 6), st.integers(0, 40), st.integers(1, 9), st.integers(1, 12))
def test_no_row_of_the_size_is_left_out_and_the_text_says_the_same(times, minus, per, size):
    clip = Clip(times, minus, per)
    bound = clip.bound(size)
    # Iteration i stores the rows from per * i + minus on.
    assert per * bound + minus >= times * size
    assert bound <= 0 or per * (bound - 1) + minus < times * size
    text = clip_text(clip, "size").replace("/", "//")
    assert max(eval(text, {"size": size}), 0) == max(bound, 0)


@pytest.mark.parametrize("language", ["c", "opencl"])
def test_clipped_kernels_take_the_size_as_their_last_argument(doubled, language):
    doubled.attributes[SIZE] = StringAttr("batch")
    clip_kernel(doubled, (1, 1))
    printed = (print_c if language == "c" else print_opencl)(doubled, "doubled")
    text = "\n".join(printed.lines)
    assert printed.size == "batch"
    assert "long size_batch" in text
    assert "size_batch < 8 ? size_batch : 8" in text


def test_kernels_without_clipped_loops_take_no_size(doubled):
    doubled.attributes[SIZE] = StringAttr("batch")
    printed = print_c(doubled, "doubled")
    assert printed.size == ""
    assert "size_batch" not in "\n".join(printed.lines)
