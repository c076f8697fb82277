// Beside the arena: the chosen buffer, the peak and the least possible one, what lives at the
// fullest step, and which strategies were tried.

import {moving} from "../desk/moves.js";
import {element} from "../ground/dom.js";
import {bytesText, exactText, percentText} from "../ground/numbers.js";
import {tailOf} from "../measures/column_names.js";
import {drawParts} from "../ground/specification.js";
import {bufferName} from "./painting.js";
import {canFork, pinForm, refusalList} from "./placing.js";

const MAX_HEADING = 40; // characters of a name
const MAX_AT_PEAK = 40;

// buffer: the chosen one, or undefined; note: why one that was dropped stays where it was;
// choose(buffer) chooses another.
export function sideContent({app, memory, peakStep, placing, buffer, note, choose, budget}) {
  const saved = memory.total ? 1 - memory.peak / memory.total : 0;
  const living = memory.buffers
    .filter((item) => item.first <= peakStep && peakStep < item.last)
    .sort((a, b) => b.size - a.size);
  return [
    note ? element("p", {class: "drop-note", role: "status"}, note) : null,
    buffer
      ? [
          canFork(app) ? pinForm(app, memory, buffer) : bufferFacts(app, memory, buffer),
          refusalList(app, memory, buffer, placing),
        ]
      : null,
    element(
      "dl",
      {class: "facts"},
      element("dt", {}, "peak"),
      element(
        "dd",
        {title: exactText(memory.peak)},
        moving(app, "peak_bytes", bytesText(memory.peak)),
      ),
      memory.memories.length ? null : leastPossible(memory),
      element("dt", {}, "without sharing"),
      element(
        "dd",
        {title: exactText(memory.total)},
        bytesText(memory.total),
        element("span", {class: "quiet-text"}, `, ${percentText(saved)} saved`),
      ),
      element("dt", {}, element("span", {class: "line-key"}), "live bytes"),
      element("dd", {}, "in every step"),
      element("dt", {}, "buffers"),
      element("dd", {}, exactText(memory.buffers.length)),
      memory.memories.map(({name, size}) => [
        element("dt", {}, name),
        element("dd", {title: exactText(size)}, bytesText(size)),
      ]),
    ),
    budget?.node,
    living.length
      ? [
          element(
            "h3",
            {},
            element("span", {class: "ink-removed"}, "▼ "),
            "fullest step: ",
            element(
              "span",
              {class: "as-written"},
              tailOf(stepName(app, memory, peakStep), MAX_HEADING),
            ),
          ),
          element(
            "ul",
            {class: "plain at-peak"},
            living.slice(0, MAX_AT_PEAK).map((item) =>
              element(
                "li",
                {},
                element(
                  "button",
                  {
                    type: "button",
                    class: `worst${item === buffer ? " marked" : ""}`,
                    title: `${item.values[0]}, ${lifeText(app.data, memory, item)}`,
                    onclick: () => choose(item),
                  },
                  element("span", {class: "worst-name"}, tailOf(bufferName(app.data, item), 40)),
                  element("span", {class: "mono"}, bytesText(item.size)),
                ),
              ),
            ),
          ),
          living.length > MAX_AT_PEAK
            ? element(
                "p",
                {class: "cap"},
                `${living.length - MAX_AT_PEAK} smaller ones are not listed`,
              )
            : null,
        ]
      : null,
    element("div", {class: "specification"}, drawParts(app, memory.tried).nodes),
    buffer
      ? null
      : element(
          "p",
          {class: "quiet-text"},
          "Choose a buffer to see the places that were refused for it; drag it to try " +
            "another one.",
        ),
  ];
}

// The bytes that live at once. Memories that are apart have none in common.
function leastPossible(memory) {
  return [
    element("dt", {}, element("span", {class: "line-key dashed"}), "least possible"),
    element(
      "dd",
      {title: exactText(memory.bound)},
      bytesText(memory.bound),
      element(
        "span",
        {class: "quiet-text"},
        memory.optimal ? ", reached" : `, ${bytesText(memory.peak - memory.bound)} above`,
      ),
    ),
  ];
}

const stepName = (app, {steps}, step) =>
  steps[step] === undefined ? String(step) : app.data.layerName(steps[step]);

// From the step that writes a buffer to the last one that reads it.
export function lifeText(data, {steps}, {first, last}) {
  const nameOf = (step) => (steps[step] === undefined ? "" : data.layerName(steps[step]));
  return `live in steps ${first} to ${last - 1}: ${nameOf(first)} to ${nameOf(last - 1)}`;
}

const bufferFacts = (app, memory, buffer) =>
  element(
    "div",
    {class: "buffer-facts"},
    element(
      "div",
      {class: "subject-name"},
      element(
        "strong",
        {class: "mono", title: buffer.values[0]},
        tailOf(bufferName(app.data, buffer), 24),
      ),
      element("span", {class: "quiet-text"}, bytesText(buffer.size)),
    ),
    element("div", {}, `at byte ${exactText(buffer.offset)}, aligned to ${buffer.alignment}`),
    element("div", {class: "quiet-text"}, lifeText(app.data, memory, buffer)),
  );
