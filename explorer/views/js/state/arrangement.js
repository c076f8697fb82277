// Which pane stands where: a few presets, and what a person changed of them. One plain object of
// the state, so that a link and a page that is opened again have it.
//
// panes = {preset, places: {left, centre, right, bottom: name of a pane} | null (the preset's),
//          large: the pane that fills the screen or "", levels: of code side by side | null,
//          inStep, isColoured, sizes: {preset: {left, right, bottom: pixels}}}

import {CODE_LEVELS} from "./levels_shown.js";

export const PANES_OF_FRAME = ["passes", "graph", "inspector", "dock"];
export const PLACES = ["left", "centre", "right", "bottom"];

// What a preset shows where, and with which tabs it begins. A place that is not named stays empty.
export const PRESETS = {
  graph: {
    key: "G",
    title: "the graph between passes, inspector and measures",
    places: {left: "passes", centre: "graph", right: "inspector", bottom: "dock"},
    tabs: {},
  },
  source: {
    key: "S",
    title: "levels of code side by side, beside the graph",
    places: {left: "graph", centre: "inspector"},
    tabs: {tab: "c"},
  },
  memory: {
    key: "M",
    title: "the memory map, large",
    places: {left: "graph", centre: "dock", right: "inspector"},
    tabs: {dock: "memory"},
  },
  accuracy: {
    key: "A",
    title: "errors of every tensor after every pass, large",
    places: {left: "passes", centre: "dock", right: "inspector"},
    tabs: {dock: "accuracy", tab: "tensors"},
  },
  time: {
    key: "T",
    title: "when every kernel runs, large",
    places: {left: "graph", centre: "dock", right: "inspector"},
    tabs: {dock: "timeline"},
  },
};

/**
 * @type {{
 *   preset: string,
 *   places: Record<string, string> | null,
 *   large: string,
 *   levels: string[] | null,
 *   inStep: boolean,
 *   isColoured: boolean,
 *   sizes: Record<string, Record<string, number>>,
 * }}
 */
export const FRESH_PANES = {
  preset: "graph",
  places: null,
  large: "",
  levels: null,
  inStep: true,
  isColoured: true,
  sizes: {},
};

export function placesOf(panes) {
  return panes.places ?? PRESETS[panes.preset].places;
}

// A pane goes to another place; what stood there takes its old one. place "" hides it.
export function moved(panes, name, place) {
  const places = {...placesOf(panes)};
  const from = PLACES.find((other) => places[other] === name);
  const there = places[place];
  if (from) delete places[from];
  if (place) places[place] = name;
  if (place && from && there && there !== name) places[from] = there;
  // The middle is never empty: what is left there is nearest to it.
  if (!places.centre) {
    const next = ["right", "left", "bottom"].find((other) => places[other]);
    if (!next) return panes;
    places.centre = places[next];
    delete places[next];
  }
  return {...panes, places, large: ""};
}

// "source_at-graph-inspector-none-dock_large-dock_levels-ir-c_apart_plain"; "" where all is fresh
export function panesText(panes) {
  const parts = [panes.preset];
  if (panes.places)
    parts.push(`at-${PLACES.map((place) => panes.places[place] ?? "none").join("-")}`);
  if (panes.large) parts.push(`large-${panes.large}`);
  if (panes.levels) parts.push(`levels-${panes.levels.join("-")}`);
  if (!panes.inStep) parts.push("apart");
  if (!panes.isColoured) parts.push("plain");
  return parts.length === 1 && panes.preset === FRESH_PANES.preset ? "" : parts.join("_");
}

// What of a text is understood; null where it names no preset.
export function panesOfText(text) {
  const [preset, ...parts] = text.split("_");
  if (!Object.hasOwn(PRESETS, preset)) return null;
  const panes = {...FRESH_PANES, preset};
  for (const part of parts) {
    const [word, ...names] = part.split("-");
    if (word === "large" && PANES_OF_FRAME.includes(names[0])) panes.large = names[0];
    else if (word === "levels") {
      const levels = CODE_LEVELS.filter((level) => names.includes(level));
      if (levels.length) panes.levels = levels;
    } else if (word === "at") panes.places = placesOfNames(names);
    else if (word === "apart") panes.inStep = false;
    else if (word === "plain") panes.isColoured = false;
  }
  return panes;
}

function placesOfNames(names) {
  /** @type {Record<string, string>} */
  const places = {};
  PLACES.forEach((place, index) => {
    const name = names[index];
    if (PANES_OF_FRAME.includes(name) && !Object.values(places).includes(name))
      places[place] = name;
  });
  return places.centre ? places : null;
}
