// What is about the whole program: memory over time, errors, time line, roofline, kernels,
// comparison. A click here selects; what is selected elsewhere is marked here.

import {accuracyView} from "./accuracy.js";
import {compareView} from "./compare.js";
import {button, element, emptyState, markTab, replace, tabRow} from "./dom.js";
import {kernelsView} from "./kernels.js";
import {lookupsView} from "./lookups.js";
import {memoryView} from "./memory.js";
import {operatorsView} from "./operators.js";
import {rooflineView} from "./roofline.js";
import {steady} from "./steady.js";
import {timelineView} from "./timeline.js";

export function dockPane(app) {
  const {data, store} = app;
  const tabs = [
    ...(data.head.has.operators
      ? [
          {
            id: "model",
            label: "model",
            title: "the model's operators by family, and what became of them (o)",
          },
        ]
      : []),
    {id: "memory", label: "memory", title: "where every buffer lies, and when (m)"},
    {id: "accuracy", label: "accuracy", title: "errors of every tensor after every pass (a)"},
    {id: "timeline", label: "timeline", title: "when every kernel runs (t)"},
    {
      id: "roofline",
      label: "roofline",
      title: "how near every kernel comes to what the device can do (r)",
    },
    {id: "program", label: "program", title: "where the compiled program came from, and why (p)"},
    {
      id: "kernels",
      label: "kernels",
      title: "all kernels with their costs (n)",
      note: String(data.head.kernelCount),
    },
  ];
  if (data.head.has.compare || app.session)
    tabs.push({id: "compare", label: "compare", title: "this compilation and another one (c)"});
  const row = tabRow(
    tabs,
    store.get().dock,
    (dock) => store.set({dock}),
    "about the whole program",
  );
  const aside = element("span", {class: "dock-aside"});
  const body = element("div", {class: "dock-body", role: "tabpanel"});
  const node = element(
    "section",
    {class: "pane dock", "aria-label": "whole program"},
    element("div", {class: "tab-bar"}, row, element("span", {class: "grow"}), aside),
    body,
  );
  const makers = {
    model: operatorsView,
    memory: memoryView,
    accuracy: accuracyView,
    timeline: timelineView,
    roofline: rooflineView,
    program: lookupsView,
    kernels: kernelsView,
    compare: compareView,
  };
  let current = null; // {node, aside, refresh(), resized(), hovered()}
  let turn = 0;
  const showBody = steady(body),
    showAside = steady(aside);
  let shownDock = "";

  async function update() {
    turn += 1;
    const mine = turn;
    const {dock} = store.get();
    const known = tabs.some((tab) => tab.id === dock) ? dock : "memory";
    markTab(row, known);
    try {
      const made = await makers[known](app);
      if (mine !== turn) return;
      current = made;
      // Another tab begins at its top; more of the same one leaves everything where it is.
      const isFresh = shownDock !== known;
      shownDock = known;
      const after = () => {
        made.refresh?.();
        made.resized?.();
      };
      if (isFresh || aside.firstChild !== (made.aside ?? null))
        showAside(made.aside || null, {isFresh});
      if (isFresh || body.firstChild !== made.node) showBody(made.node, {isFresh, after});
      else after();
    } catch (failure) {
      if (mine === turn)
        replace(
          body,
          emptyState(
            "This could not be loaded",
            failure.message,
            button("try again", "load it again", () => update()),
          ),
        );
    }
  }

  // More is known: what is shown is drawn anew only where it shows that.
  function learn(before, now) {
    row.querySelector('[data-tab="kernels"] .note').textContent = String(data.head.kernelCount);
    const about = {
      memory: ["memory"],
      accuracy: ["accuracy"],
      timeline: ["profile"],
      roofline: ["profile"],
      program: ["program", "profile"],
      kernels: ["program", "steps", "profile"],
    }[store.get().dock];
    if (!about || about.some((name) => before[name] !== now[name])) update();
  }

  store.subscribe((state, changed) => {
    const redraws =
      changed.has("dock") ||
      (["mode", "metric"].some((name) => changed.has(name)) && state.dock === "accuracy") ||
      (changed.has("bars") && state.dock === "timeline");
    if (redraws) update();
    else if (changed.has("selection") || changed.has("pass")) current?.refresh?.();
  });
  app.hover.subscribe(() => current?.hovered?.());
  if (typeof ResizeObserver === "function")
    new ResizeObserver(() => current?.resized?.()).observe(body);
  return {node, update, learn, repaint: () => current?.resized?.()};
}
