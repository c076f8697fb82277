// All kernels with their costs; a click leads to the source.

import {element, emptyState, sortableTable} from "../ground/dom.js";
import {selectedLaunches} from "./launches.js";
import {amountText, bytesText, exactText, percentText, secondsText} from "../ground/numbers.js";
import {clip} from "../ground/scene.js";

export async function kernelsView(app) {
  const {data, store} = app;
  if (!data.kernels.length) {
    if (app.session?.isPending("program"))
      return {
        node: emptyState(
          "Kernels are being made",
          "The passes are done; their kernels are printed now.",
        ),
      };
    return {
      node: emptyState(
        "No kernels",
        "The compilation stopped before kernels were made. Choose a target that generates code.",
      ),
    };
  }
  const profile = data.head.has.profile ? await data.profile() : null;
  const spent = new Map();
  let total = 0;
  for (const event of profile?.events || []) {
    const time = event.end - event.start;
    total += time;
    const entry = spent.get(event.kernel) || {time: 0, done: 0, count: 0};
    spent.set(event.kernel, {
      time: entry.time + time,
      done: entry.done + event.flops,
      count: entry.count + 1,
    });
  }
  const rows = data.kernels.map((kernel) => ({
    ...kernel,
    ...(spent.get(kernel.name) || {time: NaN, count: 0, done: NaN}),
  }));
  const peak = profile?.peakGflops || 0;
  const speed = (row) => row.done / row.time;
  const columns = [
    {title: "kernel", value: (row) => row.name, text: (row) => row.name},
    {title: "kind", value: (row) => row.kind, text: (row) => row.kind},
    {
      title: "used by",
      value: (row) => row.operations.join(),
      text: (row) => clip(row.operations.join(", "), 40),
      exact: (row) => clip(row.operations.join(", "), 400),
    },
    {
      title: "time",
      number: true,
      value: (row) => row.time,
      text: (row) => (Number.isNaN(row.time) ? "–" : secondsText(row.time / 1e9)),
      exact: (row) => `${row.time} ns`,
    },
    {
      title: "share",
      number: true,
      value: (row) => row.time,
      text: (row) => (Number.isNaN(row.time) ? "–" : percentText(row.time / total)),
    },
    {
      title: "GFLOP/s",
      number: true,
      value: speed,
      text: (row) => (Number.isFinite(speed(row)) ? speed(row).toFixed(1) : "–"),
      exact: (row) => (peak ? `${percentText(speed(row) / peak)} of the measured peak` : ""),
      hint: peak ? `the device reaches ${peak.toFixed(0)} GFLOP/s` : "operations per second",
    },
    {
      title: "FLOPs",
      number: true,
      value: (row) => row.flops,
      text: (row) => amountText(row.flops),
      exact: (row) => exactText(row.flops),
    },
    {
      title: "bytes",
      number: true,
      value: (row) => row.bytes,
      text: (row) => bytesText(row.bytes),
      exact: (row) => exactText(row.bytes),
      hint: "sizes of all arguments: the least traffic",
    },
    {
      title: "FLOP/byte",
      number: true,
      value: (row) => row.flops / row.bytes,
      text: (row) => (row.bytes ? (row.flops / row.bytes).toFixed(1) : "–"),
      hint: "arithmetic intensity: low means bound by memory",
    },
    {
      title: "steps",
      number: true,
      value: (row) => row.steps,
      text: (row) => row.steps || "–",
      hint: "schedule steps",
    },
    {
      title: "lines",
      number: true,
      value: (row) => row.lines,
      text: (row) => row.lines,
      hint: "lines of source",
    },
  ];
  let marked = new Set();
  const table = sortableTable(columns, rows, {
    label: "kernels",
    sortBy: profile ? 3 : null,
    isMarked: (row) => row.operations.some((name) => marked.has(name)),
    onrow: (row) => {
      app.select(row.operations[0], "dock");
      if (["operation", "tensors"].includes(store.get().tab)) store.set({tab: "c"});
    },
  });
  return {
    node: element("div", {class: "scroll"}, table),
    refresh() {
      marked = selectedLaunches(app);
      for (const row of table.querySelectorAll("tbody tr")) {
        const kernel = data.kernels[data.kernelIndex.get(row.firstChild.textContent)];
        row.classList.toggle(
          "marked",
          kernel.operations.some((name) => marked.has(name)),
        );
      }
    },
  };
}
