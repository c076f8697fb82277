// One operation: where it comes from, which rules made it, what it is in this pass, and what it
// becomes: IR, loops, source, assembly, with its lines marked; and the errors of its tensor.

import {codeBar, codePane, differenceEntries, entriesOf} from "../code/code.js";
import {openFind} from "../code/find_in_pane.js";
import {inStep} from "../code/in_step.js";
import {button, element, emptyState, markTab, replace, tabRow} from "../ground/dom.js";
import {forkView} from "../branches/fork.js";
import {elsewhereView} from "../code/cross_compilation.js";
import {canEditIr, openIrEditor} from "../branches/ir_editor.js";
import {markWords} from "../code/word_marks.js";
import {codeSwitches} from "./code_switches.js";
import {linkedBuild, loopsView, sourceView} from "../code/levels.js";
import {familyClass, linkShare, modelView} from "../code/links.js";
import {setAbout} from "../desk/pressed_numbers.js";
import {FIXED} from "../ground/lever_words.js";
import {CODE_LEVELS, levelsShown} from "../state/levels_shown.js";
import {countText} from "../ground/numbers.js";
import {blockView, operationView} from "./operation.js";
import {subjectOf} from "./subject.js";
import {tensorsView} from "../measures/tensors.js";

export const TABS = [
  {
    id: "operation",
    moves: FIXED.model,
    key: "1",
    label: "operation",
    title: "what it is and what it is connected with (1)",
  },
  {
    id: "model",
    moves: FIXED.model,
    key: "0",
    label: "model",
    title: "the nodes of the model file (0)",
  },
  {
    id: "ir",
    moves: FIXED.passes,
    key: "2",
    label: "IR",
    title: "the intermediate representation after this pass (2)",
  },
  {
    id: "loops",
    moves: "seconds",
    key: "3",
    label: "loops",
    title: "the loop nest, step by step (3)",
  },
  {id: "c", moves: "code_bytes", key: "4", label: "C", title: "the source that is compiled (4)"},
  {id: "assembly", moves: "code_bytes", key: "5", label: "asm", title: "what the machine runs (5)"},
  {
    id: "other",
    moves: "code_bytes",
    key: "7",
    label: "builds",
    title: "the same kernel by another compiler, or for another processor (7)",
  },
  {
    id: "tensors",
    moves: "sqnr_db",
    key: "6",
    label: "tensors",
    title: "errors of its tensor after every pass (6)",
  },
];
const FORK_TAB = {
  id: "fork",
  moves: FIXED.decisions,
  label: "fork",
  title: "change decisions and compile again (f)",
};

// What stands below a tab when the next level is shown beside it.
const NEXT_LEVEL = {
  operation: "ir",
  model: "ir",
  ir: "loops",
  loops: "c",
  c: "assembly",
  assembly: "c",
  other: "assembly",
  tensors: "ir",
  fork: "loops",
};

// Of the state: what another text is shown for, or other marks in it.
const RELEVANT = [
  "pass",
  "selection",
  "line",
  "pin",
  "tab",
  "beside",
  "rewrite",
  "mode",
  "panes",
  "build",
];
const MAX_LANGUAGE = 4; // characters, beside which all tabs stand in one row
const LATE_MS = 150; // until what is on the screen is marked as being of another selection
const HUES = 6; // of statements and operations, in explorer.css

export function inspectorPane(app) {
  const {data, store} = app;
  const head = element("div", {class: "subject", "data-about": FIXED.passes});
  const levels = [
    ...TABS.map((tab) => (tab.id === "c" ? {...tab, label: data.sourceLanguage()} : tab)),
    ...(app.session ? [FORK_TAB] : []),
  ];
  const tabs = tabRow(
    levels,
    store.get().tab,
    (tab) => store.set({tab}),
    "levels of the operation",
  );
  // A long name of what kernels are written in leaves the others less room.
  tabs.classList.toggle("crowded", data.sourceLanguage().length > MAX_LANGUAGE);
  const split = button(
    "⊟",
    "show the next level below (b)",
    () => store.set({beside: !store.get().beside}),
    {class: "icon split"},
  );
  const main = element("div", {class: "tab-body", role: "tabpanel"});
  const others = CODE_LEVELS.slice(1).map(() =>
    element("div", {
      class: "tab-body beside",
      role: "region",
      "aria-label": "next level",
      hidden: true,
    }),
  );
  const bodies = element("div", {class: "levels"}, main, others);
  const switches = codeSwitches(store);
  const node = element(
    "section",
    {class: "pane inspector", "aria-label": "inspector"},
    head,
    element(
      "div",
      {class: "tab-bar"},
      tabs,
      element("span", {class: "grow"}),
      switches.node,
      split,
    ),
    bodies,
  );
  // Code panes on the screen: {pane, isMarked(owners, entry), isWhole, key, follows}; follows: of
  // one that was there before, whether it goes to what is marked
  let panes = [];
  let shownLevels = ""; // as they stand side by side
  let awaited = null; // {level, line} that a text shows when it is there
  let picked = null; // the pane of code in which the selection was made: it stays where it is
  let drawnText = null; // {key, pane} of the IR that was drawn last
  let hasLines = false; // of the author's program
  replace(main, element("p", {class: "hint padded", role: "status"}, "loading …"));
  let absent = []; // levels of which the kernel has nothing
  let turn = 0;

  // `isQuiet`: the same subject, of which more is known; what is read stays where it is.
  async function update(isQuiet = false) {
    turn += 1;
    const mine = turn;
    const places = panes.map(({pane, key}) => ({pane, key, place: pane.place()}));
    const reading = main.querySelector(".scroll");
    const scroll = isQuiet && reading ? reading.scrollTop : 0;
    const asked = store.get();
    // Only the app can compile: a link from there opens the first tab here.
    const state = levels.some((tab) => tab.id === asked.tab) ? asked : {...asked, tab: "operation"};
    markTab(tabs, state.tab);
    split.setAttribute("aria-pressed", String(state.beside));
    const isCurrent = () => mine === turn;
    // What is on the screen is of another selection or tab until the answer is there.
    const late = setTimeout(() => {
      if (isCurrent() && head.hasChildNodes()) node.setAttribute("aria-busy", "true");
    }, LATE_MS);
    try {
      const context = await resolve(state);
      if (!isCurrent()) return;
      const subject = await subjectOf(app, context);
      if (isQuiet && state.tab === "fork" && main.contains(main.getRootNode().activeElement))
        return;
      hasLines = context.lines.length > 0;
      absent = levelsWithout(context);
      const columns = levelsShown(state.panes, state.tab, node.clientWidth, {hasLines, absent});
      const names = columns ?? [state.tab, ...(state.beside ? [nextLevel(state.tab)] : [])];
      /** @type {any[]} */
      let views = [];
      for (const level of names) views.push({level, ...(await tabView(level, context))});
      // What two levels would say alike of their emptiness is said once.
      views = views.filter(
        (view, index) =>
          view.panes ||
          views.findIndex((other) => other.node.textContent === view.node.textContent) === index,
      );
      if (!isCurrent()) return;
      replace(head, subject);
      panes = views.flatMap(({level, panes: own}) => (own || []).map((pane) => ({...pane, level})));
      const isRow = Boolean(columns && views.length > 1);
      shownLevels = columns?.join() ?? "";
      node.classList.toggle("columns", isRow);
      node.classList.toggle("split", views.length > 1);
      node.classList.toggle("coloured", state.panes.isColoured);
      switches.update(CODE_LEVELS.includes(state.tab), isRow);
      for (const tab of tabs.children)
        tab.classList.toggle("in-columns", isRow && names.includes(tab.dataset.tab));
      [main, ...others].forEach((body, index) => {
        body.hidden = index >= views.length;
        const name = views[index]?.level;
        setAbout(body, levels.find(({id}) => id === name)?.moves ?? "", true);
        if (body.hidden) replace(body);
        else if (isRow) replace(body, columnHead(name, names), views[index].node);
        else if (index) replace(body, titleOf(name), views[index].node);
        else replace(body, views[0].node);
      });
      // Moving a node resets it, and another frame around a text must not move its lines.
      const stays = new Set();
      for (const {pane, key, place} of places) {
        const again = panes.find((other) => other.pane === pane || (key && other.key === key));
        if (!again) continue;
        again.pane.restore(again.pane === pane ? place : {...place, top: again.pane.place().top});
        const rests = again.follows === undefined ? again.pane !== pane : !again.follows;
        if (rests || isQuiet || pane === picked) stays.add(again.pane);
      }
      picked = null;
      for (const {pane, isMarked, isWhole} of panes) {
        pane.mark(isMarked, isWhole);
        if (!stays.has(pane)) pane.reveal();
      }
      showFound();
      if (scroll) (main.querySelector(".scroll") ?? main).scrollTop = scroll;
      app.codeDrawn?.();
    } catch (failure) {
      if (!isCurrent()) return;
      replace(
        main,
        emptyState(
          "This could not be loaded",
          failure.message,
          button("try again", "load it again", () => update()),
        ),
      );
    } finally {
      clearTimeout(late);
      if (isCurrent()) node.removeAttribute("aria-busy");
    }
  }

  // Hits of a search over all are marked in every text; the one that was chosen is shown.
  function showFound() {
    const query = app.everywhere?.query() ?? "";
    for (const {pane, level} of panes) {
      if (query) pane.find(query);
      if (awaited?.level !== level) continue;
      const line = awaited.line;
      awaited = null;
      requestAnimationFrame(() => {
        pane.showAt(line, pane.node.clientHeight / 3);
        if (pane.hitOn(line) >= 0) pane.showHit(pane.hitOn(line));
      });
    }
  }

  // Beside a line of the author's program its kernel.
  const nextLevel = (tab) => (tab === "model" && hasLines ? "c" : NEXT_LEVEL[tab]);
  const labelOf = (name) => levels.find((tab) => tab.id === name)?.label;
  const titleOf = (name) => element("h4", {class: "beside-title"}, labelOf(name));

  function columnHead(name, names) {
    const drop = () => {
      const left = names.filter((other) => other !== name);
      const {panes: now, tab} = store.get();
      store.set({panes: {...now, levels: left}, tab: tab === name ? left[0] : tab});
    };
    return element(
      "div",
      {class: "column-head"},
      titleOf(name),
      element("span", {class: "grow"}),
      button("×", `take ${labelOf(name)} away`, drop, {
        class: "icon drop-level",
        "aria-label": `take ${labelOf(name)} away`,
      }),
    );
  }

  // What the selection is in the current pass, and in the program that runs.
  async function resolve(state) {
    const graph = await data.graphOfPass(state.pass);
    const before = await data.graphOfPass(Math.max(0, state.pass - 1));
    const details = await data.passDetails(state.pass);
    const here = data.followInGraph(state.selection, graph);
    const record =
      graph.nodes.get(here[0]) ||
      before.nodes.get(state.selection) ||
      data.latest.get(state.selection) ||
      null;
    const launches = state.selection === null ? [] : data.followToLaunches(state.selection);
    const kernel = launches.length ? data.kernelOf.get(launches[0]) : undefined;
    const lines = await data.sourceLines();
    const line = await data.lineAt(state.line);
    const notePicked = (pane) => {
      picked = pane;
    };
    const known = {state, graph, before, details, here, launches, lines, line, notePicked};
    const block = data.blocks?.indexOf(state.selection);
    if (block !== undefined)
      return {...known, record: null, block, kernel: undefined, isGone: false, sources: []};
    const isHere = graph.nodes.has(state.selection) || !here.length;
    return {
      ...known,
      record,
      kernel,
      isGone: !here.length && state.selection !== null,
      sources: isHere ? (record?.sources ?? []) : sourcesOf(state.selection, here, graph),
    };
  }

  // Nodes of the model that the selection comes from where others stand for it: those of the one
  // that is meant first, and its own ones as far as they are here.
  function sourcesOf(selection, [first, ...others], graph) {
    const own = new Set(data.sourcesOf(selection));
    return [
      ...new Set([
        ...graph.nodes.get(first).sources,
        ...others.flatMap((id) => graph.nodes.get(id).sources).filter((name) => own.has(name)),
      ]),
    ];
  }

  // An NPU's kernel has no loops; a saved trace may be without assembly.
  function levelsWithout({kernel}) {
    if (kernel === undefined || app.session?.isPending("assembly")) return [];
    const {steps, assembly} = data.kernels[kernel];
    return [...(steps ? [] : ["loops"]), ...(assembly ? [] : ["assembly"])];
  }

  // ---- tabs

  async function tabView(tab, context) {
    if (tab === "ir") return irView(context);
    if (tab === "model") return modelView(app, context);
    if (tab === "fork") return forkView(app, context);
    if (context.block !== undefined) return blockView(app, context, tab);
    if (context.state.selection === null) {
      return {
        node: emptyState(
          "Nothing is selected",
          "Click an operation in the graph, or press / and type a part of its name: its origin, " +
            "the rules that made it, its loops, its source and its errors appear here.",
        ),
      };
    }
    if (tab === "operation") return operationView(app, context);
    if (tab === "tensors") return tensorsView(app, context);
    if (context.kernel === undefined) return {node: withoutKernel(context)};
    const kernel = await data.kernel(context.kernel);
    if (tab === "other")
      return linkedBuild(app, context, await elsewhereView(app, context, kernel));
    if (tab === "loops") return loopsView(app, context, kernel);
    if (tab === "c") return sourceView(app, context, kernel, kernel.source, data.sourceLanguage());
    if (kernel.assembly)
      return sourceView(app, context, kernel, kernel.assembly, "assembly", kernel.assemblyNote);
    if (app.session?.isPending("assembly"))
      return {
        node: emptyState(
          "Being disassembled",
          "What the machine runs comes last, after errors and times.",
        ),
      };
    return {
      node: emptyState(
        "No assembly in this trace",
        kernel.assemblyNote ||
          "The program was not disassembled: in a notebook, c.assembly() does it. The source " +
            `under "${data.sourceLanguage()}" is what the device's compiler gets.`,
      ),
    };
  }

  function withoutKernel(context) {
    const {record} = context;
    if (app.session?.isPending("program"))
      return emptyState(
        "Kernels are being made",
        "The passes are done; their kernels are printed now.",
      );
    if (!data.kernels.length)
      return emptyState(
        "No kernels in this trace",
        "The compilation stopped before kernels were made. Choose a target that generates code.",
      );
    if (record && ["input", "output", "weight"].includes(record.family))
      return emptyState(
        "No code of its own",
        `${record.id} is a place in memory: it is read or written by the kernels that use it.`,
      );
    return emptyState(
      "No code of its own",
      "Nothing of this operation is left to run: it became part of another one, or only " +
        "another view of the same memory.",
    );
  }

  async function irView(context) {
    const {state, graph, before, here} = context;
    const snapshot = data.head.passes[state.pass].snapshot;
    const previous = data.head.passes[Math.max(0, state.pass - 1)].snapshot;
    const which = state.view === "before" ? previous : snapshot;
    const text = await data.text(which);
    const isDiff = state.view === "diff" && snapshot !== previous;
    const ofLine = (context.line?.all ?? []).flatMap(
      (name) => data.operationsBySource(graph).get(name) ?? [],
    );
    const selected = new Set([state.selection, ...here, ...ofLine]);
    const isMarked = (owners) => owners.some((owner) => selected.has(owner));
    // Another selection in the same text only moves the marks.
    const key = `${which}/${isDiff}/${state.pass}`;
    if (drawnText?.key !== key) {
      drawnText = {
        key,
        pane: codePane({
          entries: isDiff ? differenceEntries(await data.text(previous), text) : entriesOf(text),
          language: text.language,
          label: "IR",
          hueOf: hueOfOperations(),
          lookOf: (owners) =>
            familyClass(graph.nodes.get(owners[0]) ?? before.nodes.get(owners[0])),
          onhover: (owners) => app.hover.set(owners, [], {from: drawnText.pane}),
          onpick: (owners) => {
            picked = drawnText.pane;
            app.select(owners.find((owner) => graph.nodes.has(owner)) ?? owners[0], "ir");
          },
        }),
      };
    }
    const {pane} = drawnText;
    const edited = state.view === "before" ? Math.max(0, state.pass - 1) : state.pass;
    // A mark is an addition: where none can be had the lines say what differs.
    if (isDiff) markWords(pane, data, state.pass).catch(() => {});
    const shown = isDiff
      ? `difference made by ${data.head.passes[state.pass].name}`
      : `${state.view === "before" ? "before" : "after"} ${data.head.passes[state.pass].name}`;
    return {
      panes: [
        {
          pane,
          isMarked,
          linked: ({operations}) =>
            operations.size ? (owners) => owners.some((owner) => operations.has(owner)) : null,
        },
      ],
      node: element(
        "div",
        {class: "code-host"},
        codeBar(
          app,
          `${countText(text.lines.length, "line")}, ${shown}`,
          text,
          data.head.passes[state.pass].level === "top" ? await linkShare(app, "top") : null,
          canEditIr(app, edited)
            ? button(
                "edit",
                `change the program after ${data.head.passes[edited].name}, and compile from there`,
                () => openIrEditor(app, edited),
                {class: "quiet edit-ir"},
              )
            : null,
        ),
        pane.node,
      ),
    };
  }

  app.hover.subscribe((hover) => {
    for (const {pane, linked} of panes) {
      pane.hover(linked(hover));
      if (hover.from && hover.from !== pane) pane.follow();
    }
  });
  store.subscribe((state, changed) => {
    const kernelOnly = state.tab === "loops" || (state.beside && nextLevel(state.tab) === "loops");
    const usesView = state.tab === "ir" || (state.beside && nextLevel(state.tab) === "ir");
    if (
      RELEVANT.some((name) => changed.has(name)) ||
      (changed.has("step") && kernelOnly) ||
      (changed.has("view") && usesView)
    )
      update();
  });
  inStep(
    bodies,
    () => panes.map(({pane}) => pane),
    () => store.get().panes.inStep,
  );
  // Another width has room for another number of levels.
  if (typeof ResizeObserver === "function")
    new ResizeObserver(() => {
      const {panes: now, tab} = store.get();
      if (
        node.clientWidth &&
        shownLevels !== (levelsShown(now, tab, node.clientWidth, {hasLines, absent}) ?? []).join()
      )
        update(true);
    }).observe(node);
  return {
    node,
    update,
    codePanes: () => panes.map(({pane, level}) => ({pane, level})),
    // A line of a level: {selection, tab, step, view} is where it stands.
    goToLine(where, line) {
      awaited = {level: where.tab, line};
      app.workspace.show("inspector");
      store.set({rewrite: null, ...where});
      update();
    },
    markFound(query) {
      for (const {pane} of panes) pane.find(query);
    },
    // The line to find text in the pane that has the pointer or the focus; false where none is.
    find() {
      const focused = bodies.getRootNode().activeElement;
      const chosen =
        panes.find(({pane}) => pane.node.parentElement?.contains(focused)) ??
        panes.find(({pane}) => pane.node.parentElement?.matches(":hover")) ??
        panes.find(({level}) => level === store.get().tab) ??
        panes[0];
      if (!chosen || !chosen.pane.node.offsetParent) return false;
      openFind(chosen.pane);
      return true;
    },
  };
}

// Operations of a text have colours in turn, so that neighbours differ.
function hueOfOperations() {
  const hues = new Map();
  return (/** @type {string[]} */ [owner]) => {
    if (!hues.has(owner)) hues.set(owner, hues.size % HUES);
    return hues.get(owner);
  };
}
