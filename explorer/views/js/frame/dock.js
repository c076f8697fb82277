// What is about the whole program: memory over time, errors, time line, roofline, kernels,
// comparison. A click here selects; what is selected elsewhere is marked here.

import {button, element, emptyState, markTab, replace, tabRow} from "../ground/dom.js";
import {FIXED} from "../ground/lever_words.js";
import {tabsThere} from "../state/state.js";
import {PANES} from "../panes.js";
import {setAbout} from "../desk/pressed_numbers.js";
import {steady} from "../ground/stable_dom.js";

const LATE_MS = 200;

// What the register of views (register.py) has for this compilation:
// [{id, label, title, key, needs, uses, redraws, count, optional, moves,
// session}].
export function dockTabs(app) {
  return tabsThere(app.data.head, Boolean(app.session));
}

export function dockPane(app) {
  const {store} = app;
  const rowOf = (shown) =>
    tabRow(
      shown.map((tab) => ({...tab, note: countOf(app, tab)})),
      store.get().dock,
      (dock) => store.set({dock}),
      "about the whole program",
    );
  let tabs = dockTabs(app);
  let row = rowOf(tabs);
  const aside = element("span", {class: "dock-aside"});
  const body = element("div", {class: "dock-body", role: "tabpanel"});
  const node = element(
    "section",
    {class: "pane dock", "aria-label": "whole program", "data-about": FIXED.rows},
    element("div", {class: "tab-bar"}, row, element("span", {class: "grow"}), aside),
    body,
  );
  let current = null; // {node, aside, refresh(), resized(), hovered(), sessionChanged()}
  let turn = 0;
  const showBody = steady(body),
    showAside = steady(aside);
  let shownDock = "";

  async function update() {
    turn += 1;
    const mine = turn;
    const {dock} = store.get();
    const isThere = tabs.some((tab) => tab.id === dock);
    const later = isThere ? null : tabToCome(app, dock);
    const known = isThere || later ? dock : "memory";
    markTab(row, known);
    // No content of another tab below the name of this one while its data are on their way.
    const late = setTimeout(() => {
      if (mine !== turn || shownDock === known) return;
      node.setAttribute("aria-busy", "true");
      shownDock = "";
      showAside(null, {isFresh: true});
      showBody(emptyState("Loading", "The data of this tab are on their way."), {isFresh: true});
    }, LATE_MS);
    try {
      const made = app.isRead
        ? stillRuns()
        : later
          ? comesLater(later)
          : await PANES[known](
              app,
              dockTabs(app).find((tab) => tab.id === known),
            );
      if (mine !== turn) return;
      current = made;
      // Another tab begins at its top; more of the same one leaves everything where it is.
      const isFresh = shownDock !== known;
      for (const host of [aside, body])
        setAbout(host, tabs.find(({id}) => id === known)?.moves ?? "");
      shownDock = later ? "" : known;
      const after = () => {
        made.refresh?.();
        made.resized?.();
      };
      if (isFresh || aside.firstChild !== (made.aside ?? null))
        showAside(made.aside || null, {isFresh});
      if (isFresh || body.firstChild !== made.node) showBody(made.node, {isFresh, after});
      else after();
    } catch (failure) {
      if (mine === turn)
        replace(
          body,
          emptyState(
            "This could not be loaded",
            failure.message,
            button("try again", "load it again", () => update()),
          ),
        );
    } finally {
      clearTimeout(late);
      if (mine === turn) node.removeAttribute("aria-busy");
    }
  }

  // More is known: what is shown is drawn anew only where it shows that.
  function learn(before, now) {
    const idsBefore = String(tabs.map(({id}) => id));
    tabs = dockTabs(app);
    if (String(tabs.map(({id}) => id)) !== idsBefore) showTabs();
    for (const tab of tabs) {
      const note = row.querySelector(`[data-tab="${tab.id}"] .note`);
      if (note) note.textContent = countOf(app, tab);
    }
    const {dock} = store.get();
    const hasCome = dock !== shownDock && tabs.some(({id}) => id === dock);
    const {needs, uses} = tabs.find((tab) => tab.id === shownDock) ?? {needs: [], uses: []};
    const isOther = (name) => before[name] !== now[name] || name === "sweep"; // it may be replaced
    if (hasCome || [...needs, ...uses].some(isOther)) update();
  }

  // Views of parts that came later have tabs from then on.
  function showTabs() {
    const fresh = rowOf(tabs);
    const isFocused = row.contains(row.getRootNode().activeElement);
    row.replaceWith(fresh);
    row = fresh;
    markTab(row, shownDock || store.get().dock);
    if (isFocused) row.querySelector('[aria-selected="true"]')?.focus({preventScroll: true});
  }

  store.subscribe((_, changed) => {
    const {redraws} = tabs.find((tab) => tab.id === shownDock) ?? {redraws: []};
    if (changed.has("dock") || redraws.some((name) => changed.has(name))) update();
    else if (changed.has("selection") || changed.has("pass")) current?.refresh?.();
  });
  app.hover.subscribe(() => current?.hovered?.());
  if (typeof ResizeObserver === "function")
    new ResizeObserver(() => current?.resized?.()).observe(body);
  return {
    node,
    update,
    learn,
    repaint: () => current?.resized?.(),
    sessionChanged: () => current?.sessionChanged?.(),
  };
}

// A tab that a link names, of what is not measured yet; undefined where none comes.
function tabToCome(app, dock) {
  const isToCome = app.session?.isMeasuring();
  return isToCome ? app.data.head.tabs.find(({id}) => id === dock) : undefined;
}

/** @returns {any} */
const comesLater = ({label}) => ({
  node: emptyState(
    `The tab “${label}” comes later`,
    "What it shows is still being measured; it opens as soon as that is there.",
  ),
});

/** @returns {any} */
const stillRuns = () => ({
  node: emptyState(
    "The passes still run",
    "The graph is the model's file. What the compiler makes of it comes as soon as it is there.",
  ),
});

// How many rows a tab has; "…" as long as they are being made, when zero is no number of them.
function countOf(app, {count, needs}) {
  if (count === null) return "";
  const isToCome =
    app.isRead || (!count && ["program", ...needs].some((part) => app.session?.isPending(part)));
  return isToCome ? "\u2026" : String(count);
}
