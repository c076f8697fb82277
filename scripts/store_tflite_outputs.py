"""Stores what LiteRT's reference kernels answer to the cases of tests/importers/tflite_cases.py.

    python scripts/store_tflite_outputs.py            writes tests/importers/tflite_outputs.npz

Tests compare with the stored arrays, so that they need no LiteRT. Each kernel was compared with the
optimized ones by hand where it is known to be wrong (SUM of signed numbers,
LOCAL_RESPONSE_NORMALIZATION): none of these is among the cases.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from explorer.importers.tflite.file.reading import read
from explorer.references.interface import reference_of
from tests.importers.tflite_cases import (
    STORED,
    result_names,
    whole_inputs,
    whole_model,
)


def main() -> None:
    model = read(memoryview(whole_model()), "cases")
    judge = reference_of(model)
    found = dict(judge.tensors(model, whole_inputs(), list(result_names().values())))
    arrays = {case: found[name] for case, name in result_names().items()}
    np.savez_compressed(STORED, **arrays)
    print(f"{len(arrays)} outputs by {judge.title}: {STORED.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
