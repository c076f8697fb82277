// What all launches add up to, by kernel and by the nodes of the model that they come from.

import {element} from "../ground/dom.js";
import {countText, percentText, secondsText} from "../ground/numbers.js";
import {launchedOf} from "../ground/launched.js";
import {drawParts} from "../ground/specification.js";

const MAX_SHARES = 300;

// One row per kernel, or per set of source nodes: nodes that were fused into one kernel share its
// time, which nothing measured one by one.
export function shareBars(app, profile, by) {
  const {data} = app;
  const groups = new Map(); // names -> events
  const layers = new Map(profile.counted?.layers.map((layer) => [layer.operation, layer.cycles]));
  const launched = launchedOf(profile.events);
  for (const event of launched) {
    const sources = data.launchSources.get(event.operation) ?? data.sourcesOf(event.operation);
    const names = by === "kernel" ? event.kernel || event.name : sources.join(", ");
    const key = names || "no node of the model";
    groups.set(key, [...(groups.get(key) ?? []), event]);
  }
  const sum = (events, of) => events.reduce((total, event) => total + of(event), 0);
  const timeOf = (events) => sum(events, ({start, end}) => end - start);
  const total = timeOf(launched);
  const sorted = [...groups].sort((a, b) => timeOf(b[1]) - timeOf(a[1]));
  const most = timeOf(sorted[0]?.[1] ?? []) || 1;
  const rows = sorted.map(([names, events]) => {
    const [time, flops, cycles] = [
      timeOf(events),
      sum(events, (event) => event.flops),
      sum(events, ({operation}) => layers.get(operation) ?? 0),
    ];
    const {name, glyph, title} = app.look.family(data.latest.get(events[0].operation)?.family);
    const spent = cycles ? countText(cycles, "cycle") : secondsText(time / 1e9);
    return [
      [events.map(({operation}) => operation), null, "", ""],
      [names, names, names, [name, glyph, title]],
      [time, spent, `${time} ns`, null, time / most],
      [time / total, percentText(time / total)],
      flops ? [flops / time, (flops / time).toFixed(1)] : [null, "–"],
      [events.length, String(events.length)],
    ];
  });
  const table = {
    kind: "table",
    title: `time by ${by === "kernel" ? "kernel" : "source node"}`,
    cap: MAX_SHARES,
    columns: [
      ["names", by === "kernel" ? "kernel" : "nodes of the model", "", false, true],
      ["time", "time", "", true, false, "seconds"],
      ["share", "share", "", true, false, "seconds"],
      ["speed", "GFLOP/s", "", true, false, "seconds"],
      ["events", "launches", "", true, false],
    ],
    rows,
  };
  const text = "Nodes that were fused into one kernel share its time.";
  const note = {kind: "text", text, quiet: true};
  const {nodes, refresh} = drawParts(app, by === "source" ? [note, table] : [table]);
  return {node: element("div", {class: "scroll padded specification"}, nodes), refresh};
}
