"""Who is right about a case: what the judges say, and the table of their disagreements.

    verdict(pair, opinions, found, table)     Verdict("differs", "onnx: 1 instead of 2 at [0]")

Judges that agree decide, and a result that is as near to float64 as its type allows is right, too,
and so is one that equals Python's integers.
Where judges disagree about what is no matter of rounding, `disagreements.toml` says who is right;
without an entry the case is `disputed`. Every judge that ours differs from needs an entry which
says that it is wrong; one without a kind of difference does not help against a proof.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from onnx.defs import OpSchema

from verification.operators.comparing import same
from verification.operators.explaining import is_explained, is_given
from verification.operators.judges import EXACT, ONNX, PROOF, RUNTIME, NoOpinion, Opinions
from verification.operators.pairs import Pair, schemas

TABLE = Path(__file__).with_name("disagreements.toml")
RIGHT, DOCUMENTED, REFUSED = "right", "documented", "refused"
DIFFERS, FAILED, DISPUTED = "differs", "failed", "disputed"
ILLEGAL, UNJUDGED, NOT_DRAWN, RANDOM = "illegal", "unjudged", "not drawn", "random"
STATUSES = {
    RIGHT: "equal to the judges",
    DOCUMENTED: "the table of disagreements says who is right, or what is documented",
    REFUSED: "the importer or a lowering says by name what it does not know",
    RANDOM: "the results are random numbers: shapes and types are right",
    ILLEGAL: "onnxruntime refuses the inputs, or onnx's reference and the compiler do",
    UNJUDGED: "no judge computes it",
    NOT_DRAWN: "no valid model comes of onnx's examples with this type",
    DISPUTED: "the judges disagree, and the table has no entry",
    DIFFERS: "another shape, type or number than the judges",
    FAILED: "an error that was not foreseen",
    "crashed": "the process was ended by a signal",
    "hung": "the time limit was reached",
}
DEFECTS = (DIFFERS, FAILED, DISPUTED, "crashed", "hung")


@dataclass(frozen=True)
class Verdict:
    status: str
    reason: str = ""


@dataclass(frozen=True)
class Disagreement:
    """An entry of the table; no `types`: all of them. `format`: that of the operators.

    `given`, `only`: the inputs and the differences that it is for (`explaining.py`)."""

    operators: tuple[str, ...]
    types: tuple[str, ...]
    right: str
    why: str
    format: str = "onnx"
    given: str = ""
    only: str = ""


@cache
def disagreements(path: Path = TABLE) -> tuple[Disagreement, ...]:
    entries = tomllib.loads(path.read_text()).get("disagreement", [])
    return tuple(
        Disagreement(
            tuple(entry["operators"]),
            tuple(entry.get("types", ())),
            entry["right"],
            entry["why"],
            entry.get("format", "onnx"),
            entry.get("given", ""),
            entry.get("only", ""),
        )
        for entry in entries
    )


def entries_for(
    pair: Pair,
    table: Sequence[Disagreement],
    inputs: Mapping[str, Any],
    format_name: str = "onnx",
    inner: Sequence[str] = (),
) -> list[Disagreement]:
    """The entries for an operator, a type and inputs. `inner`: operators of its nested graphs, the
    entries of which hold for it, too."""
    operators = {pair.operator, *inner}
    return [
        entry
        for entry in table
        if entry.format == format_name
        and not operators.isdisjoint(entry.operators)
        and (not entry.types or pair.element_type in entry.types)
        and is_given(entry.given, inputs)
    ]


def verdict(
    pair: Pair,
    opinions: Opinions,
    found: Sequence[Any],
    table: Sequence[Disagreement],
    inputs: Mapping[str, Any],
    narrowest: str = "",
    inner: Sequence[str] = (),
) -> Verdict:
    """Judges our results. There is at least one opinion. `narrowest`: a float type that the model
    reads; results are as exact as that. `inner`: operators of nested graphs."""
    known = {n: o for n, o in opinions.items() if not isinstance(o, NoOpinion)}
    exact = [_rounded(known.pop(name, None), found) for name in EXACT]
    dtype = tolerated_type(pair)
    if _is_coarser(narrowest, dtype):
        dtype = narrowest
    problems = {name: same(found, right, dtype) for name, right in known.items()}
    wrong = {name: problem for name, problem in problems.items() if problem}
    is_exact = [r is not None and not same(found, r, dtype) for r in exact]
    if not wrong or any(is_exact):
        return Verdict(RIGHT)
    words = "; ".join(f"{name}: {problem}" for name, problem in wrong.items())
    if pair.operator not in schemas() and RUNTIME not in wrong and RUNTIME in known:
        return Verdict(RIGHT)  # the table has single operators
    entries = entries_for(pair, table, inputs, inner=inner)
    proved = exact[EXACT.index(PROOF)]

    def reason(judge: str) -> str:
        # Ours may be as far from a proof as an entry says; without one, from the judge.
        fitting = [entry for entry in entries if _explains(entry, judge, wrong, known)]
        from_proof = [e for e in fitting if e.right == "ours" and proved is not None]
        from_judge = [entry for entry in fitting if entry not in from_proof]
        return first_reason(from_judge, found, known[judge], dtype) or (
            first_reason([e for e in from_proof if e.only], found, proved or [], dtype)
        )

    reasons = [reason(name) for name in wrong]
    if all(reasons):
        return Verdict(DOCUMENTED, reasons[0])
    is_disputed = len(known) > 1 and bool(same(known[RUNTIME], known[ONNX], dtype))
    has_entry = any(entry.right in (*known, "either") for entry in entries)
    return Verdict(DISPUTED if is_disputed and not has_entry else DIFFERS, words)


def first_reason(
    entries: Sequence[Disagreement], found: Sequence[Any], right: Sequence[Any], dtype: str
) -> str:
    """Why results differ, of the first entry that explains it, or the first of several that explain
    it together, each element by one of them; "" where nothing does."""
    for entry in entries:
        if is_explained([entry.only], found, right, dtype):
            return entry.why
    names = [entry.only for entry in entries]
    return entries[0].why if names and is_explained(names, found, right, dtype) else ""


def _explains(
    entry: Disagreement, judge: str, wrong: Mapping[str, str], known: Mapping[str, Any]
) -> bool:
    """Whether the entry says that this judge is wrong: ours is right, or another judge is."""
    if entry.right == "either":
        return len(wrong) < len(known)
    return entry.right != judge


def tolerated_type(pair: Pair) -> str:
    """The type that results are as exact as. Attributes and the constants of ONNX's function bodies
    are float32, and may be read as those or as the decimal numbers that they stand for."""
    if pair.operator not in schemas():  # a chain of several
        return pair.element_type
    schema: Any = schemas()[pair.operator]  # Any: onnx's stubs do not know function bodies
    has_attributes = any(a.type == OpSchema.AttrType.FLOAT for a in schema.attributes.values())
    is_rounded = has_attributes or schema.has_function or schema.has_context_dependent_function
    return "float32" if pair.element_type == "float64" and is_rounded else pair.element_type


def _is_coarser(narrowest: str, dtype: str) -> bool:
    if not narrowest:
        return False
    one, other = (
        float(ml_dtypes.finfo(np.dtype(t)).eps) if "float" in t else 0.0 for t in (narrowest, dtype)
    )
    return one > other


def _rounded(exact: Any, found: Sequence[Any]) -> list[Any] | None:
    """The results of float64 rounded to the types that the program declares."""
    if exact is None or len(exact) != len(found):
        return None
    with np.errstate(all="ignore"):
        return [
            right.astype(ours.dtype)
            if isinstance(right, np.ndarray) and isinstance(ours, np.ndarray)
            else right
            for right, ours in zip(exact, found, strict=True)
        ]
