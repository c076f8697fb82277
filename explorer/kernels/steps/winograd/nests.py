"""The loop nests of a Winograd convolution: transforms of tiles around a product per point.

    for c: for i, j:   half = BT d, transformed[p,q,c,i,j] = half B        d: tile i, j of the input
    for p, q:          product[p,q] = transformed[p,q] * weights[p,q]      a product of matrices
    for ov: for i, j:  half = AT product, tile = half A, y += tile         m x m outputs

Loops over channels are innermost, so that they can become vectors. Where whole tiles do not cover
the outputs just so, the input is copied into a larger scratch buffer, with zeros around, and the
outputs are made in one of which a copy takes what exists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects import affine, arith, memref
from xdsl.dialects.builtin import ArrayAttr, Float32Type, FloatAttr, MemRefType, StringAttr
from xdsl.ir import Block, Operation, SSAValue

from explorer.ir.scalars import Scalar
from explorer.kernels.loops.nest import (
    LinearForm,
    LoopNest,
    index_form,
    make_load,
    make_store,
    nest_loops,
    new_loop,
)
from explorer.kernels.steps.registers import ALIGNMENT_BYTES
from explorer.kernels.steps.winograd.matrices import TAPS, Matrix, Winograd, multiply
from explorer.kernels.steps.winograd.open_plane import Extents, OpenPlane, declare_extents

INPUT = "transformed"
PRODUCT = "product"
PADDED = "padded"
UNCUT = "uncut"
"""Names of the scratch buffers."""

HALO = TAPS - 1
"""Rows of input that neighbouring tiles share."""

Forms = Sequence[LinearForm]


@dataclass(frozen=True, kw_only=True)
class Convolution:
    """What a main statement of stride 1 is made of."""

    main: affine.ForOp
    source: SSAValue
    weight: str
    result: SSAValue
    images: int
    outputs: int
    height: int
    width: int
    channels: int
    source_start: tuple[int, int]
    """Row and column of the source that the first output begins at."""
    result_start: tuple[int, int]
    plane: OpenPlane
    """The outputs that a call needs."""


@dataclass(frozen=True)
class Order:
    """How the tiles of a convolution are gone through."""

    band: int
    """Rows of tiles that are taken together."""
    bands: int
    """How many bands a task takes, one after another."""
    vectors: int
    """Vectors per group of output channels."""
    block: int
    """Channels per vector."""
    is_shared: bool
    """Whether the input is transformed once, for groups of channels as tasks."""
    parts: int = 1
    """Parts of each row of tiles that are taken one after another, with the scratch of one."""

    @property
    def group(self) -> int:
        return self.vectors * self.block


@dataclass(frozen=True, kw_only=True)
class Band:
    """Some rows of tiles, and where in the scratch buffers they lie."""

    image: LinearForm
    first: LinearForm
    """The first row of tiles."""
    rows: int
    height: int
    """Rows of outputs: fewer than those of the tiles at the end of an image."""
    slot: LinearForm
    """First subscript of the scratch buffers of the input, and of the products without `groups`."""
    scratch_first: LinearForm
    """The row of tiles at which it begins in the scratch of the input."""
    suffix: str
    column: LinearForm
    """The first column of tiles."""


def band_counts(height: int, outputs: int, band: int) -> tuple[int, int]:
    """(bands of whole tiles, rows of tiles that are left) of `height` outputs."""
    whole = height // outputs // band
    return whole, -(-height // outputs) - whole * band


def is_exact(convolution: Convolution, outputs: int) -> bool:
    """Whether tiles cover the outputs just so."""
    return convolution.height % outputs == convolution.width % outputs == 0


class WinogradWriter:
    """Writes the nests in place of the main statement, to which they all belong."""

    def __init__(self, nest: LoopNest, convolution: Convolution, form: Winograd, order: Order):
        self.nest = nest
        self.convolution = convolution
        self.form = form
        self.order = order
        self.whole, self.left = band_counts(convolution.height, form.outputs, order.band)
        self.columns = -(-convolution.width // form.outputs) // order.parts
        self.groups = convolution.outputs // order.group
        self.weight = nest.buffers[convolution.weight]
        self._make_scratch()

    def _make_scratch(self) -> None:
        convolution, order, points = self.convolution, self.order, self.form.points
        rows = self.whole * order.band + self.left
        height = order.band if self.whole else self.left
        slots = self.whole // order.bands + bool(self.left)
        source_slots, source_rows, product_slots, uncut_rows = slots, height, slots, height
        if order.is_shared:
            source_slots, source_rows = convolution.images, rows
            product_slots, uncut_rows = self.groups, rows
        tile = (points, points)
        plane, m = convolution.plane, self.form.outputs
        self.source = self._scratch(
            INPUT,
            (source_slots, *tile, convolution.channels, source_rows, self.columns),
            plane.tiles(m),
            source_rows == rows,
        )
        self.product = self._scratch(
            PRODUCT,
            (product_slots, *tile, order.group, height, self.columns),
            plane.tiles(m),
            height == rows,
        )
        self.padded = self.uncut = None
        is_cut = not is_exact(convolution, m)
        if is_cut or plane.is_open:
            extents = (m * source_rows + HALO, m * self.columns + HALO)
            self.padded = self._scratch(
                PADDED,
                (source_slots, convolution.channels, *extents),
                plane.elements(HALO + m - 1),
                source_rows == rows,
            )
        if is_cut:
            extents = (m * uncut_rows, m * self.columns)
            self.uncut = self._scratch(
                UNCUT,
                (product_slots, order.group, *extents),
                plane.elements(0),
                uncut_rows == rows,
            )

    def write(self) -> None:
        convolution, points = self.convolution, self.form.points
        tops = self._shared_input() if self.order.is_shared else self._tasks()
        self.nest.block.insert_ops_before(tops, convolution.main)
        self.nest.block.erase_op(convolution.main)
        shape = (points, points, convolution.outputs, convolution.channels)
        self.nest.retype(convolution.weight, MemRefType(Float32Type(), list(shape)))

    # -- the two orders --------------------------------------------------------------------------
    def _tasks(self) -> list[Operation]:
        """Every task transforms the input of its bands, multiplies, and transforms back."""
        order, images = self.order, self.convolution.images
        zero = LinearForm()
        tops: list[Operation] = []
        tasks = self.whole // order.bands
        if self.whole:
            task, image = self._loop(tasks, "task"), self._loop(images, "n")
            number, part = self._loop(order.bands, "band"), self._loop(order.parts, "part")
            first = index_form(task).scaled(order.bands * order.band)
            first = first + index_form(number).scaled(order.band)
            band = self._band(image, first, order.band, index_form(task), zero, "")
            loops = [task, image, number]
            if order.parts > 1:
                band = replace(band, column=index_form(part).scaled(self.columns))
                loops.append(part)
            tops.append(nest_loops(loops, self._whole_band(band)))
        if self.left:
            suffix = "_tail" if self.whole else ""
            image = self._loop(images, f"n{suffix}")
            first = LinearForm({}, self.whole * order.band)
            band = self._band(image, first, self.left, LinearForm({}, tasks), zero, suffix)
            tops.append(nest_loops([image], self._whole_band(band)))
        return tops

    def _whole_band(self, band: Band) -> list[Operation]:
        group = self._loop(self.groups, f"ot{band.suffix}")
        number, zero = index_form(group), LinearForm()
        inside = [*self._products(band, band.slot, number)]
        inside += [
            self._outputs(band, band.slot, number, zero),
            *self._cut(band, band.slot, number),
        ]
        nest_loops([group], inside)
        return [self._inputs(band), group]

    def _shared_input(self) -> list[Operation]:
        """The input of whole images first; then every group of output channels is a task."""
        convolution, order = self.convolution, self.order
        zero = LinearForm()
        image = self._loop(convolution.images, "in_n")
        rows = self.whole * order.band + self.left
        inputs = self._inputs(self._band(image, zero, rows, index_form(image), zero, ""))
        tops: list[Operation] = [nest_loops([image], [inputs])]
        group, image = self._loop(self.groups, "ot"), self._loop(convolution.images, "n")
        number, slot = index_form(group), index_form(image)
        inside: list[Operation] = []
        if self.whole:
            loop = self._loop(self.whole, "band")
            first = index_form(loop).scaled(order.band)
            band = self._band(image, first, order.band, slot, first, "")
            products = self._products(band, number, number)
            inside.append(
                nest_loops([loop], [*products, self._outputs(band, number, number, first)])
            )
        if self.left:
            first = LinearForm({}, self.whole * order.band)
            suffix = "_tail" if self.whole else ""
            band = self._band(image, first, self.left, slot, first, suffix)
            inside += [*self._products(band, number, number)]
            inside.append(self._outputs(band, number, number, first))
        inside += self._cut(self._band(image, zero, rows, slot, zero, ""), number, number)
        return [*tops, nest_loops([group, image], inside)]

    def _band(
        self,
        image: affine.ForOp,
        first: LinearForm,
        rows: int,
        slot: LinearForm,
        scratch_first: LinearForm,
        suffix: str,
    ) -> Band:
        height = rows * self.form.outputs
        if not first.terms:
            height = min(height, self.convolution.height - first.constant * self.form.outputs)
        return Band(
            image=index_form(image),
            first=first,
            rows=rows,
            height=height,
            slot=slot,
            scratch_first=scratch_first,
            suffix=suffix,
            column=LinearForm(),
        )

    # -- the stages ------------------------------------------------------------------------------
    def _inputs(self, band: Band) -> affine.ForOp:
        """transformed[slot, p, q, c, i, j] = BT d B, one block of channels after another."""
        blocks = self._loop(self.convolution.channels // self.order.block, "in_c")
        channel = index_form(blocks).scaled(self.order.block)
        i, j = self._loop(band.rows, "in_i"), self._loop(self.columns, "in_j")
        row, column = index_form(i), index_form(j)
        tiles = nest_loops([i, j], self._input_tile(band, channel, row, column))
        return nest_loops([blocks], [*self._pad(band, channel), tiles])

    def _pad(self, band: Band, channel: LinearForm) -> list[Operation]:
        """The band's rows with zeros to the right and below, where tiles reach over the image."""
        if self.padded is None:
            return []
        convolution, m, block = self.convolution, self.form.outputs, self.order.block
        padded = self.padded
        rows, columns = m * band.rows + HALO, m * self.columns + HALO
        height, width = band.height + HALO, convolution.width + HALO
        start = convolution.source_start
        top = band.first.scaled(m) + LinearForm({}, start[0])
        left = LinearForm({}, start[1])

        def copy(i: LinearForm, j: LinearForm, lane: LinearForm) -> list[Operation]:
            at = [band.image, channel + lane, top + i, left + j]
            value = make_load(convolution.source, at, convolution.main)
            target = [band.slot, channel + lane, i, j]
            return [value, self._store(value.result, padded, target)]

        def copy_inside(i: LinearForm, j: LinearForm) -> list[Operation]:
            """Zeros for what is beyond the sizes of a call."""
            place = [band.first.scaled(m) + i, j]
            function, like = self.nest.function, convolution.main
            test, is_inside = convolution.plane.is_inside(function, place, HALO, like)
            lanes = self._loop(block, "pad_lane")
            value, store = copy(i, j, index_form(lanes))
            zero = arith.ConstantOp(FloatAttr(0.0, Float32Type()))
            chosen = arith.SelectOp(is_inside, value.results[0], zero.result)
            store.operands[0] = chosen.result
            return [*test, nest_loops([lanes], [value, zero, chosen, store])]

        def zeros(first_row: int, first_column: int, count: int, length: int) -> affine.ForOp:
            def clear(i: LinearForm, j: LinearForm, lane: LinearForm) -> list[Operation]:
                place = [i + LinearForm({}, first_row), j + LinearForm({}, first_column)]
                constant = arith.ConstantOp(FloatAttr(0.0, Float32Type()))
                target = [band.slot, channel + lane, *place]
                return [constant, self._store(constant.result, padded, target)]

            return self._nest({"zero_i": count, "zero_j": length, "pad_lane": block}, clear)

        extents = {"pad_i": height, "pad_j": width}
        tops: list[Operation] = [
            self._nest(extents, copy_inside)
            if convolution.plane.is_open
            else self._nest({**extents, "pad_lane": block}, copy)
        ]
        if width < columns:
            tops.append(zeros(0, width, height, columns - width))
        if height < rows:
            tops.append(zeros(height, 0, rows - height, columns))
        return tops

    def _input_tile(
        self, band: Band, channel: LinearForm, row: LinearForm, column: LinearForm
    ) -> list[Operation]:
        m, points, block = self.form.outputs, self.form.points, self.order.block
        half = self._array("half", points, points)
        if self.padded is not None:
            source, image, top, left = self.padded, band.slot, row.scaled(m), column.scaled(m)
        else:
            start = self.convolution.source_start
            source, image = self.convolution.source, band.image
            top = (band.first + row).scaled(m) + LinearForm({}, start[0])
            left = (band.column + column).scaled(m) + LinearForm({}, start[1])

        def column_of(q: LinearForm, lane: LinearForm) -> list[Operation]:
            return self._apply(
                self.form.input_matrix,
                source,
                [[image, channel + lane, top + LinearForm({}, p), left + q] for p in range(points)],
                half.memref,
                [[LinearForm({}, p), q, lane] for p in range(points)],
            )

        def row_of(p: LinearForm, lane: LinearForm) -> list[Operation]:
            place = [channel + lane, band.scratch_first + row, column]
            return self._apply(
                self.form.input_matrix,
                half.memref,
                [[p, LinearForm({}, q), lane] for q in range(points)],
                self.source,
                [[band.slot, p, LinearForm({}, q), *place] for q in range(points)],
            )

        columns = self._nest({"in_q": points, "in_lane": block}, column_of)
        return [half, columns, self._nest({"in_p": points, "in_lane": block}, row_of)]

    def _products(self, band: Band, slot: LinearForm, group: LinearForm) -> list[Operation]:
        """product = 0, product[slot, p, q, o, i, j] += transformed * weights."""
        block, suffix, main = self.order.block, band.suffix, self.convolution.main
        points = self.form.points
        tiles = {"p": points, "q": points, "i": band.rows, "j": self.columns}
        channels = {"c": self.convolution.channels}
        lanes = {"ov": self.order.vectors, "oi": block}

        def zero(*index: LinearForm) -> list[Operation]:
            p, q, i, j, v, lane = index
            constant = arith.ConstantOp(FloatAttr(0.0, Float32Type()))
            target = [slot, p, q, v.scaled(block) + lane, i, j]
            return [constant, self._store(constant.result, self.product, target)]

        def multiply_add(*index: LinearForm) -> list[Operation]:
            p, q, i, j, c, v, lane = index
            channel = v.scaled(block) + lane
            at = [slot, p, q, channel, i, j]
            before = make_load(self.product, at, main)
            place = [band.slot, p, q, c, band.scratch_first + i, j]
            value = make_load(self.source, place, main)
            output = group.scaled(self.order.group) + channel
            weight = make_load(self.weight, [p, q, output, c], main)
            scaled = arith.MulfOp(value.result, weight.result)
            total = arith.AddfOp(before.result, scaled.result)
            store = self._store(total.result, self.product, at)
            return [before, value, weight, scaled, total, store]

        zeros = {f"clear_{name}{suffix}": e for name, e in {**tiles, **lanes}.items()}
        products = {f"{name}{suffix}": e for name, e in {**tiles, **channels, **lanes}.items()}
        return [self._nest(zeros, zero), self._nest(products, multiply_add)]

    def _outputs(
        self, band: Band, slot: LinearForm, group: LinearForm, uncut_first: LinearForm
    ) -> affine.ForOp:
        """y += AT product A; where tiles reach over the image, into scratch that is cut later."""
        block, m, points = self.order.block, self.form.outputs, self.form.points
        v = self._loop(self.order.vectors, "out_v")
        i, j = self._loop(band.rows, "out_i"), self._loop(self.columns, "out_j")
        channel, row, column = index_form(v).scaled(block), index_form(i), index_form(j)
        half, tile = self._array("half", m, points), self._array("tile", m, m)

        def column_of(q: LinearForm, lane: LinearForm) -> list[Operation]:
            place = [channel + lane, row, column]
            return self._apply(
                self.form.output_matrix,
                self.product,
                [[slot, LinearForm({}, p), q, *place] for p in range(points)],
                half.memref,
                [[LinearForm({}, k), q, lane] for k in range(m)],
            )

        def row_of(k: LinearForm, lane: LinearForm) -> list[Operation]:
            return self._apply(
                self.form.output_matrix,
                half.memref,
                [[k, LinearForm({}, q), lane] for q in range(points)],
                tile.memref,
                [[k, LinearForm({}, column), lane] for column in range(m)],
            )

        def write(k: LinearForm, across: LinearForm, lane: LinearForm) -> list[Operation]:
            value = make_load(tile.memref, [k, across, lane], self.convolution.main)
            down, right = row.scaled(m) + k, (band.column + column).scaled(m) + across
            if self.uncut is None:
                output = group.scaled(self.order.group) + channel + lane
                added = self._add(value, band, output, band.first.scaled(m) + down, right)
                return [value, *added]
            at = [slot, channel + lane, uncut_first.scaled(m) + down, right]
            return [value, self._store(value.result, self.uncut, at)]

        inside: list[Operation] = [
            half,
            tile,
            self._nest({"out_q": points, "out_lane": block}, column_of),
            self._nest({"out_p": m, "out_lane": block}, row_of),
            self._nest({"out_k": m, "out_l": m, "out_lane": block}, write),
        ]
        return nest_loops([v, i, j], inside)

    def _cut(self, band: Band, slot: LinearForm, group: LinearForm) -> list[Operation]:
        """y += what exists of the outputs of a band."""
        if self.uncut is None:
            return []
        uncut, block = self.uncut, self.order.block

        def copy(v: LinearForm, i: LinearForm, j: LinearForm, lane: LinearForm) -> list[Operation]:
            channel = v.scaled(block) + lane
            value = make_load(uncut, [slot, channel, i, j], self.convolution.main)
            output = group.scaled(self.order.group) + channel
            row = band.first.scaled(self.form.outputs) + i
            return [value, *self._add(value, band, output, row, j)]

        extents = {"cut_v": self.order.vectors, "cut_i": band.height}
        return [self._nest({**extents, "cut_j": self.convolution.width, "out_lane": block}, copy)]

    def _add(
        self, value: affine.LoadOp, band: Band, channel: LinearForm, i: LinearForm, j: LinearForm
    ) -> list[Operation]:
        """y[image, channel, i, j] += value."""
        result, start = self.convolution.result, self.convolution.result_start
        at = [band.image, channel, i + LinearForm({}, start[0]), j + LinearForm({}, start[1])]
        before = make_load(result, at, self.convolution.main)
        total = arith.AddfOp(before.result, value.result)
        return [before, total, self._store(total.result, result, at)]

    # -- operations ------------------------------------------------------------------------------
    def _apply(
        self,
        matrix: Matrix,
        source: SSAValue,
        sources: Sequence[Forms],
        target: SSAValue,
        targets: Sequence[Forms],
    ) -> list[Operation]:
        """Loads a vector of values, multiplies the matrix to it, stores the result."""
        block = Block()
        values: list[Scalar] = []
        for forms in sources:
            load = make_load(source, forms, self.convolution.main)
            block.add_op(load)
            values.append(Scalar(block, load.result))
        for forms, result in zip(targets, multiply(matrix, values), strict=True):
            block.add_op(self._store(result.value, target, forms))
        operations = list(block.ops)
        for op in operations:
            op.detach()
        return operations

    def _store(self, value: SSAValue, buffer: SSAValue, forms: Forms) -> Operation:
        return make_store(value, buffer, forms, self.convolution.main)

    def _loop(self, extent: int, name: str) -> affine.ForOp:
        return new_loop(extent, name, self.convolution.main)

    def _nest(
        self, extents: Mapping[str, int], body: Callable[..., list[Operation]]
    ) -> affine.ForOp:
        loops = [self._loop(extent, name) for name, extent in extents.items()]
        operations = body(*[index_form(loop) for loop in loops])
        for op in operations:
            op.location = self.convolution.main.location
        return nest_loops(loops, operations)

    def _array(self, name: str, rows: int, columns: int) -> memref.AllocaOp:
        """Values of a tile, one of each for every lane."""
        extents = [rows, columns, self.order.block]
        array = memref.AllocaOp.get(Float32Type(), ALIGNMENT_BYTES, extents)
        array.memref.name_hint = name
        array.location = self.convolution.main.location
        return array

    def _scratch(
        self, name: str, shape: Sequence[int], needed: Extents, has_all_rows: bool
    ) -> SSAValue:
        """Another argument of the kernel, which the memory planner gives a place.

        needed: what a call needs of the last two axes; the rows are those of an image, or those of
        one band of many.
        """
        nest = self.nest
        if name in nest.buffers:
            raise nest.error("winograd", f"there is a buffer {name} already")
        value = nest.block.insert_arg(MemRefType(Float32Type(), list(shape)), len(nest.block.args))
        value.name_hint = name
        nest.buffers[name], nest.roles[name] = value, "scratch"
        for attribute, item in (("kernel.names", name), ("kernel.roles", "scratch")):
            listed = nest.function.attributes[attribute]
            assert isinstance(listed, ArrayAttr)
            nest.function.attributes[attribute] = ArrayAttr([*listed.data, StringAttr(item)])
        nest.function.update_function_type()
        if self.convolution.plane.is_open:
            rows, columns = needed
            extents = [*[None] * (len(shape) - 2), rows if has_all_rows else None, columns]
            declare_extents(nest.function, extents)
        return value
