"""Executing a module of `top` operations through their NumPy meanings, incrementally.

An `EvaluationCache` holds results by what they were computed from: the operation, its properties,
its results' logical types, and the types and contents of its operands. From snapshot to snapshot,
and whether operands were computed or given, only what is new of these runs again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

from explorer.errors import InputError, PassError
from explorer.ir.open_sizes import sizes_of_function
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.origins import sources_of
from explorer.ir.padding import as_given, check_full, padded
from explorer.ir.sizes.calls import padded_to_largest
from explorer.ir.sizes.constraints import bind_shapes
from explorer.ir.structure import functions, value_name
from explorer.ir.top.data import ReturnOp, WeightOp
from explorer.ir.types import (
    element_type_of,
    format_shape,
    numpy_dtype,
    shape_of,
)
from explorer.ir.valid_length import length_of
from explorer.ir.weights import Weights

INPUT_NAMES, OUTPUT_NAMES = "input_names", "output_names"
"""Attributes of the entry function: the source model's own names of its inputs and outputs."""
SPECIALIZED = "specialized_inputs"
"""Attribute of the entry function: inputs whose contents decided a shape. The program is right for
those contents only."""
FULL_MASKS = "full_masks"
"""Attribute of the entry function: inputs that are taken to be masks of ones. The program is right
for such masks only."""


class EvaluationCache:
    """Results of operations by what they were computed from. Nobody writes into these arrays.

    `hits` and `runs` count the operations that were found and those that were executed.
    """

    def __init__(self) -> None:
        self.results: dict[int, tuple[np.ndarray, ...]] = {}
        self.hits = 0
        self.runs = 0
        self._keys: dict[Hashable, int] = {}
        self._held: dict[int, np.ndarray] = {}
        self._numbers: dict[int, int] = {}
        """Of arrays that are held, so that no other ever takes their place in memory."""
        self._used: set[int] = set()
        """Keys and numbers that were asked for since something was forgotten last."""

    def copy(self) -> EvaluationCache:
        """One with the same results, whose own are not found here."""
        made = EvaluationCache()
        made.results, made._keys = dict(self.results), dict(self._keys)
        made._held, made._numbers = dict(self._held), dict(self._numbers)
        return made

    def key(self, structure: Hashable) -> int:
        """The number of a structure. Not its hash: -1 and -2 have the same one."""
        number = self._keys.setdefault(structure, len(self._keys))
        self._used.add(number)
        return number

    def forget_unused(self) -> None:
        """Drops what was not asked for since the last call: results, and arrays that are held."""
        self.results = {k: found for k, found in self.results.items() if k in self._used}
        self._held = {n: array for n, array in self._held.items() if n in self._used}
        self._numbers = {id(array): number for number, array in self._held.items()}
        self._used = set()

    def known(self, array: np.ndarray) -> Known:
        """The array, or the first one of the same contents, and the number of these contents."""
        number = self._numbers.get(id(array))
        if number is not None:
            self._used.add(number)
            return array, number
        number = self.key(_contents(array))
        held = self._held.setdefault(number, array)
        if held is array:
            self._numbers[id(array)] = number
        return held, number


def _contents(array: np.ndarray) -> Hashable:
    """Type, shape and a digest of all bits: zeros of both signs differ, and so may NaNs."""
    if array.dtype.hasobject:
        return ("array", id(array))
    octets = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return (array.dtype.name, array.shape, hashlib.sha256(octets.data).digest())


def entry_function(module: ModuleOp) -> func.FuncOp:
    """The function that a run begins with: `main`, else the only one."""
    candidates = functions(module)
    for function in candidates:
        if function.sym_name.data == "main":
            return function
    return candidates[0]


def input_names(function: func.FuncOp) -> tuple[str, ...]:
    """The source model's names of the arguments; the arguments' own where there are none."""
    arguments = function.body.block.args
    return _names(function, INPUT_NAMES) or tuple(value_name(a) for a in arguments)


def output_names(function: func.FuncOp) -> tuple[str, ...]:
    """The source model's names of what is returned; the values' own where there are none."""
    returned = entry_return(function).operands
    return _names(function, OUTPUT_NAMES) or tuple(value_name(v) for v in returned)


def output_names_given(function: func.FuncOp) -> tuple[str, ...]:
    """The source model's names of what is returned; none where it gives none."""
    return _names(function, OUTPUT_NAMES)


def specialized_inputs(function: func.FuncOp) -> tuple[str, ...]:
    """The inputs whose contents the program was made for."""
    return _names(function, SPECIALIZED)


def full_masks(function: func.FuncOp) -> tuple[str, ...]:
    """The inputs that the program takes to be masks of ones."""
    return _names(function, FULL_MASKS)


def outputs_by_name(module: ModuleOp, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs under the source model's names, from all values of a run."""
    function = entry_function(module)
    returned = entry_return(function).operands
    names, length = output_names(function), length_of(function)
    found = {n: values[value_name(v)] for n, v in zip(names, returned, strict=True)}
    return found if length is None else as_given(length, found)


def _names(function: func.FuncOp, attribute: str) -> tuple[str, ...]:
    names = function.attributes.get(attribute)
    if not isinstance(names, ArrayAttr):
        return ()
    return tuple(name.data for name in names.data if isinstance(name, StringAttr))


def check_inputs(function: func.FuncOp, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The inputs in order; InputError for a missing, unknown or ill-shaped one, and for a mask with
    zeros where it is to be full."""
    names = input_names(function)
    length = length_of(function)
    if length is not None:
        inputs = padded(length, inputs)
    sizes = sizes_of_function(function)
    if sizes is not None:
        inputs = padded_to_largest(sizes, inputs)
    unknown = sorted(set(inputs) - set(names))
    if unknown:
        raise InputError(
            f"the model has no input {unknown[0]!r}", hint=f"its inputs are {', '.join(names)}"
        )
    arrays = []
    for argument, name in zip(function.body.block.args, names, strict=True):
        if name not in inputs:
            raise InputError(f"input {name!r} is missing", hint=f"give an array named {name!r}")
        array = np.asarray(inputs[name])
        shape, dtype = shape_of(argument), numpy_dtype(element_type_of(argument))
        fits = len(shape) == array.ndim and all(
            d == n or isinstance(d, str) for d, n in zip(shape, array.shape, strict=True)
        )
        if not fits or array.dtype != dtype:
            raise InputError(
                f"input {name!r} is {format_shape(array.shape)} {array.dtype}, but the model "
                f"takes {format_shape(shape)} {dtype}",
                node=name,
                hint="reshape or convert the array (numpy: reshape, astype)",
            )
        if length is None and name in full_masks(function):
            check_full(name, array)
        arrays.append(array)
    shapes = {
        name: (shape_of(argument), array.shape)
        for name, argument, array in zip(names, function.body.block.args, arrays, strict=True)
    }
    bind_shapes(function, shapes)
    return arrays


def evaluate_module(
    module: ModuleOp,
    weights: Weights,
    inputs: Mapping[str, np.ndarray],
    cache: EvaluationCache | None = None,
    replaced: Mapping[str, np.ndarray] | None = None,
) -> dict[str, np.ndarray]:
    """All values by name, those of called functions and nested regions included."""
    function = entry_function(module)
    arrays = check_inputs(function, inputs)
    called = {f.sym_name.data: f for f in functions(module)}
    run = _Run(called, weights, EvaluationCache() if cache is None else cache, replaced or {})
    keys = [run.cache.known(a)[1] for a in arrays]
    outputs, _ = run.block(function.body.block, arrays, keys)
    returned = entry_return(function)
    for value, array in zip(returned.operands, outputs, strict=True):
        run.values.setdefault(value_name(value), array)
    return run.values


def evaluate_function(
    function: func.FuncOp,
    weights: Weights,
    arguments: Sequence[np.ndarray],
    replaced: Mapping[str, np.ndarray] | None = None,
    after: Callable[[Operation], None] | None = None,
    run_region: RunRegion | None = None,
) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    """What a function that calls no other returns for arrays, and all its values by name.

    `replaced` as in `evaluate_module`. `after` is called with every operation of the function
    itself when it is done. `run_region` may run regions in the place of their NumPy meaning; the
    values inside are then not among the function's. Nothing is remembered for a later run.
    """
    run = _Run({}, weights, EvaluationCache(), replaced or {}, after, run_region)
    run.repeating = 1  # so that no structures are compared
    block = function.body.block
    outputs, _ = run.block(block, arguments, [_OF_AN_ITERATION] * len(arguments))
    return outputs, run.values


def entry_return(function: func.FuncOp) -> Operation:
    last = function.body.block.last_op
    assert last is not None
    return last


RunRegion = Callable[
    [TopOperation, int, Sequence[np.ndarray], Callable[[SSAValue], np.ndarray]],
    list[np.ndarray] | None,
]
"""What a region of an operation returns for arguments, and for what it reads from outside; None
where it is to be interpreted."""

Known = tuple[np.ndarray, int]
"""A value and the number of its contents."""

_OF_AN_ITERATION = -1
"""The key of values inside a loop, which nothing is remembered for."""


class _Run:
    def __init__(
        self,
        called: Mapping[str, func.FuncOp],
        weights: Weights,
        cache: EvaluationCache,
        replaced: Mapping[str, np.ndarray],
        after: Callable[[Operation], None] | None = None,
        run_region: RunRegion | None = None,
    ):
        self.functions = called
        self.weights = weights
        self.cache = cache
        self.replaced = replaced
        self.after = after
        self.run_region = run_region
        self.values: dict[str, np.ndarray] = {}
        self.repeating = 0
        """Loops around what runs now: results of single iterations are not worth keeping."""

    def block(
        self,
        block: Block,
        arguments: Sequence[np.ndarray],
        keys: Sequence[int],
        outer: Mapping[SSAValue, Known] | None = None,
    ) -> tuple[list[np.ndarray], list[int]]:
        """Runs a block; returns what its terminator returns, with the keys."""
        known: dict[SSAValue, Known] = dict(outer or {})
        for argument, array, key in zip(block.args, arguments, keys, strict=True):
            known[argument] = (array, key)
            self.values[value_name(argument)] = array
        for op in block.ops:
            operands = [known[o] for o in op.operands]
            if isinstance(op, ReturnOp | func.ReturnOp):
                return [a for a, _ in operands], [k for _, k in operands]
            for result, (array, key) in zip(
                op.results, self.operation(op, operands, known), strict=True
            ):
                name = value_name(result)
                self.values[name] = array
                fed = self.replaced.get(name)
                known[result] = (array, key) if fed is None else self._known(fed)
            if self.after is not None and outer is None:
                self.after(op)
        raise AssertionError("a block ends without a terminator")

    def operation(
        self, op: Operation, operands: Sequence[Known], known: Mapping[SSAValue, Known]
    ) -> list[Known]:
        if isinstance(op, WeightOp):
            array = self.weights[op.weight.data]
            return [self._known(array)]
        if isinstance(op, func.CallOp):
            called = self.functions[op.callee.string_value()]
            arrays, keys = self.block(
                called.body.block, [a for a, _ in operands], [k for _, k in operands]
            )
            return list(zip(arrays, keys, strict=True))
        assert isinstance(op, TopOperation), f"{op.name} has no NumPy meaning"
        if op.regions:
            return self._with_regions(op, operands, known)
        if self.repeating:
            results = self._evaluate(op, [a for a, _ in operands])
            return [(array, _OF_AN_ITERATION) for array in results]
        types = tuple((element_type_of(r), shape_of(r)) for r in op.results)
        # An operand's type says what its integers stand for.
        known_by = tuple(
            (element_type_of(o), k) for o, (_, k) in zip(op.operands, operands, strict=True)
        )
        key = self.cache.key((op.name, _properties(op), types, known_by))
        results = self.cache.results.get(key)
        if results is None:
            made = self._evaluate(op, [a for a, _ in operands])
            try:  # an array that repeats its elements takes its whole size only here
                results = tuple(self.cache.known(array)[0] for array in made)
            except MemoryError as error:
                raise _too_large(op, [a for a, _ in operands]) from error
            self.cache.runs += 1
            self.cache.results[key] = results
        else:
            self.cache.hits += 1
        return [self.cache.known(array) for array in results]

    def _with_regions(
        self, op: TopOperation, operands: Sequence[Known], known: Mapping[SSAValue, Known]
    ) -> list[Known]:
        """Control flow: the operation decides which of its regions runs, on what, how often."""

        def run_region(index: int, *arguments: np.ndarray) -> list[np.ndarray]:
            if self.run_region is not None:
                made = self.run_region(op, index, arguments, lambda value: known[value][0])
                if made is not None:
                    return made
            keys = [self._known(a)[1] for a in arguments]
            return self.block(op.regions[index].block, arguments, keys, known)[0]

        self.repeating += op.REPEATS
        try:
            arrays = op.evaluate_regions(run_region, *[a for a, _ in operands])
        except (ValueError, MemoryError) as error:
            raise _failed(op, error) from error
        finally:
            self.repeating -= op.REPEATS
        checked = [
            _checked(op, index, result, array)
            for index, (result, array) in enumerate(zip(op.results, arrays, strict=True))
        ]
        return [self._known(array) for array in checked]

    def _known(self, array: np.ndarray) -> Known:
        return (array, _OF_AN_ITERATION) if self.repeating else self.cache.known(array)

    def _evaluate(self, op: TopOperation, arrays: list[np.ndarray]) -> tuple[np.ndarray, ...]:
        try:
            results = op.evaluate(*arrays)
        except IndexError as error:
            raise PassError(
                f"{op.name} {identity_of(op)} cannot be executed: {error}",
                node=", ".join(sources_of(op)) or identity_of(op),
                hint="give inputs whose indices lie inside of what they index",
            ) from error
        except MemoryError as error:
            raise _too_large(op, arrays) from error
        except (ValueError, TypeError, KeyError) as error:
            raise _failed(op, error) from error
        return tuple(
            _checked(op, index, result, array)
            for index, (result, array) in enumerate(zip(op.results, results, strict=True))
        )


def _too_large(op: TopOperation, operands: Sequence[np.ndarray]) -> PassError:
    """What NumPy's meaning of an operation needs, beside its result, is more than there is."""
    given = ", ".join(f"{format_shape(array.shape)} {array.dtype}" for array in operands)
    return PassError(
        f"{op.name} {identity_of(op)} of {given or 'nothing'} needs more memory than there is",
        node=", ".join(sources_of(op)) or identity_of(op),
        hint="use a machine with more memory, or a model in which this node makes less",
    )


def _failed(op: TopOperation, error: Exception) -> PassError:
    return PassError(
        f"{op.name} {identity_of(op)} cannot be executed: {error}",
        node=identity_of(op),
        hint="look at the pass that made this operation",
    )


def _checked(op: TopOperation, index: int, result: SSAValue, array: np.ndarray) -> np.ndarray:
    """The meaning must agree with the declared type: a wrong shape is found where it arises."""
    dtype = numpy_dtype(element_type_of(result))
    if array.dtype != dtype:
        array = array.astype(dtype)
    shape = shape_of(result)
    agrees = len(shape) == array.ndim and all(
        isinstance(d, str) or d == n for d, n in zip(shape, array.shape, strict=True)
    )
    if not agrees:
        raise PassError(
            f"{op.name} {identity_of(op)} declares {format_shape(shape)} but computes "
            f"{format_shape(array.shape)} (result {index})",
            node=identity_of(op),
        )
    return array


def _properties(op: Operation) -> tuple[tuple[str, Attribute], ...]:
    return tuple(sorted(op.properties.items(), key=lambda item: item[0]))
