// A chart of a specification (views/specification.py): marks in units of the chart. A wide pane
// stretches the marks sideways; letters, dots and lines keep their size.

import {about} from "../desk/pressed_numbers.js";
import {element, shape} from "./dom.js";
import {launchesOf} from "../measures/launches.js";
import {tailOf} from "../measures/column_names.js";
import {numbersIn} from "./numbers_in_text.js";

const MAX_STRETCH = 2;
const ROLES = new Set(["accent", "background", "line", "quiet", "border", "raised", "text"]);
const COLOUR = /^#[0-9a-f]{6}$/;
const TONE = /^[a-z-]+-(fill|edge|ink)$/;

/**
 * By how much a chart is wider than its own units.
 *
 * @param {number} width of the chart, in its units
 * @param {number} room in pixels of the screen; 0 before the chart is on it
 */
function stretchOf(width, room) {
  return Math.min(Math.max(room / width, 1), MAX_STRETCH);
}

/** The colour of a role as CSS takes it. */
const paint = (role) =>
  !role
    ? "none"
    : COLOUR.test(role)
      ? role
      : `var(--explorer-${ROLES.has(role) || TONE.test(role) ? role : "line"})`;

/**
 * @param {any} app
 * @param {any} chart what renderers/page.py makes of a `ChartSpec`
 * @param {Map<string, () => void>} rows what a click on the mark of a row does
 * @param {(look: any) => any} glyphOf
 */
export function drawChart(app, {title, width, height, marks, legend, moves}, rows, glyphOf) {
  const drawn = marks.map((mark) =>
    drawMark(app, mark, height, (...own) => pressed(app, rows, ...own)),
  );
  const picture = shape(
    "svg",
    {class: "chart", role: "img", "aria-label": title, height},
    inDrawingOrder(drawn).map(({nodes}) => nodes),
  );
  const words = legend.map(([name, glyph, text]) => [glyphOf([name, glyph, text]), `${text} `]);
  const node = element(
    "figure",
    {class: "charted", ...about(moves)},
    picture,
    legend.length ? element("figcaption", {class: "quiet-text"}, words) : null,
  );
  let stretch = 0;
  const place = () => {
    const next = stretchOf(width, node.getBoundingClientRect().width);
    if (next === stretch) return;
    stretch = next;
    set(picture, {width: width * stretch, viewBox: `0 0 ${width * stretch} ${height}`});
    for (const mark of drawn) mark.place(stretch);
  };
  place();
  if (typeof ResizeObserver === "function") new ResizeObserver(place).observe(node);
  return {
    node,
    // Marks of the selection.
    refresh() {
      const launches = launchesOf(app);
      for (const mark of picture.querySelectorAll("[data-operation]"))
        mark.classList.toggle("marked", launches.has(mark.getAttribute("data-operation")));
    },
  };
}

// Words last: no line crosses them.
function inDrawingOrder(drawn) {
  return [...drawn.filter(({isWords}) => !isWords), ...drawn.filter(({isWords}) => isWords)];
}

/**
 * {nodes, place(stretch), isWords} of a mark; `selects` makes the attributes of one with an id.
 *
 * @param {any} app
 * @param {any} mark
 */
function drawMark(app, mark, height, selects) {
  const [kind, ...parts] = mark;
  if (kind === "text") return drawWords(app, parts);
  if (kind === "bars") return drawBars(parts, height);
  const [id, words] = parts.slice(-2);
  const title = words ? shape("title", {}, words) : null;
  return {rect: drawRect, dot: drawDot, line: drawLine}[kind](parts, selects(id, words), title);
}

function drawWords(app, /** @type {any} */ [x, y, own, anchor, role, size, angle, characters]) {
  const named = (word) => {
    const layer = app.data.layerName(word);
    return layer === word ? word : tailOf(layer, characters);
  };
  const text = characters ? own.replace(/[^\s,]+/g, named) : own;
  const style = `fill: ${paint(role)}; font-size: ${size}px`;
  const isNumber = numbersIn(text).length > 0; // which a press on it finds
  const attributes = isNumber ? {class: "has-number"} : {};
  const node = shape("text", {y, "text-anchor": anchor, style, ...attributes}, text);
  const place = (stretch) => {
    set(node, {x: x * stretch});
    const turn = turned(angle, stretch);
    if (turn) set(node, {transform: `rotate(${turn} ${x * stretch} ${y})`});
  };
  return {nodes: [node], place, isWords: true};
}

// Degrees of a direction once it is stretched sideways: words stay along their line.
function turned(angle, stretch) {
  const radians = (angle * Math.PI) / 180;
  return (Math.atan2(Math.sin(radians), Math.cos(radians) * stretch) * 180) / Math.PI;
}

function drawBars(/** @type {any} */ [d, role, hovers], height) {
  const bars = shape("path", {class: "bars", d, style: `fill: ${paint(role)}`});
  const [left, step, titles] = hovers ?? [0, 0, []];
  const hovered = titles.map((words) =>
    shape("rect", {class: "hover", y: 0, height}, shape("title", {}, words)),
  );
  const place = (stretch) => {
    set(bars, {transform: `scale(${stretch} 1)`});
    hovered.forEach((node, index) =>
      set(node, {x: (left + index * step) * stretch, width: step * stretch}),
    );
  };
  return {nodes: [bars, ...hovered], place};
}

function drawRect([x, y, width, height, role, stroke, thick], attributes, title) {
  const style = `fill: ${paint(role)}; stroke: ${paint(stroke)}; stroke-width: ${thick}`;
  const node = shape("rect", {y, height, style, ...attributes}, title);
  return {
    nodes: [node],
    place: (stretch) => set(node, {x: x * stretch, width: width * stretch}),
  };
}

function drawDot([x, y, radius, fill, stroke, form], attributes, title) {
  const style = `fill: ${paint(fill)}; stroke: ${paint(stroke)}`;
  if (form === "circle") {
    const node = shape("circle", {cy: y, r: radius, style, ...attributes}, title);
    return {nodes: [node], place: (stretch) => set(node, {cx: x * stretch})};
  }
  const size = {y: y - radius, width: 2 * radius, height: 2 * radius};
  const node = shape("rect", {...size, style, ...attributes}, title);
  const place = (stretch) => {
    set(node, {x: x * stretch - radius});
    if (form === "diamond") set(node, {transform: `rotate(45 ${x * stretch} ${y})`});
  };
  return {nodes: [node], place};
}

function drawLine([points, role, isDashed, thick], attributes, title) {
  const dashes = isDashed ? "; stroke-dasharray: 4 4" : "";
  const style = `fill: none; stroke: ${paint(role)}; stroke-width: ${thick}${dashes}`;
  const node = shape("polyline", {style, ...attributes}, title);
  const place = (stretch) =>
    set(node, {points: points.map(([x, y]) => `${x * stretch},${y}`).join(" ")});
  return {nodes: [node], place};
}

// The attributes of a mark that a click selects.
function pressed(app, rows, id, words) {
  if (!id) return {};
  const press = () => (rows.get(id) ?? (() => app.select(id, "dock")))();
  return {
    role: "button",
    tabindex: 0,
    "aria-label": words,
    "data-operation": id,
    onclick: press,
    onkeydown: (event) => event.key === "Enter" && press(),
    onmouseenter: () => app.hover.set([id], []),
    onmouseleave: () => app.hover.set([], []),
  };
}

function set(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
}
