"""Three calls of a program that remembers, judged by what its format's own program remembers.

    try_sequence("tflite.LSTM", seed=7, devices=("CPU",))
    -> {"operator": "tflite.LSTM", "type": "float32", "status": "right", ...}

onnx.NAME      a recurrent operator, whose last states are the next call's first ones: onnxruntime
tflite.NAME    an operator with states of its own, or a resource that is assigned: LiteRT
pytorch.HOW    a module that writes into its buffers and inputs: eager, and what they hold then
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from explorer.runtime.child import Answer
from verification.conformance.suite import judge
from verification.operators.seeded import STATUSES
from verification.operators.sequences.documented import DocumentedError
from verification.operators.verdicts import DEFECTS, DOCUMENTED

SEQUENCES = "sequences"
"""The format of answers for sequences of calls."""
CALLS = 3
PYTORCH = ("pytorch.compiled", "pytorch.exported")
Judged = tuple[str, str]
"""Status and reason."""


def sequences() -> list[str]:
    """All kinds of sequences. Each of the packages is needed for its own only."""
    from verification.conformance.tflite.recurrent import DRAWS
    from verification.operators.sequences.recurrent_onnx import OPERATORS
    from verification.operators.sequences.variables_tflite import VARIABLES

    tflite = (f"tflite.{name}" for name in (*DRAWS, VARIABLES))
    return sorted([*(f"onnx.{name}" for name in OPERATORS), *tflite, *PYTORCH])


def try_sequence(
    name: str, seed: int, devices: Sequence[str], folder: Path | None = None
) -> Answer:
    """The case of a seed on every device."""
    answer: Answer = {"operator": name, "seed": seed, "format": SEQUENCES, "type": "float32"}
    run, words = _drawn(name, seed, folder)
    answer |= {"kind": words["kind"], "type": words["type"], "devices": {}}
    for device in devices:
        answer["devices"][device] = list(_judged(run, device))
    found = list(answer["devices"].items())
    chosen, (status, reason) = next((f for f in found if f[1][0] in DEFECTS), found[0])
    return {**answer, "status": status, "reason": f"{chosen}: {reason}"}


def _drawn(name: str, seed: int, folder: Path | None) -> tuple[Callable[[str], None], Answer]:
    """What runs the case on a device, and its type and kind."""
    family, operator = name.split(".", 1)
    match family:
        case "onnx":
            from verification.operators.sequences import recurrent_onnx

            return recurrent_onnx.drawn(operator, seed, folder)
        case "tflite":
            from verification.operators.sequences import variables_tflite

            return variables_tflite.drawn(operator, seed, folder)
    from verification.operators.sequences import writes_pytorch

    return writes_pytorch.drawn(operator, seed)


def _judged(run: Callable[[str], None], device: str) -> Judged:
    explained: list[str] = []

    def whole() -> None:
        try:
            run(device)
        except DocumentedError as found:
            explained.append(str(found))

    status, reason = judge(whole, device)
    if explained:
        return DOCUMENTED, explained[0]
    return STATUSES[status], reason if status != "passed" else ""
