// Keys and the page of help.

import {dockTabs} from "./dock.js";
import {button, element} from "../ground/dom.js";
import {undoKey} from "../branches/undoing.js";
import {PRESETS} from "../state/arrangement.js";
import {toggleColumns} from "./code_switches.js";
import {TABS} from "./inspector.js";
import {choosePreset, enlarge} from "./workspace.js";

// Keys of views stand in the register (register.py).
const HELP = [
  ["j  k", "next pass, pass before"],
  ["u", "leave out passes that changed nothing"],
  ["J  K", "next rewrite, rewrite before"],
  ["/", "search"],
  ["Ctrl F", "find in the code under the pointer; with Shift everywhere"],
  ["d", "graph: diff, after, before in turn"],
  ["g", "fit the graph"],
  [
    "1 … 7  0",
    "tabs: operation, IR, loops, source, assembly, tensors, other builds; nodes of the model file",
  ],
  ["e", "open or close the selected block"],
  ["b", "show the next level below the tab"],
  ["B", "levels of code side by side"],
  ["z", "let the pane under the pointer fill the screen, and back (Esc)"],
  [
    Object.values(PRESETS)
      .map(({key}) => key)
      .join("  "),
    `arrangements: ${Object.keys(PRESETS).join(", ")}`,
  ],
  ["f", "change decisions and compile again (app)"],
  ["arrows", "in the graph: follow the edges"],
  ["+  −", "in the graph: zoom; or Ctrl and wheel"],
  ["w s  a d", "in the timeline (press into it first): zoom, move"],
  ["f  /  0", "there: fit the selection or the marked area, find, show all; dragging marks"],
  ["Esc", "close, then let go of the selection"],
  ["Ctrl Z", "undo; with Shift: redo (app)"],
  ["?", "this page"],
];

const PAGE_KEYS = 10; // rows above those of the views
const VIEWS_IN_ROW = 3;

const WORDS = [
  ["operation", "one step of the program, such as a convolution; it has operands and results"],
  ["pass", "one walk over the program that makes it better or brings it one level down"],
  ["rewrite", "one place where a rule of a pass changed the program"],
  ["kernel", "the code that one or several operations run as"],
  ["schedule step", "one named, checked transformation of a loop nest"],
  ["block", "operations that belong together: a name scope of the model, or a part that repeats"],
  ["branch", "a compilation of the same model with other decisions"],
  ["arena", "the one block of memory in which all activations live, at offsets decided beforehand"],
];

export function handleKey(app, event) {
  const origin = event.composedPath()[0];
  if (undoKey(app.session, event)) return;
  if (isFind(event) && !app.hasDialog()) {
    event.preventDefault();
    event.stopPropagation();
    if (event.shiftKey || !app.inspector.find()) app.everywhere.open();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const tag = origin?.tagName;
  if (event.key === "Escape") {
    if (app.closeDialog()) return;
    if (app.workspace.shrink()) return;
    if (app.everywhere.isOpen()) {
      app.everywhere.close();
      return;
    }
    if (app.store.get().rewrite !== null) app.store.set({rewrite: null});
    else if (app.store.get().selection !== null) app.store.set({selection: null});
    return;
  }
  if (app.hasDialog()) {
    if (event.key === "?") app.closeDialog();
    return;
  }
  const types = origin?.type;
  if (
    tag === "TEXTAREA" ||
    tag === "SELECT" ||
    origin?.isContentEditable ||
    (tag === "INPUT" && !["range", "checkbox"].includes(types))
  )
    return;
  const {store} = app;
  const state = store.get();
  const actions = {
    j: () => app.stepPass(1),
    k: () => app.stepPass(-1),
    u: () => store.set({onlyChanges: !state.onlyChanges}),
    J: () => app.stepRewrite(1),
    K: () => app.stepRewrite(-1),
    "/": () => app.root.querySelector(".search")?.focus(),
    d: () => store.set({view: {before: "diff", diff: "after", after: "before"}[state.view]}),
    g: () => app.graph.fit(),
    b: () => store.set({beside: !state.beside}),
    e: () => toggleBlock(app),
    B: () => toggleColumns(store),
    z: () => enlarge(app),
    "?": () => app.showHelp(),
  };
  for (const [name, {key}] of Object.entries(PRESETS)) actions[key] = () => choosePreset(app, name);
  if (app.session) actions.f = () => app.openFork();
  const look = (pane, patch) => () => {
    store.set(patch);
    app.workspace.show(pane);
  };
  for (const {key, id} of TABS) actions[key] = look("inspector", {tab: id});
  for (const {key, id} of dockTabs(app)) if (key) actions[key] ??= look("dock", {dock: id});
  if (!actions[event.key]) return;
  event.preventDefault();
  event.stopPropagation();
  actions[event.key]();
}

// Ctrl F in the text under the pointer, Ctrl Shift F everywhere.
function isFind(event) {
  return (event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "f";
}

// The selected block; or the innermost open one around the selected operation.
function toggleBlock(app) {
  const {selection} = app.store.get();
  const {blocks, latest} = app.data;
  if (!blocks || selection === null) return;
  const around = blocks.indexOf(selection) === undefined ? blocks.around(selection, latest) : [];
  const unit = around.length ? `#${around[around.length - 1]}` : selection;
  if (unit !== selection) app.store.set({selection: unit});
  app.graph.toggleBlock(unit);
}

// A few views in a row: "m  a  t" and "memory, accuracy, timeline".
function keysOfViews(views) {
  const rows = [];
  for (let first = 0; first < views.length; first += VIEWS_IN_ROW) {
    const row = views.slice(first, first + VIEWS_IN_ROW);
    rows.push([row.map(({key}) => key).join("  "), row.map(({label}) => label).join(", ")]);
  }
  return rows;
}

export function helpContent(app, close) {
  const views = dockTabs(app).filter(({key}) => key);
  const keys = [...HELP.slice(0, PAGE_KEYS), ...keysOfViews(views), ...HELP.slice(PAGE_KEYS)];
  const rows = (list) =>
    element(
      "dl",
      {class: "help-list"},
      list.map(([key, meaning]) => [
        element("dt", {}, element("kbd", {}, key)),
        element("dd", {}, meaning),
      ]),
    );
  return [
    element(
      "div",
      {class: "subject-name"},
      element("h2", {}, "Keys and words"),
      element("span", {class: "grow"}),
      button("×", "close (Esc)", close, {class: "icon"}),
    ),
    element(
      "div",
      {class: "help-columns"},
      element("div", {}, element("h3", {}, "Keys"), rows(keys)),
      element(
        "div",
        {},
        element("h3", {}, "Words"),
        element(
          "dl",
          {class: "help-words"},
          WORDS.map(([word, meaning]) => [element("dt", {}, word), element("dd", {}, meaning)]),
        ),
        element("h3", {}, "Marks"),
        element(
          "p",
          {},
          "Dots of passes: ✓ equal to the source model up to rounding, ≈ within the " +
            "tolerance, ✗ differs, ○ not compared. In the graph: + added, − removed, • " +
            "changed, ⊃ took over others.",
        ),
      ),
    ),
  ];
}
