"""TfIdfVectorizer over numbers: how often each sequence of tokens of a pool occurs.

    pool (2, 3), (5, 4)   x = [2, 3, 5, 2, 3]   ->   [2, 0]

All windows of the pool's lengths and distances are gathered and compared with the pool at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from explorer.importers.building.expr import Expr, minimum
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Node, Unsupported, converts

MAX_COMPARISONS = 1 << 22
"""Of windows with entries of the pool."""


@dataclass(frozen=True)
class _Grams:
    """All entries of one length, (count, length), and where in the result each is counted."""

    tokens: np.ndarray
    places: np.ndarray


@converts("TfIdfVectorizer", since=9)
def count_sequences(node: Node, build: Build) -> Expr:
    """x: (length) or (batch, length) of whole numbers  ->  (places) or (batch, places) of f32.

    mode: TF counts, IDF says by its weight that an entry occurs, TFIDF multiplies both.
    """
    x = node.operand(0)
    pool = node.integers("pool_int64s")
    if pool is None:
        raise Unsupported("a pool of strings")
    places = np.array(node.integers("ngram_indexes") or (), np.int64)
    starts = node.integers("ngram_counts") or ()
    is_single = x.rank == 1
    rows = x.unsqueeze([0]) if is_single else x
    (length,) = rows.sizes([1], "TfIdfVectorizer")
    total = build.weight(np.zeros((1, int(places.max(initial=-1)) + 1), np.float32))
    bounds = node.integer("min_gram_length"), node.integer("max_gram_length")
    for grams in _grams(np.array(pool, np.int64), starts, places):
        if bounds[0] <= grams.tokens.shape[1] <= bounds[1]:
            for windows in _windows(grams, length, node.integer("max_skip_count")):
                found = _occurrences(rows.astype(np.int64), windows, grams, build)
                spread = np.zeros((len(grams.places), total.sizes([1], "the pool")[0]))
                spread[np.arange(len(grams.places)), grams.places] = 1
                counted = found @ build.weight(spread.astype(np.float32))
                total = total + counted
    result = _weighted(total, node, places, build)
    return result.squeeze([0]) if is_single else result


def _grams(pool: np.ndarray, starts: Sequence[int], places: np.ndarray) -> Iterator[_Grams]:
    """The pool holds all entries of length 1, then those of length 2 ...; starts: where they do."""
    seen = 0
    for length, begin in enumerate(starts, 1):
        end = starts[length] if length < len(starts) else len(pool)
        count = (end - begin) // length
        if count * length != end - begin or count < 0 or seen + count > len(places):
            raise ValueError(f"the pool has no whole sequences of {length} tokens")
        if count:
            tokens = pool[begin:end].reshape(count, length)
            yield _Grams(tokens, places[seen : seen + count])
        seen += count


def _windows(grams: _Grams, length: int, most_skips: int) -> Iterator[np.ndarray]:
    """Places (windows, tokens) of the sequences in x, once for each distance between tokens."""
    size = grams.tokens.shape[1]
    for distance in range(1, most_skips + 2 if size > 1 else 2):
        begins = length - (size - 1) * distance
        if begins > 0:
            if begins * len(grams.places) > MAX_COMPARISONS:
                raise Unsupported(f"{begins} windows and {len(grams.places)} entries of the pool")
            yield np.arange(begins)[:, np.newaxis] + np.arange(size) * distance


def _occurrences(rows: Expr, windows: np.ndarray, grams: _Grams, build: Build) -> Expr:
    """(batch, entries): in how many windows each entry stands."""
    found = rows.take(windows, 1).unsqueeze([2])
    return (found == build.weight(grams.tokens)).astype(np.float32).min([3]).sum([1])


def _weighted(total: Expr, node: Node, places: np.ndarray, build: Build) -> Expr:
    mode = node.text("mode", "TF")
    if mode not in ("TF", "IDF", "TFIDF"):
        raise Unsupported(f"mode {mode!r}")
    if mode == "IDF":
        total = minimum(total, 1)
    given = node.numbers("weights")
    if mode == "TF" or given is None:
        return total
    weights = np.ones(int(places.max(initial=-1)) + 1, np.float32)
    weights[places] = given
    return total * build.weight(weights)
