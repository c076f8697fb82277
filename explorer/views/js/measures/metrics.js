// Errors of tensors by several metrics: their words, their place on the scale, which is worse.

import {MAX_DECIBELS, errorPosition, quantizedPosition} from "../ground/errors.js";
import {decibelsText, errorText} from "../ground/numbers.js";

export const METRICS = {
  relative: {
    label: "relative",
    title: "largest difference over the largest expected value",
    low: "≤1e-9",
    high: "1",
    at: (value) => errorPosition(value),
    text: errorText,
    worse: (value) => value,
  },
  sqnr: {
    label: "SQNR",
    title: "signal to quantization noise ratio",
    low: "≥140 dB",
    high: "0 dB",
    at: (value) =>
      value === Infinity
        ? 0
        : Number.isFinite(value)
          ? Math.min(1, Math.max(0, 1 - value / 140))
          : 1,
    text: decibelsText,
    worse: (value) => -value,
  },
  cosine: {
    label: "cosine",
    title: "distance of the cosine from 1",
    low: "≤1e-9",
    high: "1",
    at: (value) => errorPosition(value),
    text: errorText,
    worse: (value) => value,
  },
};

// Of a quantized program against the float model, whose SQNR has another scale.
export const FLOAT_METRICS = {
  ...METRICS,
  sqnr: {...METRICS.sqnr, low: `≥${MAX_DECIBELS} dB`, at: quantizedPosition},
};
