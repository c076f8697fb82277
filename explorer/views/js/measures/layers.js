// Layers of a machine whose cycles are counted: predicted beside simulated cycles, how far each is
// from its roof, and of the chosen one what every queue was to do and did, and its buffers.

import {element, emptyState, replace, sortableTable} from "../ground/dom.js";
import {launchesOf} from "./launches.js";
import {bytesText, changeText, countText, exactText, percentText} from "../ground/numbers.js";
import {scratchpadsOf} from "./scratchpads.js";
import {tilesOf} from "./tiles.js";
import {LOOK} from "../theme.js";

const LOOKS = new Map(LOOK.stalls.map((look) => [look.name, look]));

export async function layersView(app) {
  const counted = app.data.head.has.counted ? (await app.data.profile()).counted : null;
  if (!counted)
    return {
      node: emptyState(
        "No counted cycles",
        "Targets whose instructions are simulated have them (explorer targets), once the program " +
          "was run: c.profile(inputs) does it, explorer serve by itself.",
      ),
    };
  const found = await app.data.chunk("layers");
  const layers = counted.layers.map((layer, place) => ({...layer, ...found.layers[place]}));
  const beside = element("aside", {class: "scroll padded", "aria-live": "polite"});
  let chosen = layers.reduce((a, b) => (b.cycles > a.cycles ? b : a), layers[0]);
  const table = sortableTable(columnsOf(counted), layers, {
    label: "layers",
    isMarked: (row) => row === chosen,
    onrow: (row) => {
      show(row);
      app.select(row.operation, "dock");
    },
  });

  function show(row) {
    chosen = row;
    for (const line of table.querySelectorAll("tbody tr"))
      line.classList.toggle("marked", line.firstChild.textContent === row.operation);
    replace(beside, detailsOf(row), scratchpadsOf(row, found.scratchpads), tilesOf(row));
  }
  show(chosen);
  return {
    node: element("div", {class: "layers-pane"}, element("div", {class: "scroll"}, table), beside),
    aside: element(
      "span",
      {
        class: "quiet-text",
        title: "of the array's multiply-accumulates, those on padding included",
      },
      factsOf(counted),
    ),
    refresh() {
      const marked = launchesOf(app);
      const other = layers.find(({operation}) => marked.has(operation));
      if (other && other !== chosen) show(other);
    },
  };
}

const factsOf = ({cycles, predicted, utilization}) =>
  [
    countText(cycles, "cycle"),
    predicted === null ? "not predicted: instructions were edited" : offText(cycles, predicted),
    `${percentText(utilization)} of the array used`,
  ].join(" · ");

const offText = (cycles, predicted) =>
  predicted === cycles ? "predicted exactly" : `${exactText(predicted)} predicted`;

function columnsOf({peak, cycles: total}) {
  const used = (row) => row.macs / (peak * row.cycles);
  return [
    {title: "layer", value: (row) => row.operation, text: (row) => row.operation},
    {title: "kind", value: (row) => row.title, text: (row) => row.title},
    {
      title: "predicted",
      number: true,
      value: (row) => row.predicted ?? NaN,
      text: (row) => (row.predicted === null ? "–" : exactText(row.predicted)),
      hint: "cycles by the layer's tiles, without running",
    },
    {
      title: "simulated",
      number: true,
      value: (row) => row.cycles,
      text: (row) => exactText(row.cycles),
      hint: "cycles from its first instruction to the end of its last one",
    },
    {
      title: "off",
      number: true,
      value: (row) => Math.abs((row.predicted ?? NaN) - row.cycles),
      text: (row) => (row.predicted === null ? "–" : changeText(row.cycles, row.predicted)),
      hint: "predicted less simulated cycles",
    },
    {
      title: "share",
      number: true,
      value: (row) => row.cycles,
      text: (row) => percentText(row.cycles / total),
      hint: "of all cycles",
    },
    {
      title: "array used",
      number: true,
      value: used,
      text: (row) => percentText(used(row)),
      exact: (row) =>
        `${countText(row.macs, "multiply-accumulate")} of the model, ${exactText(row.arrayMacs)} ` +
        `of the array with its padding, of ${exactText(peak * row.cycles)} possible`,
      hint: "multiply-accumulates of the model over what the array could have done",
    },
    {
      title: "bytes",
      number: true,
      value: (row) => row.bytes,
      text: (row) => bytesText(row.bytes),
      exact: (row) => row.memories.map(([name, size]) => `${name} ${exactText(size)}`).join(", "),
      hint: "between global memory and scratchpads",
    },
    {
      title: "of its roof",
      number: true,
      value: (row) => row.least / row.cycles,
      text: (row) => percentText(row.least / row.cycles),
      exact: (row) => `${exactText(Math.ceil(row.least))} cycles at the target's peaks`,
      hint: "the cycles that its multiply-accumulates or its bytes take at least, over its own",
    },
    {title: "roof", value: (row) => row.bound, text: (row) => row.bound},
  ];
}

function detailsOf(row) {
  // A queue may begin to wait for the layer while the one before still runs.
  const spent = (busy, waits) => waits.reduce((sum, [, cycles]) => sum + cycles, busy);
  const longest = Math.max(
    row.cycles,
    ...row.queues.map(({busy, waits}) => spent(busy, waits)),
    ...row.queues.map((queue) => spent(queue.predictedBusy ?? 0, queue.predictedWaits ?? [])),
  );
  const last = row.first + row.cycles;
  return [
    element("h3", {}, row.operation),
    element(
      "p",
      {class: "quiet-text"},
      `${row.title}, ${countText(row.instructions, "instruction")}, ` +
        `cycle ${exactText(row.first)} to ${exactText(last)}`,
    ),
    row.queues.map((queue) => [
      element("h4", {}, queue.name),
      element(
        "dl",
        {class: "queue-bars"},
        queue.predictedWaits &&
          barOf("predicted", queue.predictedBusy, queue.predictedWaits, longest),
        barOf("simulated", queue.busy, queue.waits, longest),
      ),
      queue.terms.length ? termsOf(queue) : null,
    ]),
  ];
}

// Work, then waits by cause, to one scale; the words below say the same.
function barOf(title, busy, waits, longest) {
  const part = (name, cycles, about) => {
    const node = element("span", {class: `queue-part ${name}`, title: about});
    node.style.setProperty("--share", `${(100 * cycles) / longest}%`);
    return node;
  };
  return [
    element("dt", {}, title),
    element(
      "dd",
      {},
      element(
        "span",
        {class: "queue-bar", "aria-hidden": "true"},
        part("queue-work", busy, `works for ${countText(busy, "cycle")}`),
        waits.map(([cause, cycles]) =>
          part(`mark-${cause}`, cycles, `waits ${countText(cycles, "cycle")} for ${cause}`),
        ),
      ),
      element(
        "span",
        {class: "queue-words"},
        `works ${exactText(busy)}`,
        waits.map(([cause, cycles]) =>
          element(
            "span",
            {class: `stall-cause mark-${cause}`, title: LOOKS.get(cause)?.title ?? cause},
            element("span", {class: "stall-mark", "aria-hidden": "true"}, LOOKS.get(cause)?.glyph),
            `${cause} ${exactText(cycles)}`,
          ),
        ),
      ),
    ),
  ];
}

function termsOf({name, terms}) {
  return element(
    "table",
    {class: "queue-terms", "aria-label": `what ${name} is predicted to do`},
    element(
      "tbody",
      {},
      terms.map(([what, count, cycles, why]) =>
        element(
          "tr",
          {},
          element("th", {scope: "row"}, `${what.replaceAll("_", " ")} × ${exactText(count)}`),
          element("td", {class: "number"}, exactText(cycles)),
          element("td", {class: "quiet-text"}, why),
        ),
      ),
    ),
  );
}
