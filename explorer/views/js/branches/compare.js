// Compilations side by side: totals, the first decision in which each parts from the first, graphs,
// IR, passes, kernels. In the app the others are branches of this model or of any other one that is
// open; a page of two traces holds its one comparison.

import {graphDifference, lineDifference} from "../graph/difference.js";
import {setText} from "./documents.js";
import {button, element, emptyState, markTab, sortableTable, tabRow} from "../ground/dom.js";
import {choiceText} from "./fork.js";
import {
  bytesText,
  countText,
  decode,
  errorText,
  exactText,
  ratioText,
  secondsText,
} from "../ground/numbers.js";
import {clip} from "../ground/scene.js";
import {LETTERS, passDiffers, sideHeads} from "../ground/sides.js";
import {steady} from "../ground/steady.js";

const COMPARE_VIEWS = [
  {id: "totals", label: "totals", title: "what each of them reaches, and where they part"},
  {id: "graph", label: "graph", title: "operations that differ after the pass that is looked at"},
  {id: "lines", label: "IR", title: "lines that differ after the pass that is looked at"},
  {id: "passes", label: "passes", title: "every pass of all of them"},
  {id: "kernels", label: "kernels", title: "every kernel of all of them"},
];
export const VERDICT_WORDS = {
  equal: "equal to source",
  "within-tolerance": "within tolerance",
  wrong: "differs from source",
  "not-run": "not compared",
  reference: "the reference",
};

// Made once per compilation that is looked at: its controls stay while results arrive.
export async function compareView(app) {
  if (app.session && app.session.branches().length < 2) {
    return {
      node: emptyState(
        "Nothing to compare with",
        "Change a decision and compile again: the result becomes a branch beside this one. " +
          "Another model or a saved trace can be compared as well: open it above.",
        button("fork +", "change a decision", () => app.openFork(), {class: "primary"}),
      ),
    };
  }
  app.comparison ??= createComparison(app);
  await app.comparison.load();
  return app.comparison;
}

function createComparison(app) {
  const {data, session, store} = app;
  const list = element("div", {
    class: "compare-list scroll",
    role: "group",
    "aria-label": "compared with",
  });
  const main = element("div", {class: "compare-main"});
  const showMain = steady(main);
  const row = tabRow(COMPARE_VIEWS, "totals", (view) => choose(view), "views of the comparison");
  const node = element("div", {class: "compare"}, session ? list : null, main);
  const boxes = new Map(); // key of a branch -> {row, box, label}
  let view = session?.compareView ?? "totals";
  let drawn = ""; // what `main` shows
  let turn = 0;
  row.classList.add("segmented");
  markTab(row, view);

  const others = () => session.branches().filter((branch) => branch.key !== session.branch());
  const chosen = () => {
    const keys = session
      .against()
      .filter((key) => others().some((branch) => branch.key === key))
      .slice(0, session.mostCompared() - 1);
    return keys.length ? keys : [nearest(session).key];
  };

  function choose(next) {
    view = next;
    if (session) session.compareView = next;
    markTab(row, view);
    load();
  }

  function drawList() {
    const keys = chosen(),
      most = session.mostCompared() - 1;
    for (const [key, made] of boxes) {
      if (others().some((branch) => branch.key === key)) continue;
      made.row.remove();
      boxes.delete(key);
    }
    if (!list.firstChild)
      list.append(
        element("p", {class: "compare-current"}),
        element("p", {class: "quiet-text"}, "compared with"),
      );
    const current = session.branches().find((branch) => branch.key === session.branch());
    setText(list.firstChild, `A  ${clip(current?.fullLabel ?? "", 90)}`);
    for (const branch of others()) {
      if (!boxes.has(branch.key)) {
        const box = element("input", {
          type: "checkbox",
          onchange: () => {
            const now = chosen().filter((key) => key !== branch.key);
            session.compareWith(box.checked ? [...now, branch.key].slice(-most) : now);
            load();
          },
        });
        const letter = element("span", {class: "compare-letter"}),
          label = element("span", {});
        boxes.set(branch.key, {
          box,
          letter,
          label,
          row: element("label", {class: "compare-choice"}, box, letter, label),
        });
      }
      const made = boxes.get(branch.key),
        place = keys.indexOf(branch.key);
      if (!made.row.isConnected) list.append(made.row);
      made.box.checked = place >= 0;
      made.box.setAttribute("aria-label", `compare with ${clip(branch.fullLabel, 120)}`);
      setText(made.letter, place >= 0 ? LETTERS[place + 1] : "");
      setText(made.label, clip(branch.fullLabel, 90));
      made.label.title = clip(branch.fullLabel, 400);
    }
    let note = list.querySelector(".cap");
    if (!note) note = element("p", {class: "cap"});
    setText(note, `up to ${most + 1} side by side`);
    list.append(note);
  }

  async function load() {
    turn += 1;
    const mine = turn;
    if (session) drawList();
    const keys = session ? chosen() : null;
    const stamp = session
      ? [session.branch(), ...keys]
          .map((key) => session.branches().find((branch) => branch.key === key)?.stages ?? 0)
          .join(".")
      : "";
    const place = data.head.passes[store.get().pass].name;
    const isProgram = view === "graph" || view === "lines";
    const about = JSON.stringify([view, keys, stamp, isProgram ? place : ""]);
    if (about === drawn) return;
    try {
      const comparison = await data.chunk(
        session ? `compare/${keys.join(".")}/${stamp}` : "comparison",
      );
      const difference = isProgram
        ? await data.chunk(
            session ? `difference/${keys.join(".")}/${place}/${stamp}` : "difference",
          )
        : null;
      if (mine !== turn) return;
      const isFresh = !drawn || JSON.parse(drawn)[0] !== view;
      drawn = about;
      showMain(content(comparison, difference), {isFresh});
    } catch (failure) {
      if (mine === turn)
        showMain(
          emptyState(
            "This could not be compared",
            failure.message,
            button("try again", "compare again", () => load()),
          ),
          {isFresh: true},
        );
    }
  }

  function content(comparison, difference) {
    if (view === "graph") return graphDifference(app, comparison, difference);
    if (view === "lines") return lineDifference(app, comparison, difference);
    if (view === "passes") return element("div", {class: "scroll"}, passesOfAll(comparison));
    if (view === "kernels") return element("div", {class: "scroll"}, kernelsOfAll(app, comparison));
    return element(
      "div",
      {class: "scroll compare-totals"},
      totalsTable(app, comparison),
      partings(comparison),
    );
  }

  // Of one pass only: graphs and lines follow when another pass is looked at.
  return {
    node,
    aside: row,
    load,
    refresh: () => {
      if (view === "graph" || view === "lines") load();
    },
  };
}

// Where nobody has chosen: the first branch of the same model, or else of another.
function nearest(session) {
  const others = session.branches().filter((branch) => branch.key !== session.branch());
  return others.find((branch) => branch.model === session.model()) ?? others[0];
}

function totalsTable(
  app,
  {summaries, labels, operations, kernelCounts, targets, models, ...comparison},
) {
  const decoded = (value) => (value === null ? null : decode(value));
  const verdict = (name) => `${app.look.verdict(name).glyph} ${VERDICT_WORDS[name]}`;
  const rows = [
    totalRow("operations", operations, exactText),
    totalRow("kernels", kernelCounts, exactText),
    totalRow(
      "peak memory",
      summaries.map((summary) => summary.peak),
      bytesText,
    ),
    totalRow(
      "latency",
      summaries.map((summary) =>
        summary.milliseconds === null ? null : decode(summary.milliseconds) / 1e3,
      ),
      secondsText,
    ),
    totalRow(
      "worst tensor",
      summaries.map((summary) => decoded(summary.worst)),
      errorText,
    ),
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
          {},
          element("th", {scope: "row"}, name),
          cells.map(([text, change]) =>
            element(
              "td",
              {class: text === cells[0][0] ? "" : "differs"},
              element("span", {class: "mono"}, text),
              change ? element("span", {class: "quiet-text"}, ` ${change}`) : null,
            ),
          ),
        ),
      ),
    ),
  );
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
function partings({differences, labels}) {
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

// "14 → 17 → 17", or one number where all are the same.
function inTurn(values, text) {
  const shown = values.map((value) =>
    value === null || value === undefined ? "–" : text(decode(value)),
  );
  return new Set(shown).size === 1 ? shown[0] : shown.join(" → ");
}

function passesOfAll(comparison) {
  const column = (title, key, text) => ({
    title,
    number: true,
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
      column("live bytes", "peak", bytesText),
      column("worst tensor", "worst", errorText),
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

function kernelsOfAll(app, comparison) {
  const {data} = app;
  const time = (side) => side?.nanoseconds ?? NaN;
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
        value: (row) => Math.max(...row[2].map((side) => time(side) || 0)),
        text: (row) =>
          inTurn(
            row[2].map((side) => side?.nanoseconds),
            nanoseconds,
          ),
      },
      {
        title: "change",
        number: true,
        hint: "of the last against A",
        value: (row) => time(row[2].at(-1)) / time(row[2][0]),
        text: ([, , sides]) =>
          time(sides[0]) && time(sides.at(-1))
            ? ratioText(time(sides[0]), time(sides.at(-1)))
            : "–",
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
