// Lines before and after in rows, wrapped, with what differs inside a line marked: beside each
// other, or one below the other.

import {element} from "../ground/dom.js";
import {MINUS, countText} from "../ground/numbers.js";
import {clip} from "../ground/scene.js";

const MAX_CHARACTERS = 4000; // of one line

// rows: [[kind, before, after, gone, new], ["fold", count], ...] of payload/replay.py
export function rowsTable(rows, {isBeside, hidden = 0, label}) {
  return element(
    "div",
    {class: "rows-host"},
    element(
      "table",
      {class: `rows ${isBeside ? "beside" : "unified"}`, "aria-label": label},
      isBeside
        ? element(
            "thead",
            {},
            element(
              "tr",
              {},
              element("th", {scope: "col"}, "before"),
              element("th", {scope: "col"}, "after"),
            ),
          )
        : null,
      element("tbody", {}, rows.map(isBeside ? besideRow : unifiedRows)),
    ),
    hidden ? element("p", {class: "cap"}, `${countText(hidden, "row")} more are not shown`) : null,
  );
}

function besideRow(row) {
  if (row[0] === "fold") return foldRow(row[1], 2);
  return element("tr", {}, cell(row, "before"), cell(row, "after"));
}

function unifiedRows(row) {
  if (row[0] === "fold") return foldRow(row[1], 1);
  if (!row[0]) return element("tr", {}, cell(row, "after"));
  return ["before", "after"]
    .filter((side) => row[side === "before" ? 1 : 2] !== null)
    .map((side) => element("tr", {}, cell(row, side)));
}

function foldRow(count, columns) {
  return element(
    "tr",
    {class: "fold"},
    element("td", {colspan: columns}, `${countText(count, "line")} as before`),
  );
}

function cell([kind, before, after, gone, fresh], side) {
  const isBefore = side === "before";
  const text = isBefore ? before : after;
  if (text === null) return element("td", {class: "nothing"});
  const look = kind ? (isBefore ? "removed" : "added") : "";
  const sign = kind ? (isBefore ? MINUS : "+") : " ";
  return element(
    "td",
    {class: look},
    element("span", {class: "sign", "aria-label": look || null}, sign),
    element("code", {}, markedText(text, isBefore ? gone : fresh)),
  );
}

// The text with ranges [begin, end) of its characters marked.
function markedText(text, ranges) {
  const parts = [];
  let end = 0;
  for (const [from, to] of ranges) {
    if (from > end) parts.push(text.slice(end, from));
    parts.push(element("mark", {}, text.slice(from, to)));
    end = to;
  }
  parts.push(ranges.length ? text.slice(end) : clip(text, MAX_CHARACTERS));
  return parts;
}
