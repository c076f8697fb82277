// One operation: where it comes from, which rules made it, what it is in this pass, and what it
// becomes: IR, loops, source, assembly, with its lines marked; and the errors of its tensor.

import {codeBar, codePane, differenceEntries, entriesOf} from "../code/code.js";
import {button, element, emptyState, markTab, replace, tabRow} from "../ground/dom.js";
import {forkView} from "../branches/fork.js";
import {loopsView, sourceView} from "../code/levels.js";
import {familyClass, linkShare, modelView} from "../code/links.js";
import {countText} from "../ground/numbers.js";
import {blockView, operationView} from "./operation.js";
import {subjectOf} from "./subject.js";
import {tensorsView} from "../measures/tensors.js";

export const TABS = [
  {
    id: "operation",
    key: "1",
    label: "operation",
    title: "what it is and what it is connected with (1)",
  },
  {id: "model", key: "0", label: "model", title: "the nodes of the model file (0)"},
  {id: "ir", key: "2", label: "IR", title: "the intermediate representation after this pass (2)"},
  {id: "loops", key: "3", label: "loops", title: "the loop nest, step by step (3)"},
  {id: "c", key: "4", label: "C", title: "the source that is compiled (4)"},
  {id: "assembly", key: "5", label: "asm", title: "what the machine runs (5)"},
  {id: "tensors", key: "6", label: "tensors", title: "errors of its tensor after every pass (6)"},
];
const FORK_TAB = {id: "fork", label: "fork", title: "change decisions and compile again (f)"};

// What stands below a tab when the next level is shown beside it.
const NEXT_LEVEL = {
  operation: "ir",
  model: "ir",
  ir: "loops",
  loops: "c",
  c: "assembly",
  assembly: "c",
  tensors: "ir",
  fork: "loops",
};

export function inspectorPane(app) {
  const {data, store} = app;
  const head = element("div", {class: "subject"});
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
  const split = button(
    "⊟",
    "show the next level below (b)",
    () => store.set({beside: !store.get().beside}),
    {class: "icon split"},
  );
  const main = element("div", {class: "tab-body", role: "tabpanel"});
  const beside = element("div", {
    class: "tab-body beside",
    role: "region",
    "aria-label": "next level",
    hidden: true,
  });
  const node = element(
    "section",
    {class: "pane inspector", "aria-label": "inspector"},
    head,
    element("div", {class: "tab-bar"}, tabs, element("span", {class: "grow"}), split),
    main,
    beside,
  );
  let panes = []; // code panes on the screen: {pane, isMarked(owners)}
  let drawnText = null; // {key, pane} of the IR that was drawn last
  let turn = 0;

  // `isQuiet`: the same subject, of which more is known; what is read stays where it is.
  async function update(isQuiet = false) {
    turn += 1;
    const mine = turn;
    const scroll = isQuiet
      ? ((main.querySelector(".code") ?? main.querySelector(".scroll"))?.scrollTop ?? 0)
      : 0;
    const asked = store.get();
    // Only the app can compile: a link from there opens the first tab here.
    const state = levels.some((tab) => tab.id === asked.tab) ? asked : {...asked, tab: "operation"};
    markTab(tabs, state.tab);
    split.setAttribute("aria-pressed", String(state.beside));
    const isCurrent = () => mine === turn;
    try {
      const context = await resolve(state);
      if (!isCurrent()) return;
      const subject = await subjectOf(app, context);
      if (isQuiet && state.tab === "fork" && main.contains(main.getRootNode().activeElement))
        return;
      const views = [await tabView(state.tab, context)];
      // What two levels would say alike of their emptiness is said once.
      const next = state.beside ? await tabView(NEXT_LEVEL[state.tab], context) : null;
      if (
        next &&
        (next.panes || views[0].panes || next.node.textContent !== views[0].node.textContent)
      )
        views.push(next);
      if (!isCurrent()) return;
      replace(head, subject);
      // Moving a node resets it.
      const scrolled = panes.map(({pane}) => [pane.node, pane.node.scrollTop]);
      panes = views.flatMap((view) => view.panes || []);
      replace(main, views[0].node);
      beside.hidden = views.length < 2;
      node.classList.toggle("split", views.length > 1);
      if (views.length > 1)
        replace(
          beside,
          element(
            "h4",
            {class: "beside-title"},
            levels.find((tab) => tab.id === NEXT_LEVEL[state.tab])?.label,
          ),
          views[1].node,
        );
      for (const [code, top] of scrolled) if (code.isConnected) code.scrollTop = top;
      for (const {pane, isMarked} of panes) {
        pane.mark(isMarked);
        if (!isQuiet) pane.reveal();
      }
      if (scroll)
        (main.querySelector(".code") ?? main.querySelector(".scroll") ?? main).scrollTop = scroll;
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
    }
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
    const block = data.blocks?.indexOf(state.selection);
    if (block !== undefined)
      return {
        state,
        graph,
        before,
        details,
        here,
        record: null,
        block,
        launches,
        kernel: undefined,
        isGone: false,
      };
    return {
      state,
      graph,
      before,
      details,
      here,
      record,
      launches,
      kernel,
      isGone: !here.length && state.selection !== null,
    };
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
          "Click an operation in the graph, or press / and type a part of its name.",
          app.followButton(),
        ),
      };
    }
    if (tab === "operation") return operationView(app, context);
    if (tab === "tensors") return tensorsView(app, context);
    if (context.kernel === undefined) return {node: withoutKernel(context)};
    const kernel = await data.kernel(context.kernel);
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
    const selected = new Set([state.selection, ...here]);
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
          lookOf: (owners) =>
            familyClass(graph.nodes.get(owners[0]) ?? before.nodes.get(owners[0])),
          onhover: (owners) => app.hover.set(owners, [], {from: drawnText.pane}),
          onpick: (owners) =>
            app.select(owners.find((owner) => graph.nodes.has(owner)) ?? owners[0], "ir"),
        }),
      };
    }
    const {pane} = drawnText;
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
    const relevant = ["pass", "selection", "tab", "beside", "rewrite", "mode"];
    const kernelOnly = state.tab === "loops" || (state.beside && NEXT_LEVEL[state.tab] === "loops");
    const usesView = state.tab === "ir" || (state.beside && NEXT_LEVEL[state.tab] === "ir");
    if (
      relevant.some((name) => changed.has(name)) ||
      (changed.has("step") && kernelOnly) ||
      (changed.has("view") && usesView)
    )
      update();
  });
  return {node, update};
}
