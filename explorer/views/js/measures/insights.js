// What stands out, the largest first: each a way to the place where it is looked at.

import {element, emptyState} from "../ground/dom.js";
import {clip} from "../ground/scene.js";

const MOST_NAMED = 60; // characters of a name in a link

export async function insightsView(app) {
  const {rows, unknown} = await app.data.chunk("insights");
  const lacking = new Map();
  for (const [title, noun] of unknown) lacking.set(noun, [...(lacking.get(noun) ?? []), title]);
  const notes = [...lacking].map(([noun, titles]) =>
    element("p", {class: "quiet-text"}, `Without ${noun} nobody knows of ${titles.join("; ")}.`),
  );
  if (!rows.length)
    return {
      node: element(
        "div",
        {class: "scroll padded"},
        emptyState("Nothing stands out", "No finder has anything to say of this compilation."),
        notes,
      ),
    };
  const longest = Math.max(...rows.map((row) => row.share), 1e-9);
  const list = element(
    "ol",
    {class: "insights", "aria-label": "what stands out, the largest first"},
    rows.map((row) => {
      const bar = element("span", {class: "insight-bar", "aria-hidden": "true"});
      bar.style.setProperty("--share", `${Math.max(2, (100 * row.share) / longest)}%`);
      return element(
        "li",
        {},
        element(
          "button",
          {type: "button", class: "insight", title: `show it: ${row.name}`, onclick: () => go(row)},
          element("span", {class: "insight-effect"}, row.effect, bar),
          element("span", {class: "insight-text"}, row.text),
          element("span", {class: "insight-place mono quiet-text"}, placeOf(row)),
        ),
      );
    }),
  );
  // One change of the state: the pass, the operation and where it is shown.
  function go(row) {
    const pass = app.data.head.passes.findIndex(({name}) => name === row.pass);
    const patch = {
      ...(row.dock ? {dock: row.dock} : {}),
      ...(row.tab ? {tab: row.tab} : {}),
      ...(pass >= 0 ? {pass} : {}),
      ...(row.selection ? {selection: row.selection} : {}),
      rewrite: pass >= 0 && row.event !== null ? row.event : null,
    };
    app.store.set(patch);
    if (row.selection) app.graph.reveal(row.selection);
  }
  return {node: element("div", {class: "scroll padded"}, list, notes)};
}

function placeOf(row) {
  const where = [row.dock || row.tab, row.pass].filter(Boolean).join(", ");
  return [where, clip(row.selection, MOST_NAMED)].filter(Boolean).join(": ");
}
