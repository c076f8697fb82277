// Errors of every tensor after every pass: a heat map in cividis, columns in program order or the
// worst first. The worst tensors stand beside it by name, so that nothing is said by colour alone;
// a click shows where the tensor's values and errors lie, its worst elements, and its errors over
// all passes. What was wrong first stands on top.

import {button, element, emptyState, tabRow} from "../ground/dom.js";
import {modeChosen, modeShown, modeTabs, notCompared} from "../ground/errors.js";
import {faultBanner} from "./fault.js";
import {heatMap} from "./heat_map.js";
import {heatSide} from "./heat_side.js";
import {FLOAT_METRICS, METRICS} from "./metrics.js";
import {errorText} from "../ground/numbers.js";
import {drawParts} from "../ground/specification.js";
import {columnsOf} from "./tensors.js";

export async function accuracyView(app) {
  const {data, store} = app;
  if (!data.head.has.accuracy) return {node: notCompared(app)};
  const accuracy = await data.accuracy();
  const {metric} = store.get();
  const mode = modeShown(accuracy, store.get().mode);
  const measure = (mode === "float" ? FLOAT_METRICS : METRICS)[metric];
  const rows = accuracy[mode];
  // Kept while mode and metric change.
  app.heat ??= {detail: null, isSorted: false, isFolded: true, wasFaultShown: false};
  const sorting = button(
    "worst first",
    "columns by their worst error in any pass, instead of program order",
    () => {
      app.heat.isSorted = !app.heat.isSorted;
      rearrange();
    },
    {class: "quiet", "aria-pressed": String(app.heat.isSorted)},
  );
  const folding = button(
    "all passes",
    "a row for every pass, also where the errors are those of the pass before",
    () => {
      app.heat.isFolded = !app.heat.isFolded;
      rearrange();
    },
    {class: "quiet", "aria-pressed": String(!app.heat.isFolded)},
  );
  const aside = asideOf(app, accuracy, mode, measure, [folding, sorting]);
  if (!rows.length)
    return {
      node: emptyState("Not measured in this mode", "Choose the other mode on the right."),
      aside,
    };
  const values =
    metric === "relative" ? rows.map((row) => row.values) : await data.metric(metric, mode);
  const count = accuracy.tensors.length;
  const columnOf = new Map(accuracy.tensors.map((name, column) => [name, column]));
  // What map and side look at: [row][column], with names of the rows and ties by column.
  const table = {
    accuracy,
    rows,
    values,
    measure,
    metric,
    mode,
    count,
    names: rows.map((row) => data.head.passes[row.pass]?.name ?? row.name),
    ties: rows.map(
      (row) =>
        new Map(
          row.ties.filter((tie) => columnOf.has(tie[1])).map((tie) => [columnOf.get(tie[1]), tie]),
        ),
    ),
    rank: (value) => (Number.isNaN(value) ? Infinity : measure.worse(value)),
  };
  const {detail: before} = app.heat;
  // What the side shows instead of the worst tensors: {row, column, pass, selection}
  let detail = before && before.row < rows.length && before.column < count ? before : null;
  let columns = []; // of the selection
  const host = element(
    "div",
    {class: "accuracy-pane"},
    faultBanner(app, accuracy),
    (accuracy.grounds ?? []).map((words) =>
      element("p", {class: "quiet-text heat-reference heat-grounds"}, words),
    ),
    mode === "float" ? floatLine() : referenceLine(app, accuracy),
    element("div", {class: "heat-costliest"}, drawParts(app, accuracy.costliest).nodes),
  );
  const map = heatMap(app, table, {
    host,
    isSorted: () => app.heat.isSorted,
    isFolded: () => app.heat.isFolded,
    unfold: () => folding.click(),
    detail: () => detail,
    columns: () => columns,
    pick,
  });
  const side = heatSide(app, table, {
    pick,
    close() {
      keep(null);
      map.mark();
      drawSide();
    },
  });
  host.append(element("div", {class: "accuracy"}, map.node, side.node));

  function rearrange() {
    sorting.setAttribute("aria-pressed", String(app.heat.isSorted));
    folding.setAttribute("aria-pressed", String(!app.heat.isFolded));
    map.arrange();
    map.paint();
    map.comeIntoSight();
  }

  function pick(row, column) {
    const {pass} = rows[row];
    const operation = accuracy.maker(column, row, mode);
    keep({
      row,
      column,
      pass: pass >= 0 ? pass : store.get().pass,
      selection: operation || store.get().selection,
    });
    if (pass >= 0) app.goToPass(pass);
    if (operation) app.select(operation, "dock");
    map.mark();
    drawSide();
  }

  function keep(next) {
    const isWider = (next === null) !== (detail === null);
    detail = next;
    app.heat.detail = next;
    host.classList.toggle("with-detail", next !== null);
    if (isWider) map.paint();
  }

  const drawSide = () => (detail ? side.drawDetail(detail) : side.drawWorst(columns));

  async function refresh() {
    const state = store.get();
    const graph = await data.graphOfPass(state.pass);
    if (store.get().pass !== state.pass || store.get().selection !== state.selection) return;
    columns = columnsOf(
      app,
      accuracy,
      mode,
      state,
      data.followInGraph(state.selection, graph).slice(0, 1),
    );
    if (detail && state.selection !== detail.selection) keep(null);
    // Scrubbing through the passes leads the picked cell along.
    const row = rows.findIndex((item) => item.pass === state.pass);
    if (detail && state.pass !== detail.pass && row >= 0) keep({...detail, row, pass: state.pass});
    map.comeIntoSight();
    map.paint();
    drawSide();
    showFault();
  }

  // Once: what is wrong is what a person comes for.
  function showFault() {
    const wrong = rows.findIndex(({pass}) => pass >= 0 && pass === accuracy.fault?.pass);
    if (app.heat.wasFaultShown || wrong < 0 || !map.node.clientHeight) return;
    app.heat.wasFaultShown = true;
    map.showRow(wrong);
  }

  keep(detail);
  drawSide();
  return {node: host, aside, refresh, resized: map.paint};
}

function asideOf(app, accuracy, mode, measure, switches) {
  const {store} = app;
  const {metric} = store.get();
  const modes = tabRow(
    modeTabs(accuracy),
    mode,
    (next) => store.set(modeChosen(next)),
    "mode of comparison",
  );
  const metrics = tabRow(
    Object.entries(METRICS).map(([id, {label, title}]) => ({id, label, title})),
    metric,
    (next) => store.set({metric: next}),
    "metric",
  );
  for (const tabs of [modes, metrics]) tabs.classList.add("segmented");
  return element(
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
        mode === "float"
          ? " · not judged"
          : ` · tolerance ${errorText(accuracy.tolerance)} · oracle ${accuracy.oracle}`,
      ),
    ),
    switches,
    metrics,
    modes,
  );
}

function floatLine() {
  return element(
    "p",
    {class: "quiet-text heat-reference"},
    "Tensors in real numbers, from the quantization on, against the float model's: what " +
      "quantizing costs with the errors of all layers before. The tab “quantization” has every " +
      "layer by itself.",
  );
}

function referenceLine(app, accuracy) {
  if (app.data.head.passes[0].level !== "source") return null;
  return element(
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
  );
}
