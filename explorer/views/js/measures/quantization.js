// How a float model was quantized: layers by what quantizing costs them, and of the chosen one the
// histogram that calibration saw, with the thresholds of all methods and the one that is used. That
// one can be dragged: where it is let go, a fork is compiled with it.

import {button, element, emptyState, replace, sortableTable} from "../ground/dom.js";
import {
  countText,
  decibelsText,
  decode,
  errorText,
  exactText,
  percentText,
} from "../ground/numbers.js";
import {clip} from "../ground/scene.js";
import {
  WEIGHT_MODES,
  blockedColumns,
  blockedFacts,
  blockedSummary,
  decodedBlocked,
} from "./blocked_weights.js";
import {channelPlot} from "./channel_plot.js";
import {costliestLine} from "./costliest.js";
import {forkThreshold, modeChoice} from "./quantization_fork.js";
import {shortRange} from "./threshold_marks.js";
import {rangeText, thresholdPlot} from "./threshold_plot.js";

const NAME_CHARACTERS = 44;
const MOST_ROWS = 400;

export async function quantizationView(app) {
  const {data, store} = app;
  if (!data.head.has.quantization)
    return {
      node: emptyState(
        "Not quantized",
        "explorer calibrate finds thresholds for a float model; compiled with them " +
          "(quantization=table), it computes in integers.",
      ),
    };
  const {rows, outputs, method, table, isMeasured, costliest, blockedBytes} = decoded(
    await data.chunk("quantization"),
  );
  // Kept while other numbers of the same branch arrive.
  app.quantized ??= {name: ""};
  let chosen = rows.find(({name}) => name === app.quantized.name) ?? rows.find(isShown) ?? rows[0];
  const said = element("p", {class: "quiet-text quantized-said", role: "status"});
  const list = element("div", {class: "quantized-list scroll"});
  const main = element("div", {class: "quantized-main scroll"});
  const node = element("div", {class: "quantized"}, list, main);
  const far = outputs.map(([name, sqnr]) => `${clip(name, 24)} ${sqnr.toFixed(1)} dB`).join(", ");
  const madeBy = `${method}${table ? `, from ${table}` : ""}`;
  const aside = element(
    "span",
    {class: "aside-row"},
    element(
      "span",
      {
        class: "quiet-text aside-note",
        title: `${blockedBytes ? "weights alone" : "thresholds"}: ${madeBy}`,
      },
      far ? `against the float model: ${far}` : "",
    ),
  );
  let plot = null;

  function drawList() {
    replace(
      list,
      isMeasured
        ? null
        : element(
            "p",
            {class: "quiet-text quantized-note"},
            app.session?.isPending("accuracy")
              ? "Being compared with the float model: what every layer costs comes then."
              : "Not compared with the float model yet: c.accuracy(inputs) says what layers cost.",
          ),
      costliestLine(app, costliest, ({tensor}) => pick(rows.find(({name}) => name === tensor))),
      blockedBytes
        ? element("p", {class: "quiet-text quantized-note"}, blockedSummary(blockedBytes))
        : null,
      sortableTable(blockedBytes ? blockedColumns(decibels) : columnsOf(), rows, {
        label: "layers by what quantizing them costs",
        isMarked: (row) => row === chosen,
        onrow: pick,
        cap: MOST_ROWS,
      }),
    );
  }

  function pick(row) {
    choose(row);
    app.select(row.layer?.operation ?? row.operation, "dock");
  }

  function choose(row) {
    if (row === chosen) return;
    chosen = row;
    app.quantized.name = row.name;
    const {scrollTop} = list;
    drawList();
    list.scrollTop = scrollTop;
    drawMain();
  }

  function drawMain() {
    plot = null;
    if (!chosen) return;
    const {tensor, observed, weights, blocked} = chosen;
    replace(said);
    plot = observed && tensor ? thresholdPlot(app, chosen, fork) : null;
    replace(
      main,
      element(
        "div",
        {class: "quantized-head"},
        element("strong", {class: "mono", title: chosen.name}, clip(chosen.name, 64)),
        tensor ? modeChoice(app, tensor, said) : null,
        blocked?.modeAddress ? modeChoice(app, blocked, said, WEIGHT_MODES) : null,
        blocked ? null : element("span", {class: "quiet-text"}, factsOf(chosen)),
      ),
      said,
      plot ? plot.node : blocked ? blockedFacts(chosen) : lackOf(chosen),
      causeOf(chosen),
      element(
        "div",
        {class: "quantized-below"},
        plot ? candidateTable(chosen, fork) : null,
        weights ? channelPlot(weights) : null,
      ),
    );
    plot?.paint();
  }

  // Which half of the layer costs more, and where to look for it.
  function causeOf({layer}) {
    if (!layer || layer.activations === null) return null;
    const reads = layer.reads
      .map((name) => rows.find((row) => row.name === name))
      .filter((row) => row !== undefined && row !== chosen);
    const gap = layer.weights === null ? 0 : Math.round(layer.weights - layer.activations);
    const links = reads.map((row, place) => [
      place ? ", " : "",
      button(tail(row.name, NAME_CHARACTERS), "show this tensor", () => pick(row), {
        class: "link mono",
      }),
    ]);
    return element(
      "p",
      {class: "quiet-text quantized-cause"},
      `${layer.operation} makes it`,
      reads.length ? " of " : "",
      links,
      gap > 0 ? `, whose rounding costs ${gap} dB more than that of its weights` : "",
      gap < 0 ? `; rounding its weights costs ${-gap} dB more than what it reads` : "",
    );
  }

  const fork = (threshold) => forkThreshold(app, chosen.tensor, threshold, said);

  // Another operation was selected elsewhere: the layer that it belongs to.
  function refresh() {
    const {selection} = store.get();
    const isOf = (row) => [row.operation, row.layer?.operation].includes(selection);
    if (!selection || (chosen && isOf(chosen))) return;
    const sources = new Set(data.sourcesOf(selection));
    const row =
      rows.find(isOf) ??
      rows.find(({operation}) => data.sourcesOf(operation).some((source) => sources.has(source)));
    if (row) choose(row);
  }

  drawList();
  drawMain();
  refresh();
  return {node, aside, refresh, resized: () => plot?.paint()};
}

const isShown = ({observed}) => observed !== null;

function decoded(raw) {
  const optional = (value) => (value === null ? null : decode(value));
  return {
    ...raw,
    outputs: raw.outputs.map(([name, sqnr, cosine]) => [name, decode(sqnr), decode(cosine)]),
    rows: raw.rows.map((row) => ({
      ...row,
      againstFloat: optional(row.againstFloat),
      blocked: row.blocked && decodedBlocked(row.blocked),
      layer: row.layer && {
        ...row.layer,
        weights: optional(row.layer.weights),
        activations: optional(row.layer.activations),
        both: decode(row.layer.both),
      },
      tensor: row.tensor && {
        ...row.tensor,
        low: decode(row.tensor.low),
        high: decode(row.tensor.high),
      },
    })),
  };
}

const decibels = (title, hint, of) => ({
  title,
  hint,
  number: true,
  value: (row) => of(row) ?? NaN,
  text: (row) => ((of(row) ?? null) === null ? "" : decibelsText(of(row))),
  exact: (row) => ((of(row) ?? null) === null ? "" : `${of(row)} dB`),
});

function columnsOf() {
  const share = ({clipped}) => (clipped ? clipped[0] / clipped[1] : NaN);
  return [
    {
      title: "layer",
      value: ({name}) => name,
      text: ({name}) => tail(name, NAME_CHARACTERS),
      exact: ({name}) => name,
    },
    decibels("weights", "SQNR of the layer by itself, only its weights rounded", ({layer}) =>
      layer ? layer.weights : null,
    ),
    decibels("reads", "SQNR of the layer by itself, only what it reads rounded", ({layer}) =>
      layer ? layer.activations : null,
    ),
    decibels("both", "SQNR of the layer by itself: the lower, the more it costs", ({layer}) =>
      layer ? layer.both : null,
    ),
    decibels(
      "in program",
      "SQNR against the float model, with the errors of all layers before it",
      ({againstFloat}) => againstFloat,
    ),
    {
      title: "saturated",
      hint: "share of elements beyond what is represented",
      number: true,
      value: share,
      text: (row) => (row.clipped ? percentText(share(row)) : ""),
      exact: ({clipped}) =>
        clipped ? `${exactText(clipped[0])} of ${exactText(clipped[1])} elements` : "",
    },
  ];
}

// The end of a name tells tensors apart.
const tail = (name, most) => (name.length > most ? `…${name.slice(1 - most)}` : name);

function factsOf({tensor}) {
  if (!tensor?.storage) return "stays float";
  return `${tensor.storage}, represents ${rangeText(tensor.low, tensor.high)}`;
}

function lackOf({tensor}) {
  return element(
    "p",
    {class: "quiet-text"},
    tensor
      ? "No histogram: the table came without. explorer calibrate MODEL --data FILE.npz -o TABLE " +
          "writes it beside the table, in TABLE.observed.npz; explorer.calibrate(model, data) " +
          "returns it."
      : "Only floats read this result, so it has no threshold: sums are as good.",
  );
}

function candidateTable({tensor, observed}, fork) {
  const own = observed.candidates.map((candidate) => decode(candidate.own));
  const outputs = observed.candidates.map((candidate) =>
    candidate.outputs === null ? -Infinity : decode(candidate.outputs),
  );
  const cell = (text, isBest) => element("td", {class: `number${isBest ? " least" : ""}`}, text);
  return element(
    "div",
    {class: "table-host quantized-candidates"},
    element(
      "table",
      {"aria-label": "thresholds of all methods"},
      element(
        "thead",
        {},
        element(
          "tr",
          {},
          ["method", "represents", "own error", "outputs", ""].map((title) =>
            element(
              "th",
              {scope: "col", title: HINTS[title] ?? "", class: title in HINTS ? "number" : ""},
              title,
            ),
          ),
        ),
      ),
      element(
        "tbody",
        {},
        observed.candidates.map((candidate, place) => {
          const [low, high] = [decode(candidate.low), decode(candidate.high)];
          const isUsed = isSame(low, tensor.low, tensor) && isSame(high, tensor.high, tensor);
          return element(
            "tr",
            {class: isUsed ? "marked" : ""},
            element("td", {}, candidate.method),
            element("td", {class: "mono"}, rangeText(low, high)),
            cell(errorText(own[place]), own[place] === Math.min(...own)),
            cell(
              candidate.outputs === null ? "–" : `${outputs[place].toFixed(1)} dB`,
              candidate.outputs !== null && outputs[place] === Math.max(...outputs),
            ),
            element(
              "td",
              {},
              isUsed
                ? "in use"
                : button("use", "a fork with this threshold", () => fork(Math.max(-low, high)), {
                    class: "link",
                  }),
            ),
          );
        }),
      ),
    ),
    element(
      "p",
      {class: "quiet-text"},
      `${countText(
        observed.counts.reduce((a, b) => a + b, 0),
        "number",
      )} were seen, from ` +
        `${shortRange(decode(observed.low))} to ${shortRange(decode(observed.high))}.`,
    ),
  );
}
const HINTS = {
  "own error": "expected squared error of the tensor's own numbers",
  outputs: "signal to noise of the model's outputs with this range; – was not measured",
};

// Up to the rounding of scales and zero points.
const isSame = (a, b, {low, high}) => Math.abs(a - b) <= (high - low) / 255;
