// The map of errors: a row per pass, or per run of passes after which all errors are the same, a
// column per tensor. Cells are painted on a canvas, their heads on another that stays in sight.

import {button, element, replace} from "../ground/dom.js";
import {canvasPlot, canvasText, moveTip, placed, tipElement} from "../ground/plot.js";
import {commonBeginning, commonEnding, shortNames, tailOf, tellingParts} from "./column_names.js";
import {clip} from "../ground/scene.js";
import {fitText} from "../graph/names_that_fit.js";

const ROW = 14;
const MAX_ROW = 30; // where there is room
const MAX_CELL = 72;
const MIN_CELL = 4;
const WIDE_CELL = 44; // from here on names stand level, below that they lean
const HEAD_LEVEL = 16;
const HEAD_LEANING = 50;
const SPARE = 24; // below the last row
const MAX_HEAD = 120; // where there is room
const LEAN = 0.85; // radians
const NAME_PIXELS = 13; // between two leaning names
const NAME_CHARACTERS = 10;
const CHARACTER_PIXELS = 5.6;
const NAME_GAP = 6; // between two level names

/**
 * @param {any} app
 * @param {any} table  of accuracy.js
 * @param {{
 *   host: HTMLElement,
 *   isSorted: () => boolean,
 *   isFolded: () => boolean,
 *   unfold: () => void,
 *   detail: () => any,
 *   columns: () => number[],
 *   pick: (row: number, column: number) => void,
 * }} options
 */
export function heatMap(app, table, options) {
  const {accuracy, rows, values, names, ties, measure, count, rank} = table;
  const {host, detail, pick} = options;
  const {store} = app;
  let order = []; // columns as they stand from left to right
  let placeOf = []; // where a column stands
  let lines = []; // runs of rows that stand as one: [first row, how many]
  let lineOf = []; // where a row stands
  let cell = 16;
  let tall = ROW; // of a row
  let headHeight = HEAD_LEANING;
  const plot = canvasPlot(
    `${measure.label} errors of ${count} tensors after ${rows.length} passes; the worst are ` +
      "listed beside it",
    "heat-plot",
  );
  const head = canvasPlot("names of the tensors", "heat-head");
  const spacer = element("div", {class: "heat-spacer"});
  const frame = element(
    "div",
    {class: "heat-frame", tabindex: 0, "aria-label": "heat map of errors"},
    plot.node,
    spacer,
  );
  const labels = element("ol", {class: "heat-labels"});
  const tip = tipElement();
  host.append(tip);
  const scroll = element(
    "div",
    {class: "scroll heat-scroll"},
    element(
      "div",
      {class: "heat-grid"},
      element("span", {class: "heat-corner"}),
      head.node,
      labels,
      frame,
    ),
  );
  const node = element("div", {class: "heat-main"}, scroll);

  // Rows with the same errors as the one above are one line, unless they are unfolded.
  function arrange() {
    order = Array.from({length: count}, (_, column) => column);
    if (options.isSorted()) {
      const most = order.map((column) =>
        Math.max(...values.map((row) => (row[column] === null ? -Infinity : rank(row[column])))),
      );
      order.sort((a, b) => most[b] - most[a] || a - b);
    }
    placeOf = new Array(count);
    order.forEach((column, place) => {
      placeOf[column] = place;
    });
    lines = [];
    lineOf = rows.map((_, row) => {
      const last = lines.at(-1);
      if (last && options.isFolded() && isSame(row, row - 1)) last[1] += 1;
      else lines.push([row, 1]);
      return lines.length - 1;
    });
    replace(labels, lines.map(lineLabel));
  }

  const isSame = (row, other) =>
    ties[row].size === ties[other].size &&
    [...ties[row].keys()].every((column) => ties[other].has(column)) &&
    values[row].every((value, column) => Object.is(value, values[other][column]));

  function lineLabel([row, more]) {
    const equal = names.slice(row + 1, row + more);
    return element(
      "li",
      {},
      button(
        names[row],
        "go to this pass",
        () => {
          if (rows[row].pass >= 0) app.goToPass(rows[row].pass);
        },
        {"data-pass": rows[row].pass},
      ),
      equal.length
        ? button(
            `+${equal.length}`,
            `the same after ${equal.join(", ")}; press to see all`,
            options.unfold,
            {
              class: "fold-count",
            },
          )
        : null,
    );
  }

  function paint() {
    const width = frame.clientWidth;
    if (!width) return;
    cell = Math.max(MIN_CELL, Math.min(MAX_CELL, Math.floor(width / count)));
    // Names get what room there is first, then rows.
    const room = Math.max(0, node.clientHeight - SPARE - HEAD_LEANING - ROW * lines.length);
    const longest = Math.max(...shownNames.map((name) => name.length)) * CHARACTER_PIXELS;
    const wanted = Math.min(MAX_HEAD, Math.sin(LEAN) * longest + 16) - HEAD_LEANING;
    const toHead = Math.max(0, Math.min(room, Math.floor(wanted)));
    headHeight = HEAD_LEANING + toHead;
    tall = Math.min(MAX_ROW, Math.floor(ROW + (room - toHead) / lines.length));
    node.style.setProperty("--heat-row", `${tall}px`);
    spacer.style.width = `${cell * count}px`;
    spacer.style.height = plot.node.style.height = `${tall * lines.length}px`;
    plot.node.style.width = head.node.style.width = `${Math.min(width, cell * count)}px`;
    head.node.style.height = `${cell >= WIDE_CELL ? HEAD_LEVEL : headHeight}px`;
    paintVisible();
  }

  // Only the columns in sight are painted: a canvas has a largest width.
  function paintVisible() {
    const context = plot.begin();
    if (!context) return;
    const left = frame.scrollLeft;
    const from = Math.floor(left / cell),
      to = Math.min(count, Math.ceil((left + plot.size()[0]) / cell));
    context.font = "9px system-ui, sans-serif";
    context.textAlign = "center";
    lines.forEach(([row], line) => {
      for (let place = from; place < to; place += 1) {
        const column = order[place];
        const value = values[row][column];
        const [x, y] = [place * cell - left, line * tall];
        if (value === null) {
          if (ties[row].has(column)) paintTie(context, x, y);
          continue;
        }
        const at = measure.at(value);
        context.fillStyle = app.look.scale(at);
        context.fillRect(x, y, cell - 1, tall - 1);
        if (cell < 36) continue;
        context.fillStyle = at > 0.5 ? "#101010" : "#ffffff";
        context.fillText(measure.text(value), x + cell / 2, y + tall / 2);
      }
    });
    paintHead(from, to, left);
    mark();
  }

  // A near-tie is no error: an empty cell with the mark of what is nearly equal.
  function paintTie(context, x, y) {
    context.strokeStyle = plot.colour("line");
    context.strokeRect(x + 0.5, y + 0.5, cell - 2, tall - 2);
    if (cell < 8) return;
    context.fillStyle = plot.colour("text");
    context.fillText("≈", x + cell / 2, y + tall / 2);
  }

  const telling = tellingParts(accuracy.tensors);
  const ending = commonEnding(telling);
  const beginning = commonBeginning(telling);
  const ownNames = telling.map((name) => {
    const rest = name.endsWith(ending) ? name.slice(0, name.length - ending.length) : name;
    return rest.startsWith(beginning) ? rest.slice(beginning.length) || rest : rest;
  });
  const shownNames = shortNames(ownNames, NAME_CHARACTERS);

  // As many names as fit; that of the selection in any case.
  function paintHead(from, to, left) {
    const context = head.begin();
    if (!context) return;
    const height = head.size()[1];
    const own = new Set(detail() ? [detail().column] : options.columns());
    const every = Math.max(1, Math.ceil(NAME_PIXELS / cell));
    const along = height / Math.sin(LEAN) - 10;
    const most = Math.max(NAME_CHARACTERS, Math.floor(along / CHARACTER_PIXELS));
    let free = -Infinity;
    for (let place = from; place < to; place += 1) {
      const column = order[place];
      const isOwn = own.has(column);
      const isBeforeOwn =
        every > 1 && order.slice(place + 1, place + every).some((c) => own.has(c));
      if (!isOwn && (place < free || isBeforeOwn)) continue;
      free = place + every;
      const name = shownNames[column];
      const x = place * cell - left + cell / 2;
      context.fillStyle = head.colour(isOwn ? "accent" : "quiet");
      context.font = `${isOwn ? "bold " : ""}10px system-ui, sans-serif`;
      if (cell >= WIDE_CELL) {
        context.textAlign = "center";
        const font = `${isOwn ? "bold " : ""}10px`;
        const shown = fitText(app, canvasText(name), cell - NAME_GAP, font, tailOf);
        context.fillText(shown, x, height / 2);
        continue;
      }
      context.save();
      context.translate(x, height - 3);
      context.rotate(-LEAN);
      context.textAlign = "left";
      context.fillText(canvasText(tailOf(name, most)), 0, 0);
      context.restore();
    }
  }

  function mark() {
    const {pass} = store.get();
    const left = frame.scrollLeft,
      right = left + plot.size()[0];
    const row = rows.findIndex((item) => item.pass === pass);
    const picked = detail();
    const boxes = options
      .columns()
      .map((column) => placeOf[column])
      .filter((place) => (place + 1) * cell > left && place * cell < right)
      .map((place) =>
        placed(
          element("div", {class: "column-mark"}),
          place * cell - left,
          0,
          cell,
          tall * lines.length,
        ),
      );
    if (row >= 0)
      boxes.push(
        placed(element("div", {class: "row-mark"}), 0, lineOf[row] * tall, plot.size()[0], tall),
      );
    if (picked)
      boxes.push(
        placed(
          element("div", {class: "cell-mark"}),
          placeOf[picked.column] * cell - left,
          lineOf[picked.row] * tall,
          cell,
          tall,
        ),
      );
    replace(plot.overlay, boxes);
    [...labels.children].forEach((label, line) => {
      label.firstElementChild?.toggleAttribute("aria-current", row >= 0 && lineOf[row] === line);
    });
  }

  // The picked cell, or else the column of the selection.
  function comeIntoSight() {
    const picked = detail();
    const columns = options.columns();
    const first = picked
      ? placeOf[picked.column]
      : columns.length
        ? placeOf[columns[0]]
        : undefined;
    if (
      first !== undefined &&
      (first * cell < frame.scrollLeft || (first + 1) * cell > frame.scrollLeft + frame.clientWidth)
    )
      frame.scrollLeft = first * cell - frame.clientWidth / 2;
  }

  // The row is the first one below the heads, if it is not in sight.
  function showRow(row) {
    const top = lineOf[row] * tall;
    const room = scroll.clientHeight - head.size()[1];
    if (top < scroll.scrollTop || top + 2 * tall > scroll.scrollTop + room)
      scroll.scrollTop = Math.max(0, top - tall);
  }

  const isFilled = (row, column) => values[row][column] !== null || ties[row].has(column);
  // Of rows that stand as one, that of the pass that is looked at, or else the first.
  const rowIn = (line) => {
    const [first, more] = lines[line];
    const here = rows.findIndex((item) => item.pass === store.get().pass);
    return here >= first && here < first + more ? here : first;
  };
  const at = (event) => {
    const box = plot.canvas.getBoundingClientRect();
    const column = order[Math.floor((event.clientX - box.left + frame.scrollLeft) / cell)],
      line = Math.floor((event.clientY - box.top) / tall);
    if (line < 0 || line >= lines.length || column === undefined) return null;
    const row = rowIn(line);
    return isFilled(row, column) ? {row, column} : null;
  };
  plot.node.addEventListener("pointermove", (event) => {
    const place = at(event);
    tip.hidden = !place;
    app.hover.set(place ? [accuracy.maker(place.column, place.row, table.mode)] : [], []);
    if (!place) return;
    replace(
      tip,
      element("strong", {}, clip(accuracy.tensors[place.column], 90)),
      element(
        "div",
        {},
        `after ${names[place.row]}: `,
        element(
          "span",
          {class: "mono"},
          ties[place.row].has(place.column) ? "tie" : measure.text(values[place.row][place.column]),
        ),
      ),
    );
    moveTip(tip, host, event);
  });
  plot.node.addEventListener("pointerleave", () => {
    tip.hidden = true;
    app.hover.set([], []);
  });
  plot.node.addEventListener("click", (event) => {
    const place = at(event);
    if (place) pick(place.row, place.column);
  });
  // Arrows lead from cell to cell, over those that are empty.
  frame.addEventListener("keydown", (event) => {
    const step = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]}[
      event.key
    ];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    const picked = detail();
    let line = picked ? lineOf[picked.row] : step[0] < 0 ? lines.length : -1 + (step[0] ? 0 : 1),
      place = picked ? placeOf[picked.column] : step[1] < 0 ? count : -1 + (step[1] ? 0 : 1);
    do {
      line += step[0];
      place += step[1];
      if (line < 0 || line >= lines.length || place < 0 || place >= count) return;
    } while (!isFilled(lines[line][0], order[place]));
    const row = step[0] ? lines[line][0] : picked ? picked.row : lines[line][0];
    pick(row, order[place]);
  });
  frame.addEventListener("scroll", () => requestAnimationFrame(paintVisible), {passive: true});
  arrange();
  return {
    node,
    arrange,
    paint,
    mark,
    comeIntoSight,
    showRow,
    hasFolds: () => lines.length < rows.length,
  };
}
