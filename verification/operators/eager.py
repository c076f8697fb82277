"""PyTorch's operators on each of their element types with hostile inputs, judged by eager.

    try_eager("add", "int8", seed=7, devices=("CPU",))
    -> {"operator": "add", "type": "int8", "status": "right", ...}

Samples are those of PyTorch's own tests (OpInfo); the first operand gets hostile numbers. Eager in
float64 is a second judge of floats, and of floats that come of whole numbers. A program of a module
that writes into its inputs is refused. `disagreements.toml` says where eager is wrong.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any  # torch's own types, which are not known here

import numpy as np

import explorer as ex
from explorer.runtime.child import Answer
from verification.conformance.pytorch.comparing import array_of
from verification.conformance.pytorch.suite import (
    NotJudged,
    entries,
    flat,
    module_of,
    require_same,
    run_program,
)
from verification.conformance.suite import judge
from verification.operators.comparing import same
from verification.operators.numbers import hostile, kinds
from verification.operators.pairs import Pair
from verification.operators.seeded import STATUSES
from verification.operators.verdicts import (
    DEFECTS,
    DOCUMENTED,
    ILLEGAL,
    NOT_DRAWN,
    RANDOM,
    disagreements,
    entries_for,
    first_reason,
)

TYPES = (
    *("float32", "float64", "float16", "bfloat16", "bool"),
    *("int8", "int16", "int32", "int64", "uint8"),
)
CONDITIONED = (
    *("linalg.", "cholesky", "geqrf", "logdet", "lu", "ormqr", "pinverse", "qr", "svd"),
    "triangular_solve",
)
"""How operators begin that solve or decompose: a stable algorithm is right for inputs which differ
in their last places, so that the condition of a matrix decides about the digits of its results."""
PERTURBED_STEPS = 8
BESSEL = {f"special.bessel_{kind}{order}": (kind, order) for kind in "jy" for order in (0, 1)}
"""Functions of which PyTorch's code has few digits at large arguments: 40 digits judge them."""
MAX_SAMPLES = 40
HOSTILE_SHARE = 0.7
AS_SAMPLED = ("searchsorted", "bucketize", "lcm")
"""Operators that keep the operands of the sample: those that need them in order, and one that ends
the process where it divides the least number by -1."""


@cache
def every_entry() -> dict[str, Any]:
    return entries("")


def pairs_of() -> list[tuple[str, str]]:
    """(entry, type) of what PyTorch says that its operators take."""
    return [
        (name, dtype)
        for name, entry in sorted(every_entry().items())
        for dtype in TYPES
        if any(str(known) == f"torch.{dtype}" for known in entry.dtypes)
    ]


def try_eager(operator: str, dtype: str, seed: int, devices: Sequence[str]) -> Answer:
    """The case of a seed on every device."""
    import torch

    warnings.simplefilter("ignore")  # of torch, about itself
    torch.set_num_threads(1)
    answer: Answer = {"operator": operator, "type": dtype, "seed": seed, "format": "pytorch"}
    try:
        module, tensors, kind = _drawn(every_entry()[operator], dtype, seed)
        with torch.no_grad():
            before = [t.clone() for t in tensors]
            expected = [flat(module(*(t.clone() for t in tensors))) for _ in range(2)]
            flat(module(*tensors))
            written = any(not _equal(a, b) for a, b in zip(before, tensors, strict=True))
            require_same(*expected)
            wide = _in_float64(operator, module, before)
    except NotJudged:
        return {**answer, "status": RANDOM, "reason": ""}
    except Exception as error:  # torch's exceptions have no base of theirs
        return {**answer, "status": ILLEGAL, "reason": _line(error)}
    try:
        program = torch.export.export(module, tuple(before))
    except Exception as error:
        return {**answer, "status": NOT_DRAWN, "reason": f"not exported: {_line(error)}"}
    answer |= {"kind": kind, "devices": {}}
    for device in devices:
        documented: list[str] = []

        def run(device: str = device, documented: list[str] = documented) -> tuple[str, str] | None:
            model = ex.load(program)
            inputs = {v.name: array_of(t) for v, t in zip(model.inputs, before, strict=True)}
            if written:
                run_program(model, inputs, expected[0], device, lambda found, right: None)
                raise AssertionError("eager writes into an input, and the program is not refused")

            def require(found: Mapping[str, np.ndarray], right: Mapping[str, Any]) -> None:
                allowed = _conditioned(operator, module, before)
                try:
                    _require(found, right, expected[0], wide, dtype, allowed)
                except AssertionError:
                    why = _documented(operator, dtype, before, found, right)
                    if wide is not None and not why:
                        exact = {
                            n: wide[_place(t, expected[0])].to(t.dtype) for n, t in right.items()
                        }
                        why = _documented(operator, dtype, before, found, exact)
                    if not why:
                        raise
                    documented.append(why)

            return run_program(model, inputs, expected[0], device, require)

        status, reason = judge(run, device)
        if "torch cannot save" in reason:
            return {**answer, "status": NOT_DRAWN, "reason": _line(reason)}
        if documented:
            answer["devices"][device] = [DOCUMENTED, documented[0]]
            continue
        answer["devices"][device] = [STATUSES[status], reason if status != "passed" else ""]
    found = list(answer["devices"].items())
    name, (status, reason) = next((f for f in found if f[1][0] in DEFECTS), found[0])
    return {**answer, "status": status, "reason": f"{name}: {reason}"}


def _documented(
    operator: str,
    dtype: str,
    tensors: Sequence[Any],
    found: Mapping[str, np.ndarray],
    right: Mapping[str, Any],
) -> str:
    """Why the table of disagreements has eager wrong; "" where it does not."""
    inputs = {str(place): array_of(tensor) for place, tensor in enumerate(tensors)}
    entries = entries_for(Pair(operator, dtype), disagreements(), inputs, "pytorch")
    ours = [np.asarray(found[name]) for name in right]
    return first_reason(entries, ours, [array_of(tensor) for tensor in right.values()], dtype)


def _drawn(entry: Any, dtype: str, seed: int) -> tuple[Any, list[Any], str]:
    """A module, its tensors, and the kind of numbers."""
    import torch

    if "empty" in entry.name:  # what nobody wrote may be the same twice
        raise NotJudged("random")
    random = np.random.default_rng(seed)
    torch.manual_seed(seed)
    kind_of_type = getattr(torch, dtype)
    samples = entry.sample_inputs("cpu", kind_of_type, requires_grad=False)
    drawn = list(itertools.islice(samples, MAX_SAMPLES))
    if not drawn:
        raise NotJudged("no sample")
    module, tensors = module_of(entry, drawn[int(random.integers(len(drawn)))])
    kind = "as sampled"
    is_free = entry.name not in AS_SAMPLED and tensors and tensors[0].dtype == kind_of_type
    if is_free and random.random() < HOSTILE_SHARE:
        kind = str(random.choice(kinds(dtype)))
        array = hostile(random, dtype, tuple(tensors[0].shape), kind)
        wide = array.astype(np.float32) if dtype == "bfloat16" else array
        tensors[0] = torch.from_numpy(np.ascontiguousarray(wide)).to(kind_of_type)
        tensors[0] = tensors[0].reshape(array.shape)
    return module, tensors, kind


def _as_float(tensor: Any) -> np.ndarray:
    """In doubles; whole numbers as the float32 that PyTorch makes of them."""
    return (tensor if tensor.is_floating_point() else tensor.float()).double().numpy()


def _bessel(x: np.ndarray, kind: str, order: int) -> np.ndarray:
    import mpmath  # which torch needs

    mpmath.mp.dps = 40
    function = mpmath.besselj if kind == "j" else mpmath.bessely
    ends = {0.0: -np.inf if kind == "y" else 1.0 - order, np.inf: 0.0}
    values = [
        np.nan
        if np.isnan(n) or (kind == "y" and n < 0)
        else ends[abs(n)]
        if abs(n) in ends
        else float(function(order, mpmath.mpf(n)))
        for n in x.reshape(-1).tolist()
    ]
    return np.array(values).reshape(x.shape)


def _in_float64(operator: str, module: Any, tensors: Sequence[Any]) -> list[Any] | None:
    """Eager with floats in float64, or with whole numbers where there are no floats; None where it
    does not take them."""
    import torch

    floats = [t for t in tensors if t.is_floating_point()]
    if operator in BESSEL:
        return [torch.from_numpy(_bessel(_as_float(tensors[0]), *BESSEL[operator]))]
    if floats and all(t.dtype == torch.float64 for t in floats):
        return None
    wide = [t.double() if t.is_floating_point() or not floats else t.clone() for t in tensors]
    try:
        return flat(module(*wide))
    except Exception:  # an argument of the sample is of the narrow type
        return None


def _require(
    found: Mapping[str, np.ndarray],
    right: Mapping[str, Any],
    expected: Sequence[Any],
    wide: Sequence[Any] | None,
    dtype: str,
    allowed: Callable[[int], float] | None = None,
) -> None:
    """AssertionError where an output is neither eager's nor that of eager in float64.

    allowed: the error of a result by its place, where the inputs' own rounding decides about it.
    """
    for name, tensor in right.items():
        array = array_of(tensor)
        problem = same([np.asarray(found[name])], [array], dtype)
        place = _place(tensor, expected)
        if problem and allowed is not None and array.dtype.kind == "f":
            ours = np.asarray(found[name]).astype(np.float64)
            if ours.shape == array.shape and np.all(np.abs(ours - array) <= allowed(place)):
                continue
        if problem and wide is not None and "float" in array.dtype.name:
            with np.errstate(all="ignore"):
                exact = array_of(wide[place]).astype(array.dtype)
            problem = same([np.asarray(found[name])], [exact], dtype) and problem
        if problem:
            raise AssertionError(f"{name}: {problem}")


def _place(tensor: Any, among: Sequence[Any]) -> int:
    return next(i for i, value in enumerate(among) if value is tensor)


def _conditioned(
    operator: str, module: Any, tensors: Sequence[Any]
) -> Callable[[int], float] | None:
    """How far eager's results move when each input moves by one unit in its last place, times
    PERTURBED_STEPS; None for operators that do not solve or decompose."""
    if not operator.startswith(CONDITIONED):
        return None
    import torch

    def allowed(place: int) -> float:
        right = array_of(flat(module(*tensors))[place]).astype(np.float64)
        error = 0.0
        for seed in range(4):
            random = torch.Generator().manual_seed(seed)
            moved = [
                t
                * (
                    1
                    + (torch.rand(t.shape, generator=random).round() * 2 - 1).to(t.dtype)
                    * torch.finfo(t.dtype).eps
                )
                if t.is_floating_point()
                else t
                for t in tensors
            ]
            found = array_of(flat(module(*moved))[place]).astype(np.float64)
            error = max(error, float(np.max(np.abs(found - right), initial=0.0)))
        return PERTURBED_STEPS * error

    return allowed


def _equal(a: Any, b: Any) -> bool:
    import torch

    return a.shape == b.shape and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))


def _line(error: object) -> str:
    return " ".join(str(error).split())[:200]
