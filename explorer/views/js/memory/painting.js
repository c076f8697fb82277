// The canvas of the arena: buffers over time, live bytes, the fullest step and the least peak.

import {SCRATCH} from "./result_buffers.js";
import {bytesText} from "../ground/numbers.js";
import {canvasText, familyOf} from "../ground/plot.js";
import {tailOf} from "../measures/column_names.js";

const CHARACTER_PIXELS = 6;
const FEWEST_CHARACTERS = 6;

// arena: {memory, peakStep, width, height, margin: {left, right, top, bottom}, x(step), y(byte),
// rectangle(buffer) -> [left, top, width, height]}
export function paintArena(context, plot, data, arena) {
  const {memory, peakStep, width, height, margin, x, y, rectangle} = arena;
  const steps = Math.max(memory.steps.length, 1);
  const right = width - margin.right;
  context.font = "10.5px system-ui, sans-serif";
  for (const tick of niceBytes(memory.peak)) {
    line(
      context,
      [
        [margin.left, y(tick)],
        [right, y(tick)],
      ],
      plot.colour("border"),
      1,
      [2, 3],
    );
    context.fillStyle = plot.colour("quiet");
    context.textAlign = "right";
    context.fillText(tick === 0 ? "0" : bytesText(tick), margin.left - 6, y(tick));
  }
  context.textAlign = "left";
  if (peakStep >= 0) {
    context.globalAlpha = 0.12;
    context.fillStyle = plot.colour("removed-edge");
    context.fillRect(
      x(peakStep),
      margin.top,
      x(peakStep + 1) - x(peakStep),
      height - margin.top - margin.bottom,
    );
    context.globalAlpha = 1;
  }
  for (const buffer of memory.buffers) {
    const [left, top, boxWidth, boxHeight] = rectangle(buffer);
    const family = familyOf(data, buffer.values[0]);
    const isNarrow = boxWidth <= 2.5;
    context.fillStyle =
      plot.colour(`${family}-${isNarrow ? "edge" : "fill"}`) || plot.colour("raised");
    context.globalAlpha = isNarrow ? 0.45 : 1;
    context.fillRect(left, top, boxWidth, boxHeight);
    context.globalAlpha = 1;
    context.strokeStyle = plot.colour(`${family}-edge`) || plot.colour("line");
    if (!isNarrow) context.strokeRect(left + 0.5, top + 0.5, boxWidth - 1, boxHeight - 1);
    // A buffer within a buffer: what is written to some of its bytes, from then on.
    for (const part of isNarrow ? [] : buffer.parts.filter(({isView}) => !isView)) {
      const [partLeft, partTop, partWidth, partHeight] = rectangle({
        first: part.first,
        last: buffer.last,
        offset: buffer.offset + part.offset,
        size: part.size,
      });
      if (partWidth > 3 && partHeight > 3)
        context.strokeRect(partLeft + 1.5, partTop + 0.5, partWidth - 3, partHeight - 1);
    }
    const room = boxWidth - 8;
    const texts = boxHeight > 13 ? buffersTexts(data, buffer, room) : [];
    const label = texts.find((text) => text && context.measureText(text).width <= room);
    if (label) {
      context.fillStyle = plot.colour("text");
      context.fillText(label, left + 5, top + Math.min(boxHeight / 2, 9));
    }
  }
  context.globalAlpha = 0.75;
  line(
    context,
    memory.live.flatMap((bytes, step) => [
      [x(step), y(bytes)],
      [x(step + 1), y(bytes)],
    ]),
    plot.colour("text"),
    1.5,
  );
  context.globalAlpha = 1;
  paintLevels(context, plot, memory, {margin, right, y});
  context.textAlign = "left";
  if (peakStep >= 0) {
    context.fillStyle = plot.colour("removed-edge");
    const middle = (x(peakStep) + x(peakStep + 1)) / 2;
    context.beginPath();
    context.moveTo(middle - 5, 2);
    context.lineTo(middle + 5, 2);
    context.lineTo(middle, 10);
    context.fill();
  }
  context.fillStyle = plot.colour("quiet");
  const every = Math.max(1, Math.ceil(steps / Math.max(1, Math.floor((width - margin.left) / 72))));
  memory.steps.forEach((operation, step) => {
    if (step % every) return;
    const room = Math.min((x(1) - x(0)) * every, right - x(step)) - 8;
    const fits = (text) => text && context.measureText(text).width <= room;
    const name = data.layerName(operation);
    const texts = [1, 0.9, 0.8].map((share) => labelOf(name, share * room));
    const text = [...texts, ...kindTexts(data, operation), `step ${step}`].find(fits);
    if (text) context.fillText(text, x(step) + 2, height - 9);
  });
}

// The least that is possible and the peak; where there are several memories, where each begins.
function paintLevels(context, plot, memory, {margin, right, y}) {
  const across = (byte, colour, thickness, dashes) =>
    line(
      context,
      [
        [margin.left, y(byte)],
        [right, y(byte)],
      ],
      plot.colour(colour),
      thickness,
      dashes,
    );
  context.fillStyle = plot.colour("quiet");
  context.textAlign = "right";
  const isOne = !memory.memories.length; // several have no least size in common
  if (isOne) across(memory.bound, "removed-edge", 1.5, [6, 3]);
  if (isOne && memory.bound < 0.9 * memory.peak)
    context.fillText("least possible", right - 4, y(memory.bound) - 7);
  for (const {name, first} of memory.memories) {
    if (first) across(first, "line", 1.5);
    context.fillText(name, right - 4, y(first) - 7);
  }
  if (!isOne || memory.bound < memory.peak) across(memory.peak, "text", 1);
}

// The layer that a buffer belongs to, and which of its scratch buffers it is.
export function bufferName(data, buffer) {
  const layer = data.layerName(buffer.values[0]);
  const scratch = scratchName(buffer);
  return scratch ? `${layer} ${scratch}` : layer;
}

function scratchName({id}) {
  const [, number] = SCRATCH.exec(id) ?? [];
  return number === undefined ? null : `scratch ${Number(number) + 1}`;
}

// What may be written on a buffer: its name, or what it is where the name is too long.
function buffersTexts(data, buffer, room) {
  if (buffer.state) return [labelOf(`state ${buffer.state}`, room)];
  const scratch = scratchName(buffer);
  const kinds = scratch ? [scratch] : kindTexts(data, buffer.values[0]);
  return [labelOf(bufferName(data, buffer), room), ...kinds];
}

// The kind of an operation, as the graph has it, and without what is fused into it.
function kindTexts(data, operation) {
  const kind = data.latest.get(operation)?.label ?? "";
  return [kind, kind.split(" + ")[0]];
}

// A name where it can be read: whole, or at least half of it; else nothing.
function labelOf(name, pixels) {
  const characters = Math.floor(pixels / CHARACTER_PIXELS);
  const isReadable =
    name.length <= characters || (characters >= FEWEST_CHARACTERS && 2 * characters > name.length);
  return isReadable ? canvasText(tailOf(name, characters)) : "";
}

function line(context, points, colour, width, dashes = []) {
  context.save();
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.setLineDash(dashes);
  context.beginPath();
  for (const [index, [x, y]] of points.entries()) {
    if (index) context.lineTo(x, y);
    else context.moveTo(x, y);
  }
  context.stroke();
  context.restore();
}

function niceBytes(peak) {
  if (peak < 4) return [0];
  let step = 1;
  while (peak / step > 5) step *= 2;
  return Array.from({length: Math.floor(peak / step) + 1}, (_, index) => index * step);
}
