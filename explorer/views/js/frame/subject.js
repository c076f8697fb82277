// What is looked at, above the tabs of the inspector: an operation, a block or a rewrite, where it
// comes from and which rules made it.

import {button, element} from "../ground/dom.js";
import {leaveOut} from "../branches/fork.js";
import {MINUS, amountText, countText} from "../ground/numbers.js";
import {ruleLink} from "../code/rule.js";
import {clip, safeName} from "../ground/scene.js";
import {LOOK} from "../theme.js";

const MOST_CHIPS = 12;
const MOST_SIZES = 4; // of symbolic dimensions that are named in a sentence
const MOST_DELTA = 2000; // characters of an operation's text in a rewrite

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
        ? element("p", {class: "hint"}, `${state.selection} is not in the program after this pass`)
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
  const makers = await makersOf(app, record, state.pass);
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
async function makersOf(app, record, pass) {
  const {data, store} = app;
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
        title: [`${rules[position]} in ${name}`, rule?.explanation || "", rule?.source || ""].join(
          "\n\n",
        ),
        onclick: () => store.set({pass: index, rewrite: event}),
      },
      name,
    );
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
        `parameters, ${madeOf(app, all)}`,
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

function rewriteCard(app, event, pass) {
  const {data, store} = app;
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

function madeOf(app, all) {
  const compiled = all.passes.filter((pass) => pass.level !== "source");
  if (!compiled.length)
    return all.problems?.reasons.length
      ? "not compiled, for not all of it is supported."
      : "opened, and not compiled.";
  const kernels = countText(app.data.kernels.length, "kernel");
  return (
    `compiled by ${countText(compiled.length, "pass", "passes")} into ${kernels} ` +
    `for ${all.target}${withSizes(all)}.`
  );
}

// Sizes of symbolic dimensions; the fork tab changes them.
function withSizes({sizes = []}) {
  if (!sizes.length) return "";
  const named = sizes.slice(0, MOST_SIZES).map(([name, size]) => `${clip(name, 24)} = ${size}`);
  return `, with ${named.join(", ")}${sizes.length > MOST_SIZES ? " …" : ""}`;
}

// Only the app can compile again, and what lowering needs cannot be left out.
function mayLeaveOut(app, event, pass) {
  return event.applied && app.session?.isOptional(app.data.head.passes[pass].name);
}
