// Layers of a machine whose cycles are counted: predicted beside simulated cycles, how far each is
// from its roof, and of the chosen one what every queue was to do and did, and its buffers.

import {element, replace} from "../ground/dom.js";
import {launchesOf} from "./launches.js";
import {countText, exactText} from "../ground/numbers.js";
import {drawParts, missingOf} from "../ground/specification.js";
import {scratchpadsOf} from "./scratchpads.js";
import {tilesOf} from "./tiles.js";
import {LOOK} from "../theme.js";

const LOOKS = new Map(LOOK.stalls.map((look) => [look.name, look]));

export async function layersView(app, tab) {
  const absent = missingOf(app, tab);
  if (absent) return {node: absent};
  const [{counted}, {parts, subtitle, data}] = await Promise.all([
    app.data.profile(),
    app.data.chunk(tab.view),
  ]);
  const layers = counted.layers.map((layer, place) => ({...layer, ...data.layers[place]}));
  const beside = element("aside", {class: "scroll padded", "aria-live": "polite"});
  let chosen = layers.reduce((a, b) => (b.cycles > a.cycles ? b : a), layers[0]);
  const show = (row) => {
    chosen = row;
    replace(beside, detailsOf(app, row), scratchpadsOf(row, data.scratchpads), tilesOf(row));
  };
  const table = drawParts(app, parts.slice(0, 1));
  show(chosen);
  return {
    node: element(
      "div",
      {class: "layers-pane"},
      element("div", {class: "scroll"}, table.nodes),
      beside,
    ),
    aside: element("span", {class: "quiet-text"}, subtitle),
    refresh() {
      const marked = launchesOf(app);
      const other = layers.find(({operation}) => marked.has(operation));
      if (other && other !== chosen) show(other);
      table.refresh();
    },
  };
}

function detailsOf(app, row) {
  // A queue may begin to wait for the layer while the one before still runs.
  const spent = (busy, waits) => waits.reduce((sum, [, cycles]) => sum + cycles, busy);
  const longest = Math.max(
    row.cycles,
    ...row.queues.map(({busy, waits}) => spent(busy, waits)),
    ...row.queues.map((queue) => spent(queue.predictedBusy ?? 0, queue.predictedWaits ?? [])),
  );
  const last = row.first + row.cycles;
  return [
    element("h3", {title: row.operation}, app.data.layerName(row.operation)),
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
