// The one state of the explorer: what is looked at. Everything that is drawn follows from it and
// from the trace; it is also the link that one shares.

import {FRESH_PANES, panesOfText, panesText} from "./arrangement.js";

const FRESH_STATE = {
  pass: 0, // index in the time line
  rewrite: null, // index of an event of that pass
  selection: null, // identity of an operation
  line: "", // of the author's program, that was picked: "nets/net.py:12"
  pin: null, // what was picked in a kernel's text: {kernel: its name, tags}; not a part of the link
  tab: "operation", // operation, model, ir, loops, c, assembly, other, tensors, fork
  build: "", // of the tab other: compiler, instruction set and level ("zig.NEON.-O2")
  dock: "memory", // a tab of a registered view
  view: "diff", // before, diff, after
  onlyChanges: false, // whether passes that changed nothing are left out of the time line
  step: null, // schedule step in the tab of loops; null: the last one
  beside: false, // whether the next level down is shown below the tab
  mode: "accumulated", // errors: accumulated, isolated, float
  metric: "relative", // errors: relative, sqnr, cosine
  bars: "time", // time line: time, kernel, source
  overlay: "", // number by which operations are coloured (graph/overlay_numbers.js), or own
  blocks: null, // whether the graph is drawn in blocks; null: when it is large
  open: [], // blocks that are open
  panes: FRESH_PANES, // which pane stands where (arrangement.js)
  tries: "", // how the table of tries is looked at (ground/tries.js)
  hold: false, // whether everything has one place in all passes
  initially: [], // blocks that a first visitor finds open: not a part of the link
};

export const IN_LINK = [
  "pass",
  "rewrite",
  "selection",
  "line",
  "tab",
  "build",
  "dock",
  "view",
  "onlyChanges",
  "step",
  "beside",
  "mode",
  "metric",
  "bars",
  "overlay",
  "blocks",
  "hold",
  "tries",
  "open",
  "panes",
];
const MAX_OPEN_IN_LINK = 60;
const NUMBERS_IN_LINK = new Set(["pass", "rewrite", "step"]);
const CHOICES_IN_LINK = {
  tab: ["operation", "model", "ir", "loops", "c", "assembly", "other", "tensors", "fork"],
  view: ["before", "diff", "after"],
  mode: ["accumulated", "isolated", "float"],
  metric: ["relative", "sqnr", "cosine"],
  bars: ["time", "kernel", "source"],
  overlay: ["", "time", "error", "bytes", "macs", "roof", "sqnr", "layer", "saturation", "own"],
};

export function createStore(initial) {
  let state = {...FRESH_STATE, ...initial};
  const listeners = [];
  return {
    get: () => state,
    set(patch) {
      // What was picked in a text belongs to one selection.
      if ("selection" in patch) patch = {line: "", pin: null, ...patch};
      else if ("line" in patch) patch = {pin: null, ...patch};
      const changed = new Set(Object.keys(patch).filter((name) => patch[name] !== state[name]));
      if (!changed.size) return;
      state = {...state, ...patch};
      for (const listener of listeners) listener(state, changed);
    },
    subscribe: (listener) => listeners.push(listener),
  };
}

// others: what the host adds (links.js)
export function stateToLink(state, others = {}) {
  const parts = new URLSearchParams(others);
  for (const name of IN_LINK) {
    if (name === "open") {
      if (String(state.open) !== String(state.initially))
        parts.set(name, state.open.slice(0, MAX_OPEN_IN_LINK).join("."));
    } else if (name === "panes") {
      if (panesText(state.panes)) parts.set(name, panesText(state.panes));
    } else if (state[name] !== FRESH_STATE[name]) parts.set(name, String(state[name]));
  }
  // `pass` always stands there, so that a link with it is told from a first visit.
  parts.set("pass", String(state.pass));
  return `#${parts}`;
}

// Tabs about the whole program that there are: those of the app alone only where it serves.
export function tabsThere({tabs, has}, isServed) {
  const isThere = (tab) => tab.needs.every((name) => has[name]) || (tab.session && isServed);
  return tabs.filter((tab) => !tab.optional || isThere(tab));
}

// The values that a name may have in a link; undefined where it may be any. `head`: of a trace.
// Where the compiler serves the page, tabs of what is not measured yet may come later.
export function choicesInLink(name, head, isServed) {
  if (name === "dock") return (isServed ? head.tabs : tabsThere(head, false)).map(({id}) => id);
  if (name === "tab" && !isServed) return CHOICES_IN_LINK.tab.filter((tab) => tab !== "fork");
  return CHOICES_IN_LINK[name];
}

// A whole place: what its link does not say is as it is by default.
export function placeFromLink(link, head, isServed, initially) {
  const fresh = Object.fromEntries(IN_LINK.map((name) => [name, FRESH_STATE[name]]));
  fresh.open = initially;
  return {...fresh, ...stateFromLink(link, head, isServed)};
}

// Unknown names and impossible values are dropped: a link may be old, or not ours.
export function stateFromLink(link, head, isServed) {
  const patch = {};
  for (const [name, value] of new URLSearchParams(link.replace(/^#/, ""))) {
    if (!IN_LINK.includes(name)) continue;
    if (NUMBERS_IN_LINK.has(name)) {
      const parsed = Number(value);
      if (Number.isInteger(parsed) && parsed >= 0) patch[name] = parsed;
    } else if (choicesInLink(name, head, isServed)) {
      if (choicesInLink(name, head, isServed).includes(value)) patch[name] = value;
    } else if (["beside", "blocks", "hold", "onlyChanges"].includes(name))
      patch[name] = value === "true";
    else if (name === "panes") {
      const panes = panesOfText(value);
      if (panes) patch.panes = panes;
    } else if (name === "open")
      patch.open = value
        .split(".")
        .map(Number)
        .filter((block) => Number.isInteger(block) && block > 0)
        .slice(0, MAX_OPEN_IN_LINK);
    else patch[name] = value;
  }
  if (patch.pass >= head.passes.length) delete patch.pass;
  return patch;
}
