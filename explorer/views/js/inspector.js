// One operation: where it comes from, which rules made it, what it is in this pass, and what it
// becomes: IR, loops, source, assembly, with its lines marked; and the errors of its tensor.

import {codeBar, codePane, differenceEntries, entriesOf} from "./code.js";
import {button, element, emptyState, markTab, replace, section, tabRow} from "./dom.js";
import {forkView, leaveOut} from "./fork.js";
import {loopsView, sourceView} from "./levels.js";
import {familyClass, linkShare, modelView} from "./links.js";
import {
  MINUS,
  amountText,
  bytesText,
  countText,
  errorText,
  exactText,
  percentText,
  secondsText,
} from "./numbers.js";
import {ruleLink} from "./rule.js";
import {clip, safeName} from "./scene.js";
import {columnsOf, tensorsView} from "./tensors.js";
import {LOOK} from "./theme.js";

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
const MOST_LISTED = 200;
const MOST_CHIPS = 12;
const MOST_SIZES = 4; // of symbolic dimensions that are named in a sentence
const MOST_DELTA = 2000; // characters of an operation's text in a rewrite
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
      const subject = await subjectOf(context);
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

  // ---- head: origin, makers

  async function subjectOf(context) {
    const {state, record, details} = context;
    if (state.rewrite !== null && details.events[state.rewrite])
      return [
        rewriteCard(details.events[state.rewrite], state.pass),
        record ? await subjectLines(context) : null,
      ];
    if (context.block !== undefined) return blockLines(context);
    if (!record) return nothingSelected();
    return subjectLines(context);
  }

  async function subjectLines(context) {
    const {state, record, here} = context;
    const family = app.look.family(record.family);
    const moved =
      here.length && here[0] !== state.selection
        ? element(
            "p",
            {class: "hint"},
            `${state.selection} stands here as ${here.slice(0, 3).join(", ")}`,
            here.length > 3 ? ` and ${here.length - 3} more` : "",
          )
        : context.isGone
          ? element(
              "p",
              {class: "hint"},
              `${state.selection} is not in the program after this pass`,
            )
          : null;
    const sourceNodes = await data.sourceNodes();
    const chips = record.sources.slice(0, MOST_CHIPS).map((name) =>
      element(
        "button",
        {
          type: "button",
          class: "chip origin",
          title: clip(sourceNodes.get(name)?.text || "a node of the model file", 600),
          onclick: () => app.selectSource(name),
        },
        clip(name, 36),
      ),
    );
    const makers = await makersOf(record, state.pass);
    return [
      element(
        "div",
        {class: "subject-name"},
        element(
          "span",
          {class: `swatch family-${safeName(record.family)}`, title: family.title},
          family.glyph,
        ),
        element("h2", {}, record.id),
        element("span", {class: "mono quiet-text"}, record.operation),
        element("span", {class: "grow"}),
        button("copy", "copy the operation's name", () => app.copy(record.id), {class: "quiet"}),
      ),
      moved,
      record.problem
        ? element(
            "p",
            {class: "reason-line ink-unsupported"},
            `${LOOK.unsupported.glyph} Cannot be imported: ${record.problem}`,
          )
        : null,
      element(
        "div",
        {class: "origin-row"},
        element("span", {class: "row-label"}, "from"),
        chips.length
          ? chips
          : element("span", {class: "quiet-text"}, "no node of the model: the compiler added it"),
        record.sources.length > MOST_CHIPS
          ? element(
              "span",
              {class: "quiet-text"},
              `and ${record.sources.length - MOST_CHIPS} more; all stand under the tab model`,
            )
          : null,
      ),
      element(
        "div",
        {class: "origin-row"},
        element("span", {class: "row-label"}, "made by"),
        makers.length
          ? makers
          : element(
              "span",
              {class: "quiet-text"},
              record.operation.startsWith("source.") ? "the model's author" : "import",
            ),
      ),
    ];
  }

  // Rules that produced the operation or changed it up to this pass, newest last.
  async function makersOf(record, pass) {
    const made = (await data.makersOf(record.id)).filter(([index]) => index <= pass);
    const rules = await Promise.all(
      made.map(async ([index, event]) => (await data.passDetails(index)).events[event].rule),
    );
    return made.map(([index, event], position) => {
      const {name} = data.head.passes[index];
      const rule = data.rules.get(rules[position]);
      return element(
        "button",
        {
          type: "button",
          class: "chip maker",
          title: [
            `${rules[position]} in ${name}`,
            rule?.explanation || "",
            rule?.source || "",
          ].join("\n\n"),
          onclick: () => store.set({pass: index, rewrite: event}),
        },
        name,
      );
    });
  }

  function blockLines({block, here}) {
    return element(
      "div",
      {class: "subject-name"},
      element("span", {class: "swatch family-block"}, app.look.family("block").glyph),
      element("h2", {}, data.blocks.labels[block]),
      element(
        "span",
        {class: "quiet-text"},
        `block, ${countText(here.length, "operation")} after this pass`,
      ),
      element("span", {class: "grow"}),
      button(
        "open or close",
        "open or close this block in the graph (e)",
        () => app.graph.toggleBlock(`#${block}`),
        {class: "quiet"},
      ),
    );
  }

  function nothingSelected() {
    const {head: all} = data;
    const follow = app.followButton({class: "primary"});
    return element(
      "div",
      {class: "welcome"},
      element("h2", {}, all.model.name),
      element(
        "p",
        {},
        `${[all.model.format, clip(all.model.producer, 60)].filter(Boolean).join(" from ")}: ` +
          `${countText(all.model.nodes, "node")}, ${amountText(all.model.parameters)} ` +
          `parameters, ${madeOf(all)}`,
      ),
      element(
        "p",
        {},
        "Select an operation in the graph, or press / to search. Its origin, the rules that " +
          "made it, its loops, its source and its errors appear here.",
      ),
      follow ? element("div", {class: "actions"}, follow) : null,
    );
  }

  const madeOf = (all) => {
    const compiled = all.passes.filter((pass) => pass.level !== "source");
    return compiled.length
      ? `compiled by ${countText(compiled.length, "pass", "passes")} into ` +
          `${countText(data.kernels.length, "kernel")} for ${all.target}${withSizes(all)}.`
      : all.problems?.reasons.length
        ? "not compiled, for not all of it is supported."
        : "opened, and not compiled.";
  };

  // Sizes of symbolic dimensions; the fork tab changes them.
  const withSizes = ({sizes = []}) =>
    sizes.length
      ? `, with ${sizes
          .slice(0, MOST_SIZES)
          .map(([name, size]) => `${clip(name, 24)} = ${size}`)
          .join(", ")}${sizes.length > MOST_SIZES ? " …" : ""}`
      : "";

  // Only the app can compile again, and what lowering needs cannot be left out.
  const mayLeaveOut = (event, pass) =>
    event.applied && app.session?.isOptional(data.head.passes[pass].name);

  function rewriteCard(event, pass) {
    const about = data.rules.get(event.rule);
    const line = (kind, sign) => (text) =>
      element("div", {class: `delta ${kind}`}, `${sign} ${clip(text, MOST_DELTA)}`);
    const names = (list) => [
      list.slice(0, MOST_CHIPS).map((id) =>
        element(
          "button",
          {
            type: "button",
            class: "chip mono",
            title: "select it; hovering shows it in the graph",
            onclick: () => app.select(id, "inspector"),
            onmouseenter: () => app.hover.set([id], []),
            onmouseleave: () => app.hover.set([], []),
          },
          clip(id, 36),
        ),
      ),
      list.length > MOST_CHIPS
        ? element("span", {class: "quiet-text"}, `and ${list.length - MOST_CHIPS} more`)
        : null,
    ];
    return element(
      "div",
      {class: `rewrite-card ${event.applied ? "" : "refused"}`},
      element(
        "div",
        {class: "subject-name"},
        element("strong", {}, event.rule),
        element(
          "span",
          {class: "quiet-text"},
          event.applied ? `rewrote ${event.site}` : `declined at ${event.site}`,
        ),
        element("span", {class: "grow"}),
        mayLeaveOut(event, pass)
          ? button("fork without it", event.address, () => leaveOut(app, event.address), {
              class: "quiet",
            })
          : null,
        button("×", "close this rewrite", () => store.set({rewrite: null}), {class: "icon"}),
      ),
      event.applied ? null : element("p", {class: "reason-line"}, event.reason),
      element("p", {class: "explanation"}, about?.explanation || ""),
      element(
        "div",
        {class: "origin-row"},
        element("span", {class: "row-label"}, "matched"),
        names(event.matched.length ? event.matched : [event.site]),
        event.produced.length
          ? [element("span", {class: "row-label made"}, "made"), names(event.produced)]
          : null,
      ),
      element(
        "div",
        {class: "deltas mono"},
        event.removed.map(([id, text]) => line("removed", MINUS)(`${id} = ${text}`)),
        event.added.map(([id, text]) => line("added", "+")(`${id} = ${text}`)),
        event.changed.flatMap(([id, was, now]) => [
          line("removed", MINUS)(`${id} = ${was}`),
          line("added", "+")(`${id} = ${now}`),
        ]),
      ),
      element(
        "p",
        {class: "quiet-text mono address"},
        `${event.address} · `,
        ruleLink(app, event.rule),
      ),
    );
  }

  // ---- tabs

  async function tabView(tab, context) {
    if (tab === "ir") return irView(context);
    if (tab === "model") return modelView(app, context);
    if (tab === "fork") return forkView(app, context);
    if (context.block !== undefined) return blockView(context, tab);
    if (context.state.selection === null) {
      return {
        node: emptyState(
          "Nothing is selected",
          "Click an operation in the graph, or press / and type a part of its name.",
          app.followButton(),
        ),
      };
    }
    if (tab === "operation") return operationView(context);
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

  // What stands in a block, by its name, and how much of each kind.
  function blockView({here, graph}, tab) {
    if (tab !== "operation")
      return {
        node: emptyState(
          "A block is many operations",
          "Select one of them: open the block with e, or choose one under the tab of operations.",
          button("operations", "list what is inside", () => store.set({tab: "operation"})),
        ),
      };
    const kinds = new Map();
    for (const id of here) {
      const {operation} = graph.nodes.get(id);
      kinds.set(operation, (kinds.get(operation) || 0) + 1);
    }
    const shown = here.slice(0, MOST_LISTED);
    return {
      node: element(
        "div",
        {class: "scroll padded"},
        section(
          "Kinds",
          element(
            "dl",
            {class: "facts"},
            [...kinds]
              .sort((a, b) => b[1] - a[1])
              .map(([kind, count]) => [
                element("dt", {class: "mono"}, kind),
                element("dd", {}, exactText(count)),
              ]),
          ),
        ),
        section(
          "Operations",
          element(
            "ul",
            {class: "plain"},
            shown.map((id) =>
              element(
                "li",
                {},
                element(
                  "button",
                  {type: "button", class: "link mono", onclick: () => app.select(id, "inspector")},
                  id,
                ),
                " ",
                element("span", {class: "quiet-text"}, graph.nodes.get(id).label),
              ),
            ),
          ),
          here.length > shown.length
            ? element(
                "p",
                {class: "cap"},
                `${here.length - shown.length} more are not listed; search finds them`,
              )
            : null,
        ),
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

  function operationView(context) {
    const {record, graph, details, before} = context;
    if (!record)
      return {
        node: emptyState(
          "Not in this trace",
          "The link names an operation that this compilation doesn't have.",
        ),
      };
    const id = record.id;
    const operation = (name) =>
      element(
        "button",
        {type: "button", class: "link mono", onclick: () => app.select(name, "inspector")},
        name,
      );
    const edgeList = (edges, end) =>
      (edges || []).map((edge) =>
        element(
          "li",
          {},
          operation(edge[end]),
          " ",
          element("span", {class: "quiet-text mono"}, edge.type),
        ),
      );
    const at = graph.nodes.has(id) ? graph : before;
    const operands = edgeList(at.operands.get(id), "source"),
      uses = edgeList(at.uses.get(id), "target");
    const changed = details.diff.changed.filter((change) => change[0] === id);
    const fused = details.diff.fused.find(([name]) => name === id);
    const place = element("dl", {class: "facts"});
    const facts = (list) =>
      element(
        "dl",
        {class: "facts"},
        list
          .filter(Boolean)
          .map(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]),
      );
    describePlace(app, context, place);
    return {
      node: element(
        "div",
        {class: "scroll padded"},
        facts([
          ["result", element("span", {class: "mono"}, record.shape)],
          data.devices.size > 1 && ["device", record.device],
          record.scope && ["scope", record.scope],
        ]),
        changed.length || fused
          ? section(
              "In this pass",
              fused
                ? element(
                    "p",
                    {},
                    "took over ",
                    fused[1].map((name, index) => [index ? ", " : "", operation(name)]),
                  )
                : null,
              changed.map((change) =>
                element(
                  "div",
                  {class: "field-change mono"},
                  element("span", {class: "row-label"}, change[1]),
                  " ",
                  element("span", {class: "was"}, change[2]),
                  " → ",
                  element("span", {class: "now"}, change[3]),
                ),
              ),
            )
          : null,
        record.attributes.length
          ? section(
              "Attributes",
              facts(
                record.attributes.map(([name, value]) => [
                  name,
                  element("span", {class: "mono"}, value),
                ]),
              ),
            )
          : null,
        operands.length ? section("Operands", element("ul", {class: "plain"}, operands)) : null,
        uses.length ? section("Used by", element("ul", {class: "plain"}, uses)) : null,
        section("In the program that runs", place),
      ),
    };
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

// Kernel, place in memory, time and error: filled in as they arrive.
function describePlace(app, context, host) {
  const {data, store} = app;
  const add = (name, ...value) => host.append(element("dt", {}, name), element("dd", {}, value));
  const {launches, kernel} = context;
  if (kernel !== undefined) {
    const name = data.kernels[kernel].name;
    add(
      "kernel",
      element(
        "button",
        {type: "button", class: "link mono", onclick: () => store.set({tab: "c"})},
        name,
      ),
    );
  }
  const operation = launches[0] ?? context.record.id;
  const jobs = [];
  if (data.head.has.memory) {
    jobs.push(
      data.memory().then((memory) => {
        const buffer = memory.bufferOf.get(operation) || memory.bufferOf.get(context.record.id);
        if (!buffer) return;
        add(
          "memory",
          element(
            "button",
            {type: "button", class: "link", onclick: () => store.set({dock: "memory"})},
            `${bytesText(buffer.size)} at ${exactText(buffer.offset)}`,
          ),
          element(
            "span",
            {class: "quiet-text"},
            `, live in steps ${buffer.first} to ${buffer.last - 1}`,
          ),
        );
      }),
    );
  }
  if (data.head.has.profile) {
    jobs.push(
      data.profile().then((profile) => {
        const total = profile.events.reduce((sum, event) => sum + event.end - event.start, 0);
        const spent = profile.events
          .filter((event) => event.operation === operation)
          .reduce((sum, event) => sum + event.end - event.start, 0);
        if (spent)
          add(
            "time",
            element(
              "button",
              {type: "button", class: "link", onclick: () => store.set({dock: "timeline"})},
              secondsText(spent / 1e9),
            ),
            element("span", {class: "quiet-text"}, `, ${percentText(spent / total)} of all`),
          );
      }),
    );
  }
  if (data.head.has.accuracy) {
    jobs.push(
      data.accuracy().then((accuracy) => {
        const column = columnsOf(
          app,
          accuracy,
          accuracy.accumulated,
          context.state,
          context.here,
        )[0];
        const row = accuracy.accumulated.find((item) => item.pass === context.state.pass);
        const value = column === undefined || !row ? null : row.values[column];
        if (value !== null && value !== undefined)
          add(
            "error",
            element(
              "button",
              {type: "button", class: "link", onclick: () => store.set({tab: "tensors"})},
              errorText(value),
            ),
            element(
              "span",
              {class: "quiet-text"},
              ` of ${accuracy.tensors[column]} after this pass`,
            ),
          );
      }),
    );
  }
  Promise.allSettled(jobs).then(() => {
    if (!host.childElementCount)
      host.replaceWith(
        element("p", {class: "quiet-text"}, "Nothing of it is left to run by itself."),
      );
  });
}
