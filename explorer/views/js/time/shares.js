// What all launches add up to, by kernel and by the nodes of the model that they come from.

import {element} from "../ground/dom.js";
import {launchesOf} from "../measures/launches.js";
import {countText, percentText, secondsText} from "../ground/numbers.js";
import {familyOf} from "../ground/plot.js";
import {clip} from "../ground/scene.js";

const MOST_SHARES = 300;

// One row per kernel, or per set of source nodes: nodes that were fused into one kernel share its
// time, which nothing measured one by one.
export function shareBars(app, profile, by) {
  const {data} = app;
  const groups = new Map();
  let total = 0;
  for (const event of profile.events) {
    const sources = data.launchSources.get(event.operation) ?? data.sourcesOf(event.operation);
    const key =
      by === "kernel" ? event.kernel || event.name : sources.join("\n") || "no node of the model";
    if (!groups.has(key)) groups.set(key, {key, sources, events: [], time: 0, flops: 0, cycles: 0});
    const group = groups.get(key);
    group.events.push(event);
    group.time += event.end - event.start;
    group.flops += event.flops;
    group.cycles += event.cycles;
    total += event.end - event.start;
  }
  const sorted = [...groups.values()].sort((a, b) => b.time - a.time);
  const most = sorted[0]?.time || 1;
  const rows = sorted.slice(0, MOST_SHARES).map((group) => {
    const names = by === "kernel" ? [group.key] : group.key.split("\n");
    const noun = group.cycles ? ["event"] : ["launch", "launches"];
    const bar = element("span", {
      class: `share-bar family-${familyOf(data, group.events[0].operation)}`,
    });
    bar.style.width = `${Math.max(0.5, (100 * group.time) / most)}%`;
    const row = element(
      "button",
      {
        type: "button",
        class: "share-row",
        title: `${names.join("\n")}\n${countText(group.events.length, ...noun)}`,
        onclick: () => app.select(group.events[0].operation, "dock"),
        onmouseenter: () =>
          app.hover.set(
            group.events.map((event) => event.operation),
            [],
          ),
        onmouseleave: () => app.hover.set([], []),
      },
      element(
        "span",
        {class: "share-name"},
        clip(names[0], 80),
        names.length > 1
          ? element("span", {class: "quiet-text"}, ` and ${clip(names.slice(1).join(", "), 60)}`)
          : null,
      ),
      element("span", {class: "share-track"}, bar),
      element(
        "span",
        {class: "number mono", title: `${group.time} ns`},
        group.cycles ? countText(group.cycles, "cycle") : secondsText(group.time / 1e9),
      ),
      element("span", {class: "number mono"}, percentText(group.time / total)),
      element(
        "span",
        {class: "number mono quiet-text"},
        group.flops ? `${(group.flops / group.time).toFixed(1)} GFLOP/s` : "–",
      ),
    );
    return [row, group];
  });
  const host = element(
    "div",
    {class: "shares scroll"},
    by === "source"
      ? element(
          "p",
          {class: "cap"},
          "Nodes that were fused into one kernel share its time; a node may stand in several rows.",
        )
      : null,
    rows.map(([row]) => row),
    sorted.length > rows.length
      ? element(
          "p",
          {class: "cap"},
          `${sorted.length - rows.length} more rows with less time are not shown`,
        )
      : null,
  );
  return {
    node: host,
    refresh() {
      const marked = launchesOf(app);
      for (const [row, group] of rows)
        row.classList.toggle(
          "marked",
          group.events.some((event) => marked.has(event.operation)),
        );
      host.querySelector(".marked")?.scrollIntoView({block: "nearest"});
    },
  };
}
