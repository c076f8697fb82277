// Beside the map of errors: the worst tensors at the end and ties, or the picked one with its
// histograms, its worst elements and its errors over all passes.

import {commonBeginning, ownPart, tellingParts} from "./column_names.js";
import {detailParts, shapeText, tensorDetail, tieParts} from "./details.js";
import {button, element, replace} from "../ground/dom.js";
import {noDetail, shortNumber} from "../ground/errors.js";
import {MINUS, decibelsText, decode, errorText} from "../ground/numbers.js";
import {errorCurve} from "./tensors.js";

const NAME_CHARACTERS = 34;
const WORST_SHOWN = 12;

// table: of accuracy.js; pick(row, column) shows a tensor, `close` the worst ones again.
export function heatSide(app, table, {pick, close}) {
  const {accuracy, rows, values, names, ties, measure, metric, mode, rank} = table;
  const node = element("aside", {class: "heat-side scroll"});
  const end = rows.length - 1;
  const worst = values[end]
    .map((value, column) => [value, column])
    .filter(([value]) => value !== null)
    .sort((a, b) => rank(b[0]) - rank(a[0]))
    .slice(0, WORST_SHOWN);
  let wanted = null;
  const telling = tellingParts(accuracy.tensors);
  const beginning = commonBeginning(telling);

  const item = (column, text, isMarked = false) =>
    element(
      "li",
      {},
      element(
        "button",
        {
          type: "button",
          class: `worst${isMarked ? " marked" : ""}`,
          title: accuracy.tensors[column],
          onclick: () => pick(end, column),
        },
        element(
          "span",
          {class: "worst-name"},
          ownPart(telling[column], beginning, NAME_CHARACTERS),
        ),
        text,
      ),
    );

  // The oracle is as far off itself: what the verdict rests on instead.
  const exactNote = (column) => {
    const name = accuracy.tensors[column];
    if (metric !== "relative" || !Object.hasOwn(accuracy.byFloat64 ?? {}, name)) return null;
    const [found, allowed] = accuracy.byFloat64[name].map(decode);
    return element(
      "span",
      {class: "quiet-text by-float64"},
      `${errorText(found)} of ${errorText(allowed)} allowed, from float64`,
    );
  };

  function drawWorst(columns) {
    wanted = null;
    const tied = [...ties[end].keys()];
    replace(
      node,
      element("h3", {}, `worst tensors at the end, ${measure.label}`),
      element(
        "ol",
        {class: "plain"},
        worst.map(([value, column]) =>
          item(
            column,
            [element("span", {class: "mono"}, measure.text(value)), exactNote(column)],
            columns.includes(column),
          ),
        ),
      ),
      tied.length
        ? [
            element("h3", {}, "ties"),
            element(
              "ul",
              {class: "plain"},
              tied.map((column) => item(column, "≈")),
            ),
          ]
        : null,
      element(
        "p",
        {class: "quiet-text"},
        "Choose a cell, or move through them with the arrow keys, to see its histograms and " +
          "worst elements.",
      ),
    );
  }

  async function drawDetail(place) {
    wanted = place;
    const {row, column} = place;
    const [errors, where] = await Promise.all([
      app.data.tensorErrors(column, mode),
      tensorDetail(app, accuracy, column, mode, row),
    ]);
    if (wanted !== place) return;
    const tie = ties[row].get(column);
    const here =
      values[row][column] === null
        ? null
        : (errors.find((error) => error.pass === rows[row].pass) ?? errors[errors.length - 1]);
    replace(
      node,
      element(
        "div",
        {class: "subject-name"},
        button("‹", "back to the worst tensors", close, {class: "icon"}),
        element(
          "strong",
          {class: "mono detail-name", title: accuracy.tensors[column]},
          accuracy.tensors[column],
        ),
        where ? element("span", {class: "quiet-text"}, shapeText(where)) : null,
        element("span", {class: "quiet-text detail-pass"}, `after ${names[row]}, ${mode}`),
      ),
      tie
        ? tieParts(tie)
        : !here
          ? element(
              "p",
              {class: "quiet-text"},
              "The program has no such tensor after this pass: it was fused away, or not " +
                "computed yet.",
            )
          : [
              where
                ? detailParts(app, where, accuracy.tolerance)
                : element("p", {class: "quiet-text"}, noDetail(accuracy, mode)),
              measuresLine(here),
              exactLine(here),
              where ? null : worstElement(here),
              errors.length > 1 && mode !== "float"
                ? errorCurve(app, errors, accuracy.tolerance, rows[row].pass)
                : null,
              element(
                "div",
                {class: "actions"},
                button("all passes and metrics", "the tab of tensors (6)", () =>
                  app.store.set({tab: "tensors"}),
                ),
              ),
            ],
    );
  }
  return {node, drawWorst, drawDetail};
}

// All metrics of one tensor after one pass.
function measuresLine(error) {
  const cosine = error.cosine === 1 ? "1" : `1 ${MINUS} ${errorText(1 - error.cosine)}`;
  return element(
    "p",
    {class: "measures"},
    [
      ["relative", errorText(error.relative), error.relative],
      ["absolute", errorText(error.absolute), error.absolute],
      ["SQNR", decibelsText(error.sqnr), error.sqnr],
      ["cosine", cosine, error.cosine],
    ].map(([name, text, exact]) =>
      element(
        "span",
        {title: String(exact)},
        element("span", {class: "quiet-text"}, `${name} `),
        element("span", {class: "mono"}, text),
      ),
    ),
  );
}

// A tensor that is out of tolerance and right: the oracle rounds, too, and float64 tells who is
// off.
function exactLine({asExact}) {
  if (!asExact) return null;
  const title =
    "largest difference from the same model in float64, over its largest value; others: " +
    "the reference, and a second run that rounds every tensor once";
  return element(
    "p",
    {class: "measures as-exact", title},
    "as exact as can be: ",
    element("span", {class: "mono"}, errorText(asExact.ours)),
    element("span", {class: "quiet-text"}, " from float64, others "),
    element("span", {class: "mono"}, errorText(asExact.reachable)),
  );
}

// Where a tensor is off most, what stands there and what should.
function worstElement(error) {
  return element(
    "dl",
    {class: "facts"},
    element("dt", {}, "worst element"),
    element("dd", {class: "mono"}, error.index.length ? `[${error.index.join(", ")}]` : "–"),
    element("dt", {}, "value"),
    element(
      "dd",
      {class: "mono was plain-was", title: String(error.value)},
      shortNumber(error.value),
    ),
    element("dt", {}, "expected"),
    element("dd", {class: "mono now", title: String(error.expected)}, shortNumber(error.expected)),
  );
}
