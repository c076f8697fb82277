// Two numbers of all tries against each other: those that no other one beats are joined by a line,
// dominated ones are grey.

import {about} from "./pressed_numbers.js";
import {element, shape} from "../ground/dom.js";
import {niceTicks} from "../ground/plot.js";
import {clip} from "../ground/scene.js";
import {COLUMNS, columnOf} from "../ground/tries.js";

const WIDTH = 400,
  HEIGHT = 190,
  LEFT = 64,
  BOTTOM = 34,
  TOP = 10,
  RIGHT = 14;

// look: {x, y}: ids of columns; change({x}) chooses another one.
export function paretoPlot(app, branches, behind, {x, y}, change) {
  const choice = (name, chosen) =>
    element(
      "label",
      {},
      `${name} `,
      element(
        "select",
        {
          "aria-label": `${name} axis`,
          onchange: (event) => change({[name]: event.target.value}),
        },
        COLUMNS.map(({id, title}) =>
          element("option", {value: id, selected: id === chosen}, title),
        ),
      ),
    );
  return [
    element("div", {class: "tries-axes"}, choice("x", x), choice("y", y)),
    paretoDrawing(app, branches, behind, {x, y}) ??
      element("p", {class: "quiet-text"}, "No try has both numbers yet."),
  ];
}

// Null where no branch has both numbers.
export function paretoDrawing(app, branches, behind, {x, y}) {
  const points = branches
    .map((branch) => ({branch, at: [x, y].map((id) => columnOf(id).value(branch))}))
    .filter(({at}) => at.every((value) => value !== null && Number.isFinite(value)));
  return points.length ? drawing(app, points, behind, [columnOf(x), columnOf(y)]) : null;
}

function drawing(app, points, behind, columns) {
  const scales = columns.map((_, axis) =>
    scaleOf(
      points.map(({at}) => at[axis]),
      axis,
    ),
  );
  const place = ({at}) => at.map((value, axis) => scales[axis].place(value));
  const front = points
    .filter(({branch}) => !behind.has(branch.key))
    .sort((a, b) => a.at[0] - b.at[0])
    .map((point) => place(point).join(","));
  return shape(
    "svg",
    {
      class: "pareto",
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      role: "img",
      "aria-label": `${columns[1].title} against ${columns[0].title} of ${points.length} tries`,
    },
    scales.map(({ticks, place: at}, axis) =>
      ticks.map((tick) => tickMark(axis, at(tick), columns[axis], tick)),
    ),
    shape(
      "text",
      {x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 4, "text-anchor": "middle"},
      columns[0].title,
    ),
    shape("polyline", {class: "front", points: front.join(" ")}),
    points.map((point) => dot(app, point, place(point), behind.has(point.branch.key), columns)),
  );
}

function dot(app, {branch, at}, [left, top], isBehind, columns) {
  const {session} = app;
  const isCurrent = branch.key === session.branch();
  const words = columns.map(({title, text}, axis) => `${title} ${text(at[axis])}`).join(", ");
  const show = () => session.show(branch.key);
  return shape(
    "circle",
    {
      cx: left,
      cy: top,
      r: isCurrent ? 6 : 4.5,
      class: `try-dot${isBehind ? " dominated" : ""}${isCurrent ? " current" : ""}`,
      tabindex: 0,
      role: "button",
      "aria-label": `${clip(branch.label, 80)}: ${words}${isBehind ? ", dominated" : ""}`,
      onclick: show,
      onkeydown: (event) => {
        if (event.key === "Enter") show();
      },
    },
    shape("title", {}, `${clip(branch.label, 80)}: ${words}`),
  );
}

function tickMark(axis, at, column, tick) {
  const isX = axis === 0;
  const place = isX
    ? {x: at, y: HEIGHT - BOTTOM + 14, "text-anchor": "middle"}
    : {x: LEFT - 6, y: at + 4, "text-anchor": "end"};
  return [
    shape("line", {
      class: "tick",
      x1: isX ? at : LEFT,
      x2: isX ? at : WIDTH - RIGHT,
      y1: isX ? TOP : at,
      y2: isX ? HEIGHT - BOTTOM : at,
    }),
    shape("text", {...place, ...about(column.quantity ?? "")}, column.text(tick)),
  ];
}

// From a little below the least to a little above the largest value.
function scaleOf(values, axis) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const room = (high - low || Math.abs(high) || 1) * 0.08;
  const [start, end] = [low - room, high + room];
  const [from, to] = axis === 0 ? [LEFT, WIDTH - RIGHT] : [HEIGHT - BOTTOM, TOP];
  return {
    place: (value) => from + ((value - start) / (end - start)) * (to - from),
    ticks: niceTicks(end, 3, start),
  };
}
