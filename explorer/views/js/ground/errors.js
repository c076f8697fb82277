// Errors of tensors: how they are written and coloured, and what is said where there are none.

import {emptyState} from "./dom.js";
import {countText, notFinite} from "./numbers.js";

const MODE_TITLES = {
  accumulated: "errors travel from operation to operation",
  isolated: "every operation is fed the reference's inputs, so that the guilty one stands out",
  float: "a quantized program against the float model: measured, and judged by nobody",
};
const MODE_LABELS = {float: "against float"};

// Tabs of the modes that there are: only a quantized program has another float model.
export function modeTabs(accuracy) {
  const modes = ["accumulated", "isolated", ...(accuracy.float.length ? ["float"] : [])];
  return modes.map((id) => ({id, label: MODE_LABELS[id] ?? id, title: MODE_TITLES[id]}));
}

// What a choice of mode sets: distances from a float model are told in decibels.
export function modeChosen(mode) {
  return mode === "float" ? {mode, metric: "sqnr"} : {mode};
}

// The mode that is shown: a branch that is not quantized has no float model beside it.
export function modeShown(accuracy, mode) {
  return mode === "float" && !accuracy.float.length ? "accumulated" : mode;
}

const SMALLEST_ERROR = 1e-9;

// 0 at the smallest error that is shown, 1 at `largest`, on a logarithmic scale.
export function errorPosition(error, largest = 1) {
  if (Number.isNaN(error)) return 1;
  const low = Math.log10(SMALLEST_ERROR),
    high = Math.log10(largest);
  return Math.min(
    1,
    Math.max(0, (Math.log10(Math.max(error, SMALLEST_ERROR)) - low) / (high - low)),
  );
}

export const MAX_DECIBELS = 60; // an error in 1,000: bytes seldom do better

// The same of a quantized tensor's SQNR: 1 where noise is as large as the signal.
export function quantizedPosition(decibels) {
  if (decibels === Infinity) return 0;
  return Number.isFinite(decibels) ? Math.min(1, Math.max(0, 1 - decibels / MAX_DECIBELS)) : 1;
}

export function notCompared(app) {
  if (app.session?.isPending("accuracy"))
    return emptyState(
      "Being compared",
      "The program after every pass is run and compared with the source model, tensor by " +
        "tensor. What is here already stays usable.",
    );
  return emptyState(
    "Not compared with the source model",
    "Every snapshot can be executed and compared, tensor by tensor. In a notebook, " +
      "c.accuracy(inputs) does it; explorer serve does it by itself.",
  );
}

// As many digits as a float32 holds.
export function shortNumber(value) {
  if (!Number.isFinite(value)) return notFinite(value);
  const magnitude = Math.abs(value);
  const text = Number(value.toPrecision(9));
  return magnitude !== 0 && (magnitude < 1e-4 || magnitude >= 1e9)
    ? text.toExponential()
    : String(text);
}

export function noDetail(accuracy, mode) {
  if (mode === "float") return "Histograms are kept of the other two comparisons.";
  const left = accuracy.detailsLeftOut;
  const words = countText(left, "one with a smaller error is", "with smaller errors are");
  return left
    ? `No histograms of this tensor: ${words} left out.`
    : "This comparison holds no histograms: it was saved by an older version, or the shapes " +
        "differ.";
}
