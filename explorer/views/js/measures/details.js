// Where the values and the errors of one tensor lie: two histograms laid over another, the
// histogram of the errors on a logarithmic scale, the worst elements, and what is special.

import {element, shape} from "../ground/dom.js";
import {errorPosition, shortNumber} from "../ground/errors.js";
import {
  MINUS,
  countText,
  decode,
  errorText,
  exactText,
  notFinite,
  percentText,
} from "../ground/numbers.js";

const DETAILS_PER_PAGE = 10; // TENSORS_PER_PAGE of payload_details.py
const ERROR_DECADES = [-10, 1];
const ERROR_BINS_PER_DECADE = 4;

// The detail of a tensor (a column of the heat map) in one of its rows; null where none was kept.
export async function tensorDetail(app, accuracy, column, mode, row) {
  if (mode === "float") return null; // measured, and not looked into
  const index = Math.floor(column / DETAILS_PER_PAGE);
  if (index >= (accuracy.detailPages ?? 0)) return null;
  const page = await app.data.chunk(`details/${index}`);
  let place = null;
  for (const [from, number] of page[mode][column - page.first]) if (from <= row) place = number;
  return place === null ? null : decodeDetail(page.details[place]);
}

function decodeDetail([
  shape,
  type,
  low,
  high,
  expected,
  changed,
  first,
  errors,
  equal,
  special,
  worst,
]) {
  const values = [...expected];
  for (let index = 0; index < changed.length; index += 2)
    values[changed[index]] = changed[index + 1];
  const counts = new Array((ERROR_DECADES[1] - ERROR_DECADES[0]) * ERROR_BINS_PER_DECADE).fill(0);
  errors.forEach((count, index) => {
    counts[first + index] = count;
  });
  return {
    shape,
    type,
    low: decode(low),
    high: decode(high),
    expected,
    values,
    isSame: !changed.length,
    errors: counts,
    equal,
    expectedSpecial: special.slice(0, 3),
    valueSpecial: special.slice(3),
    worst: worst.map(([index, value, wanted, difference]) => ({
      index,
      value: decode(value),
      expected: decode(wanted),
      difference: decode(difference),
    })),
    size: shape.reduce((product, extent) => product * extent, 1),
  };
}

// [facts, histograms, worst elements], as one part of a pane.
export function detailParts(app, detail, tolerance) {
  if (!detail.size)
    return [
      element(
        "p",
        {class: "quiet-text"},
        `An empty tensor, ${detail.shape.join("×")} ${detail.type}.`,
      ),
    ];
  return [
    element(
      "div",
      {class: "histograms"},
      valueHistogram(detail),
      errorHistogram(app, detail, tolerance),
      worstTable(detail),
    ),
    specialLines(detail),
  ];
}

export function shapeText(detail) {
  return `${detail.shape.length ? detail.shape.join("×") : "scalar"} ${detail.type}`;
}

const HISTOGRAM = {width: 240, height: 92, left: 4, right: 4, top: 16, bottom: 16};

function histogramFrame(label, title, ...parts) {
  const {width, height} = HISTOGRAM;
  return element(
    "figure",
    {class: "histogram"},
    element("figcaption", {}, title),
    shape("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label}, parts),
  );
}

// Counts span many powers of ten (a relu makes half of a tensor zero): their height is logarithmic.
function barHeight(count, most) {
  const {height, top, bottom} = HISTOGRAM;
  return count ? Math.max(2, ((height - top - bottom) * Math.log1p(count)) / Math.log1p(most)) : 0;
}

// The reference as bars and the value as a line of steps: told apart by form, and not by colour.
function valueHistogram(detail) {
  const {width, height, left, right, bottom} = HISTOGRAM;
  const bins = detail.expected.length,
    most = Math.max(1, ...detail.expected, ...detail.values);
  const step = (width - left - right) / bins,
    floor = height - bottom;
  const x = (bin) => left + bin * step;
  const points = detail.values.flatMap((count, bin) => [
    [x(bin), floor - barHeight(count, most)],
    [x(bin + 1), floor - barHeight(count, most)],
  ]);
  const edge = (bin) => detail.low + ((detail.high - detail.low) * bin) / bins;
  const zero =
    detail.low < 0 && detail.high > 0
      ? left + (-detail.low / (detail.high - detail.low)) * (width - left - right)
      : null;
  const said = detail.isSame ? "both have the same histogram" : "the histograms differ";
  return histogramFrame(
    `values of the reference and of this program between ${axisNumber(detail.low)} and ` +
      `${axisNumber(detail.high)}: ${said}`,
    [
      "values ",
      element("span", {class: "key-reference"}, "reference"),
      " ",
      element("span", {class: "key-value"}, "value"),
    ],
    detail.expected.map((count, bin) =>
      count
        ? shape("rect", {
            class: "reference-bar",
            x: x(bin),
            y: floor - barHeight(count, most),
            width: step,
            height: barHeight(count, most),
          })
        : null,
    ),
    shape("polyline", {
      class: "value-line",
      points: points.map((point) => point.join(",")).join(" "),
    }),
    shape("line", {class: "base", x1: left, x2: width - right, y1: floor, y2: floor}),
    zero === null
      ? null
      : [
          shape("line", {class: "zero", x1: zero, x2: zero, y1: HISTOGRAM.top, y2: floor}),
          isFarFromEnds(zero)
            ? shape("text", {class: "axis", x: zero, y: height - 4, "text-anchor": "middle"}, "0")
            : null,
        ],
    shape("text", {class: "axis", x: left, y: height - 4}, axisNumber(detail.low)),
    shape(
      "text",
      {class: "axis", x: width - right, y: height - 4, "text-anchor": "end"},
      axisNumber(detail.high),
    ),
    detail.expected.map((count, bin) =>
      shape(
        "rect",
        {class: "catcher", x: x(bin), y: HISTOGRAM.top, width: step, height: floor - HISTOGRAM.top},
        shape(
          "title",
          {},
          `${axisNumber(edge(bin))} to ${axisNumber(edge(bin + 1))}: ${exactText(count)} of ` +
            `the reference, ${exactText(detail.values[bin])} here`,
        ),
      ),
    ),
  );
}

function isFarFromEnds(x) {
  return x > 60 && x < HISTOGRAM.width - 60;
}

function errorHistogram(app, detail, tolerance) {
  const {width, height, left, right, top, bottom} = HISTOGRAM;
  const [low, high] = ERROR_DECADES;
  const bins = detail.errors.length,
    most = Math.max(1, ...detail.errors),
    floor = height - bottom;
  const step = (width - left - right) / bins;
  const at = (exponent) => left + ((width - left - right) * (exponent - low)) / (high - low);
  const exponentOf = (bin) => low + bin / ERROR_BINS_PER_DECADE;
  const share = detail.equal / detail.size;
  const limit = tolerance > 0 ? at(Math.min(high, Math.max(low, Math.log10(tolerance)))) : null;
  const words =
    detail.equal === detail.size
      ? "all equal"
      : `${exactText(detail.equal)} of ${exactText(detail.size)} equal`;
  return histogramFrame(
    `errors relative to the largest reference, from 1e${low} to 1e${high}: ${words}`,
    ["errors ", element("span", {class: "quiet-text", title: percentText(share)}, words)],
    detail.errors.map((count, bin) =>
      count
        ? shape("rect", {
            class: "error-bar",
            x: left + bin * step,
            y: floor - barHeight(count, most),
            width: Math.max(1, step - 0.5),
            height: barHeight(count, most),
            fill: app.look.scale(
              errorPosition(10 ** (exponentOf(bin) + 0.5 / ERROR_BINS_PER_DECADE)),
            ),
          })
        : null,
    ),
    shape("line", {class: "base", x1: left, x2: width - right, y1: floor, y2: floor}),
    limit === null
      ? null
      : [
          shape("line", {class: "tolerance", x1: limit, x2: limit, y1: top - 4, y2: floor}),
          shape(
            "text",
            {class: "axis", x: limit, y: top - 6, "text-anchor": "middle"},
            "tolerance",
          ),
        ],
    [-10, -7, -4, -1].map((exponent) =>
      shape(
        "text",
        {
          class: "axis",
          x: at(exponent),
          y: height - 4,
          "text-anchor": exponent === low ? "start" : "middle",
        },
        exponent === low ? `≤1e${exponent}` : `1e${exponent}`,
      ),
    ),
    detail.errors.map((count, bin) =>
      shape(
        "rect",
        {class: "catcher", x: left + bin * step, y: top, width: step, height: floor - top},
        shape(
          "title",
          {},
          `${errorText(10 ** exponentOf(bin))} to ${errorText(10 ** exponentOf(bin + 1))}: ` +
            `${countText(count, "element")}`,
        ),
      ),
    ),
  );
}

// NaN and infinities, where there are any.
function specialLines(detail) {
  if (!detail.expectedSpecial.length) return null;
  const words = ([nan, plus, minus]) =>
    [
      [nan, "NaN"],
      [plus, "∞"],
      [minus, `${MINUS}∞`],
    ]
      .filter(([count]) => count)
      .map(([count, name]) => `${exactText(count)} ${name}`)
      .join(", ") || "none";
  const isSame = String(detail.expectedSpecial) === String(detail.valueSpecial);
  return element(
    "p",
    {class: "specials"},
    element("span", {class: isSame ? "" : "ink-removed"}, isSame ? "≈ " : "✗ "),
    "special values: ",
    words(detail.valueSpecial),
    ", reference ",
    words(detail.expectedSpecial),
  );
}

function worstTable(detail) {
  if (!detail.worst.length)
    return element("p", {class: "quiet-text"}, "Every element is equal, bit by bit.");
  return element(
    "table",
    {class: "worst-elements", "aria-label": "worst elements"},
    element(
      "thead",
      {},
      element(
        "tr",
        {},
        ["worst at", "reference", "value", "off by"].map((title) =>
          element("th", {scope: "col", class: title === "worst at" ? "" : "number"}, title),
        ),
      ),
    ),
    element(
      "tbody",
      {},
      detail.worst.map((item) =>
        element(
          "tr",
          {},
          element(
            "td",
            {class: "mono", title: "position in the source tensor"},
            item.index.length
              ? `[${item.index.join(", ")}]`
              : detail.shape.length
                ? "padding"
                : "the scalar",
          ),
          element(
            "td",
            {class: "number mono", title: String(item.expected)},
            shortNumber(item.expected),
          ),
          element("td", {class: "number mono", title: String(item.value)}, shortNumber(item.value)),
          element("td", {class: "number mono"}, errorText(item.difference)),
        ),
      ),
    ),
  );
}

function axisNumber(value) {
  if (!Number.isFinite(value)) return notFinite(value);
  const magnitude = Math.abs(value);
  if (magnitude !== 0 && (magnitude < 1e-3 || magnitude >= 1e5)) return errorText(value);
  return String(Number(value.toPrecision(3)));
}

// An index that differs although both candidates are equally good.
export function tieParts([, , elements, index, found, expected, gap, kind]) {
  const isRounding = kind === "rounding";
  const why = isRounding
    ? "by one step of a quantized number that may go either way"
    : "but what both pick is equally good";
  return [
    element(
      "p",
      {},
      element("strong", {}, isRounding ? "≈ tie of rounding. " : "≈ near-tie of an index. "),
      `${countText(elements, "element")} ${elements === 1 ? "differs" : "differ"} from the ` +
        `reference, ${why}.`,
    ),
    element(
      "dl",
      {class: "facts"},
      element("dt", {}, "first at"),
      element("dd", {class: "mono"}, index.length ? `[${index.join(", ")}]` : "the scalar"),
      element("dt", {}, "found"),
      element("dd", {class: "mono"}, exactText(found)),
      element("dt", {}, "reference"),
      element("dd", {class: "mono"}, exactText(expected)),
      element("dt", {}, isRounding ? "a step is" : "scores differ by"),
      element(
        "dd",
        {
          class: "mono",
          title: isRounding ? "relative to the largest number" : "relative to the largest score",
        },
        errorText(decode(gap)),
      ),
    ),
    element(
      "p",
      {class: "quiet-text"},
      `This ${isRounding ? "number" : "index"} is not counted as wrong; what is computed with ` +
        "it is compared in isolation.",
    ),
  ];
}
