// A slider for the budget of the arena: letting go of it compiles a branch within so many bytes.
// Below it latency against bytes of all branches of this model and target; a press shows a branch.

import {paretoDrawing} from "../desk/pareto.js";
import {BUDGET, decide} from "../ground/addresses.js";
import {element, replace} from "../ground/dom.js";
import {STEP_BYTES, comparable, rangeOf} from "../ground/budgets.js";
import {bytesText, exactText} from "../ground/numbers.js";
import {columnOf, dominated} from "../ground/tries.js";
import {canFork} from "./placing.js";

const WAIT_MS = 500; // arrow keys change a slider by steps

// {node, refresh}, or null where nothing can be compiled.
export function budgetPart(app, memory) {
  if (!canFork(app)) return null;
  const {session} = app;
  const picture = element("div", {class: "budget-picture"});
  const others = () => comparable(session.branches(), session.branch());
  const peaks = [memory.peak, ...others().map((branch) => columnOf("peak").value(branch))];
  const {least, most, value} = rangeOf(peaks, session.settings().decisions[BUDGET]);
  const said = element("output", {class: "mono"});
  const asked = element("p", {class: "budget-asked", role: "status"});
  let waiting = 0;
  const slider = element("input", {
    type: "range",
    min: least,
    max: most,
    step: STEP_BYTES,
    value,
    "aria-label": "most bytes of the arena",
    oninput: say,
    onkeydown: (event) => event.stopPropagation(),
    onchange: () => {
      clearTimeout(waiting);
      waiting = window.setTimeout(compile, WAIT_MS);
    },
  });

  function say() {
    const bytes = Number(slider.value);
    said.textContent = bytes >= most ? "none" : bytesText(bytes);
    said.title = exactText(bytes);
    slider.setAttribute("aria-valuetext", said.textContent);
  }

  function compile() {
    const bytes = Number(slider.value);
    const settings = structuredClone(session.settings());
    decide(settings, BUDGET, bytes >= most ? undefined : bytes);
    session.fork(settings);
  }

  let seen = "";
  function refresh() {
    asked.textContent = session.asked(BUDGET);
    asked.classList.toggle("ink-removed", session.failure() !== null);
    const all = others();
    const now = JSON.stringify([all.map(({key, peak, milliseconds}) => [key, peak, milliseconds])]);
    if (now === seen) return;
    seen = now;
    const look = {x: "peak", y: "latency"};
    replace(
      picture,
      paretoDrawing(app, all, dominated(all, look.x, look.y), look) ??
        element("p", {class: "quiet-text"}, "No branch has a predicted latency yet."),
    );
  }
  say();
  refresh();
  return {
    node: element(
      "div",
      {class: "memory-budget"},
      element("label", {}, "budget ", said, slider),
      asked,
      picture,
    ),
    refresh,
  };
}
