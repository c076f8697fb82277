// What lies in a marked area of the timeline: how many spans, how long, of what, by kernel.

import {button, element, sortableTable} from "../ground/dom.js";
import {countText, percentText, secondsText} from "../ground/numbers.js";
import {clip} from "../ground/scene.js";
import {unitsOf} from "./cycles.js";
import {isOnHost, sumsOf} from "./spans.js";

// area: {from, to} in nanoseconds; `onclose` takes the mark away.
export function areaSums(app, group, {from, to}, onclose) {
  const sums = sumsOf(group.tracks, from, to);
  const isCompiler = group.name === "compiler";
  const noun = isCompiler ? ["pass", "passes"] : ["span", "spans"];
  const units = unitsOf(group.clock);
  const ofHost = new Set(
    group.tracks.filter(({spans}) => spans.some(isOnHost)).map(({name}) => name),
  );
  const lengthOf = (time, isMeasured) =>
    isMeasured ? secondsText(time / 1e9) : units.length(time);
  return element(
    "div",
    {class: "area-sums"},
    element(
      "div",
      {class: "subject-name"},
      element("strong", {}, `${units.length(to - from)} marked`),
      element("span", {class: "quiet-text"}, `from ${units.at(from)}`),
      element("span", {class: "grow"}),
      button("×", "take the mark away (Esc)", onclose, {class: "icon"}),
    ),
    element(
      "p",
      {class: "area-total"},
      `${countText(sums.count, ...noun)}, ${units.length(sums.work)} of work`,
      sums.predicted ? `, ${units.length(sums.predicted)} predicted` : "",
    ),
    sums.tracks.map((track) =>
      element(
        "p",
        {class: "quiet-text area-track"},
        element("span", {}, track.name),
        ` busy ${percentText(track.work / (to - from))}`,
        track.waiting ? `, waits ${lengthOf(track.waiting, ofHost.has(track.name))}` : "",
        track.overhead ? `, overhead ${lengthOf(track.overhead, ofHost.has(track.name))}` : "",
      ),
    ),
    sortableTable(
      [
        {
          title: isCompiler ? "pass" : "kernel",
          value: (row) => row.name,
          text: (row) => clip(row.name, 36),
          exact: (row) => row.name,
        },
        {title: "count", number: true, value: (row) => row.count, text: (row) => String(row.count)},
        {
          title: "time",
          number: true,
          value: (row) => row.time,
          text: (row) => lengthOf(row.time, row.isOnHost),
        },
        {
          title: "share",
          number: true,
          hint: "of the work in the marked area",
          value: (row) => row.time,
          text: (row) => percentText(row.time / sums.work),
        },
      ],
      sums.kernels,
      {
        label: "marked area",
        sortBy: 2,
        onrow: (row) => {
          if (row.operations.length) app.select(row.operations[0], "dock");
        },
      },
    ),
  );
}
