// The branches of a model as a tree, each with its name, a note and what it came to; and beside it
// what was done in the app, the last action on top: a press goes back there.

import {VERDICT_WORDS} from "./compare_tables.js";
import {button, element, replace} from "../ground/dom.js";
import {bytesText, countText, decode, secondsText} from "../ground/numbers.js";
import {clip} from "../ground/scene.js";

export function historyView(app) {
  app.branchTree ??= createHistory(app);
  app.branchTree.draw();
  return app.branchTree;
}

function createHistory(app) {
  const {session} = app;
  const tree = element("ul", {class: "branch-tree", "aria-label": "branches"});
  const list = element("ol", {class: "history-list", "aria-label": "what was done"});
  const node = element(
    "div",
    {class: "history"},
    element(
      "section",
      {class: "scroll", "data-keep-scroll": ""},
      element("h3", {}, "Branches"),
      tree,
    ),
    element("section", {class: "scroll"}, element("h3", {}, "History"), list),
  );
  let renaming = ""; // key of the branch whose name is typed
  let seen = "";

  function draw() {
    const now = JSON.stringify([
      session.branches(),
      session.branch(),
      session.points(),
      session.at(),
      renaming,
    ]);
    if (now === seen) return;
    // What is being typed is not taken away by results that arrive.
    const typed = node.querySelector("textarea:focus, input:focus");
    if (typed && seen && typed.dataset.branch !== renaming) return;
    seen = now;
    replace(tree, branchRows());
    replace(list, historyRows());
    const field = tree.querySelector("input.branch-name");
    if (field instanceof HTMLInputElement) {
      field.focus();
      field.select();
    }
  }

  // Parents before their forks, each with its depth.
  function branchRows() {
    const siblings = session.branches().filter(({model}) => model === session.model());
    const isHere = (key) => siblings.some((branch) => branch.key === key);
    const rows = [];
    const visit = (branch, depth) => {
      rows.push(branchRow(branch, depth));
      for (const child of siblings.filter(({parent}) => parent === branch.key))
        visit(child, depth + 1);
    };
    for (const root of siblings.filter(({parent}) => !isHere(parent))) visit(root, 0);
    return rows;
  }

  function branchRow(branch, depth) {
    const {key, label, decided, name, note, isAsleep} = branch;
    const isCurrent = key === session.branch();
    const verdict = app.look.verdict(branch.verdict);
    const facts = [
      name ? decided : "",
      VERDICT_WORDS[branch.verdict],
      branch.peak === null || branch.peak === undefined ? "" : `peak ${bytesText(branch.peak)}`,
      branch.milliseconds === null || branch.milliseconds === undefined
        ? ""
        : secondsText(decode(branch.milliseconds) / 1e3),
      isAsleep ? "compiled again when looked at" : "",
    ].filter(Boolean);
    const row = element(
      "li",
      {class: `branch-row${isCurrent ? " current" : ""}`, "data-branch": key},
      element("span", {class: `dot ${branch.verdict}`, title: verdict.title}, verdict.glyph),
      renaming === key ? nameField(branch) : nameButton(branch, isCurrent),
      element("span", {class: "quiet-text branch-facts"}, clip(facts.join(" · "), 160)),
      element("span", {class: "grow"}),
      button("rename", `give ${clip(label, 40)} a name`, () => rename(key), {class: "quiet"}),
      isCurrent
        ? null
        : button(
            "delete",
            `drop ${clip(label, 40)}; undo brings it back`,
            () => session.forget(key),
            {
              class: "quiet delete-branch",
            },
          ),
      noteField(key, note),
    );
    row.style.setProperty("--depth", depth);
    return row;
  }

  function nameButton({key, label}, isCurrent) {
    return element(
      "button",
      {
        type: "button",
        class: "branch-show",
        "data-names": "",
        title: clip(label, 300),
        "aria-current": isCurrent ? "true" : null,
        onclick: () => session.show(key),
        ondblclick: () => rename(key),
      },
      clip(label, 60),
    );
  }

  function rename(key) {
    renaming = key;
    draw();
  }

  function nameField({key, name, decided}) {
    let isDone = false;
    const end = (isTaken) => {
      if (isDone) return;
      isDone = true;
      renaming = "";
      if (isTaken && field.value.trim() !== name) session.rename(key, field.value);
      field.blur();
      draw();
    };
    const field = element("input", {
      class: "branch-name",
      "data-branch": key,
      value: name,
      placeholder: clip(decided, 60),
      maxlength: 120,
      "aria-label": "name of the branch; empty for what was decided",
      onkeydown: (event) => {
        event.stopPropagation();
        if (event.key === "Enter") end(true);
        if (event.key === "Escape") end(false);
      },
      onblur: () => end(true),
    });
    return field;
  }

  function noteField(key, note) {
    const field = element(
      "textarea",
      {
        class: "branch-note",
        rows: Math.min(6, Math.max(1, note.split("\n").length)),
        maxlength: 4000,
        placeholder: "a note",
        "aria-label": "note on the branch",
        onkeydown: (event) => {
          event.stopPropagation();
          if (event.key === "Escape") field.blur();
        },
        onchange: () => session.note(key, field.value),
      },
      note,
    );
    return field;
  }

  function historyRows() {
    const points = session.points(),
      at = session.at();
    return points
      .map((words, index) =>
        element(
          "li",
          {class: index > at ? "undone" : ""},
          element(
            "button",
            {
              type: "button",
              class: "history-point",
              "aria-current": index === at ? "step" : null,
              title: index > at ? `redo: ${clip(words, 300)}` : clip(words, 300),
              onclick: () => session.goToPoint(index),
            },
            clip(words, 90),
          ),
        ),
      )
      .reverse();
  }

  const count = () => session.branches().filter(({model}) => model === session.model()).length;
  return {
    node,
    draw,
    get aside() {
      return element("span", {class: "quiet-text"}, countText(count(), "branch", "branches"));
    },
    refresh: draw,
  };
}
