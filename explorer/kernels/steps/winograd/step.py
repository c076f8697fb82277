"""Step winograd: a 3x3 convolution becomes transforms and fewer products.

    for n, o, i, j, c, p, q:  y[n,o,i,j] += x[n,c,i+p,j+q] * w[o,c,p,q]
    ->
    for task, n, band:                         a band is some rows of tiles of m x m outputs
      for c: for i, j: V[..] = BT d B          d: m + 2 inputs each way
      for ot:                                  a group of output channels
        for p, q: for ..: M[p,q,..] = 0
        for p, q, i, j, c, ov, oi: M[p,q,o,i,j] += V[p,q,c,i,j] * U[p,q,o,c]
        for ov, i, j: for k, l: y[n,o,m i + k,m j + l] += (AT M A)[k,l]

U = G w GT takes the place of the weights; the attribute `kernel.transforms` says so. V and M are
scratch of one band for each task, small enough for a cache. In the other order (`shared`) V is that
of whole images and made first, and tasks are groups of output channels.

`winograd_matrices.py` has BT, G, AT and the source, `winograd_nests.py` writes the loops.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import affine, arith, func
from xdsl.dialects.builtin import DictionaryAttr, StringAttr

from explorer.kernels.loops.nest import (
    LinearForm,
    LoopNest,
    accesses_in,
    element_name,
    extent_of,
    index_form,
    linear_subscripts,
    name_of,
    perfect_chain,
)
from explorer.kernels.steps.winograd.matrices import TAPS, VARIANTS
from explorer.kernels.steps.winograd.nests import (
    Convolution,
    Order,
    WinogradWriter,
    band_counts,
    is_exact,
)
from explorer.kernels.steps.winograd.open_plane import UnevenError, open_plane

TRANSFORMS = "kernel.transforms"
"""Attribute of a kernel: what the values of a weight argument go through before they are packed."""


def winograd(
    nest: LoopNest,
    outputs: int,
    band: int,
    bands: int,
    vectors: int,
    block: int,
    shared: int,
    parts: int = 1,
) -> None:
    """Replaces the main statement, a 3x3 convolution of stride 1, by F(outputs x outputs, 3x3).

    `band`: rows of tiles that are taken together, `bands` of them one after another by each task;
    `block`: channels per vector, `vectors` of them per group of output channels. `shared` 1: the
    input is transformed once for all groups, and every group is a task. `parts`: of each row of
    tiles, one after another with the scratch of one; not with `shared` 1, for tiles that cover the
    outputs just so, and bands that do.

    Illegal for other windows, strides and dilations, for anything but y + x * w of f32, and for
    channels that blocks and groups do not divide.
    """
    convolution = find_convolution(nest)
    if outputs not in VARIANTS:
        known = ", ".join(map(str, VARIANTS))
        raise nest.error("winograd", f"there are no tiles of {outputs} outputs, but of {known}")
    group = vectors * block
    if not group or convolution.channels % block or convolution.outputs % group:
        raise nest.error(
            "winograd",
            f"{block} and {group} do not divide the {convolution.channels} input and "
            f"{convolution.outputs} output channels",
        )
    rows = -(-convolution.height // outputs)
    if not 0 < band <= rows:
        raise nest.error("winograd", f"a band of {band} rows; there are {rows} rows of tiles")
    whole, _ = band_counts(convolution.height, outputs, band)
    if not 0 < bands <= max(whole, 1) or whole % bands:
        raise nest.error("winograd", f"{bands} bands per task do not divide the {whole} bands")
    if shared not in (0, 1):
        raise nest.error("winograd", f"shared is {shared}, expected 0 or 1")
    if not can_part(convolution, outputs, band, shared == 1, parts):
        raise nest.error("winograd", f"rows of tiles have no {parts} equal parts")
    order = Order(
        band=band,
        bands=bands,
        vectors=vectors,
        block=block,
        is_shared=shared == 1,
        parts=parts,
    )
    WinogradWriter(nest, convolution, VARIANTS[outputs], order).write()
    transforms = {convolution.weight: StringAttr(f"winograd{outputs}")}
    nest.function.attributes[TRANSFORMS] = DictionaryAttr(transforms)
    nest.changed()


def can_part(
    convolution: Convolution, outputs: int, band: int, is_shared: bool, parts: int
) -> bool:
    """Whether rows of tiles can be taken in so many parts; in one always."""
    if parts == 1:
        return True
    _, left = band_counts(convolution.height, outputs, band)
    columns = convolution.width // outputs
    is_whole = is_exact(convolution, outputs) and not left and not is_shared
    is_whole &= not convolution.plane.is_open
    return is_whole and parts > 0 and columns % parts == 0


def winograd_weights(function: func.FuncOp) -> dict[str, int]:
    """By name, the weight arguments that a kernel wants transformed, each with its m."""
    found = function.attributes.get(TRANSFORMS)
    if not isinstance(found, DictionaryAttr):
        return {}
    return {
        name: int(item.data.removeprefix("winograd"))
        for name, item in found.data.items()
        if isinstance(item, StringAttr)
    }


def find_convolution(nest: LoopNest) -> Convolution:
    """The main statement `y[n,o,i,j] += x[n,c,i+p,j+q] * w[o,c,p,q]`; a ScheduleError says why not.

    Constants in the subscripts of x and y are the halos of their buffers.
    """
    mains = nest.statements("main")
    if len(mains) != 1:
        raise nest.error("winograd", f"there are {len(mains)} main statements, not one")
    loops = {name_of(loop): loop for loop in perfect_chain(mains[0])}
    if set(loops) != set("noijcpq"):
        raise nest.error("winograd", f"its loops are {' '.join(loops)}, not n o i j c p q")
    extents = {name: extent_of(loop) for name, loop in loops.items()}
    if (extents["p"], extents["q"]) != (TAPS, TAPS):
        raise nest.error("winograd", f"its window is {extents['p']}x{extents['q']}, not 3x3")
    sums, source, weight, store = _accesses(nest, mains[0])
    index = {name: index_form(loop) for name, loop in loops.items()}
    try:
        forms = [linear_subscripts(a) for a in (source, weight, store, sums)]
    except ValueError as reason:
        raise nest.error("winograd", str(reason)) from reason
    source_start = tuple(form.constant for form in forms[0][2:4])
    result_start = tuple(form.constant for form in forms[2][2:4])
    rows = [index["i"], index["j"]]
    taps = [index["p"], index["q"]]
    result = [r + LinearForm({}, s) for r, s in zip(rows, result_start, strict=True)]
    read = [r + t + LinearForm({}, s) for r, t, s in zip(rows, taps, source_start, strict=True)]
    expected = [
        [index["n"], index["c"], *read],
        [index["o"], index["c"], *taps],
        [index["n"], index["o"], *result],
    ]
    if forms != [*expected, expected[2]]:
        raise nest.error("winograd", "its stride and dilation are not both 1")
    try:
        plane = open_plane(nest.function, store.memref, result_start)
    except UnevenError as reason:
        raise nest.error("winograd", str(reason)) from reason
    return Convolution(
        main=mains[0],
        source=source.memref,
        weight=nest.name_of_buffer(weight.memref),
        result=store.memref,
        images=extents["n"],
        outputs=extents["o"],
        height=extents["i"],
        width=extents["j"],
        channels=extents["c"],
        source_start=(source_start[0], source_start[1]),
        result_start=(result_start[0], result_start[1]),
        plane=plane,
    )


def _accesses(
    nest: LoopNest, main: affine.ForOp
) -> tuple[affine.LoadOp, affine.LoadOp, affine.LoadOp, affine.StoreOp]:
    """(load of y, of x, of w, store of y) of `y + x * w`."""
    accesses = accesses_in(main)
    loads = [a for a in accesses if isinstance(a, affine.LoadOp)]
    stores = [a for a in accesses if isinstance(a, affine.StoreOp)]
    if len(loads) != 3 or len(stores) != 1 or len(accesses) != 4:
        raise nest.error("winograd", "it is not one sum of products of two operands")
    if any(element_name(a.memref) != "f32" for a in accesses):
        raise nest.error("winograd", "its elements are not all f32")
    (store,) = stores
    sums = [a for a in loads if a.memref is store.memref]
    weights = [a for a in loads if nest.roles.get(nest.name_of_buffer(a.memref)) == "weight"]
    if len(sums) != 1 or len(weights) != 1 or not _is_sum(store, sums[0], loads):
        raise nest.error("winograd", "it is not y + x * w with one weight")
    weight = nest.name_of_buffer(weights[0].memref)
    if len(nest.accesses(weight)) != 1:
        raise nest.error("winograd", f"another statement reads {weight}")
    (source,) = [a for a in loads if a is not sums[0] and a is not weights[0]]
    if len(linear_subscripts(store)) != 4 or len(linear_subscripts(source)) != 4:
        raise nest.error("winograd", "its operands have not four dimensions each")
    return sums[0], source, weights[0], store


def _is_sum(store: affine.StoreOp, before: affine.LoadOp, loads: Sequence[affine.LoadOp]) -> bool:
    total = store.value.owner
    if not isinstance(total, arith.AddfOp) or before.result not in total.operands:
        return False
    others = [operand.owner for operand in total.operands if operand is not before.result]
    factors = {load.result for load in loads if load is not before}
    return (
        len(others) == 1
        and isinstance(others[0], arith.MulfOp)
        and set(others[0].operands) == factors
    )
