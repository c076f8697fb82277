// What a threshold costs, and where the ranges that the methods would choose are marked.

import {decode, errorText} from "../ground/numbers.js";

const GAP = 9; // pixels between a name and its mark, and to the next name
const NAME_LINES = 3;

export const shortRange = (value) => String(Number(value.toPrecision(3)));

// Expected squared error of a number, and the share of those that saturate: step^2 / 12 inside,
// where zero costs nothing, and the distance from the end outside.
export function errorsOf({start, width, counts, zeros}, low, high, bits) {
  const step = (high - low) / (2 ** bits - 1);
  let total = 0,
    inside = 0,
    cut = 0;
  counts.forEach((count, place) => {
    const center = start + (place + 0.5) * width;
    total += count;
    const beyond = Math.max(center - high, low - center, 0);
    if (beyond > 0) cut += count * beyond * beyond;
    else inside += count;
  });
  const clipped = total - inside;
  return {
    error: (cut + (Math.max(inside - zeros, 0) * step * step) / 12) / Math.max(total, 1),
    clipped: clipped / Math.max(total, 1),
  };
}

// Ends of what the methods would represent; those that fall on one pixel share a mark, and names
// that would run into one another stand in rows.
export function marksOf(observed, x, widthOf) {
  const byPixel = new Map();
  for (const {method, low, high, own} of observed.candidates)
    for (const [value, isNamed] of /** @type {[number, boolean][]} */ ([
      [decode(high), true],
      [decode(low), decode(high) === 0],
    ])) {
      if (value === 0) continue;
      const pixel = Math.round(x(value));
      const mark = byPixel.get(pixel) ?? {at: x(value), names: [], titles: []};
      if (isNamed) mark.names.push(method);
      mark.titles.push(`${method} ${shortRange(value)}: squared error ${errorText(decode(own))}`);
      byPixel.set(pixel, mark);
    }
  const named = [];
  return [...byPixel.values()]
    .sort((a, b) => a.at - b.at)
    .map(({at, names, titles}) => {
      const label = names.join(", ");
      const size = widthOf(label) + GAP;
      // Left of the mark, but where the picture ends.
      const isBefore = at - size > 0;
      const [from, to] = isBefore ? [at - size, at] : [at, at + size];
      const line = label ? rowOf(at, from, to, named) : -1;
      if (line >= 0) named.push({at, from, to, line});
      return {
        at,
        label: line >= 0 ? label : "",
        isBefore,
        line: Math.max(line, 0),
        title: titles.join("\n"),
      };
    });
}

// The lowest row in which a name touches no other and no mark reaches through a name below its own;
// -1 where there is none.
function rowOf(at, from, to, named) {
  for (let line = 0; line < NAME_LINES; line += 1) {
    const isFree = named.every((other) => {
      if (other.line === line) return other.to <= from || to <= other.from;
      const [upper, lower] = other.line > line ? [other.at, {from, to}] : [at, other];
      return upper <= lower.from || upper >= lower.to;
    });
    if (isFree) return line;
  }
  return -1;
}
