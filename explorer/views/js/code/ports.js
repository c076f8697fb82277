// What limits every hot loop on the ports of a core, beside what the cost model says.

import {element, sortableTable} from "../ground/dom.js";
import {percentText} from "../ground/numbers.js";

export async function portsView(app) {
  const found = await app.data.chunk("ports");
  const beside = element("aside", {class: "scroll padded", "aria-live": "polite"});
  let chosen = found.loops[0];
  const columns = [
    {title: "kernel", value: (row) => row.kernel, text: (row) => row.kernel},
    {title: "loop", value: (row) => row.loop, text: (row) => row.loop},
    {
      title: "share",
      number: true,
      value: (row) => row.share,
      text: (row) => percentText(row.share),
      hint: "of the cycles that the cost model predicts for the program",
    },
    {
      title: "cycles",
      number: true,
      value: (row) => row.cycles,
      text: (row) => row.cycles.toFixed(1),
      exact: (row) => `${row.bound} if nothing waited`,
      hint: "of one iteration of the source's loop, by the analyser",
    },
    {title: "limit", value: (row) => row.limit, text: (row) => row.limit},
    {
      title: "cost model",
      number: true,
      value: (row) => row.ours,
      text: (row) => row.ours.toFixed(1),
      exact: (row) => `limited by ${row.oursLimit}, it says`,
    },
    {
      title: "off",
      number: true,
      value: (row) => Math.abs(row.error),
      text: (row) => `${row.error > 0 ? "+" : ""}${Math.round(row.error * 100)}%`,
      hint: "how far the cost model is from the analyser",
    },
    {
      title: "of peak",
      number: true,
      value: (row) => row.peak / row.cycles,
      text: (row) => (row.peak ? percentText(row.peak / row.cycles) : "–"),
      hint: "the part of the cycles in which all units multiply and add",
    },
    {
      title: "spills",
      number: true,
      value: (row) => row.spills,
      text: (row) => row.spills || "–",
      hint: "values that go to the stack or come from it for want of registers",
    },
  ];
  const table = sortableTable(columns, found.loops, {
    label: "hot loops",
    isMarked: (row) => row === chosen,
    onrow: (row) => {
      chosen = row;
      const kernel = app.data.kernels.find(({name}) => name === row.kernel);
      if (kernel) app.select(kernel.operations[0], "dock");
      show();
    },
  });
  const {analyser, model, compiler} = found;
  const about = `${analyser} counts the ports of ${model}; compiled by ${compiler}`;
  const lines = [
    `${about}${found.note ? `; ${found.note}` : ""}.`,
    `The cost model is within 15% in ${percentText(found.within)} of the loops. Caches and ` +
      "branches are not counted.",
  ];

  function show() {
    if (!chosen) return;
    for (const row of table.querySelectorAll("tbody tr")) {
      const [kernel, loop] = row.children;
      const isChosen = kernel.textContent === chosen.kernel && loop.textContent === chosen.loop;
      row.classList.toggle("marked", isChosen);
    }
    const busiest = Math.max(...chosen.ports.map(([, used]) => used), 1e-9);
    beside.replaceChildren(
      element("h3", {}, `${chosen.kernel}: ${chosen.loop}`),
      element(
        "p",
        {class: "quiet-text"},
        chosen.counts.map(([kind, count]) => `${count} ${kind}`).join(", "),
        chosen.merged > 1 ? `; the compiler wrote ${chosen.merged} iterations into one` : "",
      ),
      element(
        "dl",
        {class: "port-list", "aria-label": "cycles of an iteration by port"},
        chosen.ports.map(([name, used]) => {
          const bar = element("span", {class: "port-bar", "aria-hidden": "true"});
          bar.style.setProperty("--share", `${(100 * used) / busiest}%`);
          return element(
            "div",
            {class: "port"},
            element("dt", {class: "mono"}, name),
            element("dd", {}, used.toFixed(1), bar),
          );
        }),
      ),
      element("pre", {class: "mono"}, chosen.text.join("\n")),
    );
  }
  show();
  const left = found.leftOut.map(([name, why]) =>
    element("p", {class: "quiet-text ports-note"}, `not counted: ${name}: ${why}`),
  );
  const list = element(
    "div",
    {class: "scroll"},
    lines.map((line) => element("p", {class: "quiet-text ports-note"}, line)),
    table,
    left,
  );
  return {node: element("div", {class: "ports-pane"}, list, beside)};
}
