// Spans, gaps and predictions of tracks on a canvas, and arrows from maker to reader.

import {canvasText, familyOf, fittingText} from "../ground/plot.js";
import {clip} from "../ground/scene.js";
import {tailOf} from "../measures/column_names.js";
import {firstAfter, isGap, spanText} from "./spans.js";

export const AXIS_PIXELS = 20;
const BAR_PIXELS = 24;
const PREDICTED_PIXELS = 6;
const ROOM_PIXELS = 6;
export const SHORTEST_LABEL = 40;
const EDGE_PIXELS = 8;

// Where every track stands: {top, bar, predicted: its top or null, height}.
export function rowsOf(tracks) {
  let top = AXIS_PIXELS;
  return tracks.map(({spans}) => {
    const hasPrediction = spans.some(({predicted}) => predicted !== null);
    const height = BAR_PIXELS + (hasPrediction ? PREDICTED_PIXELS + 2 : 0);
    const row = {
      top: top + 2,
      bar: BAR_PIXELS,
      predicted: hasPrediction ? top + 2 + BAR_PIXELS + 1 : null,
      height,
    };
    top += height + ROOM_PIXELS;
    return row;
  });
}

// plot: of plot.js; view: {from, to}; scale: {limit, x}; line: {at, text} or null; units: of
// cycles.js
export function paintTracks(plot, context, {data, tracks, rows, view, scale, line, units}) {
  const [, height] = plot.size();
  const {limit, x} = scale;
  context.font = "10.5px system-ui, sans-serif";
  for (const [tick, text] of units.ticks(view)) {
    context.fillStyle = plot.colour("border");
    context.fillRect(x(tick), 0, 1, height);
    context.fillStyle = plot.colour("quiet");
    context.fillText(text, x(tick) + 4, AXIS_PIXELS / 2);
  }
  context.font = "11px system-ui, sans-serif";
  const colours = colouring(plot, data);
  const hatches = new Map(); // cause of a stall, or "" -> what it is filled with
  const hatch = ({kind, cause}) => {
    const key = kind === "stall" ? cause : "";
    if (!hatches.has(key)) hatches.set(key, hatching(plot, context, key));
    return hatches.get(key);
  };
  tracks.forEach(({spans}, index) => {
    const row = rows[index];
    context.fillStyle = plot.colour("raised");
    context.fillRect(0, row.top, limit, row.bar);
    let painted = -1; // how far to the right bars narrower than a pixel were painted
    for (let place = firstAfter(spans, view.from); place < spans.length; place += 1) {
      const span = spans[place];
      if (span.start > view.to) break;
      const left = Math.max(0, x(span.start)),
        right = Math.min(limit, x(span.end));
      if (isGap(span)) paintGap(plot, context, hatch, span, row, left, right);
      else if (right >= painted + 0.5) {
        painted = right;
        const texts = () => textsOf(span, data);
        const next = nextWork(spans, place); // it may begin earlier than this one ends
        const shown = next === null ? right : Math.min(right, x(next));
        paintBar(plot, context, colours(span), span, row, [left, right, shown], texts);
        if (row.predicted !== null && span.predicted !== null)
          paintPrediction(plot, context, span, next, row, scale);
      }
    }
  });
  if (line && line.at > view.from && line.at < view.to) {
    context.fillStyle = plot.colour("accent");
    for (let y = 0; y < height; y += 6) context.fillRect(x(line.at), y, 1, 3);
  }
}

function colouring(plot, data) {
  const known = new Map(); // family -> [fill, edge]
  return (span) => {
    const family =
      span.kind === "pass"
        ? "control"
        : span.operation
          ? familyOf(data, span.operation)
          : "transfer";
    if (!known.has(family))
      known.set(family, [
        plot.colour(`${family}-fill`) || plot.colour("line"),
        plot.colour(`${family}-edge`) || plot.colour("line"),
      ]);
    return known.get(family);
  };
}

// Lines of a tile of 8 pixels, by the cause of a stall: [x, y, x, y] of each.
const SLANTED = [-8, 0, 8].map((shift) => [shift, 8, shift + 8, 0]);
const LEVEL = [[0, 4, 8, 4]];
const UPRIGHT = [[4, 0, 4, 8]];
const PATTERNS = {
  fetch: LEVEL,
  token: SLANTED,
  room: UPRIGHT,
  channel: SLANTED.map(([left, bottom, right, top]) => [left, top, right, bottom]),
  bank: [...LEVEL, ...UPRIGHT],
};

// Lines: waiting is no work. Those of a stall have the colour and the direction of its cause.
function hatching(plot, context, cause) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const pen = tile.getContext("2d");
  if (!pen) return plot.colour("border");
  const colour = plot.colour(`${cause}-edge`);
  if (colour) {
    pen.fillStyle = plot.colour(`${cause}-fill`);
    pen.fillRect(0, 0, 8, 8);
  }
  pen.strokeStyle = colour || plot.colour("line");
  pen.globalAlpha = colour ? 1 : 0.6;
  for (const [left, bottom, right, top] of PATTERNS[cause] ?? SLANTED) {
    pen.beginPath();
    pen.moveTo(left, bottom);
    pen.lineTo(right, top);
    pen.stroke();
  }
  return context.createPattern(tile, "repeat") ?? plot.colour("border");
}

function paintGap(plot, context, hatch, span, row, left, right) {
  const isStall = span.kind === "stall";
  const isWaiting = isStall || span.kind === "waiting";
  const width = right - left;
  if (width < 0.5) return;
  const [top, height] = isWaiting ? [row.top + 4, row.bar - 8] : [row.top + row.bar / 2 - 1, 2];
  context.fillStyle = isWaiting ? hatch(span) : plot.colour("line");
  context.fillRect(left, top, width, height);
  if (!isWaiting || width < 2 * SHORTEST_LABEL) return;
  const words = isStall ? span.name : `waits: ${span.facts[0]?.[1] ?? ""}`;
  const text = fittingText(context, words, width - EDGE_PIXELS);
  context.fillStyle = plot.colour("raised");
  context.fillRect(left + 4, row.top + 4, context.measureText(text).width + 6, row.bar - 8);
  context.fillStyle = plot.colour("quiet");
  context.fillText(text, left + 7, row.top + row.bar / 2);
}

// An edge as a box behind the fill: strokes take several times as long. shown: where the next bar
// covers it.
function paintBar(plot, context, [fill, edge], span, row, [left, right, shown], texts) {
  const width = Math.max(0.6, right - left);
  context.fillStyle = edge;
  context.fillRect(left, row.top, width, row.bar);
  if (width < 3) return;
  context.fillStyle = fill;
  context.fillRect(left + 1, row.top + 1, width - 2, row.bar - 2);
  if (span.kind === "folded")
    for (let line = left + 3; line < right - 1; line += 4) {
      context.fillStyle = edge;
      context.fillRect(line, row.top + 1, 1, row.bar - 2);
    }
  const room = shown - left - EDGE_PIXELS;
  if (room < SHORTEST_LABEL - EDGE_PIXELS) return;
  context.fillStyle = plot.colour("text");
  const fits = (text) => context.measureText(canvasText(text)).width <= room;
  const [whole, name, layer] = texts();
  const text = fits(name)
    ? fittingText(context, whole, room)
    : fittingText(context, layer, room, span.operation ? tailOf : clip);
  context.fillText(text, left + 5, row.top + row.bar / 2);
}

// What a bar is called, with what it computes; the name alone; and its layer, which is cut where it
// is long: the track says which part of the layer it is.
function textsOf(span, data) {
  const layerName = (own) => data.layerName(own);
  const named = (name) => spanText({...span, name, label: ""}, layerName);
  const isOfLayer = span.operation && span.name.startsWith(`${span.operation}: `);
  return [
    spanText(span, layerName),
    named(span.name),
    named(isOfLayer ? span.operation : span.name),
  ];
}

// From the measured start on; what is longer than the time until the next launch ends in a tip.
function paintPrediction(plot, context, span, next, row, {limit, x}) {
  const left = Math.max(0, x(span.start));
  const end = span.start + span.predicted;
  const isLonger = next !== null && end > next;
  const right = Math.min(limit, x(isLonger ? next : end));
  if (right < left) return;
  context.fillStyle = plot.colour("text");
  context.globalAlpha = 0.55;
  context.fillRect(left, row.predicted, Math.max(0.6, right - left - (isLonger ? 3 : 0)), 4);
  if (isLonger && right - left > 6) {
    context.beginPath();
    context.moveTo(right - 4, row.predicted - 1);
    context.lineTo(right, row.predicted + 2);
    context.lineTo(right - 4, row.predicted + 5);
    context.fill();
  }
  context.globalAlpha = 1;
}

function nextWork(spans, place) {
  for (let next = place + 1; next < spans.length; next += 1)
    if (!isGap(spans[next])) return spans[next].start;
  return null;
}

// pairs: [[span, its row], [span, its row]]: arrows from the end of what makes a value to the
// beginning of what reads it.
export function paintFlows(plot, context, pairs, {x}) {
  context.strokeStyle = context.fillStyle = plot.colour("accent");
  context.lineWidth = 1.5;
  for (const [[maker, above], [reader, below]] of pairs) {
    const isSameRow = above === below;
    const start = [x(maker.end), isSameRow ? above.top + 1 : above.top + above.bar / 2];
    const end = [x(reader.start), isSameRow ? below.top + 1 : below.top + below.bar / 2];
    const lift = isSameRow ? Math.min(30, 10 + Math.abs(end[0] - start[0]) / 12) : 0;
    const bend = isSameRow ? 0 : Math.min(40, 8 + Math.abs(end[0] - start[0]) / 3);
    context.beginPath();
    context.moveTo(start[0], start[1]);
    context.bezierCurveTo(
      start[0] + bend,
      start[1] - lift,
      end[0] - bend,
      end[1] - lift,
      end[0],
      end[1],
    );
    context.stroke();
    context.beginPath();
    context.moveTo(end[0] + 1, end[1]);
    context.lineTo(end[0] - 4, end[1] - (isSameRow ? 5 : 3));
    context.lineTo(end[0] - (isSameRow ? 0 : 4), end[1] + (isSameRow ? -6 : 3));
    context.fill();
  }
  context.lineWidth = 1;
}
