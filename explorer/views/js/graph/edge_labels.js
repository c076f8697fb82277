// What edges carry, written once where a value leaves its operation: beside the line, on the side
// where there is room. What would lie on an operation, a line or another text is left out; hovering
// over the edge says it.

import {clip, turnsOf} from "../ground/scene.js";
import {VERTICAL_GAP} from "../layout/columns.js";
import {takenRoom} from "./lettering.js";
import {BACK_CARD, TITLE_HEIGHT, ghostBox, turnRadius} from "./graph_nodes.js";

const MAX_LABELS_OF_OPERATION = 3; // results of one operation
const MAX_CHARACTERS = 48;
const BESIDE = 4; // from a line to its text
const BADGE = 7;
const CURVE_STEPS = 6;
// Words of source.py for what the file does not say.
const NO_TYPES = new Set(["unknown", "left out"]);

// [{key, text, x, y, anchor, box}] of a scene; lettering: of letteringAt; widthOf(text) in units of
// the drawing; margin: what the pane has beside a drawing that fits into it.
export function edgeLabels(scene, lettering, widthOf, margin) {
  const size = lettering.shape;
  const taken = takenRoom();
  for (const box of solidBoxes(scene, lettering)) taken.take(box);
  for (const edge of scene.edges) for (const box of lineBoxes(edge.points)) taken.take(box);
  const labels = [];
  for (const {key, text, x, y, isBlock, isUp, nth} of wantedLabels(scene.edges)) {
    const back = isBlock && !isUp ? BACK_CARD : 0;
    const gap = VERTICAL_GAP - back;
    const middle = y + (isUp ? -1 : 1) * (back + gap / 2 + nth * 1.1 * size);
    const width = widthOf(text);
    const place = [BESIDE, turnRadius(lettering) + BESIDE]
      .flatMap((off) => [
        {x: x + off, anchor: "start", left: x + off},
        {x: x - off, anchor: "end", left: x - off - width},
      ])
      .map((side) => ({
        ...side,
        box: {
          left: side.left,
          right: side.left + width,
          top: middle - size / 2,
          bottom: middle + size / 2,
        },
      }))
      .find(({box}) => box.left > -margin && box.right < scene.width + margin && taken.isFree(box));
    if (!place) continue;
    taken.take(place.box);
    labels.push({key, text, y: middle + 0.35 * size, ...place});
  }
  return labels;
}

// Several results of one operation stand below one another.
function wantedLabels(edges) {
  const seen = new Map(); // where edges start -> what is written there already
  const wanted = [];
  for (const edge of edges) {
    if (!edge.type || edge.status === "removed" || NO_TYPES.has(edge.type)) continue;
    const [x, y, , below] = edge.points;
    const text = clip(typeText(edge.type), MAX_CHARACTERS);
    const place = `${Math.round(x)},${Math.round(y)}`;
    const written = seen.get(place) ?? new Set();
    if (written.has(text) || written.size >= MAX_LABELS_OF_OPERATION) continue;
    wanted.push({
      key: `${place}\n${text}`,
      text,
      x,
      y,
      isBlock: edge.source.startsWith("#"),
      isUp: below < y,
      nth: written.size,
    });
    seen.set(place, written.add(text));
  }
  return wanted;
}

// 1x16x8x8 f32 → 1×16×8×8 f32, Nx3xH → N×3×H; where a name of a size has an x in it, as it is.
function typeText(type) {
  const [shape, ...rest] = type.split(" ");
  const sizes = shape.split("x");
  return sizes.every((size) => /^(\d+|\?|[A-Z][A-Za-z]?\d*)$/.test(size))
    ? [sizes.join("×"), ...rest].join(" ")
    : type;
}

// Operations with what stands at their corners, titles of open blocks, ends of columns.
function* solidBoxes(scene, lettering) {
  const [width, height] = scene.node;
  const around = (x, y, radius) => ({
    left: x - radius,
    right: x + radius,
    top: y - radius,
    bottom: y + radius,
  });
  for (const item of scene.items) {
    if (item.isGhost) {
      yield ghostBox(item, scene.node);
      continue;
    }
    const back = item.inside ? BACK_CARD : 0;
    const [left, top] = [item.x - width / 2, item.y - height / 2];
    yield {left, top, right: left + width + back, bottom: top + height + back};
    if (item.status) yield around(left + width, top, BADGE);
    if (item.problem) yield around(left + width, top + height, BADGE);
  }
  for (const {x, y, width: broad, height: high} of scene.boxes) {
    yield {left: x, right: x + broad, top: y, bottom: y + TITLE_HEIGHT};
    for (const side of [x, x + broad]) yield {left: side, right: side, top: y, bottom: y + high};
  }
  for (const {from, heads} of turnsOf(scene.edges))
    for (const [x, y] of [from, ...heads]) yield around(x, y, turnRadius(lettering));
}

// The pieces of a way; a curve (edgeShape of scene.js) by points on it.
function* lineBoxes(points) {
  for (let index = 2; index < points.length; index += 2) {
    const [fromX, fromY, x, y] = points.slice(index - 2, index + 2);
    const isStraight = Math.abs(fromX - x) < 0.5 || Math.abs(fromY - y) < 0.5;
    const steps = isStraight ? 1 : CURVE_STEPS;
    let [lastX, lastY] = [fromX, fromY];
    for (let step = 1; step <= steps; step += 1) {
      const t = step / steps;
      // A cubic curve whose inner points stand halfway down, at the x of its ends.
      const share = isStraight ? 1 : t * t * (3 - 2 * t);
      const down = isStraight ? 1 : 1.5 * t * (1 - t) + t * t * t;
      const nextX = fromX + share * (x - fromX),
        nextY = fromY + down * (y - fromY);
      yield {
        left: Math.min(lastX, nextX) - 0.5,
        right: Math.max(lastX, nextX) + 0.5,
        top: Math.min(lastY, nextY) - 0.5,
        bottom: Math.max(lastY, nextY) + 0.5,
      };
      [lastX, lastY] = [nextX, nextY];
    }
  }
}
