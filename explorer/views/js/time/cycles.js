// Lengths and places in time as people read them: seconds, or the cycles of a machine that counts
// them. What the host did beside it was measured, and stays in seconds.

import {element} from "../ground/dom.js";
import {countText, exactText, secondsText} from "../ground/numbers.js";
import {niceTicks} from "../ground/plot.js";
import {LOOK} from "../theme.js";

const TICKS = 6;

// clock: {cycle_ns, start_ns, cycles} of payload/counted_spans.py, or null.
// {length(ns), at(ns), ticks({from, to}) -> [[ns, text]]}
export function unitsOf(clock) {
  const seconds = (time) => secondsText(time / 1e9);
  if (!clock)
    return {
      length: seconds,
      at: seconds,
      ticks: ({from, to}) =>
        niceTicks(to, TICKS, from).map((tick) => [tick, tick === 0 ? "0" : seconds(tick)]),
    };
  const cycleAt = (time) => (time - clock.start_ns) / clock.cycle_ns;
  const isCounted = (cycle) => cycle >= 0 && cycle <= clock.cycles;
  return {
    length: (time) => countText(Math.round(time / clock.cycle_ns), "cycle"),
    at: (time) =>
      isCounted(Math.round(cycleAt(time)))
        ? `cycle ${exactText(Math.round(cycleAt(time)))}`
        : seconds(time),
    // Of the counted run alone: what is before and behind it has no cycles.
    ticks: ({from, to}) =>
      niceTicks(cycleAt(to), TICKS, cycleAt(from))
        .filter((cycle) => isCounted(cycle) && Number.isInteger(cycle))
        .map((cycle) => [
          clock.start_ns + cycle * clock.cycle_ns,
          cycle === 0 ? "cycle 0" : exactText(cycle),
        ]),
  };
}

// What instructions waited for, with the pattern and the colour of each cause; null without stalls.
export function stallLegend(group) {
  const cycles = new Map();
  for (const {spans} of group.tracks)
    for (const {kind, cause, start, end} of spans)
      if (kind === "stall") cycles.set(cause, (cycles.get(cause) ?? 0) + end - start);
  const found = LOOK.stalls.filter(({name}) => cycles.has(name));
  if (!found.length) return null;
  const units = unitsOf(group.clock);
  return element(
    "p",
    {class: "stall-legend", "aria-label": "what instructions wait for"},
    "waits for",
    found.map(({name, title, glyph}) =>
      element(
        "span",
        {class: `stall-cause mark-${name}`, title},
        element("span", {class: "stall-mark", "aria-hidden": "true"}, glyph),
        element("strong", {}, name),
        ` ${units.length(cycles.get(name))} in all queues`,
      ),
    ),
  );
}
