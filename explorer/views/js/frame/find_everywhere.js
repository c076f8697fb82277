// The list of what was found everywhere. It stays while one goes from hit to hit; every text that
// is shown has its hits marked.

import {KINDS, findAll} from "../code/find_all.js";
import {showRule} from "../code/rule.js";
import {button, element, replace} from "../ground/dom.js";
import {countText, exactText} from "../ground/numbers.js";
import {clip} from "../ground/scene.js";

const MAX_ROWS = 300; // of one kind
const MIN_LETTERS = 2;
const TYPING_MILLISECONDS = 200;

// {node, open(query), close(), isOpen(), query()}
export function findEverywhere(app) {
  let found = new Map(); // kind -> hits
  let flat = []; // as they stand in the list
  let current = -1;
  let turn = 0;
  let typing = 0;
  const hidden = new Set(); // kinds that are left out
  const field = element("input", {
    type: "search",
    class: "find-field",
    "aria-label": "find everywhere",
    placeholder: "find everywhere",
    spellcheck: "false",
    autocomplete: "off",
  });
  const kinds = element("div", {class: "find-kinds", role: "group", "aria-label": "kinds of hits"});
  const count = element("span", {class: "quiet-text hits-count", role: "status"});
  const list = element("ol", {class: "find-list", "aria-label": "what was found"});
  const node = element(
    "section",
    {class: "pane find-everywhere", "aria-label": "find everywhere", hidden: true},
    element(
      "div",
      {class: "find-bar"},
      field,
      button("‹", "hit before", () => step(-1), {class: "icon", "aria-label": "hit before"}),
      button("›", "next hit", () => step(1), {class: "icon", "aria-label": "next hit"}),
      count,
      kinds,
      element("span", {class: "grow"}),
      button("×", "close the list (Esc)", () => close(), {
        class: "icon",
        "aria-label": "close the list",
      }),
    ),
    list,
  );
  field.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(look, TYPING_MILLISECONDS);
  });
  node.addEventListener("keydown", (event) => {
    const isNext = event.key === "F3" || (event.key === "Enter" && event.target === field);
    if (isNext) step(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape") close();
    else if (event.key === "ArrowDown" && event.target !== field) step(1);
    else if (event.key === "ArrowUp" && event.target !== field) step(-1);
    else {
      if (!(event.ctrlKey || event.metaKey)) event.stopPropagation();
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  });

  const kindName = (kind, label) => (kind === "c" ? app.data.sourceLanguage() : label);
  const query = () => (node.hidden ? "" : field.value.trim());

  async function look() {
    turn += 1;
    const mine = turn;
    found = new Map(KINDS.map(([kind]) => [kind, []]));
    current = -1;
    const wanted = query();
    app.inspector.markFound(wanted.length < MIN_LETTERS ? "" : wanted);
    if (wanted.length < MIN_LETTERS) {
      count.textContent = wanted ? `type at least ${MIN_LETTERS} letters` : "";
      draw();
      return;
    }
    let drawn = 0;
    try {
      for await (const {kind, hits, done, total} of findAll(app, wanted)) {
        if (mine !== turn) return;
        found.get(kind).push(...hits);
        count.textContent = total > 1 ? `kernel ${done} of ${total}` : "";
        if (performance.now() - drawn > TYPING_MILLISECONDS) {
          draw();
          drawn = performance.now();
        }
      }
    } catch (failure) {
      if (mine === turn) count.textContent = `not all could be searched: ${failure.message}`;
      draw();
      return;
    }
    draw();
    say();
  }

  function draw() {
    const names = KINDS.filter(([kind]) => found.get(kind)?.length);
    replace(
      kinds,
      names.map(([kind, label]) =>
        button(
          [kindName(kind, label), ` ${exactText(found.get(kind).length)}`],
          "show or leave out these",
          () => {
            if (!hidden.delete(kind)) hidden.add(kind);
            draw();
          },
          {class: "chip", "aria-pressed": String(!hidden.has(kind)), "data-kind": kind},
        ),
      ),
    );
    flat = [];
    const rows = [];
    for (const [kind, label] of names) {
      if (hidden.has(kind)) continue;
      const hits = found.get(kind);
      for (const hit of hits.slice(0, MAX_ROWS)) {
        rows.push(row(hit, flat.length));
        flat.push(hit);
      }
      if (hits.length > MAX_ROWS)
        rows.push(
          element(
            "li",
            {class: "cap"},
            `${countText(hits.length - MAX_ROWS, "more hit")} in ${label}: type more letters`,
          ),
        );
    }
    replace(list, rows);
    mark();
  }

  function row(hit, index) {
    const label = KINDS.find(([kind]) => kind === hit.kind)?.[1] ?? "";
    return element(
      "li",
      {},
      element(
        "button",
        {type: "button", class: "find-row", "data-index": index, onclick: () => go(index)},
        element("span", {class: "hit-kind"}, hit.kind === "c" ? app.data.sourceLanguage() : label),
        element("span", {class: "mono find-where"}, clip(hit.where, 48)),
        element("span", {class: "quiet-text find-line"}, hit.line < 0 ? "" : String(hit.line + 1)),
        element("span", {class: "mono find-text"}, marked(clip(hit.text, 240), query())),
      ),
    );
  }

  function mark() {
    for (const shown of list.querySelectorAll(".find-row"))
      shown.setAttribute("aria-current", String(Number(shown.dataset.index) === current));
  }

  function say() {
    const total = [...found.values()].reduce((sum, hits) => sum + hits.length, 0);
    count.textContent = !total
      ? "nothing found"
      : current < 0
        ? countText(total, "hit")
        : `${exactText(current + 1)} of ${exactText(flat.length)}`;
  }

  function step(by) {
    if (flat.length) go(current < 0 && by < 0 ? flat.length - 1 : current + by);
  }

  function go(index) {
    current = (index + flat.length) % flat.length;
    mark();
    say();
    list.querySelector('[aria-current="true"]')?.scrollIntoView({block: "nearest"});
    const {go: where, line} = flat[current];
    if (where.rule) showRule(app, where.rule, {line, query: query()});
    else if (where.tab) app.inspector.goToLine(where, line);
    else app.select(where.selection, "search");
  }

  function open(text = "") {
    node.hidden = false;
    app.workspace.draw();
    if (text) field.value = text;
    field.focus();
    field.select();
    if (field.value) look();
  }

  function close() {
    turn += 1;
    node.hidden = true;
    app.inspector.markFound("");
    app.workspace.draw();
    app.root.focus({preventScroll: true});
  }

  return {node, open, close, isOpen: () => !node.hidden, query};
}

// The text with every place of the query marked.
function marked(text, query) {
  if (!query) return text;
  const parts = [];
  let from = 0;
  const lower = text.toLowerCase();
  for (
    let at = lower.indexOf(query.toLowerCase());
    at >= 0;
    at = lower.indexOf(query.toLowerCase(), from)
  ) {
    parts.push(text.slice(from, at), element("mark", {}, text.slice(at, at + query.length)));
    from = at + query.length;
  }
  return [...parts, text.slice(from)];
}
