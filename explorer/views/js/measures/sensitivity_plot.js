// Tensors by the noise that their bytes add to the outputs, a row each, on one scale of decibels.
// Filled: only this tensor is INT8. Hollow: all but this one are; the tick: this one is INT16. Both
// begin at the line where all are INT8.

import {element, replace, shape} from "../ground/dom.js";

const ROW = 18;
const TOP = 30;
const NAME = 190;
const SIDE = 14;
const CHARACTER = 6.2; // of a name, at 11 px
const MOST_ROWS = 400;

export const decibels = (value) => (Number.isFinite(value) ? `${value.toFixed(1)} dB` : "exact");

// Whole tens around what is finite.
export function decibelEnds(values) {
  const finite = values.filter(Number.isFinite);
  const low = Math.floor(Math.min(...finite, Infinity) / 10) * 10;
  const high = Math.ceil(Math.max(...finite, -Infinity) / 10) * 10;
  return finite.length ? [low, Math.max(high, low + 10)] : [0, 10];
}

// found: {tensors, points}; pick(tensor) is called where a row is pressed.
export function sensitivityPlot(found, pick) {
  const shown = found.tensors.slice(0, MOST_ROWS);
  const base = found.points[0].quality.sqnr;
  const [low, high] = decibelEnds([
    base,
    ...shown.flatMap(({alone, without, wide}) => [alone.sqnr, without.sqnr, wide.sqnr]),
  ]);
  const height = TOP + ROW * shown.length + 4;
  const picture = shape("svg", {class: "sensitivity-plot", role: "group", height: String(height)});
  picture.setAttribute("aria-label", "tensors by what their bytes cost the outputs");
  const node = element(
    "div",
    {},
    element(
      "p",
      {class: "quiet-text sensitivity-legend"},
      key("alone", "only this tensor is INT8"),
      key("without", "all INT8 but this one"),
      key("wide", "this one INT16, all others INT8"),
    ),
    picture,
    found.tensors.length > shown.length
      ? element("p", {class: "cap"}, `the ${shown.length} noisiest of ${found.tensors.length}`)
      : null,
  );
  let isMarked = (_tensor) => false;

  function paint() {
    const width = node.clientWidth;
    if (!width) return;
    const left = Math.min(NAME, width / 3);
    const x = (value) =>
      left + ((Math.min(Math.max(value, low), high) - low) / (high - low)) * (width - left - SIDE);
    picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    picture.setAttribute("width", String(width));
    const isRight = x(base) > left + (width - left) / 2;
    replace(
      picture,
      shape(
        "text",
        {
          class: "axis",
          x: x(base) + (isRight ? -4 : 4),
          y: 10,
          "text-anchor": isRight ? "end" : "start",
        },
        `all INT8 ${decibels(base)}`,
      ),
      ticksOf(low, high, x(high) - x(low)).map((value) => [
        shape("line", {class: "grid", x1: x(value), x2: x(value), y1: TOP - 4, y2: height}),
        shape(
          "text",
          {class: "axis", x: x(value), y: TOP - 8, "text-anchor": "middle"},
          `${value}`,
        ),
      ]),
      shape("line", {class: "all-bytes", x1: x(base), x2: x(base), y1: 2, y2: height}),
      shown.map((tensor, place) => rowOf(tensor, TOP + ROW * (place + 0.5), x, left)),
    );
  }

  function rowOf(tensor, y, x, left) {
    const {name, alone, without, wide} = tensor;
    const most = Math.floor((left - 14) / CHARACTER);
    const said =
      `${name}: ${decibels(alone.sqnr)} with only it INT8, ${decibels(without.sqnr)} with all ` +
      `but it, ${decibels(wide.sqnr)} with it INT16`;
    return shape(
      "g",
      {
        class: `sensitivity-row${isMarked(tensor) ? " marked" : ""}`,
        role: "button",
        tabindex: 0,
        "aria-label": said,
        onclick: () => pick(tensor),
        onkeydown: (event) => {
          if (event.key === "Enter") pick(tensor);
        },
      },
      shape("title", {}, said),
      shape("rect", {
        class: "row-ground",
        x: 0,
        y: y - ROW / 2,
        width: x(high) + SIDE,
        height: ROW,
      }),
      shape(
        "text",
        {class: "row-name", x: left - 10, y: y + 4, "text-anchor": "end"},
        name.length > most ? `…${name.slice(1 - most)}` : name,
      ),
      shape("line", {class: "gain", x1: x(base), x2: x(without.sqnr), y1: y, y2: y}),
      shape("line", {class: "wide", x1: x(wide.sqnr), x2: x(wide.sqnr), y1: y - 5, y2: y + 5}),
      shape("circle", {class: "without", cx: x(without.sqnr), cy: y, r: 4}),
      shape("circle", {class: "alone", cx: x(alone.sqnr), cy: y, r: 4}),
    );
  }

  return {
    node,
    paint,
    mark(next) {
      isMarked = next;
      paint();
    },
  };
}

// Tens, as many as have room.
function ticksOf(low, high, width) {
  const step = [10, 20, 50, 100].find((size) => ((high - low) / size) * 34 <= width) ?? high - low;
  const found = [];
  for (let value = Math.ceil(low / step) * step; value <= high; value += step) found.push(value);
  return found;
}

function key(name, words) {
  const mark = shape(
    "svg",
    {class: "sensitivity-plot key", width: "12", height: "12", "aria-hidden": "true"},
    name === "wide"
      ? shape("line", {class: "wide", x1: 6, x2: 6, y1: 1, y2: 11})
      : shape("circle", {class: name, cx: 6, cy: 6, r: 4}),
  );
  return element("span", {}, mark, ` ${words} `);
}
