"""Judges of caches: how large they are, what moving them costs, and whether they stay in place."""

from __future__ import annotations

from collections.abc import Collection
from math import ceil, isclose
from numbers import Real

from explorer.compilation import compile_model
from explorer.course.predictions import Judge, with_truth
from explorer.errors import ExplorerError
from explorer.importers import SourceModel

ROWS_TOLERANCE = 0.01
"""Relative: two digits are asked for."""


def cache_size(layers: int, heads: int, size: int, rows: int, element_bytes: int) -> Judge:
    """The bytes of the keys and values of all layers."""
    keys = layers * heads * size * rows * element_bytes

    def judge(answer: object) -> bool | str:
        if not isinstance(answer, Real) or isinstance(answer, bool):
            return "a number of bytes is asked for"
        if answer == keys:
            return "that is half of it: there are keys and values"
        if answer == 2 * keys // element_bytes:
            return "those are numbers; each has more than one byte"
        return answer == 2 * keys or f"{answer:,} is not what all layers have together"

    return with_truth(judge, 2 * keys)


def rows_that_cost_as_much(weights_bytes: int, row_bytes: int) -> Judge:
    """The rows of a cache that goes in and out of each step, where that moves as many bytes as
    reading all weights once. row_bytes: keys and values of a row, in all layers."""
    truth = ceil(weights_bytes / (2 * row_bytes))

    def judge(answer: object) -> bool | str:
        if not isinstance(answer, Real) or isinstance(answer, bool):
            return "a number of rows is asked for"
        if isclose(float(answer), truth, rel_tol=ROWS_TOLERANCE):
            return True
        if isclose(float(answer), 2 * truth, rel_tol=ROWS_TOLERANCE):
            return "the cache goes in, and out again"
        return f"{answer:,} rows move another number of bytes than the weights have"

    return with_truth(judge, truth)


def keeps_in_place(model: SourceModel, caches: Collection[str]) -> Judge:
    """Pairs `input=output` with which a program keeps the caches and copies none of them."""

    def judge(answer: object) -> bool | str:
        is_list = isinstance(answer, list | tuple)
        if not is_list or not all(isinstance(pair, str) for pair in answer):
            return 'a list of pairs is asked for, as ["a=b"]'
        try:
            compiled = compile_model(model, "cpu", states=[str(pair) for pair in answer])
        except ExplorerError as error:
            return error.message
        given = compiled.example_inputs()
        with compiled.open(isolated=False, remembers=True) as program:
            missing = sorted(set(caches) - set(program.state()))
            if missing:
                return f"{' and '.join(missing)} would be given with each call"
            program.run({name: array for name, array in given.items() if name not in caches})
            copied = program.copied_bytes
        compiled.close()
        return copied == 0 or f"{copied:,} bytes are copied in a step"

    return judge
