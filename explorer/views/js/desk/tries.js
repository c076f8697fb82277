// The tab "tries": all branches of the model in one table and one plot, on the same data. What was
// predicted of a try is next to what was measured.

import {moving} from "./moves.js";
import {paretoPlot} from "./pareto.js";
import {button, element, replace} from "../ground/dom.js";
import {saveBytes, saveText} from "../ground/download.js";
import {exactText, secondsText} from "../ground/numbers.js";
import {clip} from "../ground/scene.js";
import {
  COLUMNS,
  columnOf,
  csvText,
  dominated,
  filled,
  lookOf,
  lookText,
  matching,
  predictedWords,
  sorted,
  tableOf,
  timesOf,
} from "../ground/tries.js";

const UNKNOWN = "not known for this branch: its target has no such number, or nothing measures it";

export function triesView(app) {
  app.tries ??= createTries(app);
  app.tries.draw();
  return app.tries;
}

function createTries(app) {
  const {session, store} = app;
  const bar = element("div", {class: "tries-bar"});
  const body = element("div", {class: "tries-table scroll", "data-keep-scroll": ""});
  const picture = element("div", {class: "tries-picture"});
  const node = element(
    "div",
    {class: "tries"},
    element("div", {class: "tries-main"}, bar, body),
    picture,
  );
  let seen = "";
  const look = () => lookOf(store.get().tries);
  const change = (patch) => {
    store.set({tries: lookText({...look(), ...patch})});
    draw();
  };
  const siblings = () => session.branches().filter(({model}) => model === session.model());
  const predictionOf = (branch) =>
    predictedWords(
      branch,
      session.branches().find(({key}) => key === branch.parent),
      session.predictedOf(branch),
    );

  function draw() {
    const now = JSON.stringify([siblings(), session.branch(), session.turns(), store.get().tries]);
    if (now === seen) return;
    const typed = node.querySelector("input.tries-filter:focus, textarea:focus");
    seen = now;
    const all = siblings();
    const {columns, x, y, sort, filter} = look();
    const shown = columns ?? filled(all);
    const rows = sorted(matching(all, filter), sort);
    const behind = dominated(all, x, y);
    if (!typed) replace(bar, barContent(all, shown));
    replace(body, table(rows, shown, behind));
    replace(picture, paretoPlot(app, all, behind, look(), change));
  }

  // The other side writes it, where pyarrow is installed.
  async function saveParquet() {
    const all = siblings();
    const predictions = new Map(all.map((branch) => [branch.key, predictionOf(branch)]));
    const rows = tableOf(all, predictions).map((row) =>
      row.map((cell) => (typeof cell === "number" && !Number.isFinite(cell) ? String(cell) : cell)),
    );
    try {
      const {name, type, base64} = await app.files.ask({what: "tries", form: "parquet", rows});
      saveBytes(name, base64, type);
    } catch (failure) {
      app.say(failure.message);
    }
  }

  function barContent(all, shown) {
    const {filter} = look();
    const others = all.slice(0, session.mostCompared()).map(({key}) => key);
    return [
      element("input", {
        class: "tries-filter",
        type: "search",
        value: filter,
        placeholder: "filter",
        "aria-label": "tries that contain these words",
        oninput: (event) => change({filter: event.target.value}),
        onkeydown: (event) => event.stopPropagation(),
      }),
      element(
        "details",
        {class: "tries-columns"},
        element("summary", {}, "columns"),
        element(
          "div",
          {class: "tries-choices"},
          COLUMNS.map(({id, title}) =>
            element(
              "label",
              {},
              element("input", {
                type: "checkbox",
                checked: shown.includes(id),
                onchange: (event) =>
                  change({
                    columns: COLUMNS.map((column) => column.id).filter((other) =>
                      other === id ? event.target.checked : shown.includes(other),
                    ),
                  }),
              }),
              title,
            ),
          ),
        ),
      ),
      element("span", {class: "grow"}),
      others.length > 1
        ? button(
            "measure in turns",
            `times ${others.length} branches alternately, so that their difference has a spread`,
            () => session.measureInTurns(others),
            {class: "quiet"},
          )
        : null,
      button("Parquet", "save this table with the types of its columns", saveParquet, {
        class: "quiet",
      }),
      button(
        "CSV",
        "save this table",
        () => {
          const predictions = new Map(all.map((branch) => [branch.key, predictionOf(branch)]));
          saveText("tries.csv", csvText(all, predictions), "text/csv");
        },
        {class: "quiet"},
      ),
      button("link", "copy a link to this table", () => app.copy(app.here(), "link"), {
        class: "quiet",
      }),
    ];
  }

  function table(rows, shown, behind) {
    const {sort} = look();
    const head = (id) => {
      const {title} = columnOf(id);
      const mark = sort === id ? " ▴" : sort === `-${id}` ? " ▾" : "";
      const next = sort === id ? `-${id}` : sort === `-${id}` ? "" : id;
      return element(
        "th",
        {scope: "col", class: "number"},
        button(`${title}${mark}`, `sort by ${title}`, () => change({sort: next})),
      );
    };
    return element(
      "table",
      {"aria-label": "tries"},
      element(
        "thead",
        {},
        element(
          "tr",
          {},
          element("th", {scope: "col"}, "branch"),
          element("th", {scope: "col"}, "differs from its parent in"),
          shown.map(head),
          element("th", {scope: "col"}, "predicted: measured"),
          element("th", {scope: "col"}, "note"),
        ),
      ),
      element(
        "tbody",
        {},
        rows.map((branch) => tryRow(branch, shown, behind.has(branch.key))),
      ),
    );
  }

  function tryRow(branch, shown, isBehind) {
    const {key, label, differs, note} = branch;
    const isCurrent = key === session.branch();
    return element(
      "tr",
      {class: `${isCurrent ? "marked" : ""}${isBehind ? " dominated" : ""}`, "data-branch": key},
      element(
        "th",
        {scope: "row"},
        element(
          "button",
          {
            type: "button",
            class: "branch-show",
            "data-names": "",
            title: clip(label, 300),
            "aria-current": isCurrent ? "true" : null,
            onclick: () => session.show(key),
          },
          clip(label, 30),
        ),
      ),
      element("td", {title: clip(differs, 400)}, clip(differs || "no decision", 44)),
      shown.map((id) => cell(branch, columnOf(id), isCurrent)),
      element("td", {class: "quiet-text"}, clip(predictionOf(branch), 120)),
      element(
        "td",
        {},
        element("input", {
          class: "try-note",
          value: note,
          maxlength: 4000,
          "aria-label": `note on ${clip(label, 60)}`,
          onkeydown: (event) => event.stopPropagation(),
          onchange: (event) => session.note(key, event.target.value),
        }),
      ),
    );
  }

  // What is still to come follows from what there is not.
  function emptyCell({isPending, isAsleep}) {
    const title = isPending
      ? "not measured yet"
      : isAsleep
        ? "measured when it is looked at"
        : UNKNOWN;
    return element("td", {class: "number quiet-text", title}, isPending ? "…" : "–");
  }

  function cell(branch, {id, value, text, quantity}, isCurrent) {
    const found = value(branch);
    if (found === null) return emptyCell(branch);
    const words = id === "right" ? `${exactText(found)} of ${branch.numbers.task[2]}` : text(found);
    const timed = id === "latency" ? timesOf(session.turns(), branch) : null;
    const shown = timed ? secondsText(timed.times.median / 1e9) : words;
    return element(
      "td",
      {class: "number", title: branch.numbers?.data?.words ?? null},
      isCurrent ? moving(app, quantity, shown) : shown,
      timed
        ? element(
            "span",
            {class: "quiet-text"},
            ` ${secondsText(timed.times.low / 1e9)} to ${secondsText(timed.times.high / 1e9)}`,
            !timed.isBase && !timed.times.isDifferent ? ", no difference" : "",
          )
        : null,
    );
  }

  return {node, draw, refresh: draw};
}
