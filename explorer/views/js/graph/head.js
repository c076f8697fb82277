// The head of the graph's pane: what pass it is, how many operations, and how they are shown.

import {button, element, markTab, replace, tabRow} from "../ground/dom.js";
import {countText, exactText} from "../ground/numbers.js";

const VIEWS = [
  {id: "before", label: "before", title: "the program before this pass"},
  {id: "diff", label: "diff", title: "both at once, with what the pass did (d)"},
  {id: "after", label: "after", title: "the program after this pass"},
];

// {node, showView(view), showZoom(k), show(pass, scene)}; what its buttons ask for are functions:
// closeAll(), fit(), usesBlocks(), zoom(k) and zoomBy(factor).
export function createHead({data, store}, {closeAll, fit, usesBlocks, zoom, zoomBy}) {
  const tabs = tabRow(VIEWS, store.get().view, (view) => store.set({view}), "graph of the pass");
  tabs.classList.add("segmented");
  const title = element("span", {class: "pane-title"}, "Graph");
  const counts = element("span", {class: "graph-counts"});
  const zoomed = element(
    "button",
    {type: "button", class: "quiet zoom", title: "zoom to 100 %", onclick: () => zoom(1)},
    "100 %",
  );
  const blocksButton = button(
    "blocks",
    "operations in blocks that open and close, or one by one",
    () => store.set({blocks: !usesBlocks()}),
    {class: "quiet blocks-switch", hidden: !data.blocks || !data.head.blocks.flat},
  );
  const closeButton = button("close all", "close all blocks", closeAll, {
    class: "quiet close-all",
  });
  const holdButton = button(
    element("span", {}, "hold", element("span", {class: "long"}, " still")),
    "one place for every operation in all passes, with room for those that are not there",
    () => store.set({hold: !store.get().hold}),
    {class: "quiet hold-switch", "aria-label": "hold still"},
  );
  const node = element(
    "header",
    {class: "pane-head"},
    title,
    counts,
    element("span", {class: "grow"}),
    closeButton,
    blocksButton,
    holdButton,
    tabs,
    button("−", "zoom out (−)", () => zoomBy(1 / 1.25), {class: "icon"}),
    zoomed,
    button("+", "zoom in (+)", () => zoomBy(1.25), {class: "icon"}),
    button("fit", "fit the graph into the pane (g)", fit, {class: "quiet"}),
  );

  function show(pass, scene) {
    replace(
      counts,
      pass.changed ? `${exactText(pass.before)} → ${exactText(pass.after)}` : exactText(pass.after),
      element("span", {class: "long"}, pass.changed ? " operations" : " operations, unchanged"),
    );
    if (pass.level === "source")
      replace(
        counts,
        countText(pass.after, "node"),
        element("span", {class: "long"}, " of the file"),
      );
    counts.title = pass.changed
      ? `${exactText(pass.before)} operations before, ${exactText(pass.after)} after`
      : `${countText(pass.after, "operation")}, unchanged`;
    title.textContent = pass.name;
    title.title = pass.description;
    blocksButton.setAttribute("aria-pressed", String(usesBlocks()));
    holdButton.setAttribute("aria-pressed", String(store.get().hold));
    closeButton.hidden = !usesBlocks() || !scene.boxes.length;
  }

  return {
    node,
    show,
    showView: (view) => markTab(tabs, view),
    showZoom(k) {
      zoomed.textContent = `${Math.round(k * 100)} %`;
    },
  };
}
