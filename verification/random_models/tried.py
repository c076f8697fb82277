"""Which operators were tried on which types, and which were not and why.

coverage = Tried.of(answers)
coverage.lines()      Add   float32 41, float64 12, int8 3
                      ...
                      never: Bernoulli (its results are random numbers)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx

from explorer.importers.onnx.converters import all_converters, missing_reason
from explorer.runtime.child import Answer
from verification.random_models.recipes import NEVER

NOT_DRAWN = "no seed of this run drew it"


def known_operators() -> set[str]:
    """The operators that the importer knows in onnx's newest opset, and those of other domains."""
    newest = onnx.defs.onnx_opset_version()
    own = {
        schema.name
        for schema in onnx.defs.get_all_schemas()
        if not (schema.domain or schema.deprecated or missing_reason(schema.name, "", newest))
    }
    return own | {o for c in all_converters() if "" not in c.domains for o in c.operators}


@dataclass(frozen=True)
class Tried:
    """`counts`: models by (operator, type of an operand). `never`: reasons by operator."""

    counts: Mapping[tuple[str, str], int]
    never: Mapping[str, str]

    @staticmethod
    def of(answers: Sequence[Answer]) -> Tried:
        """From the answers for single seeds; models that onnxruntime rejected do not count."""
        counts: Counter[tuple[str, str]] = Counter()
        drawn: set[str] = set()
        for answer in answers:
            if answer["status"] == "rejected":
                continue
            drawn.update(answer.get("operators", ()))
            for found in answer.get("types", ()):
                operator, dtype = found.split(" ")
                counts[operator, dtype] += 1
        missing = sorted(known_operators() - drawn)
        return Tried(counts, {o: NEVER.get(o, NOT_DRAWN) for o in missing})

    @property
    def operators(self) -> list[str]:
        return sorted({operator for operator, _ in self.counts})

    def lines(self) -> list[str]:
        """As text: a line for each operator with its types, then those never tried."""
        lines = [
            f"{len(self.operators)} operators with {len(self.counts)} pairs of operator and type"
        ]
        for operator in self.operators:
            types = sorted((d, n) for (o, d), n in self.counts.items() if o == operator)
            lines.append(f"{operator:26} " + ", ".join(f"{d} {n}" for d, n in types))
        lines += [f"never: {operator} ({reason})" for operator, reason in self.never.items()]
        return lines
