"""The report on seeded TFLite cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version

from explorer.references.lite_rt import LITE_RT
from verification.conformance.seeded_report import SeededReport


@dataclass(frozen=True)
class TfliteReport(SeededReport):
    title: str = "explorer conformance --suite tflite"
    suite: str = "tflite"

    def opening(self) -> Sequence[str]:
        return (
            "# Conformance of TFLite",
            "",
            "How random models of one operator go through this compiler. "
            f"Made by `{self.title}`; {LITE_RT.named}, reference kernels "
            "(its own for operators that these lack or get wrong). Shapes, scales and options are "
            "drawn from the seed, and types among those that the importer takes: bytes only where "
            "they have a form; what LiteRT refuses is drawn anew. Every second case has tensors "
            "of 4,000 elements and more (not NON_MAX_SUPPRESSION, RANGE and UNIQUE). Integers and "
            "booleans are equal to the bit, floats within 2e-5 of the largest number of their "
            "tensor.",
        )

    def versions(self) -> Mapping[str, str]:
        return {"litert": LITE_RT.version, "tflite": version("tflite")}
