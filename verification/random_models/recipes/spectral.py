"""Fourier transforms and what goes with them."""

from __future__ import annotations

import numpy as np

from verification.random_models.draft import Draft
from verification.random_models.recipes.recipe import family, recipes

FLOATS = ("float32",)
"""onnxruntime has float64 as well, with angles of float32."""


def window(operator: str, draft: Draft) -> None:
    size = draft.constant(np.array(draft.number(2, 12), np.int64))
    draft.add(operator, [size], periodic=draft.number(0, 1))


def fourier(draft: Draft) -> None:
    """Along one axis; of real or of complex numbers, whose last axis holds both parts."""
    inverse = draft.number(0, 1)
    parts = 2 if inverse else draft.number(1, 2)
    shape = (draft.number(1, 2), draft.number(2, 9), parts)
    x = draft.input(draft.one_of(FLOATS), shape)
    onesided = draft.number(0, 1) if parts == 1 else 0
    length = draft.constant(np.array(draft.number(2, 9), np.int64)) if draft.flag() else ""
    flags = {"inverse": inverse, "onesided": onesided}
    if draft.opset >= 20:
        draft.add("DFT", [x.name, length, draft.constant(np.array(1, np.int64))], **flags)
    else:
        draft.add("DFT", [x.name, length] if length else [x.name], axis=1, **flags)


def short_time(draft: Draft) -> None:
    frame, step = draft.number(3, 8), draft.number(1, 4)
    dtype = draft.one_of(FLOATS)
    x = draft.input(dtype, (draft.number(1, 2), draft.number(frame, 24), 1))
    shift = draft.constant(np.array(step, np.int64))
    if draft.flag():
        operands = [x.name, shift, draft.weight(dtype, (frame,))]
    else:
        operands = [x.name, shift, "", draft.constant(np.array(frame, np.int64))]
    draft.add("STFT", operands, onesided=draft.number(0, 1))


def mel_weights(draft: Draft) -> None:
    counts = (draft.number(4, 8), draft.one_of([16, 32]), 8000)
    integers = [draft.constant(np.array(n, np.int64)) for n in counts]
    edges = [draft.constant(np.array(n, np.float32)) for n in (0.0, 4000.0)]
    draft.add("MelWeightMatrix", [*integers, *edges])


RECIPES = (
    *family(window, "HannWindow", "HammingWindow", "BlackmanWindow"),
    *recipes(fourier, short_time, mel_weights),
)
