// What lies in a marked area of the timeline: how many spans, how long, of what, by kernel.

import {button, element, sortableTable} from "../ground/dom.js";
import {countText, percentText, secondsText} from "../ground/numbers.js";
import {clip} from "../ground/scene.js";
import {sumsOf} from "./spans.js";

// area: {from, to} in nanoseconds; `onclose` takes the mark away.
export function areaSums(app, group, {from, to}, onclose) {
  const sums = sumsOf(group.tracks, from, to);
  const isCompiler = group.name === "compiler";
  const noun = isCompiler ? ["pass", "passes"] : ["span", "spans"];
  const seconds = (time) => secondsText(time / 1e9);
  return element(
    "div",
    {class: "area-sums"},
    element(
      "div",
      {class: "subject-name"},
      element("strong", {}, `${seconds(to - from)} marked`),
      element("span", {class: "quiet-text"}, `from ${seconds(from)}`),
      element("span", {class: "grow"}),
      button("×", "take the mark away (Esc)", onclose, {class: "icon"}),
    ),
    element(
      "p",
      {class: "area-total"},
      `${countText(sums.count, ...noun)}, ${seconds(sums.work)} of work`,
      sums.predicted ? `, ${seconds(sums.predicted)} predicted` : "",
    ),
    sums.tracks.map((track) =>
      element(
        "p",
        {class: "quiet-text area-track"},
        element("span", {}, track.name),
        ` busy ${percentText(track.work / (to - from))}`,
        track.waiting ? `, waits ${seconds(track.waiting)}` : "",
        track.overhead ? `, overhead ${seconds(track.overhead)}` : "",
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
        {title: "time", number: true, value: (row) => row.time, text: (row) => seconds(row.time)},
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
