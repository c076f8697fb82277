"""onnxruntime's GroupQueryAttention: the attention of decoders, with its cache of keys and values.

    query, key, value      rows of the new tokens, (batch, rows, heads * size), perhaps in one
    past_key, past_value   (batch, heads, capacity, size); the first rows of each sequence are used
    seqlens_k              (batch): tokens of each sequence with the new ones, minus 1
    total_sequence_length  the most of them: how long the new cache is, unless the past is longer

New tokens stand behind those of the past, each sequence at a place of its own. Every row of the new
cache is gathered: from the past, from the new rows, or a zero behind both. Where the model's sizes
are given, all of this is constant but what depends on `seqlens_k`. Where a mask says the lengths
and may be taken to be all ones (`SourceModel.whole_pasts`), new rows follow the whole past.
Reference: onnxruntime, docs/ContribOperators.md; Ainslie et al., "GQA: Training Generalized
Multi-Query Transformer Models from Multi-Head Checkpoints", 2023.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from explorer.importers.building.attention_scores import attend, counted, counted_to, length
from explorer.importers.building.expr import Expr, maximum, minimum, where
from explorer.importers.onnx.contrib.contrib import MICROSOFT
from explorer.importers.onnx.layers.rotary import rotate
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Node, Unsupported, converts
from explorer.ir.top.indexing import GatherElementsOp, GatherOp
from explorer.ir.top.reductions.normalization import LayerNormOp
from explorer.ir.types import shape_of

_QUERY, _KEY, _VALUE, _PAST_KEY, _PAST_VALUE, _LENGTHS, _TOTAL, _COSINES, _SINES = range(9)
_POSITIONS, _BIAS, _SINK, _KEY_SCALE, _VALUE_SCALE, _QUERY_NORM, _KEY_NORM, _NEW = range(9, 17)


@converts("GroupQueryAttention", domain=MICROSOFT)
def group_query_attention(node: Node, build: Build) -> Sequence[Expr | None]:
    """Results: (batch, rows, hidden), the keys and values with those of the past, the scores."""
    _check_supported(node)
    heads, shared = node.integer("num_heads"), node.integer("kv_num_heads")
    query, key, value = _projected(node, heads, shared)
    query, key = _normalized(node, query, key, build)
    cache = (_FullCache if _has_full_mask(node, build) else _Cache)(node, query, build)
    if node.integer("do_rotary", 0):
        tables = [
            build.value(GatherOp, [node.operand(index), cache.angles], axis=0)
            for index in (_COSINES, _SINES)
        ]
        interleaved = bool(node.integer("rotary_interleaved", 0))
        query, key = (rotate(x, tables, 2, interleaved, build) for x in (query, key))
    query, key, value = (x.transpose([0, 2, 1, 3]) for x in (query, key, value))
    key = cache.updated(key, node.optional(_PAST_KEY))
    value = cache.updated(value, node.optional(_PAST_VALUE))
    sink = node.optional(_SINK)
    if sink is None and node.integer("smooth_softmax", 0) > 0:
        sink = build.weight(np.zeros(heads, query.dtype))
    wanted = node.integer("qk_output", 0) if len(node.results) > 3 and node.results[3] else 0
    mask = cache.mask()
    mixed = attend(
        query,
        key,
        value,
        build,
        scale=node.number("scale", 0.0),
        mask=mask,
        bias=_widened(node.optional(_BIAS), key, build),
        softcap=node.number("softcap", 0.0),
        sink=sink,
        has_scores=bool(wanted),
    )
    (size,) = value.sizes([3], "attention")
    rows = mixed.values.transpose([0, 2, 1, 3])
    result = rows.reshape([query.dim(0), query.dim(2), heads * size])
    scores = mixed.weights
    if wanted == 1 and mixed.scores is not None:
        scores = where(mask, mixed.scores, 0)
    return [result, key, value, scores]


def _check_supported(node: Node) -> None:
    quantized = (node.text(name, "NONE") for name in ("k_quant_type", "v_quant_type"))
    has_scales = any(node.optional(index) is not None for index in (_KEY_SCALE, _VALUE_SCALE))
    if has_scales or any(kind not in ("", "NONE") for kind in quantized):
        raise Unsupported("a cache of quantized keys and values")
    if node.integer("sliding_window_cache", 0):
        raise Unsupported("a cache that holds a window of the sequence only")
    if (node.optional(_PAST_KEY) is None) != (node.optional(_PAST_VALUE) is None):
        raise ValueError("a past needs keys and values")


def _projected(node: Node, heads: int, shared: int) -> list[Expr]:
    """Queries, keys and values as (batch, rows, heads, size)."""
    query, key, value = node.operand(_QUERY), node.optional(_KEY), node.optional(_VALUE)
    (columns,) = query.sizes([2], "attention")
    if key is None or value is None:
        size = columns // (heads + 2 * shared)
        ends = np.cumsum([0, heads * size, shared * size, shared * size])
        if ends[-1] != columns:
            raise ValueError(f"{columns} columns for {heads} heads and {shared} of keys and values")
        parts = [query.slice(2, int(ends[i]), int(ends[i + 1])) for i in range(3)]
    else:
        size, parts = columns // heads, [query, key, value]
    numbers = (heads, shared, shared)
    for part, number in zip(parts, numbers, strict=True):
        (columns,) = part.sizes([2], "attention")
        if columns != number * size:
            raise ValueError(f"{columns} columns for {number} heads of {size}")
    return [
        part.reshape([part.dim(0), part.dim(1), number, size])
        for part, number in zip(parts, numbers, strict=True)
    ]


def _normalized(node: Node, query: Expr, key: Expr, build: Build) -> tuple[Expr, Expr]:
    """Each head divided by its root mean square, where there are weights for that."""
    found = []
    shared = node.number("qk_norm_epsilon", 1e-6)
    for x, index, name in ((query, _QUERY_NORM, "q"), (key, _KEY_NORM, "k")):
        scale = node.optional(index)
        if scale is not None:
            epsilon = node.number(f"{name}_norm_epsilon", shared)
            operands = [x, scale, None]
            x = build.value(LayerNormOp, operands, axis=3, epsilon=epsilon, centered=False)
        found.append(x)
    return found[0], found[1]


class _Cache:
    """Where the rows of each sequence stand. Numbers are i64."""

    def __init__(self, node: Node, query: Expr, build: Build) -> None:
        """query: (batch, rows, heads, size)."""
        self.node, self.query, self.build = node, query, build

    @cached_property
    def lasts(self) -> Expr:
        """(batch, 1): the position of the last token of each sequence."""
        return self.node.operand(_LENGTHS).astype(np.int64).reshape([self.query.dim(0), 1])

    @cached_property
    def ends(self) -> Expr:
        """(batch, 1): how many tokens each sequence has with the new ones."""
        return self.lasts + self.build.weight(np.array(1, np.int64))

    @cached_property
    def total(self) -> Expr:
        """The most tokens of a sequence."""
        return self.node.operand(_TOTAL).reshape([]).astype(np.int64)

    @cached_property
    def new(self) -> Expr | None:
        """(batch, 1): how many rows of each sequence are tokens, where not all of them are."""
        given = self.node.optional(_NEW)
        if given is None:
            return None
        return given.astype(np.int64).reshape([self.query.dim(0), 1])

    def _if_first(self, first: Expr, later: Expr) -> Expr:
        """What holds for the first tokens of all sequences, or for later ones: where all are new,
        they are the first."""
        build = self.build
        is_first = length(self.query, 1, build) == self.total
        known = build.knowledge.needed(is_first)
        if self.node.optional(_PAST_KEY) is None or (known is not None and known.item()):
            return first
        return later if known is not None else where(is_first, first, later)

    @cached_property
    def begins(self) -> Expr:
        """(batch, 1), or one number: where the new rows of each sequence stand.

        All begin at 0 where there is no past, or as many rows are new as there are in all.
        """
        build = self.build
        if self.new is not None:
            return self.ends - self.new
        zero = build.weight(np.zeros((1, 1), np.int64))
        return self._if_first(zero, self.ends - length(self.query, 1, build))

    @cached_property
    def rows(self) -> Expr:
        """(batch or 1, rows): the position of each new row."""
        return self.begins + counted(self.query, 1, self.build)

    @property
    def angles(self) -> Expr:
        """(batch or 1, rows): the positions by which queries and keys are turned.

        The first tokens of all sequences are counted from the first position that is given.
        """
        build, given = self.build, self.node.optional(_POSITIONS)
        if given is None:
            return self.rows
        if self.new is not None:
            return given
        given = given.astype(np.int64)
        begin = given.slices({0: (0, 1, 1), 1: (0, 1, 1)})
        return self._if_first(begin + counted(self.query, 1, build), given)

    @cached_property
    def capacity(self) -> Expr:
        """How many rows the past has."""
        past = self.node.optional(_PAST_KEY)
        if past is None:
            return self.build.weight(np.array(0, np.int64))
        return length(past, 2, self.build)

    @cached_property
    def places(self) -> Expr:
        """0 to the number of rows that the new cache has."""
        limit = maximum(self.total, self.capacity)
        if self.build.knowledge.sizes(limit) is None:
            raise Unsupported("how long the new cache is depends on total_sequence_length")
        return counted_to(limit, self.build)

    @cached_property
    def sources(self) -> Expr:
        """(batch or 1, places): which row of past, new rows and a zero stands in each place."""
        build = self.build
        behind = self.places - self.begins
        zeros = length(self.query, 1, build)
        new = minimum(behind, zeros)
        if self.new is not None:
            new = where(new < self.new, new, zeros)
        is_past = behind < build.weight(np.array(0, np.int64))
        places = self.places.broadcast_to(is_past.all_sizes())
        return where(is_past, places, new + self.capacity)

    def updated(self, new: Expr, past: Expr | None) -> Expr:
        """new: (batch, heads, rows, size). With the past of each sequence in front of it, and zeros
        behind both."""
        build = self.build
        parts = [new] if past is None else [past, new]
        sources = self.sources
        known = build.knowledge.array(sources)
        if known is not None:
            sources = build.weight(known)
            sizes = [size for part in parts if (size := part.size(2)) is not None]
            if len(sizes) == len(parts) and np.array_equal(known, [np.arange(sum(sizes))]):
                return build.concat(parts, 2)
        row = [new.dim(0), new.dim(1), 1, new.dim(3)]
        rows = build.concat([*parts, new.constant(0).broadcast_to(row)], 2)
        if sources.size(0) == 1:
            return build.value(GatherOp, [rows, sources.squeeze([0])], axis=2)
        sizes = [new.dim(0), new.dim(1), sources.dim(1), new.dim(3)]
        each = sources.unsqueeze([1, 3]).broadcast_to(sizes)
        return build.value(GatherElementsOp, [rows, each], axis=2)

    def mask(self) -> Expr:
        """(batch, 1, rows or 1, places): true for the keys that a query sees.

        Rows behind the last token of a sequence see what that token sees, as in onnxruntime.
        """
        build, window = self.build, self.node.integer("local_window_size", -1)
        if not self.node.integer("causal", 1):
            return (self.places <= self.lasts).unsqueeze([1, 2])
        rows = minimum(self.rows, self.lasts).unsqueeze([2])
        is_seen = self.places <= rows
        if window > 0:
            first = rows - build.weight(np.array(window, np.int64))
            is_near = self.places > first
            is_seen = is_seen & is_near
        return is_seen.unsqueeze([1])


class _FullCache(_Cache):
    """Of sequences that have all rows of the past and all new ones."""

    @cached_property
    def lasts(self) -> Expr:
        one = self.build.weight(np.array(1, np.int64))
        return (self.total - one).reshape([1, 1])

    @cached_property
    def total(self) -> Expr:
        return self.capacity + length(self.query, 1, self.build)

    @cached_property
    def begins(self) -> Expr:
        return self.capacity.reshape([1, 1])

    def updated(self, new: Expr, past: Expr | None) -> Expr:
        assert past is not None
        return self.build.concat([past, new], 2)


def _has_full_mask(node: Node, build: Build) -> bool:
    """Whether a mask that may be taken to be all ones says the length of every sequence:
    `seqlens_k` is its sum without 1, and `total_sequence_length` its size."""
    known, pasts = build.knowledge, (node.optional(_PAST_KEY), node.optional(_PAST_VALUE))
    is_whole = all(past is not None and known.is_whole(past) for past in pasts)
    if not is_whole or node.optional(_NEW) is not None:
        return False
    mask = known.counted_mask(node.operand(_LENGTHS), -1)
    name = "" if mask is None else known.input_name(mask)
    if mask is None or not name or known.sizes(node.operand(_TOTAL)) != [shape_of(mask)[1]]:
        return False
    build.knowledge.full_masks.add(name)
    return True


def _widened(bias: Expr | None, key: Expr, build: Build) -> Expr | None:
    """(..., total) with a column for every place of the cache; no query sees those behind."""
    if bias is None or bias.shape[3] == key.shape[2]:
        return bias
    last = length(bias, 3, build) - build.weight(np.array(1, np.int64))
    return build.value(GatherOp, [bias, minimum(counted(key, 2, build), last)], axis=3)
