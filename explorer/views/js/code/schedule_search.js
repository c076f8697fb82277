// Searching the schedule of a kernel: every candidate as a dot, predicted against measured time. In
// the app a button starts the search, and a dot or a row that is pressed becomes a branch.
//
// search = {why, parts}: parts of a specification (views/catalog/search.py)

import {setText} from "../branches/documents.js";
import {button, element, replace} from "../ground/dom.js";
import {elapsedText} from "../ground/elapsed.js";
import {clip} from "../ground/scene.js";
import {drawParts} from "../ground/specification.js";

const SEARCH_DEFAULTS = {candidates: 16, seconds: 60, keep: false};

export function scheduleSearch(app, kernel) {
  const {session} = app;
  const mayRun = Boolean(session && !session.isTrace());
  const found = () =>
    session?.searchOf(kernel.name) ??
    (kernel.search ? {status: "done", result: kernel.search, number: 0, most: 0, error: ""} : null);
  if (!mayRun && !found()) return null;
  app.searchSettings ??= {...SEARCH_DEFAULTS, open: new Set()};
  const settings = app.searchSettings;
  const host = element("details", {
    class: "schedule-search",
    open: settings.open.has(kernel.name) || found()?.status === "running",
  });
  host.addEventListener("toggle", () => {
    settings.open[host.open ? "add" : "delete"](kernel.name);
  });
  const controls = element("div", {class: "actions"}),
    picture = element("div", {class: "search-picture specification"});
  host.append(
    element("summary", {}, "search this schedule"),
    element(
      "p",
      {class: "quiet-text"},
      "Every dot is a candidate, timed in turns with the default. On the dashed line the cost " +
        "model is right.",
    ),
    controls,
    picture,
  );

  const field = (name, label, most) => {
    const input = element("input", {
      type: "number",
      min: 2,
      max: most,
      step: 1,
      value: settings[name],
      size: 4,
      "aria-label": label,
      onchange: () => {
        settings[name] = Math.max(
          2,
          Math.min(most, Math.round(Number(input.value)) || SEARCH_DEFAULTS[name]),
        );
        input.value = settings[name];
      },
    });
    return element("label", {}, input, ` ${name}`);
  };
  const start = button(
    "search",
    "measure candidates of this kernel",
    () => session.startSearch(kernel.name, settings),
    {class: "primary"},
  );
  const stop = button(
    "cancel",
    "stop after the candidate that runs; what was measured stays",
    () => session.cancelSearch(),
    {class: "quiet"},
  );
  const keep = element("input", {
    type: "checkbox",
    checked: settings.keep,
    "aria-label": "keep the fastest for later compilations",
    onchange: () => {
      settings.keep = keep.checked;
    },
  });
  const bar = element("progress", {max: 1, value: 0, "aria-label": "progress of the search"});
  const times = elapsedText();
  const state = element("span", {class: "quiet-text", role: "status"});
  if (mayRun)
    controls.append(
      field("candidates", "most candidates", 200),
      field("seconds", "most seconds", 600),
      element(
        "label",
        {title: "later compilations of this machine use it"},
        keep,
        " keep the fastest",
      ),
      element("span", {class: "grow"}),
      bar,
      stop,
      start,
    );
  controls.append(state, times.node);

  function draw() {
    const search = found();
    const isRunning = search?.status === "running";
    [bar.hidden, stop.hidden, start.hidden] = [!isRunning, !isRunning, isRunning];
    start.disabled = Boolean(session?.isSearching()) && !isRunning;
    start.title = start.disabled
      ? "another kernel is being searched"
      : "measure candidates of this kernel";
    if (isRunning) {
      bar.value = search.most ? search.number / search.most : 0;
      times.show(kernel.name, search.number, search.most);
    } else times.end();
    setText(
      state,
      !search
        ? ""
        : isRunning
          ? `candidate ${search.number + 1} of at most ${search.most}`
          : search.status === "failed"
            ? `the search failed: ${search.error}`
            : search.status === "cancelled"
              ? "cancelled; what was measured stays"
              : clip(search.result?.why ?? "", 200),
    );
    replace(picture, search?.result?.parts ? drawParts(app, search.result.parts).nodes : null);
  }

  session?.onSearches(draw);
  draw();
  return host;
}
