// The tables of a comparison: what each side reaches, where they part, their passes and kernels.

import {timeChange} from "./direction.js";
import {about} from "../desk/pressed_numbers.js";
import {element, sortableTable} from "../ground/dom.js";
import {FIXED} from "../ground/lever_words.js";
import {choiceText} from "./fork.js";
import {
  bytesText,
  countText,
  decibelsText,
  decode,
  errorText,
  exactText,
  judgedText,
  ratioText,
  secondsText,
} from "../ground/numbers.js";
import {clip} from "../ground/scene.js";
import {LETTERS, passDiffers, sideHeads} from "../ground/sides.js";
import {rowsOfTwoFiles} from "../ground/two_files.js";

// What rows of totals are about; others count what passes made.
const ABOUT = {
  "peak memory": "peak_bytes",
  latency: "seconds",
  "right answers": "sqnr_db",
  "largest relative error": "sqnr_db",
  "worst tensor": "sqnr_db",
  "SQNR against source": "sqnr_db",
  "SQNR against its own file": "sqnr_db",
  "SQNR against the other file": FIXED.files,
  "largest relative error against it": FIXED.files,
  "judged on": FIXED.data,
};
export const VERDICT_WORDS = {
  equal: "equal to source",
  "within-tolerance": "within tolerance",
  wrong: "differs from source",
  "not-run": "not compared",
  reference: "the reference",
};

export function totalsTable(
  app,
  {summaries, labels, operations, kernelCounts, targets, models, isToCome, ...comparison},
) {
  const verdict = (name) => `${app.look.verdict(name).glyph} ${VERDICT_WORDS[name]}`;
  // What is not known of a side that is still measured is on its way.
  const isAwaited = (text, side) => isToCome[side] && (text === "–" || text === verdict("not-run"));
  const rows = [
    totalRow("operations", operations, exactText),
    totalRow("kernels", kernelCounts, exactText),
    totalRow(
      "peak memory",
      summaries.map((summary) => summary.peak),
      bytesText,
    ),
    latencyRow(summaries, comparison),
    ...rightAnswers(summaries),
    ...(comparison.files === null ? [] : rowsOfTwoFiles(comparison.files, labels.length)),
    ...decibelsRow(summaries, comparison.files === null ? "source" : "its own file"),
    ...exactRow(summaries),
    ...dataRow(summaries),
    ["worst tensor", summaries.map((summary) => [judgedText(summary), ""])],
    ["compared with the source", summaries.map((summary) => [verdict(summary.verdict), ""])],
    ["target", targets.map((target) => [target, ""])],
    ...(new Set(models).size > 1 ? [["model", models.map((model) => [clip(model, 40), ""])]] : []),
  ];
  return element(
    "table",
    {"aria-label": "totals", class: "side-table"},
    element("thead", {}, element("tr", {}, element("th", {}), sideHeads({labels, ...comparison}))),
    element(
      "tbody",
      {},
      rows.map(([name, cells]) =>
        element(
          "tr",
          about(ABOUT[name] ?? FIXED.passes),
          element("th", {scope: "row"}, name),
          cells.map(([text, change, title], side) =>
            element(
              "td",
              {
                class: text === cells[0][0] || change === "no difference" ? "" : "differs",
                title: isAwaited(text, side) ? "not measured yet" : title,
              },
              element("span", {class: "mono"}, isAwaited(text, side) ? "…" : text),
              change ? element("span", {class: "quiet-text"}, ` ${change}`) : null,
            ),
          ),
        ),
      ),
    ),
  );
}

// Times in turns where they were taken, with the spread of their rounds; else those of each alone.
function latencyRow(summaries, comparison) {
  const {turns, samePrograms} = comparison;
  const values = summaries.map(({milliseconds}, index) =>
    turns
      ? turns.sides[index].latency.median / 1e9
      : milliseconds === null
        ? null
        : decode(milliseconds) / 1e3,
  );
  return [
    "latency",
    values.map((value, index) => {
      if (value === null) return ["–", ""];
      const times = turns?.sides[index].latency ?? null;
      const change = index
        ? timeChange(values[0], value, {isSame: samePrograms[index], times})
        : {text: "", title: ""};
      const spread = times
        ? ` (${secondsText(times.low / 1e9)} to ${secondsText(times.high / 1e9)})`
        : "";
      return [secondsText(value) + spread, change.text, change.title];
    }),
  ];
}

// Of inputs with labels; no row where none are known.
function rightAnswers(summaries) {
  if (summaries.every(({rightAnswers: answers}) => !answers)) return [];
  return [
    [
      "right answers",
      summaries.map(({rightAnswers: answers}) =>
        answers ? [`${exactText(answers[0])} of ${exactText(answers[1])}`, ""] : ["–", ""],
      ),
    ],
  ];
}

// Of the output that is farthest off, and of all outputs the largest error: one definition for
// floats and integers, against the source model.
function decibelsRow(summaries, source) {
  if (summaries.every(({againstFloat}) => !againstFloat)) return [];
  const cells = (text) =>
    summaries.map(({againstFloat}) => (againstFloat ? text(againstFloat) : ["–", ""]));
  return [
    [
      `SQNR against ${source}`,
      cells(([output, decibels]) => [decibelsText(decode(decibels)), "", output]),
    ],
    [
      "largest relative error",
      cells(([, , largest]) => [largest === null ? "–" : errorText(decode(largest)), ""]),
    ],
  ];
}

// Whether integers equal those of the quantized program; no row where nothing is quantized.
function exactRow(summaries) {
  const isKnown = ({bitExact}) => bitExact !== null && bitExact !== undefined;
  if (!summaries.some(isKnown)) return [];
  const words = (summary) => (isKnown(summary) ? (summary.bitExact ? "yes" : "NO") : "–");
  return [["integers bit-exact", summaries.map((summary) => [words(summary), ""])]];
}

// What each side was measured on; different data are marked.
function dataRow(summaries) {
  if (summaries.every(({data}) => !data)) return [];
  return [
    ["judged on", summaries.map(({data}) => [clip(data?.words ?? "–", 60), "", data?.words])],
  ];
}

// [name, [[text, change against A], ...]]
function totalRow(name, values, text) {
  const first = values[0];
  return [
    name,
    values.map((value, index) => [
      value === null ? "–" : text(value),
      index && value !== null && first ? ratioText(first, value) : "",
    ]),
  ];
}

// The first decision in which each parts from A, with the reason where one is known; then the rest.
export function partings(comparison) {
  const {differences, labels} = comparison;
  // Decisions about two files say nothing of how the files differ.
  if (comparison.files !== null) return filesApart(comparison);
  const value = (text) => (text === "" ? "not decided" : clip(choiceText(JSON.parse(text)), 80));
  return element(
    "div",
    {class: "partings"},
    differences.map(({first, reasons, decisions, differing}, index) => {
      const letter = LETTERS[index + 1];
      if (!first)
        return element(
          "section",
          {},
          element("h3", {}, `A and ${letter}`),
          element(
            "p",
            {class: "quiet-text", title: clip(labels[index + 1], 400)},
            "Every decision is the same.",
          ),
        );
      return element(
        "section",
        {},
        element("h3", {}, `first decision in which ${letter} differs from A`),
        element("p", {class: "mono first-difference"}, clip(first[0], 160)),
        element(
          "p",
          {},
          element("span", {class: "was plain-was"}, `A ${value(first[1])}`),
          "  →  ",
          element("span", {class: "now"}, `${letter} ${value(first[2])}`),
        ),
        reasons.filter(Boolean).length
          ? element(
              "p",
              {class: "quiet-text"},
              [...new Set(reasons.filter(Boolean))].map((reason) => clip(reason, 300)).join(" / "),
            )
          : null,
        differing > 1
          ? element(
              "details",
              {"data-key": `decisions of ${letter}`},
              element("summary", {}, `${countText(differing, "decision")} differ`),
              element(
                "ul",
                {class: "plain mono"},
                decisions.map(([address, a, b]) =>
                  element("li", {}, clip(`${address}: ${value(a)} → ${value(b)}`, 160)),
                ),
              ),
              differing > decisions.length
                ? element(
                    "p",
                    {class: "cap"},
                    `${differing - decisions.length} more are not listed`,
                  )
                : null,
            )
          : null,
      );
    }),
  );
}

// What the files of two models say of themselves otherwise.
function filesApart({modelFacts}) {
  const [own, ...others] = modelFacts;
  return element(
    "div",
    {class: "partings"},
    others.map((facts, index) => {
      const letter = LETTERS[index + 1];
      const differing = facts.flatMap(([name, text], place) =>
        text === own[place][1] ? [] : [[name, own[place][1] || "–", text || "–"]],
      );
      return element(
        "section",
        about(FIXED.files),
        element("h3", {}, `the files of A and ${letter}`),
        differing.length
          ? element(
              "dl",
              {class: "facts"},
              differing.map(([name, before, now]) => [
                element("dt", {}, name),
                element(
                  "dd",
                  {title: `A ${before}\n${letter} ${now}`},
                  element("span", {class: "was plain-was"}, `A ${clip(before, 80)}`),
                  "  →  ",
                  element("span", {class: "now"}, `${letter} ${clip(now, 80)}`),
                ),
              ]),
            )
          : element(
              "p",
              {class: "quiet-text"},
              "Format, operator set, sizes and types are the same: they differ in weights.",
            ),
      );
    }),
  );
}

// "14 → 17 → 17", or one number where all are the same.
function inTurn(values, text) {
  const shown = values.map((value) =>
    value === null || value === undefined ? "–" : text(decode(value)),
  );
  return new Set(shown).size === 1 ? shown[0] : shown.join(" → ");
}

export function passesOfAll(comparison) {
  const column = (title, key, text, moves = FIXED.passes) => ({
    title,
    number: true,
    about: () => about(moves),
    hint: `${title}, ${LETTERS.slice(0, comparison.labels.length).join(" → ")}`,
    value: (row) => decode(row[1].find((side) => side)?.[key] ?? -1),
    text: (row) =>
      inTurn(
        row[1].map((side) => side?.[key]),
        text,
      ),
  });
  return sortableTable(
    [
      {
        title: "pass",
        value: (row) => row[0],
        text: (row) => clip(row[0], 40),
        exact: (row) => row[0],
      },
      column("operations", "after", exactText),
      column("rewrites", "rewrites", exactText),
      column("live bytes", "peak", bytesText, "peak_bytes"),
      column("worst tensor", "worst", errorText, "sqnr_db"),
      {
        title: "",
        value: (row) => Number(passDiffers(row)),
        text: (row) => (passDiffers(row) ? "≠" : "="),
      },
    ],
    comparison.passes,
    {label: "passes of all", isMarked: passDiffers},
  );
}

export function kernelsOfAll(app, comparison) {
  const {data} = app;
  const last = comparison.labels.length - 1;
  const inTurns = ([name], index) => comparison.turns?.sides[index].kernels[name] ?? null;
  const timesOf = (row) =>
    row[2].map((side, index) => inTurns(row, index)?.median ?? side?.nanoseconds);
  const changeOf = (row) => {
    const [, , sides] = row;
    const times = timesOf(row);
    if (!sides[0] || !sides[last]) return {text: "–", title: "", ratio: NaN};
    const isSame = sides[0].source === sides[last].source;
    const change = timeChange(times[0], times[last], {isSame, times: inTurns(row, last)});
    return {...change, ratio: change.text === "no difference" ? 1 : times[last] / times[0]};
  };
  const nanoseconds = (value) => secondsText(value / 1e9);
  const where = (sides) => {
    const missing = LETTERS.filter((_, index) => index < sides.length && !sides[index]);
    return missing.length ? `not in ${missing.join(", ")}` : "";
  };
  const sourceOf = ([, , sides]) =>
    where(sides) ||
    (new Set(sides.map((side) => side.source)).size === 1
      ? "the same"
      : sides
          .map((side, index) => (index && side.source !== sides[0].source ? LETTERS[index] : ""))
          .filter(Boolean)
          .join(", ") +
        " differ" +
        (sides.length === 2 || sides.filter((side) => side.source !== sides[0].source).length === 1
          ? "s"
          : ""));
  return sortableTable(
    [
      {
        title: "kernel",
        value: (row) => row[0],
        text: (row) => clip(row[0], 32),
        exact: (row) => `${row[0]}, ${row[1]}`,
      },
      {title: "source", value: sourceOf, text: sourceOf},
      {
        title: "time",
        number: true,
        hint: "time of one inference, one after the other",
        value: (row) => Math.max(...timesOf(row).map((time) => time || 0)),
        text: (row) => inTurn(timesOf(row), nanoseconds),
      },
      {
        title: "change",
        number: true,
        hint: "from A to the last; “?”: measured one after the other, and not in turns",
        value: (row) => changeOf(row).ratio,
        text: (row) => changeOf(row).text,
        exact: (row) => changeOf(row).title,
      },
      {
        title: "choices that differ",
        value: choicesText,
        text: (row) => clip(choicesText(row), 80),
        exact: choicesText,
      },
    ],
    comparison.kernels,
    {
      label: "kernels of all",
      isMarked: (row) => sourceOf(row) !== "the same",
      onrow: (row) => {
        const kernel = data.kernels[data.kernelIndex.get(row[0])];
        if (kernel) app.select(kernel.operations[0], "dock");
      },
    },
  );
}

function choicesText([, , sides]) {
  const lists = sides.filter(Boolean).map((side) => side.choices);
  if (lists.length < 2) return "";
  const common = new Set(lists[0].filter((choice) => lists.every((list) => list.includes(choice))));
  const own = lists.map((list) => list.filter((choice) => !common.has(choice)));
  return own.some((list) => list.length)
    ? own.map((list) => list.join(", ") || "–").join(" → ")
    : "";
}
