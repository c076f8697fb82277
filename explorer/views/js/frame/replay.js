// Replay of rewrites: all events of all passes in one list that can be narrowed, and of the one
// that is looked at the graph around it and the lines before and after. A slider goes through the
// rewrites of the pass; at its beginning stands the pass as a whole.

import {button, element, emptyState, replace} from "../ground/dom.js";
import {countText} from "../ground/numbers.js";
import {clip} from "../ground/scene.js";
import {rowsTable} from "../code/rows.js";
import {differencePicture} from "../graph/difference.js";

const MAX_LISTED = 300;
const OUTCOMES = [
  ["", "all outcomes"],
  ["made", "made"],
  ["declined", "declined"],
];

const panes = new WeakMap(); // of every explorer: it keeps its filters and where it is scrolled to

export async function replayView(app) {
  if (!panes.has(app)) panes.set(app, makePane(app, await app.data.rewrites()));
  return panes.get(app);
}

function makePane(app, events) {
  const {data, store} = app;
  const filter = {text: "", pass: "", rule: "", outcome: ""};
  let isBeside = true;
  let isOfOperation = false; // only what led to the selected operation
  let line = null; // Set of "pass/event" of that
  let listed = [];
  let turn = 0;

  const select = (name, label, options) =>
    element(
      "select",
      {
        "aria-label": label,
        onchange: (event) => {
          filter[name] = event.target.value;
          drawList();
        },
      },
      options.map(([value, text]) => element("option", {value}, text)),
    );
  const passNames = data.head.passes.map((pass) => pass.name);
  const withEvents = [...new Set(events.map((event) => event.pass))];
  const rules = [...new Set(events.map((event) => event.rule))].sort();
  const search = element("input", {
    type: "search",
    placeholder: "operation, rule, reason",
    "aria-label": "text in rewrites",
    oninput: () => {
      filter.text = search.value.trim().toLowerCase();
      drawList();
    },
  });
  const ofOperation = button(
    "of the selection",
    "only what led to the selected operation, back to the import",
    () => {
      isOfOperation = !isOfOperation;
      update();
    },
    {class: "quiet", "aria-pressed": "false"},
  );
  const counted = element("span", {class: "quiet-text", role: "status"});
  const list = element("ol", {class: "replay-list", "aria-label": "rewrites of all passes"});
  const position = element("span", {class: "replay-position"});
  const slider = element("input", {
    type: "range",
    min: 0,
    step: 1,
    "aria-label": "rewrite of this pass",
    oninput: () => {
      const applied = appliedHere();
      const chosen = Number(slider.value);
      if (chosen === 0) store.set({rewrite: null});
      else goTo(applied[chosen - 1]);
    },
  });
  const beside = button(
    "side by side",
    "before and after beside each other, or one below the other",
    () => {
      isBeside = !isBeside;
      drawFrame();
    },
    {class: "quiet"},
  );
  const picture = element("div", {class: "replay-picture"});
  const lines = element("div", {class: "replay-lines scroll"});
  const node = element(
    "div",
    {class: "replay"},
    element(
      "div",
      {class: "replay-side"},
      element(
        "div",
        {class: "replay-filters"},
        search,
        select("pass", "pass", [
          ["", "all passes"],
          ...withEvents.map((pass) => [String(pass), passNames[pass]]),
        ]),
        select("rule", "rule", [["", "all rules"], ...rules.map((rule) => [rule, rule])]),
        select("outcome", "outcome", OUTCOMES),
        ofOperation,
        counted,
      ),
      list,
    ),
    element(
      "div",
      {class: "replay-frame"},
      element(
        "div",
        {class: "replay-bar"},
        button("‹", "the one before in the list", () => stepInList(-1), {class: "icon"}),
        slider,
        button("›", "the next in the list", () => stepInList(1), {class: "icon"}),
        position,
        element("span", {class: "grow"}),
        beside,
      ),
      element("div", {class: "replay-panes"}, picture, lines),
    ),
  );

  const appliedHere = () => {
    const {pass} = store.get();
    return events.filter((event) => event.pass === pass && event.applied);
  };

  function goTo(event) {
    // What the same pass took away again stands in no graph: then what it was made of does.
    const shown = [...event.made, event.site].find((id) => data.latest.has(id)) ?? null;
    store.set({pass: event.pass, rewrite: event.index, selection: shown});
    if (shown !== null) app.graph.reveal(shown);
  }

  function stepInList(by) {
    const {pass, rewrite} = store.get();
    const at = listed.findIndex((event) => event.pass === pass && event.index === rewrite);
    // From a pass as a whole to its first or last event in the list.
    const first = listed.findIndex((event) => event.pass >= pass);
    const from = at >= 0 ? at + by : by > 0 ? first : (first < 0 ? listed.length : first) - 1;
    if (listed[from]) goTo(listed[from]);
  }

  function isListed(event) {
    if (filter.pass && event.pass !== Number(filter.pass)) return false;
    if (filter.rule && event.rule !== filter.rule) return false;
    if (filter.outcome && event.applied !== (filter.outcome === "made")) return false;
    if (line && !line.has(`${event.pass}/${event.index}`)) return false;
    if (!filter.text) return true;
    const words = [event.rule, event.site, event.reason, passNames[event.pass], ...event.made];
    return words.some((word) => word.toLowerCase().includes(filter.text));
  }

  function drawList() {
    listed = events.filter(isListed);
    const {pass, rewrite} = store.get();
    const at = listed.findIndex((event) => event.pass === pass && event.index === rewrite);
    // The part of a long list in which the current one stands.
    const begin = Math.max(0, Math.min(at - MAX_LISTED / 2, listed.length - MAX_LISTED));
    const shown = listed.slice(begin, begin + MAX_LISTED);
    counted.textContent = `${countText(listed.length, "event")} of ${events.length}`;
    replace(
      list,
      begin ? element("li", {class: "cap"}, `${begin} before these`) : null,
      shown.map((event) => eventRow(event, event.pass === pass && event.index === rewrite)),
      begin + shown.length < listed.length
        ? element(
            "li",
            {class: "cap"},
            `${listed.length - begin - shown.length} more: narrow the list`,
          )
        : null,
    );
    list.querySelector('[aria-current="true"]')?.scrollIntoView({block: "nearest"});
  }

  function eventRow(event, isCurrent) {
    const made = event.applied
      ? `${event.site} → ${event.made.join(", ") || "nothing"}`
      : `${event.site}: ${event.reason}`;
    return element(
      "li",
      {},
      element(
        "button",
        {
          type: "button",
          class: `replay-event${event.applied ? "" : " refused"}`,
          "aria-current": isCurrent ? "true" : null,
          "data-event": `${event.pass}/${event.index}`,
          title: `${passNames[event.pass]} / ${event.rule} / ${event.site}`,
          onclick: () => goTo(event),
        },
        element("span", {class: "glyph", "aria-hidden": "true"}, event.applied ? "✓" : "○"),
        element(
          "span",
          {},
          element("span", {class: "replay-rule"}, `${passNames[event.pass]}: ${event.rule}`),
          element("span", {class: "replay-made mono"}, clip(made, 120)),
        ),
      ),
    );
  }

  async function drawFrame() {
    turn += 1;
    const mine = turn;
    const {pass, rewrite} = store.get();
    const applied = appliedHere();
    const at = applied.findIndex((event) => event.index === rewrite);
    slider.max = String(applied.length);
    slider.value = String(at + 1);
    slider.disabled = !applied.length;
    const chosen = events.find((event) => event.pass === pass && event.index === rewrite);
    const where = chosen
      ? chosen.applied
        ? `rewrite ${at + 1} of ${applied.length} in ${passNames[pass]}`
        : `declined in ${passNames[pass]}: ${chosen.reason}`
      : `${passNames[pass]} as a whole, ${countText(applied.length, "rewrite")}`;
    position.textContent = where;
    slider.setAttribute("aria-valuetext", where);
    beside.textContent = isBeside ? "side by side" : "unified";
    try {
      if (chosen) await showFrame(pass, rewrite, chosen, () => mine === turn);
      else await showWhole(pass, () => mine === turn);
    } catch (failure) {
      if (mine === turn) replace(lines, emptyState("This could not be loaded", failure.message));
    }
  }

  async function showFrame(pass, rewrite, chosen, isCurrent) {
    const frame = await data.frame(pass, rewrite);
    if (!isCurrent()) return;
    picture.hidden = false;
    if (!frame) {
      replace(picture, emptyState("Not in this page", NOT_SAVED));
      const {events: all} = await data.passDetails(pass);
      if (isCurrent())
        replace(lines, rowsTable(rowsOfEvent(all[rewrite]), {isBeside, label: "IR"}));
      return;
    }
    replace(
      picture,
      frame.drawing
        ? differencePicture(app, frame.drawing, `graph around ${clip(chosen.site, 60)}`, {
            shares: false,
          })
        : emptyState("No picture", "What it changed is a kernel, which is no node of the graph."),
      frame.leftOut
        ? element("p", {class: "cap"}, `${countText(frame.leftOut, "operation")} more not drawn`)
        : null,
    );
    const table = rowsTable(frame.rows, {isBeside, hidden: frame.hidden, label: "IR"});
    replace(lines, frame.rows.length ? table : emptyState("No line is another one", ""));
    lines.querySelector("td.removed, td.added")?.scrollIntoView({block: "nearest"});
  }

  async function showWhole(pass, isCurrent) {
    picture.hidden = true;
    if (!data.head.passes[pass].changed || pass === 0) {
      replace(
        lines,
        emptyState(
          "Nothing to compare",
          pass === 0 ? "This is the model as it was read." : "This pass changed nothing.",
        ),
      );
      return;
    }
    const whole = await data.chunk(`film/${pass}/all`);
    if (isCurrent())
      replace(lines, rowsTable(whole.rows, {isBeside, hidden: whole.hidden, label: "IR"}));
  }

  async function update() {
    const {selection} = store.get();
    ofOperation.setAttribute("aria-pressed", String(isOfOperation));
    const made = isOfOperation && selection !== null ? await data.makersOf(selection) : null;
    line = made && new Set(made.map(([pass, event]) => `${pass}/${event}`));
    drawList();
    await drawFrame();
  }

  if (!events.length)
    return {
      node: emptyState("No rewrites", "Nothing in this trace was rewritten, and nothing declined."),
    };
  return {node, refresh: update};
}

const NOT_SAVED =
  "A saved page holds the pictures of some hundred rewrites, the first of every pass. The lines " +
  "of this one are beside; the app and a notebook draw it.";

// Without those around them and without marks: what the pass recorded.
function rowsOfEvent(event) {
  const named = (id, text) => `%${id} = ${text}`;
  return [
    ...event.removed.map(([id, text]) => ["removed", named(id, text), null, [], []]),
    ...event.added.map(([id, text]) => ["added", null, named(id, text), [], []]),
    ...event.changed.map(([id, was, now]) => ["changed", named(id, was), named(id, now), [], []]),
  ];
}
