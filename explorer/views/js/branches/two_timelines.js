// Timelines against each other on one clock: a row for each side, a band between the slices that
// are the same work, and what became longer or shorter.

import {element, emptyState, shape} from "../ground/dom.js";
import {secondsText} from "../ground/numbers.js";
import {niceTicks} from "../ground/plot.js";
import {clip, safeName} from "../ground/scene.js";
import {LETTERS} from "../ground/sides.js";
import {changedSlices, length, matchSlices, slicesOf} from "../ground/slices.js";

const WIDTH = 1000,
  LEFT = 24,
  AXIS = 18,
  ROW = 26,
  GAP = 56;
const MAX_CHANGES = 40;
const LABELLED = 46; // units of the drawing from which a slice has its name

export function twoTimelines(app, comparison) {
  const known = comparison.timelines.map((line, index) => ({line, index})).filter(({line}) => line);
  if (known.length < 2)
    return emptyState(
      "Times of two sides are needed",
      "What is measured of each branch arrives some seconds after it was compiled; NPUs and " +
        "processors count or measure their launches.",
    );
  const rows = known.map(({line, index}) => ({index, line, slices: slicesOf(line)}));
  const matches = rows.slice(1).map((row, place) => matchSlices(rows[place].slices, row.slices));
  const total = Math.max(...rows.flatMap(({slices}) => slices.map(({end}) => end)), 1);
  const leftOut = rows.reduce((sum, {line}) => sum + line.leftOut, 0);
  const first = matchSlices(rows[0].slices, rows[rows.length - 1].slices);
  return element(
    "div",
    {class: "scroll two-timelines padded"},
    drawing(app, rows, matches, total),
    leftOut ? element("p", {class: "cap"}, `${leftOut} short launches are not drawn`) : null,
    changes(app, first, rows),
  );
}

function drawing(app, rows, matches, total) {
  const height = AXIS + rows.length * ROW + (rows.length - 1) * GAP + 4;
  const x = (time) => LEFT + ((WIDTH - LEFT - 4) * time) / total;
  const y = (row) => AXIS + row * (ROW + GAP);
  const matched = new Set(matches.flatMap(({pairs}) => pairs.flat()));
  return shape(
    "svg",
    {
      class: "two-timelines-picture",
      viewBox: `0 0 ${WIDTH} ${height}`,
      role: "img",
      "aria-label": `launches of ${rows.map(({index}) => LETTERS[index]).join(" and ")} in time`,
    },
    niceTicks(total, 8).map((tick) =>
      shape(
        "g",
        {},
        shape("line", {class: "tick", x1: x(tick), x2: x(tick), y1: AXIS - 4, y2: height}),
        shape("text", {x: x(tick) + 2, y: 11}, secondsText(tick / 1e9)),
      ),
    ),
    matches.flatMap(({pairs}, row) =>
      pairs.map(([a, b]) => band(a, b, x, y(row) + ROW, y(row + 1))),
    ),
    rows.map(({index, slices}, row) =>
      shape(
        "g",
        {"data-side": LETTERS[index]},
        shape("text", {class: "side", x: 4, y: y(row) + 17}, LETTERS[index]),
        slices.map((slice) => bar(app, slice, x, y(row), matched.has(slice))),
      ),
    ),
  );
}

// From the end of one slice to that of the other; grey where nothing changed by more than a tenth.
function band(a, b, x, top, bottom) {
  const ratio = length(b) / Math.max(length(a), 1);
  const tone = ratio > 1.1 ? "longer" : ratio < 0.9 ? "shorter" : "same";
  return shape(
    "path",
    {
      class: `band ${tone}`,
      d: `M${x(a.start)} ${top}L${x(a.end)} ${top}L${x(b.end)} ${bottom}L${x(b.start)} ${bottom}Z`,
    },
    shape("title", {}, sliceText(a, b)),
  );
}

function bar(app, slice, x, top, isMatched) {
  const width = Math.max(0.6, x(slice.end) - x(slice.start));
  const record = app.data.latest.get(slice.name);
  return shape(
    "g",
    {
      class: `slice${isMatched ? "" : " unmatched"}`,
      "data-operation": slice.name,
      onclick: () => record && app.select(slice.name, "dock"),
    },
    shape("rect", {
      class: record ? `family-${safeName(record.family)}` : "",
      x: x(slice.start),
      y: top,
      width,
      height: ROW,
    }),
    width > LABELLED
      ? shape("text", {x: x(slice.start) + 3, y: top + 17}, clip(slice.name, Math.floor(width / 7)))
      : null,
    shape("title", {}, `${slice.name}, ${slice.kernel}: ${nanoseconds(length(slice))}`),
  );
}

const nanoseconds = (time) => (time === null ? "–" : secondsText(time / 1e9));
const sliceText = (a, b) =>
  `${a.name}${b.name === a.name ? "" : ` and ${b.name}`}: ` +
  `${nanoseconds(length(a))}, then ${nanoseconds(length(b))}`;

function changes(app, match, rows) {
  const [before, after] = [rows[0], rows[rows.length - 1]].map(({index}) => LETTERS[index]);
  const found = changedSlices(match).filter(({change}) => change);
  return element(
    "table",
    {class: "side-table", "aria-label": "what became longer or shorter"},
    element(
      "thead",
      {},
      element(
        "tr",
        {},
        ["launches of", before, after, "change"].map((title, index) =>
          element("th", {scope: "col", class: index ? "number" : ""}, title),
        ),
      ),
    ),
    element(
      "tbody",
      {},
      found
        .slice(0, MAX_CHANGES)
        .map((row) =>
          element(
            "tr",
            {},
            element("th", {scope: "row", title: row.name}, clip(app.data.layerName(row.name), 40)),
            element("td", {class: "number"}, nanoseconds(row.before)),
            element("td", {class: "number"}, nanoseconds(row.after)),
            element(
              "td",
              {class: "number"},
              `${nanoseconds(Math.abs(row.change))} ${row.change > 0 ? "more" : "less"}`,
            ),
          ),
        ),
      found.length > MAX_CHANGES
        ? element(
            "tr",
            {},
            element("td", {colspan: 4, class: "cap"}, `${found.length - MAX_CHANGES} more`),
          )
        : null,
    ),
  );
}
