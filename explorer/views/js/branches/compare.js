// Compilations side by side: totals, the first decision in which each parts from the first, graphs,
// IR, passes, kernels. In the app the others are branches of this model or of any other one that is
// open; a page of two traces holds its one comparison.

import {kernelsOfAll, partings, passesOfAll, totalsTable} from "./compare_tables.js";
import {fromBase, turnsOf} from "./direction.js";
import {graphDifference, lineDifference} from "../graph/difference.js";
import {setText} from "./documents.js";
import {button, element, emptyState, markTab, replace, tabRow} from "../ground/dom.js";
import {elapsedText} from "../ground/elapsed.js";
import {countText} from "../ground/numbers.js";
import {clip} from "../ground/scene.js";
import {LETTERS} from "../ground/sides.js";
import {steady} from "../ground/stable_dom.js";
import {areTwoFiles, twoFilesKey} from "../ground/two_files.js";
import {openTwins} from "./branch_pair.js";
import {twoFilesView} from "./two_files.js";
import {twoTimelines} from "./two_timelines.js";

const TENSORS = "tensors";
const COMPARE_VIEWS = [
  {id: "totals", label: "totals", title: "what each of them reaches, and where they part"},
  {id: "graph", label: "graph", title: "operations that differ after the pass that is looked at"},
  {id: "lines", label: "IR", title: "lines that differ after the pass that is looked at"},
  {id: "passes", label: "passes", title: "every pass of all of them"},
  {id: "kernels", label: "kernels", title: "every kernel of all of them"},
  {id: "time", label: "in time", title: "launches of all of them on one clock"},
  {id: TENSORS, label: "tensors", title: "two files: where they part, and the error along the way"},
];

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
  const row = tabRow(COMPARE_VIEWS, "", (view) => choose(view), "views of the comparison");
  const node = element("div", {class: "compare"}, session ? list : null, main);
  const boxes = new Map(); // key of a branch -> {row, box, label}
  let view = "";
  let drawn = ""; // what `main` shows
  let turn = 0;
  row.classList.add("segmented");

  const others = () => session.branches().filter((branch) => branch.key !== session.branch());
  const chosen = () => {
    const keys = session
      .against()
      .filter((key) => others().some((branch) => branch.key === key))
      .slice(0, session.mostCompared() - 1);
    if (keys.length) return keys;
    const found = nearest(session);
    return found ? [found.key] : [];
  };

  const branchOf = (key) => session.branches().find((branch) => branch.key === key);
  // A saved trace is nothing that can be run.
  const areModels = (keys) =>
    keys.every((key) => {
      const model = session.models().find((other) => other.key === branchOf(key)?.model);
      return model?.kind === "model";
    });

  // All that stand side by side, from base to fork unless a person turned that round.
  const sides = () => {
    const keys = fromBase(session.branches(), [session.branch(), ...chosen()]);
    return session.isSwapped ? keys.reverse() : keys;
  };

  function choose(next) {
    if (session) session.compareView = next;
    load(next);
  }

  function drawList() {
    const keys = sides(),
      most = session.mostCompared() - 1;
    const isChosen = new Set(chosen());
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
    const letter = LETTERS[keys.indexOf(session.branch())];
    setText(list.firstChild, `${letter}  ${clip(current?.fullLabel ?? "", 90)}`);
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
      made.box.checked = isChosen.has(branch.key);
      made.box.setAttribute("aria-label", `compare with ${clip(branch.fullLabel, 120)}`);
      setText(made.letter, place >= 0 ? LETTERS[place] : "");
      setText(made.label, clip(branch.fullLabel, 90));
      made.label.title = clip(branch.fullLabel, 400);
    }
    let note = list.querySelector(".cap");
    if (!note) note = element("p", {class: "cap"});
    setText(note, `A is the base; up to ${most + 1} side by side`);
    list.append(note, actions);
    drawActions(keys);
  }

  // What can be done with all of them together.
  const actions = element("div", {class: "compare-actions"});
  const times = elapsedText();

  function drawActions(keys) {
    if (keys.length < 2) {
      times.end();
      replace(actions);
      return;
    }
    const turns = turnsOf(session, keys);
    const isRunning = session.turns().some(({status}) => status === "running");
    const canRun = areModels(keys);
    if (turns?.status === "running") times.show("turns", turns.number, turns.most);
    else times.end();
    replace(
      actions,
      button(
        "swap",
        "turn the direction round: what was the base becomes the change",
        () => {
          session.isSwapped = !session.isSwapped;
          load();
        },
        {class: "quiet", "aria-pressed": String(Boolean(session.isSwapped))},
      ),
      button(
        "side by side",
        "graph and code of base and fork in the main panes, in step",
        () =>
          openTwins(
            app,
            [keys[0], keys[keys.length - 1]].map((key) =>
              session.branches().find((branch) => branch.key === key),
            ),
          ),
        {class: "quiet"},
      ),
      isRunning
        ? button("stop measuring", "give the measurement up", () => session.cancelTurns(), {
            class: "quiet",
          })
        : button(
            "measure in turns",
            canRun
              ? "run all of them in turns, so that a change of the machine meets each alike"
              : "a saved trace runs nothing",
            () => session.measureInTurns(keys),
            {class: "quiet", disabled: !canRun},
          ),
      turns
        ? element("p", {class: "quiet-text turns-state", role: "status"}, turnsText(turns))
        : null,
      turns?.status === "running" ? times.node : null,
    );
  }

  // What a person chose last; without that, of two files the tensors.
  function show(wanted, isTwoFiles) {
    row.querySelector(`[data-tab="${TENSORS}"]`).hidden = !isTwoFiles;
    const known = wanted || (isTwoFiles ? TENSORS : "totals");
    view = known === TENSORS && !isTwoFiles ? "totals" : known;
    markTab(row, view);
  }

  async function load(wanted = session?.compareView ?? view) {
    turn += 1;
    const mine = turn;
    if (session) drawList();
    const keys = session ? sides() : [];
    const isTwoFiles = areTwoFiles(keys.map(branchOf)) && areModels(keys);
    show(wanted, isTwoFiles);
    const turns = turnsOf(session, keys);
    const stamp = session ? keys.map((key) => branchOf(key)?.stages ?? 0).join(".") : "";
    const place = data.head.passes[store.get().pass].name;
    const isProgram = view === "graph" || view === "lines";
    const files = isTwoFiles ? twoFilesKey(session, keys) : "";
    const about = JSON.stringify(
      view === TENSORS ? [view, files] : [view, keys, stamp, isProgram ? place : "", turns?.status],
    );
    if (about === drawn) return;
    if (session && keys.length < 2) {
      drawn = "";
      showMain(
        emptyState(
          "Nothing is chosen to compare with",
          "Choose a branch or another open model in the list.",
        ),
        {isFresh: true},
      );
      return;
    }
    try {
      if (view === TENSORS) {
        if (!drawn || JSON.parse(drawn)[0] !== view) showMain(underWay(), {isFresh: true});
        const found = await data.chunk(files);
        if (mine !== turn) return;
        drawn = about;
        showMain(twoFilesView(app, found), {isFresh: true});
        return;
      }
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
      const whole = {...comparison, turns: turns?.result ?? null};
      showMain(content({...whole, files: isTwoFiles ? undefined : null}, difference), {isFresh});
      if (!isTwoFiles || view !== "totals") return;
      const found = await data.chunk(files).catch(() => ({outputs: []}));
      if (mine === turn) showMain(content({...whole, files: found}, difference), {});
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
    if (view === "time") return twoTimelines(app, comparison);
    if (view === "passes") return element("div", {class: "scroll"}, passesOfAll(comparison));
    if (view === "kernels") return element("div", {class: "scroll"}, kernelsOfAll(app, comparison));
    return element(
      "div",
      {class: "scroll compare-totals"},
      totalsTable(app, {
        ...comparison,
        isToCome: session ? sides().map((key) => branchOf(key)?.isPending) : [],
      }),
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

// Where nobody has chosen: what the branch was forked from, else the first branch of the same
// model, or else of one with inputs and outputs of the same sizes; undefined where there is none.
function nearest(session) {
  const current = session.branches().find((branch) => branch.key === session.branch());
  const others = session.branches().filter((branch) => branch.key !== session.branch());
  return (
    others.find((branch) => branch.key === current?.parent) ??
    others.find((branch) => branch.model === session.model()) ??
    others.find(({elements}) => elements.length && String(elements) === String(current?.elements))
  );
}

const underWay = () =>
  emptyState(
    "Both models run on the same data",
    "Their tensors are matched by their numbers, then by their places in the graphs.",
  );

function turnsText({status, number, most, error, result}) {
  if (status === "running") return most ? `round ${number + 1} of ${most}` : "beginning";
  if (status === "failed") return `not measured: ${error}`;
  if (status === "cancelled") return "given up";
  return (
    `${countText(result.rounds, "round")} in turns on ${result.device}, ` +
    countText(result.threads, "thread")
  );
}
