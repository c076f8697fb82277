// Ways of choosing modes by what they cost and how near the outputs are to the float model's: left
// is cheaper, up is nearer, and points on the stepped line are beaten by none in both (the Pareto
// front).

import {element, replace, shape} from "../ground/dom.js";
import {decibelEnds, decibels} from "./sensitivity_plot.js";

const HEIGHT = 232;
const [LEFT, RIGHT, TOP, BOTTOM] = [44, 16, 24, 30];

// found: {points, chosen}; inUse: place of the program that is shown, or -1; shown(): the place
// that is described; pick(place) where one is pressed.
export function frontPlot(found, {inUse, shown, pick}) {
  const {points, chosen} = found;
  const [low, high] = decibelEnds(points.map(({quality}) => quality.sqnr));
  const costs = points.map(({cost}) => cost);
  const least = Math.min(...costs),
    most = Math.max(...costs, least + 0.01);
  const picture = shape("svg", {class: "front-plot", role: "group", height: String(HEIGHT)});
  picture.setAttribute("aria-label", "choices of modes by cost and decibels of the outputs");
  const node = element("div", {}, picture);
  const bottom = HEIGHT - BOTTOM;

  function paint() {
    const width = node.clientWidth;
    if (!width) return;
    const x = (cost) => LEFT + ((cost - least) / (most - least)) * (width - LEFT - RIGHT);
    const y = (value) =>
      bottom - ((Math.min(Math.max(value, low), high) - low) / (high - low)) * (bottom - TOP);
    /** @returns {[number, number]} */
    const at = ({cost, quality}) => [x(cost), y(quality.sqnr)];
    const focused = [...picture.querySelectorAll(".front-point")].indexOf(
      /** @type {any} */ (document.activeElement),
    );
    picture.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    picture.setAttribute("width", String(width));
    const step = (high - low) / 10 > 5 ? 20 : 10;
    const levels = [];
    for (let value = Math.ceil(low / step) * step; value <= high; value += step) levels.push(value);
    const costTicks = [1, 2, 3, 4].filter((cost) => cost >= least && cost <= most);
    replace(
      picture,
      levels.map((value) => [
        shape("line", {class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value)}),
        shape(
          "text",
          {class: "axis", x: LEFT - 6, y: y(value) + 4, "text-anchor": "end"},
          `${value}`,
        ),
      ]),
      costTicks.map((cost) => [
        shape("line", {class: "grid", x1: x(cost), x2: x(cost), y1: TOP, y2: bottom}),
        shape(
          "text",
          {class: "axis", x: x(cost), y: bottom + 13, "text-anchor": "middle"},
          `${cost}`,
        ),
      ]),
      shape("text", {class: "axis", x: 4, y: 10}, "dB of the outputs ↑"),
      shape(
        "text",
        {class: "axis", x: width - RIGHT, y: HEIGHT - 4, "text-anchor": "end"},
        "multiply-adds times bits, of INT8 →",
      ),
      shape("path", {class: "front", d: stepsOf(points.filter(({isBest}) => isBest).map(at))}),
      points.map((point, place) => pointOf(point, place, at(point))),
      ringOf(at(points[chosen]), chosen === inUse ? "chosen, this program" : "chosen", width),
      inUse >= 0 && inUse !== chosen ? ringOf(at(points[inUse]), "this program", width) : null,
    );
    if (focused >= 0)
      /** @type {any} */ (picture.querySelectorAll(".front-point")[focused])?.focus();
  }

  function pointOf(point, place, [cx, cy]) {
    const measured = `${decibels(point.quality.sqnr)}, ${point.cost.toFixed(2)} times INT8`;
    const words = `${measured}: ${point.words}`;
    const classes = ["front-point", point.isBest ? "best" : "", place === shown() ? "marked" : ""];
    return shape(
      "circle",
      {
        class: classes.filter(Boolean).join(" "),
        cx,
        cy,
        r: place === shown() ? 6 : 4,
        role: "button",
        tabindex: 0,
        "aria-label": words,
        "data-place": place,
        onclick: () => pick(place),
        onkeydown: (event) => {
          if (event.key === "Enter") pick(place);
        },
      },
      shape("title", {}, words),
    );
  }

  return {node, paint};
}

function stepsOf([first, ...others]) {
  if (!first) return "";
  const [x, y] = first;
  const steps = others.map(([a, b]) => `H${a.toFixed(1)}V${b.toFixed(1)}`);
  return `M${x.toFixed(1)} ${y.toFixed(1)}${steps.join("")}`;
}

// A ring around a point and its name, below and to the right: the front rises to the left of it.
function ringOf([cx, cy], words, width) {
  const isRight = cx > width - 130;
  return [
    shape("circle", {class: "front-ring", cx, cy, r: 9}),
    shape(
      "text",
      {
        class: "axis front-name",
        x: cx + (isRight ? -12 : 12),
        y: cy + 15,
        "text-anchor": isRight ? "end" : "start",
      },
      words,
    ),
  ];
}
