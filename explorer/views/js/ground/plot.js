// A picture of many boxes: painted on a canvas, so that ten thousand stay smooth; the few that are
// marked or hovered stand above it as elements.

import {DIRECTION_MARKS, element} from "./dom.js";
import {clip, safeName} from "./scene.js";

// {node, canvas, overlay, size(), begin() -> context, colour(name)}
export function canvasPlot(label, className) {
  const canvas = element("canvas", {role: "img", "aria-label": label});
  const overlay = element("div", {class: "plot-overlay"});
  const node = element("div", {class: `plot ${className}`}, canvas, overlay);
  let colours = new Map();
  let style = null;
  const size = () => [node.clientWidth, node.clientHeight];
  return {
    node,
    canvas,
    overlay,
    size,
    // A cleared canvas of the size of the node, in CSS pixels; null while it is not on the screen.
    begin() {
      const [width, height] = size();
      const context = width && height ? canvas.getContext("2d") : null;
      if (!context) return null;
      const ratio = window.devicePixelRatio || 1;
      const pixels = [Math.round(width * ratio), Math.round(height * ratio)];
      if (canvas.width !== pixels[0] || canvas.height !== pixels[1]) {
        [canvas.width, canvas.height] = pixels; // makes a new picture, which takes its time
        canvas.style.width = `${width}px`;
        canvas.style.height = `${height}px`;
      }
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      context.clearRect(0, 0, width, height);
      context.textBaseline = "middle";
      style = getComputedStyle(node);
      colours = new Map();
      return context;
    },
    // A colour of the theme as the canvas takes it: "accent", "convolution-fill".
    colour(name) {
      if (!colours.has(name))
        colours.set(name, style.getPropertyValue(`--explorer-${name}`).trim());
      return colours.get(name);
    },
  };
}

// Canvas text as `append` would show it.
export function canvasText(text) {
  return text.replace(DIRECTION_MARKS, "\ufffd");
}

// The text, or its beginning and "…" where it is wider than so many pixels.
export function fittingText(context, text, width, cut = clip) {
  let most = text.length;
  let shown = canvasText(text);
  for (let taken = 0; most > 1;) {
    taken = context.measureText(shown).width;
    if (taken <= width) break;
    most = Math.max(1, Math.min(most - 1, Math.floor((most * width) / taken)));
    shown = canvasText(cut(text, most));
  }
  return shown;
}

export function placed(node, left, top, width, height) {
  Object.assign(node.style, {
    left: `${left}px`,
    top: `${top}px`,
    width: `${width}px`,
    height: `${height}px`,
  });
  return node;
}

// Beside the pointer and inside of `host`.
export function moveTip(tip, host, event, isAbove = false) {
  tip.hidden = false;
  const box = host.getBoundingClientRect();
  const y = isAbove ? event.clientY - box.top - tip.offsetHeight - 8 : event.clientY - box.top + 16;
  const x = event.clientX - box.left + 14;
  tip.style.left = `${Math.max(4, Math.min(x, box.width - tip.offsetWidth - 8))}px`;
  tip.style.top = `${Math.max(4, Math.min(y, box.height - tip.offsetHeight - 4))}px`;
}

export function tipElement() {
  return element("div", {class: "tip", role: "tooltip", hidden: true});
}

export function familyOf(data, operation) {
  return safeName(data.latest.get(operation)?.family || "transfer");
}

export function niceTicks(end, count, start = 0) {
  const raw = (end - start) / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5].map((factor) => factor * power).find((size) => size >= raw) ?? 10 * power;
  const first = Math.ceil(start / step);
  return Array.from(
    {length: Math.floor(end / step) - first + 1},
    (_, index) => (first + index) * step,
  );
}
