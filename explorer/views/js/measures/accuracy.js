// The heat map of errors: a row per pass, a column per tensor in program order or the worst first,
// cividis. The worst tensors stand beside it by name, so that nothing is said by colour alone; a
// click shows where the tensor's values and errors lie, its worst elements, and its errors over all
// passes. What was wrong first stands on top.

import {detailParts, shapeText, tensorDetail, tieParts} from "./details.js";
import {button, element, emptyState, replace, tabRow} from "../ground/dom.js";
import {MODE_TITLES, errorPosition, noDetail, notCompared, shortNumber} from "../ground/errors.js";
import {leaveOut} from "../branches/fork.js";
import {MINUS, decibelsText, decode, errorText} from "../ground/numbers.js";
import {canFork} from "./placing.js";
import {canvasPlot, moveTip, placed, tipElement} from "../ground/plot.js";
import {clip} from "../ground/scene.js";
import {READ_ONLY} from "../branches/session.js";
import {columnsOf, errorCurve} from "./tensors.js";

const METRICS = {
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
const HEAT_ROW = 16;
const WORST_SHOWN = 12;

export async function accuracyView(app) {
  const {data, store} = app;
  if (!data.head.has.accuracy) return {node: notCompared(app)};
  const accuracy = await data.accuracy();
  const {mode, metric} = store.get();
  const measure = METRICS[metric];
  const rows = accuracy[mode];
  const modes = tabRow(
    ["accumulated", "isolated"].map((id) => ({id, label: id, title: MODE_TITLES[id]})),
    mode,
    (next) => store.set({mode: next}),
    "mode of comparison",
  );
  const metrics = tabRow(
    Object.entries(METRICS).map(([id, {label, title}]) => ({id, label, title})),
    metric,
    (next) => store.set({metric: next}),
    "metric",
  );
  for (const tabs of [modes, metrics]) tabs.classList.add("segmented");
  app.heat ??= {detail: null, isSorted: false}; // kept while mode and metric change
  const sorting = button(
    "worst first",
    "columns by their worst error in any pass, instead of program order",
    () => {
      app.heat.isSorted = !app.heat.isSorted;
      arrange();
      paint();
      comeIntoSight();
    },
    {class: "quiet", "aria-pressed": String(app.heat.isSorted)},
  );
  const aside = element(
    "span",
    {class: "aside-row"},
    element(
      "span",
      {class: "quiet-text heat-scale aside-note", title: `compared with ${accuracy.oracle}`},
      `${measure.low} `,
      element("span", {class: "scale", "aria-hidden": "true"}),
      ` ${measure.high}`,
      element(
        "span",
        {class: "scale-note"},
        ` · tolerance ${errorText(accuracy.tolerance)} · oracle ${accuracy.oracle}`,
      ),
    ),
    sorting,
    metrics,
    modes,
  );
  if (!rows.length)
    return {
      node: emptyState("Not measured in this mode", "Choose the other mode on the right."),
      aside,
    };
  const values =
    metric === "relative" ? rows.map((row) => row.values) : await data.metric(metric, mode);
  const names = rows.map((row) => data.head.passes[row.pass]?.name ?? row.name);
  const last = values[values.length - 1];
  const rank = (value) => (Number.isNaN(value) ? Infinity : measure.worse(value));
  const worst = last
    .map((value, column) => [value, column])
    .filter(([value]) => value !== null)
    .sort((a, b) => rank(b[0]) - rank(a[0]))
    .slice(0, WORST_SHOWN);
  const count = accuracy.tensors.length;
  const columnOf = new Map(accuracy.tensors.map((name, column) => [name, column]));
  const ties = rows.map(
    (row) =>
      new Map(
        row.ties.filter((tie) => columnOf.has(tie[1])).map((tie) => [columnOf.get(tie[1]), tie]),
      ),
  );
  let order = []; // columns as they stand from left to right
  let placeOf = []; // where a column stands

  function arrange() {
    order = Array.from({length: count}, (_, column) => column);
    if (app.heat.isSorted) {
      const most = order.map((column) =>
        Math.max(...values.map((row) => (row[column] === null ? -Infinity : rank(row[column])))),
      );
      order.sort((a, b) => most[b] - most[a] || a - b);
    }
    placeOf = new Array(count);
    order.forEach((column, place) => {
      placeOf[column] = place;
    });
    sorting.setAttribute("aria-pressed", String(app.heat.isSorted));
  }

  const labels = element(
    "ol",
    {class: "heat-labels"},
    rows.map((row, index) =>
      element(
        "li",
        {},
        button(
          names[index],
          "go to this pass",
          () => {
            if (row.pass >= 0) app.goToPass(row.pass);
          },
          {"data-pass": row.pass},
        ),
      ),
    ),
  );
  const plot = canvasPlot(
    `${measure.label} errors of ${count} tensors after ${rows.length} passes; the worst are ` +
      "listed beside it",
    "heat-plot",
  );
  const spacer = element("div", {class: "heat-spacer"});
  const frame = element(
    "div",
    {class: "heat-frame", tabindex: 0, "aria-label": "heat map of errors"},
    plot.node,
    spacer,
  );
  const tip = tipElement();
  const side = element("aside", {class: "heat-side scroll"});
  const fault = element("div", {class: "fault-host"});
  const map = element(
    "div",
    {class: "heat-main"},
    element(
      "div",
      {class: "scroll heat-scroll"},
      element("div", {class: "heat-grid"}, labels, frame),
    ),
  );
  const host = element(
    "div",
    {class: "accuracy-pane"},
    fault,
    (accuracy.grounds ?? []).map((words) =>
      element("p", {class: "quiet-text heat-reference heat-grounds"}, words),
    ),
    data.head.passes[0].level === "source"
      ? element(
          "p",
          {class: "quiet-text heat-reference"},
          element(
            "span",
            {class: "dot reference", "aria-hidden": "true"},
            app.look.verdict("reference").glyph,
          ),
          " ",
          button("model", "go to the model as it is", () => app.goToPass(0), {class: "link"}),
          ` is the reference itself (${accuracy.oracle}): every pass below is compared with it.`,
        )
      : null,
    element("div", {class: "accuracy"}, map, side),
    tip,
  );
  let cell = 16;
  // What the side shows instead of the worst tensors: {row, column, pass, selection}
  let detail =
    app.heat.detail && app.heat.detail.row < rows.length && app.heat.detail.column < count
      ? app.heat.detail
      : null;
  let columns = [];

  function pick(row, column) {
    const {pass} = rows[row];
    const operation = accuracy.maker(column, row);
    keep({
      row,
      column,
      pass: pass >= 0 ? pass : store.get().pass,
      selection: operation || store.get().selection,
    });
    if (pass >= 0) app.goToPass(pass);
    if (operation) app.select(operation, "dock");
    mark();
    drawSide();
  }

  function keep(next) {
    const isWider = (next === null) !== (detail === null);
    detail = next;
    app.heat.detail = next;
    host.classList.toggle("with-detail", next !== null);
    if (isWider) paint();
  }

  // ---- the map

  function paint() {
    const width = frame.clientWidth;
    if (!width) return;
    cell = Math.max(4, Math.min(72, Math.floor(width / count)));
    spacer.style.width = `${cell * count}px`;
    spacer.style.height = `${HEAT_ROW * rows.length}px`;
    plot.node.style.width = `${Math.min(width, cell * count)}px`;
    plot.node.style.height = `${HEAT_ROW * rows.length}px`;
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
    values.forEach((row, index) => {
      for (let place = from; place < to; place += 1) {
        const column = order[place];
        const value = row[column];
        if (value === null) {
          if (ties[index].has(column)) paintTie(context, place * cell - left, index * HEAT_ROW);
          continue;
        }
        const at = measure.at(value);
        context.fillStyle = app.look.scale(at);
        context.fillRect(place * cell - left, index * HEAT_ROW, cell - 1, HEAT_ROW - 1);
        if (cell >= 36) {
          context.fillStyle = at > 0.5 ? "#101010" : "#ffffff";
          context.fillText(
            measure.text(value),
            place * cell - left + cell / 2,
            index * HEAT_ROW + HEAT_ROW / 2,
          );
        }
      }
    });
    mark();
  }

  // A near-tie is no error: an empty cell with the mark of what is nearly equal.
  function paintTie(context, x, y) {
    context.strokeStyle = plot.colour("line");
    context.strokeRect(x + 0.5, y + 0.5, cell - 2, HEAT_ROW - 2);
    if (cell < 8) return;
    context.fillStyle = plot.colour("text");
    context.fillText("≈", x + cell / 2, y + HEAT_ROW / 2);
  }

  function mark() {
    const {pass} = store.get();
    const left = frame.scrollLeft,
      right = left + plot.size()[0];
    const row = rows.findIndex((item) => item.pass === pass);
    const boxes = columns
      .map((column) => placeOf[column])
      .filter((place) => (place + 1) * cell > left && place * cell < right)
      .map((place) =>
        placed(
          element("div", {class: "column-mark"}),
          place * cell - left,
          0,
          cell,
          HEAT_ROW * rows.length,
        ),
      );
    if (row >= 0)
      boxes.push(
        placed(element("div", {class: "row-mark"}), 0, row * HEAT_ROW, plot.size()[0], HEAT_ROW),
      );
    if (detail)
      boxes.push(
        placed(
          element("div", {class: "cell-mark"}),
          placeOf[detail.column] * cell - left,
          detail.row * HEAT_ROW,
          cell,
          HEAT_ROW,
        ),
      );
    replace(plot.overlay, boxes);
    for (const label of labels.querySelectorAll("button"))
      label.toggleAttribute("aria-current", Number(label.dataset.pass) === pass);
  }

  async function refresh() {
    const state = store.get();
    const graph = await data.graphOfPass(state.pass);
    if (store.get().pass !== state.pass || store.get().selection !== state.selection) return;
    columns = columnsOf(
      app,
      accuracy,
      rows,
      state,
      data.followInGraph(state.selection, graph).slice(0, 1),
    );
    if (detail && state.selection !== detail.selection) keep(null);
    // Scrubbing through the passes leads the picked cell along.
    const row = rows.findIndex((item) => item.pass === state.pass);
    if (detail && state.pass !== detail.pass && row >= 0) keep({...detail, row, pass: state.pass});
    comeIntoSight();
    mark();
    drawSide();
  }

  // The picked cell, or else the column of the selection.
  function comeIntoSight() {
    const first = detail
      ? placeOf[detail.column]
      : columns.length
        ? placeOf[columns[0]]
        : undefined;
    if (
      first !== undefined &&
      (first * cell < frame.scrollLeft || (first + 1) * cell > frame.scrollLeft + frame.clientWidth)
    )
      frame.scrollLeft = first * cell - frame.clientWidth / 2;
  }

  // ---- beside it

  function drawSide() {
    if (detail) {
      drawDetail(detail);
      return;
    }
    const tied = [...ties[rows.length - 1]];
    replace(
      side,
      element("h3", {}, `worst tensors at the end, ${measure.label}`),
      element(
        "ol",
        {class: "plain"},
        worst.map(([value, column]) =>
          element(
            "li",
            {},
            element(
              "button",
              {
                type: "button",
                class: `worst${columns.includes(column) ? " marked" : ""}`,
                title: accuracy.tensors[column],
                onclick: () => pick(rows.length - 1, column),
              },
              element("span", {class: "worst-name"}, accuracy.tensors[column]),
              element("span", {class: "mono"}, measure.text(value)),
            ),
          ),
        ),
      ),
      tied.length
        ? [
            element("h3", {}, "ties"),
            element(
              "ul",
              {class: "plain"},
              tied.map(([column]) =>
                element(
                  "li",
                  {},
                  element(
                    "button",
                    {
                      type: "button",
                      class: "worst",
                      title: accuracy.tensors[column],
                      onclick: () => pick(rows.length - 1, column),
                    },
                    element("span", {class: "worst-name"}, accuracy.tensors[column]),
                    "≈",
                  ),
                ),
              ),
            ),
          ]
        : null,
      element(
        "p",
        {class: "quiet-text"},
        "Choose a cell, or move through them with the arrow keys, to see its histograms and " +
          "worst elements.",
      ),
    );
  }

  async function drawDetail(wanted) {
    const {row, column} = wanted;
    const [errors, where] = await Promise.all([
      data.tensorErrors(column, mode),
      tensorDetail(app, accuracy, column, mode, row),
    ]);
    if (detail !== wanted) return;
    const tie = ties[row].get(column);
    const here =
      values[row][column] === null
        ? null
        : (errors.find((item) => item.pass === rows[row].pass) ?? errors[errors.length - 1]);
    const back = button(
      "‹",
      "back to the worst tensors",
      () => {
        keep(null);
        mark();
        drawSide();
      },
      {class: "icon"},
    );
    replace(
      side,
      element(
        "div",
        {class: "subject-name"},
        back,
        element(
          "strong",
          {class: "mono detail-name", title: accuracy.tensors[column]},
          accuracy.tensors[column],
        ),
        where ? element("span", {class: "quiet-text"}, shapeText(where)) : null,
        element("span", {class: "quiet-text detail-pass"}, `after ${names[row]}, ${mode}`),
      ),
      tie
        ? tieParts(tie)
        : !here
          ? element(
              "p",
              {class: "quiet-text"},
              "The program has no such tensor after this pass: it was fused away, or not " +
                "computed yet.",
            )
          : [
              where
                ? detailParts(app, where, accuracy.tolerance)
                : element("p", {class: "quiet-text"}, noDetail(accuracy)),
              measuresLine(here),
              exactLine(here),
              where ? null : worstElement(here),
              errors.length > 1
                ? errorCurve(app, errors, accuracy.tolerance, rows[row].pass)
                : null,
              element(
                "div",
                {class: "actions"},
                button("all passes and metrics", "the tab of tensors (6)", () =>
                  store.set({tab: "tensors"}),
                ),
              ),
            ],
    );
  }

  // ---- what was wrong first

  function drawFault() {
    const found = accuracy.fault;
    if (!found) {
      replace(fault, null);
      return;
    }
    const guilty = app.session?.bisection() ?? accuracy.guilty;
    const go = () => {
      if (found.pass >= 0) app.goToPass(found.pass);
      app.select(found.operation, "dock");
    };
    replace(
      fault,
      element(
        "div",
        {class: "fault", role: "note"},
        element("span", {class: "dot wrong"}, "✗"),
        element(
          "span",
          {},
          "first wrong after ",
          button(found.name, "go there", go, {class: "link"}),
          `: ${clip(found.tensor, 60)} is off by ${errorText(decode(found.relative))} ` +
            `(${found.mode})`,
        ),
        element("span", {class: "grow"}),
        guilty ? faultWords(app, guilty) : bisectButton(app),
      ),
    );
  }

  const isFilled = (row, column) => values[row][column] !== null || ties[row].has(column);
  const at = (event) => {
    const box = plot.canvas.getBoundingClientRect();
    const column = order[Math.floor((event.clientX - box.left + frame.scrollLeft) / cell)],
      row = Math.floor((event.clientY - box.top) / HEAT_ROW);
    const inside = row >= 0 && row < rows.length && column !== undefined;
    return inside && isFilled(row, column) ? {row, column} : null;
  };
  plot.node.addEventListener("pointermove", (event) => {
    const place = at(event);
    tip.hidden = !place;
    app.hover.set(place ? [accuracy.maker(place.column, place.row)] : [], []);
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
    let row = detail ? detail.row : step[0] < 0 ? rows.length : -1 + (step[0] ? 0 : 1),
      place = detail ? placeOf[detail.column] : step[1] < 0 ? count : -1 + (step[1] ? 0 : 1);
    do {
      row += step[0];
      place += step[1];
      if (row < 0 || row >= rows.length || place < 0 || place >= count) return;
    } while (!isFilled(row, order[place]));
    pick(row, order[place]);
  });
  frame.addEventListener("scroll", () => requestAnimationFrame(paintVisible), {passive: true});
  arrange();
  keep(detail);
  drawFault();
  drawSide();
  return {node: host, aside, refresh, resized: paint};
}

// All metrics of one tensor after one pass.
function measuresLine(error) {
  const cosine = error.cosine === 1 ? "1" : `1 ${MINUS} ${errorText(1 - error.cosine)}`;
  return element(
    "p",
    {class: "measures"},
    [
      ["relative", errorText(error.relative), error.relative],
      ["absolute", errorText(error.absolute), error.absolute],
      ["SQNR", decibelsText(error.sqnr), error.sqnr],
      ["cosine", cosine, error.cosine],
    ].map(([name, text, exact]) =>
      element(
        "span",
        {title: String(exact)},
        element("span", {class: "quiet-text"}, `${name} `),
        element("span", {class: "mono"}, text),
      ),
    ),
  );
}

// A tensor that is out of tolerance and right: the oracle rounds, too, and float64 tells who is
// off.
function exactLine({asExact}) {
  if (!asExact) return null;
  const title =
    "largest difference from the same model in float64, over its largest value; others: " +
    "the reference, and a second run that rounds every tensor once";
  return element(
    "p",
    {class: "measures as-exact", title},
    "as exact as can be: ",
    element("span", {class: "mono"}, errorText(asExact.ours)),
    element("span", {class: "quiet-text"}, " from float64, others "),
    element("span", {class: "mono"}, errorText(asExact.reachable)),
  );
}

// Where a tensor is off most, what stands there and what should.
function worstElement(error) {
  return element(
    "dl",
    {class: "facts"},
    element("dt", {}, "worst element"),
    element("dd", {class: "mono"}, error.index.length ? `[${error.index.join(", ")}]` : "–"),
    element("dt", {}, "value"),
    element(
      "dd",
      {class: "mono was plain-was", title: String(error.value)},
      shortNumber(error.value),
    ),
    element("dt", {}, "expected"),
    element("dd", {class: "mono now", title: String(error.expected)}, shortNumber(error.expected)),
  );
}

// Bisection runs the pass again and again, which takes a compiler: what to do where there is none.
function bisectButton(app) {
  const where = app.session
    ? READ_ONLY
    : app.host.mode === "page"
      ? "A page has no compiler: run c.accuracy().bisect() in a notebook, or open the model " +
        "with explorer serve."
      : "Run c.accuracy().bisect() in a cell, then c.explore() again.";
  const isLive = canFork(app);
  return element(
    "span",
    {class: "aside-row"},
    isLive ? null : element("span", {class: "quiet-text"}, where),
    button(
      "bisect",
      isLive
        ? "run this pass again with fewer and fewer rewrites, until the guilty one is found"
        : where,
      () => app.session.bisect(),
      {class: "quiet", disabled: !isLive || app.session.isBisecting()},
    ),
  );
}

// The rewrite that a bisection blamed, with the way to leave it out.
function faultWords(app, found) {
  return element(
    "span",
    {class: "aside-row"},
    element(
      "span",
      {},
      "guilty: ",
      element("strong", {}, found.rule || found.pass),
      " at ",
      element(
        "button",
        {type: "button", class: "link mono", onclick: () => app.select(found.operation, "dock")},
        found.operation,
      ),
    ),
    found.address && canFork(app)
      ? button("fork without it", found.address, () => leaveOut(app, found.address), {
          class: "quiet",
        })
      : null,
  );
}
