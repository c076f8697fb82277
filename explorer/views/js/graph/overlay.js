// Numbers on the graph: colour and bar of every operation and closed block by what was measured of
// it, a legend with the scale, the worst ten as links, and files of a person's own, which stay in
// the page.

import {element, replace, shape} from "../ground/dom.js";
import {notCompared, shortNumber} from "../ground/errors.js";
import {countText} from "../ground/numbers.js";
import {clip} from "../ground/scene.js";
import {tailOf} from "../measures/column_names.js";
import {NUMBERS_FILE, isSweep, readNumbers, unknownNames} from "./overlay_files.js";
import {MEASURES, folded, numbersInGraph} from "./overlay_numbers.js";

const OWN = "own";
const WORST_SHOWN = 10;
const UNKNOWN_SHOWN = 3;
const BAR_HEIGHT = 4;
const NAME_CHARACTERS = 60;
const FOLDS = {sum: "sum of their operations", worst: "worst of their operations"};

// redraw(): draws the nodes again, which calls `paint`; makeRoom(isShown): for the legend beside
// them.
export function createOverlay(app, redraw, makeRoom) {
  const {data, store} = app;
  /** @type {{columns: {title: string, values: Map<string, number>}[], filename: string,
   *   column: number, fold: string, unknown: {name: string, near: string}[], problem: string}} */
  let own = {columns: [], filename: "", column: 0, fold: "sum", unknown: [], problem: ""};
  let shown = null; // {measure, values, partOf} of the pass that is looked at, or {measure, lack}
  let scale = null; // {of: unit -> number, position(value), low, high}, for `scaled`
  let scaled = null; // the scene
  let asking = 0;

  const choice = element(
    "select",
    {
      class: "quiet overlay-choice",
      "aria-label": "colour of operations",
      title: "colour operations by their kind, or by a number",
      onchange: () => store.set({overlay: choice.value}),
    },
    element("option", {value: ""}, "by kind"),
    MEASURES.map(({id, label, isOfQuantized}) =>
      element("option", {value: id, "data-quantized": isOfQuantized}, `by ${label}`),
    ),
    element("option", {value: OWN}, "by own numbers"),
  );
  const picker = element("input", {
    type: "file",
    accept: ".csv,.tsv,.json,.txt",
    class: "overlay-file",
    "aria-label": "file with own numbers",
    onchange: () => picker.files.length && take(picker.files[0]),
  });
  const panel = element("aside", {class: "overlay", "aria-label": "numbers", hidden: true});

  function measure() {
    const {overlay} = store.get();
    if (overlay !== OWN) return MEASURES.find(({id}) => id === overlay) ?? null;
    const column = own.columns[own.column];
    return {
      id: OWN,
      label: column?.title ?? "own numbers",
      title: column ? `${column.title}, from ${own.filename}` : "own numbers",
      fold: own.fold,
      text: shortNumber,
      of: async () => column?.values ?? new Map(),
    };
  }

  function isThere(needs) {
    return (
      needs === undefined || (needs === "kernels" ? data.kernels.length : data.head.has[needs])
    );
  }

  // What only a quantized program has is offered for one only.
  function offerQuantized() {
    for (const option of choice.querySelectorAll("[data-quantized]"))
      option.hidden = !data.head.has.quantization;
  }

  async function update() {
    asking += 1;
    const number = asking;
    const wanted = measure();
    offerQuantized();
    choice.value = store.get().overlay;
    let next = null;
    if (wanted) {
      const {pass, view} = store.get();
      const graph = await data.graphOfPass(view === "before" ? Math.max(0, pass - 1) : pass);
      next = isThere(wanted.needs)
        ? {
            measure: wanted,
            ...numbersInGraph(data, graph, wanted, await wanted.of({data, pass})),
          }
        : {measure: wanted, lack: wanted.needs};
    }
    if (number !== asking) return;
    shown = next;
    scaled = null;
    if (panel.hidden !== !shown) {
      panel.hidden = !shown;
      makeRoom(!panel.hidden);
    }
    redraw();
    if (!shown) replace(panel);
  }

  // ---- own numbers

  async function take(file) {
    let columns = [],
      problem = "";
    try {
      const text = await file.text();
      if (app.session && isSweep(text)) return app.session.openFiles([file]);
      columns = readNumbers(text, file.name);
    } catch (failure) {
      problem = failure.message;
    }
    own = {...own, columns, filename: file.name, column: 0, unknown: [], problem};
    use();
  }

  // columns: [{title, values: Map(name -> number)}]
  function use() {
    const names = new Set(own.columns.flatMap(({values}) => [...values.keys()]));
    own.unknown = unknownNames(data, [...names]);
    if (store.get().overlay === OWN) update();
    else store.set({overlay: OWN});
  }

  async function useGiven() {
    const {title, columns} = await data.chunk("overlay");
    own = {
      ...own,
      filename: title,
      columns: columns.map(({title: of, values}) => ({title: of, values: new Map(values)})),
    };
    use();
  }

  // Files with numbers are taken here; others go where files go otherwise (documents.js).
  function acceptDrops(node) {
    node.addEventListener("drop", (event) => {
      const file = [...(event.dataTransfer?.files ?? [])].find(({name}) => NUMBERS_FILE.test(name));
      if (!file) return;
      event.preventDefault();
      take(file);
    });
    node.addEventListener("dragover", (event) => event.preventDefault());
  }

  // ---- what is drawn

  function rescale(scene) {
    const {measure: by, values} = shown;
    const of = new Map();
    for (const item of scene.items) {
      if (!item.inside) {
        if (values.has(item.id)) of.set(item.id, values.get(item.id));
        continue;
      }
      const inside = [...data.blocks.membersOf(item.id)].filter((id) => values.has(id));
      if (inside.length)
        of.set(
          item.id,
          folded(
            by,
            inside.map((id) => values.get(id)),
          ),
        );
    }
    const finite = [...of.values()].filter(Number.isFinite);
    const high = Math.max(...finite, 0),
      low = Math.min(...finite, 0);
    const position = (value) =>
      Number.isNaN(value) ? 1 : (by.position?.(value) ?? (value - low) / (high - low || 1));
    scale = {of, position, low, high};
    scaled = scene;
  }

  function paint(elements, scene) {
    if (shown && !shown.lack && scaled !== scene) {
      rescale(scene);
      drawPanel();
    } else if (shown?.lack) drawPanel();
    for (const [unit, group] of elements) paintNode(group, unit, scene);
  }

  function paintNode(group, unit, scene) {
    const value = shown && !shown.lack ? scale.of.get(unit) : undefined;
    const state = !shown || shown.lack ? "" : value === undefined ? "none" : String(value);
    if ((group.dataset.measured ?? "") === state && group.measuredBy === scale) return;
    group.measuredBy = scale;
    group.querySelector(".measure-bar")?.remove();
    delete group.dataset.measured;
    if (!state) return;
    group.dataset.measured = state;
    if (value === undefined) return;
    const at = Math.min(1, Math.max(0, scale.position(value)));
    const fill = app.look.scale(at);
    group.style.setProperty("--measure-fill", fill);
    group.style.setProperty("--measure-ink", inkOn(fill));
    const [width, height] = scene.node;
    group.append(
      shape("rect", {
        class: "measure-bar",
        x: 1,
        y: height - BAR_HEIGHT - 1,
        height: BAR_HEIGHT,
        width: Math.max(1, at * (width - 2)),
      }),
    );
  }

  // The number of an operation or block, for its hover text; null where there is none.
  function lineOf(item) {
    if (!shown || shown.lack || !scale) return null;
    const {measure: by, partOf} = shown;
    const value = scale.of.get(item.id);
    if (value !== undefined) {
      const of = item.inside ? ` (${FOLDS[by.fold]})` : "";
      return element("div", {class: "overlay-line"}, `${by.label}: ${by.text(value)}${of}`);
    }
    const owner = partOf.get(item.id);
    return element(
      "div",
      {class: "quiet-text overlay-line"},
      owner
        ? `${by.label}: counted with ${clip(owner, NAME_CHARACTERS)}`
        : `${by.label}: no number`,
    );
  }

  function drawPanel() {
    const {measure: by, values} = shown;
    replace(
      panel,
      element(
        "header",
        {},
        element("h3", {}, by.title),
        element(
          "button",
          {
            type: "button",
            class: "icon",
            title: "colour by kind again",
            "aria-label": "close numbers",
            onclick: () => store.set({overlay: ""}),
          },
          "×",
        ),
      ),
      by.id === OWN ? ownControls() : null,
      shown.lack ? lackOf(shown.lack) : values.size ? legendOf() : nothingOf(),
    );
  }

  function legendOf() {
    const {measure: by, values} = shown;
    const [low, high] = by.ends ?? [by.text(scale.low), by.text(scale.high)];
    const rank = (value) => (Number.isNaN(value) ? -Infinity : by.isLowWorse ? value : -value);
    const worst = [...values].sort((a, b) => rank(a[1]) - rank(b[1])).slice(0, WORST_SHOWN);
    return [
      element(
        "div",
        {class: "overlay-scale"},
        element("span", {}, low),
        element("span", {class: "scale", role: "img", "aria-label": `from ${low} to ${high}`}),
        element("span", {}, high),
      ),
      data.blocks ? element("p", {class: "quiet-text"}, `closed blocks: ${FOLDS[by.fold]}`) : null,
      element(
        "ol",
        {class: "plain overlay-worst", "aria-label": by.isLowWorse ? "lowest" : "highest"},
        worst.map(([id, value]) =>
          element(
            "li",
            {},
            element(
              "button",
              {
                type: "button",
                class: "worst",
                "data-operation": id,
                title: `select ${id}`,
                onclick: () => app.select(id, "dock"),
              },
              element("span", {class: "worst-name"}, tailOf(data.layerName(id), NAME_CHARACTERS)),
              element("span", {class: "mono"}, by.text(value)),
            ),
          ),
        ),
      ),
    ];
  }

  function ownControls() {
    const options = (table, chosen) =>
      table.map(([value, label]) =>
        element("option", {value, selected: String(value) === String(chosen)}, label),
      );
    const unknown = own.unknown.slice(0, UNKNOWN_SHOWN);
    return [
      element("p", {class: "quiet-text"}, "CSV (name, number) or JSON, by operation or node name"),
      picker,
      own.problem ? element("p", {class: "ink-removed", role: "alert"}, own.problem) : null,
      own.columns.length > 1
        ? element(
            "select",
            {
              "aria-label": "column",
              onchange: (event) => {
                own.column = Number(event.target.value);
                update();
              },
            },
            options(
              own.columns.map(({title}, index) => [index, clip(title, NAME_CHARACTERS)]),
              own.column,
            ),
          )
        : null,
      own.columns.length && data.blocks
        ? element(
            "select",
            {
              "aria-label": "what blocks show",
              onchange: (event) => {
                own.fold = event.target.value;
                update();
              },
            },
            options(
              Object.entries(FOLDS).map(([id, words]) => [id, `blocks: ${words}`]),
              own.fold,
            ),
          )
        : null,
      own.unknown.length
        ? element(
            "p",
            {class: "cap", role: "alert"},
            `${countText(own.unknown.length, "name")} in no pass of this model: `,
            unknown
              .map(
                ({name, near}) =>
                  `“${clip(name, NAME_CHARACTERS)}”` +
                  (near ? ` (did you mean “${clip(near, NAME_CHARACTERS)}”?)` : ""),
              )
              .join(", "),
            own.unknown.length > unknown.length ? ", …" : "",
          )
        : null,
    ];
  }

  function lackOf(needs) {
    if (needs === "float" && !data.head.has.quantization)
      return element("p", {class: "quiet-text"}, "This program is not quantized.");
    if (needs === "accuracy" || needs === "float") return notCompared(app);
    const words =
      needs === "profile"
        ? "Not measured yet. In a notebook, c.profile(with_peaks=True) does it; explorer serve " +
          "does it by itself."
        : "This trace holds no kernels yet.";
    return element("p", {class: "quiet-text"}, words);
  }

  function nothingOf() {
    const {measure: by} = shown;
    if (by.id === OWN) return null;
    return element("p", {class: "quiet-text"}, `No operation of this pass has a number for this.`);
  }

  store.subscribe((_, changed) => {
    if (["overlay", "pass", "view"].some((name) => changed.has(name))) update();
  });
  offerQuantized();
  if (data.head.overlay && !store.get().overlay) useGiven();
  else if (store.get().overlay) update();
  return {choice, panel, paint, lineOf, acceptDrops, learn: update};
}

// Black or white, whichever reads better: their contrasts with a ground of this luminance are equal
// at 4.58 (WCAG 2.2, definition of relative luminance).
const EQUAL_CONTRAST = 0.179;

function inkOn(colour) {
  const channels = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255);
  const [red, green, blue] = channels.map((c) =>
    c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4,
  );
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > EQUAL_CONTRAST ? "#000000" : "#ffffff";
}
