// What is looked at, above the tabs of the inspector: an operation, a block or a rewrite, where it
// comes from and which rules made it.

import {tailOf} from "../measures/column_names.js";
import {button, element, replace} from "../ground/dom.js";
import {leaveOut} from "../branches/draft.js";
import {MINUS, amountText, countText} from "../ground/numbers.js";
import {lineRow} from "../code/line_provenance.js";
import {rowsTable} from "../code/rows.js";
import {ruleLink} from "../code/rule.js";
import {clip, safeName} from "../ground/scene.js";
import {LOOK} from "../theme.js";

const MAX_CHIPS = 12;
const MAX_SIZES = 4; // of symbolic dimensions that are named in a sentence
const MAX_ROWS = 30; // of a rewrite's lines; the tab of rewrites has all
const MAX_DELTA = 2000; // characters of an operation's text in a rewrite

// The lines of it, or what stands there while nothing is selected.
export async function subjectOf(app, context) {
  const {state, record, details} = context;
  if (state.rewrite !== null && details.events[state.rewrite])
    return [
      rewriteCard(app, details.events[state.rewrite], state.pass),
      record ? await subjectLines(app, context) : null,
    ];
  if (context.block !== undefined) return blockLines(app, context);
  if (!record) return nothingSelected(app);
  return subjectLines(app, context);
}

async function subjectLines(app, context) {
  const {data} = app;
  const {state, record, here, sources} = context;
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
        ? element("p", {class: "hint"}, `${state.selection} is not in the program after this pass`)
        : null;
  const sourceNodes = await data.sourceNodes();
  const chips = sources.slice(0, MAX_CHIPS).map((name) =>
    element(
      "button",
      {
        type: "button",
        class: "chip origin",
        title: clip(sourceNodes.get(name)?.text || "a node of the model file", 600),
        onclick: () => app.selectSource(name),
      },
      tailOf(name, 36),
    ),
  );
  const makers = await makersOf(app, record, state.pass);
  const layer = data.layerName(record.id);
  return [
    layer === record.id
      ? null
      : element("div", {class: "layer-name", title: layer}, tailOf(layer, 60)),
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
      element("span", {class: chips.length ? "" : "quiet-text"}, originOf(app, record, chips)),
      sources.length > MAX_CHIPS
        ? element(
            "span",
            {class: "quiet-text"},
            `and ${sources.length - MAX_CHIPS} more; all stand under the tab model`,
          )
        : null,
    ),
    lineRow(app, context),
    element(
      "div",
      {class: "origin-row"},
      element("span", {class: "row-label"}, "made by"),
      element(
        "span",
        {class: makers.length ? "" : "quiet-text"},
        makerOf(app, record, context, makers),
      ),
    ),
  ];
}

// Where it comes from: nodes of the model file; of an input or output, its place in the model.
function originOf(app, record, chips) {
  const {model} = app.data.head;
  const named = (list, name) => list.find(([known]) => known === name)?.[0];
  if (record.family === "output") {
    const number = Number(/^output(\d+)$/.exec(record.id)?.[1] ?? 0);
    const name = named(model.outputs, record.id) ?? model.outputs[number - 1]?.[0];
    return name === undefined ? "an output of the model" : `the model's output ${clip(name, 60)}`;
  }
  if (record.family === "input") return `the model's input ${clip(record.label, 60)}`;
  return chips.length ? chips : "no node of the model: the compiler added it";
}

// Who made it; of an output, the operation whose result it is.
function makerOf(app, record, {graph, before}, makers) {
  if (makers.length) return makers;
  if (record.family === "input") return "whoever calls the program";
  const edges = (graph.nodes.has(record.id) ? graph : before).operands.get(record.id) ?? [];
  if (record.family === "output" && edges.length)
    return [
      "the result of ",
      button(edges[0].source, "select it", () => app.select(edges[0].source, "inspector"), {
        class: "link mono",
      }),
    ];
  return record.operation.startsWith("source.") ? "the model's author" : "import";
}

// Passes whose rewrites led to the operation up to this pass, through all that it was made of; the
// newest last.
async function makersOf(app, record, pass) {
  const {data, store} = app;
  const steps = new Map(); // pass -> [{event, made, rule}]
  for (const [index, event, made] of await data.makersOf(record.id)) {
    if (index > pass) continue;
    const {rule} = (await data.passDetails(index)).events[event];
    if (!steps.has(index)) steps.set(index, []);
    steps.get(index).push({event, made: made || record.id, rule});
  }
  return [...steps].map(([index, made], position) => {
    const {name} = data.head.passes[index];
    const newest = made[made.length - 1];
    const about = data.rules.get(newest.rule);
    const listed = made.slice(-MAX_CHIPS).map((step) => `${step.rule} made ${step.made}`);
    return [
      position ? element("span", {class: "quiet-text", "aria-hidden": "true"}, "›") : null,
      element(
        "button",
        {
          type: "button",
          class: "chip maker",
          title: [listed.join("\n"), about?.explanation || "", about?.source || ""].join("\n\n"),
          onclick: () => store.set({pass: index, rewrite: newest.event}),
        },
        name,
        made.length > 1 ? element("span", {class: "quiet-text"}, ` ×${made.length}`) : null,
      ),
    ];
  });
}

function blockLines(app, {block, here}) {
  const {data} = app;
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

function nothingSelected(app) {
  const {data} = app;
  const {head: all} = data;
  const producer = all.model.producer.replace(/\.$/, ""); // "MLIR Converted."
  const follow = app.followButton({class: "primary"});
  return element(
    "div",
    {class: "welcome"},
    element("h2", {}, all.model.name),
    element(
      "p",
      {},
      `${[all.model.format, clip(producer, 60)].filter(Boolean).join(" from ")}: ` +
        `${countText(all.model.nodes, "node")}, ${amountText(all.model.parameters)} ` +
        `parameters, ${madeOf(app, all)}`,
    ),
    follow ? element("div", {class: "actions"}, follow) : null,
  );
}

function rewriteCard(app, event, pass) {
  const {data, store} = app;
  const about = data.rules.get(event.rule);
  const line = (kind, sign) => (text) =>
    element("div", {class: `delta ${kind}`}, `${sign} ${clip(text, MAX_DELTA)}`);
  const names = (list) => [
    list.slice(0, MAX_CHIPS).map((id) =>
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
    list.length > MAX_CHIPS
      ? element("span", {class: "quiet-text"}, `and ${list.length - MAX_CHIPS} more`)
      : null,
  ];
  const deltas = element(
    "div",
    {class: "deltas mono"},
    event.removed.map(([id, text]) => line("removed", MINUS)(`${id} = ${text}`)),
    event.added.map(([id, text]) => line("added", "+")(`${id} = ${text}`)),
    event.changed.flatMap(([id, was, now]) => [
      line("removed", MINUS)(`${id} = ${was}`),
      line("added", "+")(`${id} = ${now}`),
    ]),
  );
  markChanges(app, event, pass, deltas).catch((failure) =>
    deltas.append(element("p", {class: "cap"}, `What differs is not marked: ${failure.message}`)),
  );
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
      mayLeaveOut(app, event, pass)
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
    deltas,
    element(
      "p",
      {class: "quiet-text mono address"},
      `${event.address} · `,
      ruleLink(app, event.rule),
    ),
  );
}

// The lines again, with what differs inside them marked, where the trace on this side has them.
async function markChanges(app, event, pass, host) {
  const frame = await app.data.frame(pass, event.index);
  const changed = (frame?.rows ?? []).filter(([kind]) => kind && kind !== "fold");
  if (!changed.length) return;
  const hidden = Math.max(0, changed.length - MAX_ROWS) + frame.hidden;
  const shown = changed.slice(0, MAX_ROWS);
  replace(host, rowsTable(shown, {isBeside: false, hidden, label: "lines of this rewrite"}));
}

function madeOf(app, all) {
  const compiled = all.passes.filter((pass) => pass.level !== "source");
  if (app.isRead) return "as its file has it; its passes still run.";
  if (!compiled.length)
    return !all.problems?.reasons.length
      ? "opened, and not compiled."
      : all.problems.nodes
        ? "not compiled, for not all of it is supported."
        : "not compiled, for the reason above.";
  // Before they are made there are none, which is no number of kernels.
  const isToCome = app.session?.isPending("program") && !app.data.kernels.length;
  const kernels = isToCome ? "kernels \u2026" : countText(app.data.kernels.length, "kernel");
  return (
    `compiled by ${countText(compiled.length, "pass", "passes")} into ${kernels} ` +
    `for ${all.target}${withSizes(all)}.`
  );
}

// Sizes of symbolic dimensions; the fork tab changes them.
function withSizes({sizes = []}) {
  if (!sizes.length) return "";
  const named = sizes.slice(0, MAX_SIZES).map(([name, size]) => `${clip(name, 24)} = ${size}`);
  return `, with ${named.join(", ")}${sizes.length > MAX_SIZES ? " …" : ""}`;
}

// Only the app can compile again, and what lowering needs cannot be left out.
function mayLeaveOut(app, event, pass) {
  return event.applied && app.session?.isOptional(app.data.head.passes[pass].name);
}
