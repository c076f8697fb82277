// Errors of one tensor over the passes: a line on a logarithmic scale, and all metrics.

import {detailParts, shapeText, tensorDetail} from "./details.js";
import {element, emptyState, section, shape, sortableTable, tabRow} from "../ground/dom.js";
import {
  errorPosition,
  modeChosen,
  modeShown,
  modeTabs,
  noDetail,
  notCompared,
} from "../ground/errors.js";
import {decibelsText, errorText} from "../ground/numbers.js";

// Columns of the heat map that a selection makes in this pass, the best match first; where it makes
// none (it was fused away, or is of another level), those of the same source nodes.
// `here` lists what the selection is in this pass (TraceData.followInGraph).
export function columnsOf(app, accuracy, mode, {selection, pass}, here) {
  if (selection === null) return [];
  const rows = accuracy[mode];
  const row = rows.findIndex((item) => item.pass === pass);
  const wanted = here.length ? here : [selection];
  const ranked = [];
  accuracy.tensors.forEach((_, column) => {
    if (row >= 0 && rows[row].values[column] === null) return;
    const rank = wanted.indexOf(accuracy.maker(column, Math.max(row, 0), mode));
    if (rank >= 0) ranked.push([rank, column]);
  });
  if (ranked.length) return ranked.sort((a, b) => a[0] - b[0]).map(([, column]) => column);
  const sources = new Set(app.data.sourcesOf(selection));
  return accuracy.tensors.flatMap((_, column) =>
    app.data.sourcesOf(accuracy.maker(column, Infinity)).some((source) => sources.has(source))
      ? [column]
      : [],
  );
}

export async function tensorsView(app, context) {
  const {data, store} = app;
  if (!data.head.has.accuracy) {
    return {node: notCompared(app)};
  }
  const accuracy = await data.accuracy();
  const columns = columnsOf(app, accuracy, "accumulated", context.state, context.here);
  if (!columns.length) {
    return {
      node: emptyState(
        "No tensor to compare",
        "This operation makes no tensor that the source model has, so there is nothing to " +
          "compare it with.",
      ),
    };
  }
  const mode = modeShown(accuracy, context.state.mode);
  const rows = await data.tensorErrors(columns[0], mode);
  const name = accuracy.tensors[columns[0]];
  const passName = (row) => data.head.passes[row.pass]?.name ?? "–";
  const table = sortableTable(
    [
      {title: "pass", value: (row) => row.pass, text: passName},
      {
        title: "relative",
        number: true,
        value: (row) => row.relative,
        text: (row) => errorText(row.relative),
        exact: (row) => String(row.relative),
        hint: "largest difference over the largest expected value",
      },
      {
        title: "absolute",
        number: true,
        value: (row) => row.absolute,
        text: (row) => errorText(row.absolute),
        exact: (row) => String(row.absolute),
      },
      {
        title: "SQNR",
        number: true,
        value: (row) => row.sqnr,
        text: (row) => decibelsText(row.sqnr),
        hint: "signal to quantization noise ratio",
      },
      {
        title: "worst at",
        value: (row) => row.index.join(","),
        text: (row) => (row.index.length ? `[${row.index.join(", ")}]` : "–"),
        exact: (row) => `got ${row.value}, expected ${row.expected}; cosine ${row.cosine}`,
      },
    ],
    rows,
    {
      label: `errors of ${name}`,
      isMarked: (row) => row.pass === context.state.pass,
      onrow: (row) => {
        if (row.pass >= 0) app.goToPass(row.pass);
      },
    },
  );
  const modes = tabRow(
    modeTabs(accuracy),
    mode,
    (next) => store.set(modeChosen(next)),
    "mode of comparison",
  );
  modes.classList.add("segmented");
  return {
    node: element(
      "div",
      {class: "scroll padded"},
      element(
        "div",
        {class: "tensor-head"},
        element("strong", {class: "mono"}, name),
        element("span", {class: "grow"}),
        modes,
      ),
      rows.length
        ? [
            await detailOf(app, accuracy, columns[0], mode, context.state.pass),
            errorCurve(app, rows, accuracy.tolerance, context.state.pass),
            table,
          ]
        : emptyState("Not measured in this mode", "Choose the other mode above."),
    ),
  };
}

// Histograms and worst elements after this pass, or after the last one that has the tensor.
async function detailOf(app, accuracy, column, mode, pass) {
  const rows = accuracy[mode];
  const filled = rows
    .map((row, index) => [row, index])
    .filter(([row]) => row.values[column] !== null);
  if (!filled.length) return null;
  const [row, index] = filled.find(([item]) => item.pass === pass) ?? filled[filled.length - 1];
  const detail = await tensorDetail(app, accuracy, column, mode, index);
  if (!detail) return element("p", {class: "quiet-text"}, noDetail(accuracy, mode));
  return section(
    `After ${row.name}, ${shapeText(detail)}`,
    detailParts(app, detail, accuracy.tolerance),
  );
}

export function errorCurve(app, rows, tolerance, pass) {
  const width = 420,
    height = 96,
    left = 40,
    bottom = 16;
  const count = Math.max(app.data.head.passes.length - 1, 1);
  const x = (row) => left + ((width - left - 8) * Math.max(row.pass, 0)) / count;
  const y = (error) => 6 + (height - bottom - 6) * (1 - errorPosition(error));
  const ticks = [1e-9, 1e-6, 1e-3, 1];
  return shape(
    "svg",
    {
      class: "curve",
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": "relative error after every pass, logarithmic",
    },
    ticks.map((tick) => [
      shape("line", {class: "grid", x1: left, x2: width - 8, y1: y(tick), y2: y(tick)}),
      shape(
        "text",
        {class: "axis", x: left - 6, y: y(tick) + 4, "text-anchor": "end"},
        tick === 1e-9 ? "≤1e-9" : errorText(tick),
      ),
    ]),
    shape("line", {
      class: "tolerance",
      x1: left,
      x2: width - 8,
      y1: y(tolerance),
      y2: y(tolerance),
    }),
    shape(
      "text",
      {class: "axis", x: width - 8, y: y(tolerance) - 3, "text-anchor": "end"},
      `tolerance ${errorText(tolerance)}`,
    ),
    shape("polyline", {
      class: "line",
      points: rows.map((row) => `${x(row)},${y(row.relative)}`).join(" "),
    }),
    rows.map((row) =>
      shape(
        "circle",
        {
          class: row.pass === pass ? "point current" : "point",
          cx: x(row),
          cy: y(row.relative),
          r: row.pass === pass ? 4.5 : 2.5,
        },
        shape(
          "title",
          {},
          `${app.data.head.passes[row.pass]?.name ?? ""}: ${errorText(row.relative)}`,
        ),
      ),
    ),
  );
}
