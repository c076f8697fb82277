// The pane of a view that is a specification (views/specification.py): tables, facts, sentences and
// charts. Numbers come with their text; a click on a row or a mark selects its operation.

import {canMove, isReason} from "../desk/moves.js";
import {about} from "../desk/pressed_numbers.js";
import {drawChart} from "./chart.js";
import {button, element, emptyState, replace, section, sortableTable} from "./dom.js";
import {clip} from "./scene.js";
import {cutMiddle} from "../measures/column_names.js";
import {QUANTITIES} from "./lever_words.js";
import {launchesOf} from "../measures/launches.js";
import {fork} from "../measures/quantization_fork.js";

const MAX_NAME = 56; // characters, in a cell
const SENTENCE = 60; // characters from which on a cell's text may break into lines
const PIXEL = 6; // of an image, in pixels of the screen

/**
 * The pane of a tab: its specification, or what is missing and what to do about it.
 *
 * @param {any} app
 * @param {any} tab
 * @param {{[name: string]: (app: any, data: any) => any}} [own] what draws parts with gestures of
 *   their own
 */
export async function specificationPane(app, tab, own) {
  const absent = missingOf(app, tab);
  if (absent) return {node: absent};
  const specification = await app.data.chunk(tab.view);
  const beside = hasDetails(specification.parts)
    ? element("aside", {class: "scroll padded", "aria-live": "polite"})
    : null;
  const drawn = drawParts(app, specification.parts, {
    ondetails: (title, parts) =>
      replace(beside, element("h3", {}, title), drawParts(app, parts, {own}).nodes),
    own,
  });
  const main = element("div", {class: "scroll padded specification"}, drawn.nodes);
  return {
    node: beside ? element("div", {class: "with-details specification"}, main, beside) : main,
    aside: element("span", {class: "quiet-text"}, specification.subtitle),
    refresh: drawn.refresh,
    // Marks of what is pointed at elsewhere.
    hovered() {
      const {operations} = app.hover.get();
      for (const mark of main.querySelectorAll("[data-operation]"))
        mark.classList.toggle("hovered", operations.has(mark.getAttribute("data-operation")));
    },
  };
}

const hasDetails = (parts) =>
  parts.some(({details, parts: inner}) => details || (inner && hasDetails(inner)));

/** What a tab shows where the trace lacks a part; null where all is there. */
export function missingOf(app, {missing}) {
  if (!missing) return null;
  const [part, noun, advice] = missing;
  return app.session?.isPending(part)
    ? emptyState(`No ${noun} yet`, "It is made now. What is here already stays usable.")
    : emptyState(`No ${noun}`, `${capitalized(advice)}.`);
}

const capitalized = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/**
 * Nodes of parts, and what marks the rows and opens the sections of the selection.
 *
 * @param {any} app
 * @param {any[]} parts
 * @param {{onrow?: (row: any) => void, ondetails?: (title: string, parts: any[]) => void,
 *   own?: {[name: string]: (app: any, data: any) => any}, rows?: Map<string, () => void>}} gestures
 *   onrow: instead of selecting a row's operation; ondetails: where the chosen row's details go
 * @returns {{nodes: Node[], refresh: () => void}}
 */
export function drawParts(app, parts, gestures = {}) {
  gestures.rows ??= new Map(); // id of a row -> what chooses it
  const drawn = parts.map((part) => DRAW[part.kind](app, part, gestures));
  return {
    nodes: drawn.map(({node}) => node),
    refresh: () => drawn.forEach(({refresh}) => refresh?.()),
  };
}

const DRAW = {
  table: drawTable,
  facts: (_, {rows}) => ({
    node: element(
      "dl",
      {class: "key-parts"},
      rows.map(([name, value]) => [
        element("dt", {}, name),
        element("dd", {class: "mono", title: clip(value, 600)}, clip(value, 200)),
      ]),
    ),
  }),
  text: (app, {text, quiet, look, link, layers = []}) => ({
    node: element(
      "p",
      {class: quiet ? "quiet-text" : "", title: layers.length ? text : null},
      glyphOf(look),
      app.data.layersIn(text, layers),
      link
        ? [" ", button("show", "where it stands", () => follow(app, link), {class: "link"})]
        : null,
    ),
  }),
  beside(app, {parts}, gestures) {
    const {nodes, refresh} = drawParts(app, parts, gestures);
    return {node: element("div", {class: "side-by-side"}, nodes), refresh};
  },
  own: (app, {name, data}, {own}) => ({node: own[name](app, data)}),
  action(app, action) {
    const said = element("p", {class: "quiet-text action-said", role: "status"});
    const start = () => fork(app, action.decisions, said, action.replaces);
    return {
      node: element(
        "div",
        {class: "action"},
        button(action.title, "a fork with these decisions", start, {class: "quiet"}),
        said,
      ),
    };
  },
  code: (_, {lines}) => ({node: element("pre", {class: "mono"}, lines.join("\n"))}),
  chart: (app, chart, {rows}) => drawChart(app, chart, rows, glyphOf),
  image: (_, {title, source, width}) => {
    const node = element("img", {class: "pixels", alt: title, title, src: source});
    node.style.width = `${PIXEL * width}px`;
    return {node};
  },
  section(app, {title, folded, operations, parts}, gestures) {
    const {nodes, refresh} = drawParts(app, parts, gestures);
    if (!folded) return {node: section(title, nodes), refresh};
    const node = element("details", {}, element("summary", {}, title), nodes);
    return {
      node,
      refresh() {
        const marked = launchesOf(app);
        const isOpen = operations.some((name) => marked.has(name));
        if (operations.length && isOpen !== node.open) {
          node.open = isOpen;
          if (isOpen) node.scrollIntoView({block: "nearest"});
        }
        refresh();
      },
    };
  },
};

function glyphOf(look) {
  if (!look) return null;
  const [name, glyph, title] = look;
  return [element("span", {class: `ink-${name}`, role: "img", "aria-label": title}, glyph), " "];
}

// A cell is a string, or [value, text, on hover, look, length of a bar, operations in the text].
const valueOf = (cell) => (Array.isArray(cell) ? (cell[0] ?? NaN) : cell);
const textOf = (cell) => (Array.isArray(cell) ? cell[1] : cell);

function drawTable(app, part, {onrow, ondetails, rows: known}) {
  const {title, sortBy, facet, cap, columns, rows, details, chosen: first} = part;
  const filled = columns
    .map(([key, name, hint, number, isCode, moves = ""], place) => [
      key,
      name,
      hint,
      number,
      isCode,
      place + 1,
      moves,
    ])
    .filter(([, , , , , place]) => rows.some((row) => !["", "–"].includes(textOf(row[place]))));
  // A row that leads to another view is about what that one is about.
  const movesOf = (link) =>
    link?.dock && app.data.head.tabs.find(({id}) => id === link.dock)?.moves;
  const said = element("p", {class: "quiet-text action-said", role: "status"});
  const act = ([[, , , , action]]) => fork(app, action.decisions, said, action.replaces);
  const placeOf = (key) => filled.findIndex(([known]) => known === key);
  const described = filled.map(([, name, hint, number, isCode, place, moves]) => ({
    title: name,
    hint: canMove(app) ? withLevers(hint, moves) : hint,
    number,
    value: (row) => valueOf(row[place]),
    about: (row) =>
      isCode && !moves
        ? {"data-names": ""}
        : ["", "–"].includes(textOf(row[place]))
          ? {}
          : about(moves),
    text: (row) => contentOf(app, row[place], isCode),
    exact: (row) => (Array.isArray(row[place]) ? clip(row[place][2] ?? "", 600) : null),
  }));
  if (rows.some(([about]) => about[4]))
    described.push({
      title: "",
      hint: "",
      number: false,
      value: ([about]) => about[4]?.title ?? "",
      text: (row) =>
        row[0][4]
          ? button(row[0][4].title, "a fork with this", () => act(row), {class: "link"})
          : "",
      exact: () => null,
    });
  const lines = new Map(); // tr -> row
  const isLink = rows.some(([[operations, link]]) => operations.length || link);
  /** @type {(row: any) => boolean} */
  let marked = () => false;
  let chosen = null;
  const choose = (row) => {
    chosen = row;
    const [heading, parts] = details[rows.indexOf(row)];
    ondetails?.(columns[0][4] === "layer" ? layersIn(app, heading) : heading, parts);
  };
  const onclick = (row) => {
    if (details) choose(row);
    if (onrow) onrow(row);
    else visit(app, row);
    if (details) refresh();
  };
  const tableOf = (some) =>
    sortableTable(described, some, {
      label: title,
      cap,
      sortBy: sortBy && placeOf(sortBy) >= 0 ? placeOf(sortBy) : null,
      isMarked: (row) => marked(row),
      attributesOf: ([[, link], first]) => ({
        "data-of": textOf(first),
        ...about(movesOf(link) || ""),
      }),
      onrow: onrow || isLink || details ? onclick : undefined,
      ondrawn: (drawn) => {
        lines.clear();
        for (const [line, row] of drawn) {
          lines.set(line, row);
          line.addEventListener("mouseenter", () => app.hover.set(row[0][0], []));
          line.addEventListener("mouseleave", () => app.hover.set([], []));
        }
      },
    });
  const refresh = () => {
    const isAbout = markedIn(app);
    const other = details && !isAbout(chosen) && rows.find(isAbout);
    if (other) choose(other);
    marked = details ? (row) => row === chosen : isAbout;
    for (const [line, row] of lines) line.classList.toggle("marked", marked(row));
  };
  for (const row of rows)
    if (row[0][3]) known.set(row[0][3], () => (row[0][4] ? act(row) : onclick(row)));
  if (details?.length) choose(rows[first]);
  if (!facet || placeOf(facet) < 0) return {node: element("div", {}, tableOf(rows), said), refresh};
  const host = element("div", {});
  const at = filled[placeOf(facet)][5];
  const show = (some) => {
    replace(host, tableOf(some));
    refresh();
  };
  const chips = facetChips(app, rows, at, show);
  show(rows);
  return {node: element("div", {}, chips, host), refresh};
}

// What a column means, and once for all of its numbers what moves them.
function withLevers(hint, moves) {
  if (!moves) return hint;
  const said = isReason(moves) ? moves : `Press a number to see what moves ${QUANTITIES[moves]}.`;
  return hint ? `${hint}\n${said}` : said;
}

// Names of operations as those of their layers in the file of the model.
const layersIn = (app, text) =>
  app.data.latest.has(text)
    ? app.data.layerName(text)
    : text.replace(/[^\s,]+?(?=:?(?:[\s,]|$))/g, (name) => app.data.layerName(name));

function contentOf(app, cell, isCode) {
  const [look, share, layers = []] = Array.isArray(cell) ? cell.slice(3) : [];
  const text = clip(textOf(cell), 400);
  if (!isCode) return [glyphOf(look), sentenceOf(app, text, layers), barOf(share)];
  const layer = isCode === "layer" ? layersIn(app, text) : text;
  const shown = cutMiddle(layer, MAX_NAME);
  const compiled = layer === text ? "" : `, ${text} to the compiler`;
  const title = shown === text ? null : layer + compiled;
  return [glyphOf(look), element("span", {class: "mono", title}, shown), barOf(share)];
}

function sentenceOf(app, text, layers) {
  const words = app.data.layersIn(text, layers);
  const title = words === text ? null : text;
  if (words.length <= SENTENCE && !title) return words;
  return element("span", {class: words.length > SENTENCE ? "sentence" : "", title}, words);
}

// A button for each value of a column, with the number of its operations; one press shows only its
// rows, another one all.
function facetChips(app, rows, at, show) {
  const groups = new Map(); // text -> rows
  for (const row of rows) {
    const text = textOf(row[at]);
    groups.set(text, [...(groups.get(text) ?? []), row]);
  }
  const size = (group) => group.reduce((sum, [[operations]]) => sum + operations.length, 0);
  const ordered = [...groups].sort((a, b) => size(b[1]) - size(a[1]));
  let chosen = "";
  const chips = ordered.map(([text, group]) =>
    button(
      [contentOf(app, group[0][at], false), element("span", {class: "quiet-text"}, size(group))],
      `only ${text}`,
      () => {
        chosen = chosen === text ? "" : text;
        chips.forEach((chip, place) =>
          chip.setAttribute("aria-pressed", String(ordered[place][0] === chosen)),
        );
        show(chosen ? group : rows);
      },
      {class: "facet-chip", "aria-pressed": "false"},
    ),
  );
  return element("div", {class: "facet-chips", role: "group", "aria-label": "filters"}, chips);
}

// Whether a row is about what is selected. Operations of another pass are those that come from the
// same nodes of the model.
function markedIn(app) {
  const {selection} = app.store.get();
  const launches = launchesOf(app);
  const sources = new Set(selection === null ? [] : app.data.sourcesOf(selection));
  return ([[operations, , pass]]) =>
    operations.some(
      (name) =>
        launches.has(name) ||
        (pass && app.data.sourcesOf(name).some((source) => sources.has(source))),
    );
}

// A click selects the first operation of a row, and at every further click the next one.
function visit(app, [[operations, link, pass]]) {
  if (link) return follow(app, link);
  if (!operations.length) return;
  const at = operations.indexOf(app.store.get().selection);
  const next = operations[(at + 1) % operations.length];
  const {latest, head} = app.data;
  const drawn =
    latest.get(next) ?? [...latest.values()].find(({sources}) => sources.includes(next));
  if (pass && !drawn) {
    app.store.set({tab: "model"});
    app.say(`${clip(next, 40)} is not drawn: it stands in the list of nodes.`);
    return;
  }
  const place = head.passes.findIndex(({name}) => name === pass);
  if (place >= 0 && app.store.get().pass !== place) app.goToPass(place);
  app.select(pass ? drawn.id : next, "dock");
}

function barOf(share) {
  if (share === null || share === undefined) return null;
  const bar = element("span", {class: "share-bar", "aria-hidden": "true"});
  bar.style.setProperty("--share", `${Math.max(2, 100 * share)}%`);
  return bar;
}

// One change of the state: the pass, the operation and where it is shown.
function follow(app, link) {
  const pass = app.data.head.passes.findIndex(({name}) => name === link.pass);
  app.store.set({
    ...(link.dock ? {dock: link.dock} : {}),
    ...(link.tab ? {tab: link.tab} : {}),
    ...(pass >= 0 ? {pass} : {}),
    ...(link.selection ? {selection: link.selection} : {}),
    rewrite: pass >= 0 ? link.event : null,
  });
  if (link.selection) app.graph.reveal(link.selection);
}
