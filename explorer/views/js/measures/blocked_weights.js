// Weights alone as integers in blocks: what the list of products and the chosen one say of them.

import {element} from "../ground/dom.js";
import {bytesText, decibelsText, decode, exactText} from "../ground/numbers.js";

export const WEIGHT_MODES = ["INT4", "UINT4", "INT8", "UINT8", "F32"];

export function decodedBlocked(blocked) {
  const optional = (value) => (value === null ? null : decode(value));
  return {
    ...blocked,
    nearest: optional(blocked.nearest),
    own: optional(blocked.own),
    gain: optional(blocked.gain),
  };
}

// Columns of the list that say how weights were rounded; those of errors stand behind them.
export function blockedColumns(decibels) {
  return [
    {
      title: "product",
      value: ({name}) => name,
      text: ({name}) => name,
      exact: ({name}) => name,
    },
    {
      title: "weights",
      value: ({blocked}) => modeText(blocked),
      text: ({blocked}) => modeText(blocked),
      exact: ({blocked}) => wordsOf(blocked),
    },
    {
      title: "bytes",
      hint: "of the weights with their scales and zero points",
      number: true,
      value: ({blocked}) => blocked.bytes[0],
      text: ({blocked}) => bytesText(blocked.bytes[0]),
      exact: ({blocked}) => `${exactText(blocked.bytes[0])} of ${exactText(blocked.bytes[1])}`,
    },
    decibels(
      "GPTQ gains",
      "how much less sums err by GPTQ than with the nearest numbers, over what calibration saw",
      ({blocked}) => blocked.gain,
    ),
    decibels(
      "by itself",
      "SQNR of the product by itself: the lower, the more it costs",
      ({layer}) => (layer ? layer.both : null),
    ),
    decibels(
      "in program",
      "SQNR against the float model, with the errors of all products before it",
      ({againstFloat}) => againstFloat,
    ),
  ];
}

// What rounding did to one product's weights, in sentences.
export function blockedFacts({blocked}) {
  if (!blocked.block) return element("p", {class: "quiet-text"}, "Its weights stay float.");
  const share = ((blocked.bytes[0] / blocked.bytes[1]) * 100).toFixed(1);
  const lines = [
    `${wordsOf(blocked)}: ${bytesText(blocked.bytes[0])} instead of ` +
      `${bytesText(blocked.bytes[1])} (${share} %), read where they are multiplied.`,
    blocked.gain === null
      ? `Each is the nearest number: ${decibelsText(blocked.own)} of the weights themselves.`
      : `By GPTQ sums err ${decibelsText(blocked.gain)} less over what calibration saw. The ` +
        `weights themselves have ${decibelsText(blocked.own)}, with the nearest numbers ` +
        `${decibelsText(blocked.nearest)}: errors make up for one another.`,
  ];
  return element(
    "div",
    {},
    lines.map((line) => element("p", {class: "quiet-text"}, line)),
  );
}

export const blockedSummary = ([narrow, wide]) =>
  `weights alone: ${bytesText(narrow)} instead of ${bytesText(wide)}`;

const modeText = ({mode, block, rounding}) => (block ? `${mode} / ${block}, ${rounding}` : mode);

const wordsOf = ({mode, block, rounding}) =>
  block ? `${mode} in blocks of ${block}, rounded by ${rounding}` : "floats";
