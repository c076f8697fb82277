// Levels side by side, in step, and in colours: the switches beside the tabs of the inspector.

import {button, element} from "../ground/dom.js";
import {icon} from "../ground/icons.js";
import {CODE_LEVELS} from "../state/levels_shown.js";

export function codeSwitches(store) {
  const change = (patch) => store.set({panes: {...store.get().panes, ...patch}});
  const columns = button(
    icon("columns"),
    "levels of code side by side (B)",
    () => toggleColumns(store),
    {
      class: "icon columns-switch",
      "aria-label": "levels side by side",
    },
  );
  const step = button(
    icon("step"),
    "levels side by side scroll in step",
    () => change({inStep: !store.get().panes.inStep}),
    {class: "icon step-switch", "aria-label": "scroll in step"},
  );
  const colours = button(
    icon("colours"),
    "a colour for every statement",
    () => change({isColoured: !store.get().panes.isColoured}),
    {class: "icon colour-switch", "aria-label": "colours of statements"},
  );
  return {
    node: element("span", {class: "code-switches"}, columns, step, colours),
    update(isCode, isRow) {
      const {panes} = store.get();
      columns.setAttribute("aria-pressed", String(isRow));
      step.setAttribute("aria-pressed", String(panes.inStep));
      colours.setAttribute("aria-pressed", String(panes.isColoured));
      columns.hidden = colours.hidden = !isCode;
      step.hidden = !isRow;
    },
  };
}

/** Two levels side by side, or one again; from another tab the source and its instructions. */
export function toggleColumns(store) {
  const {panes, tab} = store.get();
  if (!CODE_LEVELS.includes(tab)) {
    store.set({tab: "c", panes: {...panes, levels: ["c", "assembly"]}});
    return;
  }
  const isRow = panes.levels ? panes.levels.length > 1 : panes.preset === "source";
  const last = tab === "other" ? CODE_LEVELS.length : CODE_LEVELS.length - 1;
  const first = Math.min(CODE_LEVELS.indexOf(tab), last - 2);
  const below = tab === "model" ? ["model", "c"] : CODE_LEVELS.slice(first, first + 2);
  const levels = isRow ? [tab] : below;
  store.set({panes: {...panes, levels}});
}
