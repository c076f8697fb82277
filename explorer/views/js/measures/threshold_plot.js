// The histogram of a tensor over a logarithmic scale of counts, what is represented of it, and the
// ranges that the methods would choose. The end that is in use is a slider: arrows and the pointer
// move it, Enter or letting go compiles a fork.

import {element, replace, shape} from "../ground/dom.js";
import {decode, errorText, percentText} from "../ground/numbers.js";
import {specificationPane} from "../ground/specification.js";
import {rulerOf} from "../graph/names_that_fit.js";
import {fork} from "./quantization_fork.js";
import {errorsOf, marksOf, shortRange} from "./threshold_marks.js";

const HEIGHT = 148;
const TOP = 50; // names of methods stand above
const BOTTOM = 18;
const SIDE = 10;
const LINE = 14; // of a row of names
const ABOVE = 10; // from the bars to the lowest row: the end in use reaches into it
const NAME_FONT = "10px"; // as in quantization.css
const KEY_STEP = 1.02; // by which an arrow moves the threshold

function rangeText(low, high) {
  return low === -high ? `±${shortRange(high)}` : `${shortRange(low)} to ${shortRange(high)}`;
}

/** The pane of quantization: its specification, with the histogram of the chosen layer. */
export function quantizationPane(app, tab) {
  return specificationPane(app, tab, {threshold: thresholdPlot});
}

// name, tensor and observed are those of views/catalog/quantization.py. Where the end is let go, a
// fork is compiled in which both ends move in proportion.
function thresholdPlot(app, {name, observed, tensor: {low, high, address, knob}}) {
  const tensor = {low: decode(low), high: decode(high)};
  const said = element("p", {class: "quiet-text action-said", role: "status"});
  const edge = Math.max(-tensor.low, tensor.high) || 1;
  const histogram = histogramOf(observed);
  const node = element("div", {class: "threshold-plot"});
  const words = element("p", {class: "quiet-text threshold-words", "aria-live": "polite"});
  const picture = shape("svg", {class: "threshold", role: "group", "aria-label": "histogram"});
  node.append(picture, words, said);
  let ratio = 1; // of the threshold that is dragged to the one in use
  let width = 0;
  const least = Math.min(histogram.start, tensor.low),
    most = Math.max(histogram.end, tensor.high);
  const x = (value) => SIDE + ((value - least) / (most - least || 1)) * (width - 2 * SIDE);
  const base = HEIGHT - BOTTOM;

  function paint() {
    width = node.clientWidth || 440;
    const isFocused = picture.contains(document.activeElement);
    picture.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    picture.setAttribute("height", String(HEIGHT));
    const [low, high] = [tensor.low * ratio, tensor.high * ratio];
    const [left, right] = [x(Math.max(low, least)), x(Math.min(high, most))];
    const ruler = rulerOf(app, NAME_FONT);
    const marks = marksOf(observed, x, (name) => ruler.measureText(name).width);
    replace(
      picture,
      shape("rect", {
        class: "represented",
        x: left,
        y: TOP,
        width: Math.max(right - left, 0),
        height: base - TOP,
      }),
      shape("path", {class: "bars", d: barsOf(histogram, x, base)}),
      shape("line", {class: "base", x1: SIDE, x2: width - SIDE, y1: base, y2: base}),
      marks.map(({at, label, line, title}) =>
        shape(
          "g",
          {class: "candidate-mark"},
          shape("title", {}, title),
          shape("line", {
            x1: at,
            x2: at,
            y1: label ? TOP - ABOVE + 2 - line * LINE : TOP,
            y2: base,
          }),
        ),
      ),
      // Above the lines of the others, which they may cross.
      marks.map(({at, label, line, isBefore}) =>
        label
          ? shape(
              "text",
              {
                class: "candidate-name",
                x: at + (isBefore ? -3 : 3),
                y: TOP - ABOVE - line * LINE,
                "text-anchor": isBefore ? "end" : "start",
              },
              label,
            )
          : null,
      ),
      ends(low, high),
      [
        [least, "start"],
        [0, "middle"],
        [most, "end"],
      ]
        .filter((_, index) => index !== 1 || (x(0) > 60 && x(0) < width - 60))
        .map(([value, anchor]) =>
          shape(
            "text",
            {class: "axis", x: x(value), y: HEIGHT - 4, "text-anchor": anchor},
            shortRange(Number(value)),
          ),
        ),
    );
    if (isFocused) /** @type {any} */ (picture.querySelector(".threshold-end"))?.focus();
    replace(words, wordsOf(low, high));
  }

  // The ends of what is represented. Where both are there, either moves both.
  function ends(low, high) {
    return [high, low]
      .filter((value) => value !== 0)
      .map((value, index) =>
        shape(
          "g",
          {
            class: "threshold-end",
            tabindex: index ? -1 : 0,
            role: "slider",
            "aria-label": `threshold of ${name}`,
            "aria-valuenow": Number((edge * ratio).toPrecision(4)),
            "aria-valuetext": `represents ${rangeText(low, high)}`,
            onpointerdown: (event) => drag(event, value < 0 ? tensor.low : tensor.high),
            onkeydown: key,
          },
          shape("rect", {
            class: "grip",
            x: x(clamped(value)) - 7,
            y: TOP - 8,
            width: 14,
            height: base - TOP + 16,
          }),
          shape("line", {x1: x(clamped(value)), x2: x(clamped(value)), y1: TOP - 6, y2: base + 4}),
          shape("circle", {cx: x(clamped(value)), cy: base + 4, r: 4.5}),
        ),
      );
  }

  const clamped = (value) => Math.min(Math.max(value, least), most);

  function drag(event, own) {
    event.preventDefault();
    const box = picture.getBoundingClientRect();
    const move = (moved) => {
      const at = least + ((moved.clientX - box.left - SIDE) / (width - 2 * SIDE)) * (most - least);
      // Never through zero, and a little beyond what was seen: nobody knows all data.
      ratio = Math.min(Math.max(at / own, 0.01), 4);
      paint();
    };
    const drop = () => {
      window.removeEventListener("pointermove", move);
      window.removeEventListener("pointerup", drop);
      window.removeEventListener("pointercancel", cancel);
      release();
    };
    const cancel = () => {
      window.removeEventListener("pointermove", move);
      window.removeEventListener("pointerup", drop);
      window.removeEventListener("pointercancel", cancel);
      ratio = 1;
      paint();
    };
    window.addEventListener("pointermove", move);
    window.addEventListener("pointerup", drop);
    window.addEventListener("pointercancel", cancel);
  }

  function key(event) {
    const steps = {ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1}[event.key];
    if (steps) ratio = Math.min(Math.max(ratio * KEY_STEP ** steps, 0.01), 4);
    else if (event.key === "Escape") ratio = 1;
    else if (event.key === "Enter") release();
    else return;
    event.preventDefault();
    event.stopPropagation();
    paint();
  }

  function release() {
    const wanted = Number(((knob ?? edge) * ratio).toPrecision(6));
    const isMoved = Math.abs(ratio - 1) > 1e-3;
    ratio = 1;
    paint();
    if (isMoved) fork(app, {[address]: wanted}, said);
  }

  function wordsOf(low, high) {
    const now = errorsOf(histogram, low, high, observed.bits);
    const error = `squared error ${errorText(now.error)}`;
    const share = `${percentText(now.clipped)} of the numbers saturate`;
    if (ratio === 1) return `${error}, ${share}; drag the end to compile another one`;
    const before = errorsOf(histogram, tensor.low, tensor.high, observed.bits).error;
    const factor = before ? `, ${(now.error / before).toPrecision(2)} times that of now` : "";
    return `${rangeText(low, high)}: ${error}${factor}, ${share}; let go to compile it`;
  }

  if (typeof ResizeObserver === "function") new ResizeObserver(paint).observe(node);
  return node;
}

function histogramOf(observed) {
  const [start, width] = [decode(observed.start), decode(observed.width)];
  return {
    start,
    width,
    end: start + width * observed.counts.length,
    counts: observed.counts,
    zeros: observed.zeros,
  };
}

function barsOf({start, width, counts}, x, base) {
  const most = Math.log1p(Math.max(...counts)) || 1;
  return counts
    .map((count, place) => {
      if (!count) return "";
      const left = x(start + place * width),
        right = x(start + (place + 1) * width);
      const height = Math.max(1, (Math.log1p(count) / most) * (base - TOP - 2));
      return `M${left.toFixed(1)} ${base}v${(-height).toFixed(1)}H${right.toFixed(1)}V${base}z`;
    })
    .join("");
}
