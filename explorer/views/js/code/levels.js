// Levels of a kernel as text: the ladder of its schedule, its source, its assembly. A statement has
// the same colour at every level, and hovering it in one marks it in the others.

import {codeBar, codePane, differenceEntries, entriesOf} from "./code.js";
import {button, element, emptyState, replace} from "../ground/dom.js";
import {hottestInstruction, hottestLine} from "./hottest.js";
import {linkShare} from "./links.js";
import {madeFrom, pickedIn} from "./line_provenance.js";
import {instructionHelp} from "./instruction_help.js";
import {cyclesButton} from "./loop_cycles.js";
import {countText} from "../ground/numbers.js";
import {clip} from "../ground/scene.js";
import {sharesButton} from "./line_shares.js";
import {scheduleEditor} from "./schedule_editor.js";
import {scheduleSearch} from "./schedule_search.js";

const LISTING = "npu"; // instructions one after the other: it has no loops

function kernelLine(context, kernel) {
  const shared = kernel.operations.filter((name) => name !== context.launches[0]);
  return element(
    "div",
    {class: "kernel-line"},
    "kernel ",
    element("strong", {class: "mono"}, kernel.name),
    ` · ${kernel.kind}`,
    shared.length
      ? element(
          "span",
          {class: "quiet-text", title: clip(shared.join(", "), 600)},
          " · shared with ",
          shared.length === 1 ? shared[0] : countText(shared.length, "operation"),
        )
      : null,
    kernel.phases.length
      ? element(
          "span",
          {
            class: "quiet-text",
            title: clip(kernel.phases.map(([name, tasks]) => `${name}: ${tasks}`).join("\n"), 600),
          },
          ` · ${countText(
            kernel.phases.reduce((sum, [, tasks]) => sum + tasks, 0),
            "task",
          )}`,
        )
      : null,
  );
}

// The colour of a statement (init, main, epilogue ...) is the same at every level of a kernel.
// Statements that are only numbered (halo, halo2, halo3) share one.
export function statementHues(kernel) {
  const hues = new Map(),
    stages = new Map();
  for (const text of [kernel.source, ...kernel.steps.map((step) => step.text), kernel.assembly]) {
    for (const tag of (text?.owners || []).flat()) {
      const stage = stageOf(tag, kernel);
      if (!stages.has(stage)) stages.set(stage, stages.size % 6);
      hues.set(tag, stages.get(stage));
    }
  }
  return hues;
}

function stageOf(tag, kernel) {
  const name = tag.startsWith(`${kernel.name}/`) ? tag.slice(kernel.name.length + 1) : tag;
  return name.replace(/\d+$/, "");
}

function statementKey(app, hues, kernel) {
  if (!hues.size) return null;
  const stages = new Map();
  for (const tag of hues.keys()) {
    const stage = stageOf(tag, kernel);
    stages.set(stage, [...(stages.get(stage) || []), tag]);
  }
  return element(
    "div",
    {class: "statements"},
    [...stages].map(([stage, tags]) =>
      element(
        "span",
        {
          class: "statement",
          "data-hue": hues.get(tags[0]),
          title: clip(tags.join("\n"), 600),
          onmouseenter: () => app.hover.set([], tags),
          onmouseleave: () => app.hover.set([], []),
        },
        stage,
      ),
    ),
  );
}

export function statementPane(
  app,
  context,
  hues,
  entries,
  {language, label, start, onpick = (_tags) => {}},
) {
  const pane = codePane({
    entries,
    language,
    label,
    start,
    hueOf: (owners) => hues.get(owners[0]) ?? null,
    onhover: (tags) =>
      app.hover.set(tags.length ? [...context.launches.slice(0, 1), ...context.here] : [], tags, {
        from: pane,
      }),
    onpick,
  });
  return pane;
}

// What of a kernel's text belongs to what is hovered elsewhere: its statements and lines, or all of
// it where only the operation or its node is known.
function linkedStatements(context, hasLines) {
  const own = new Set([...context.launches.slice(0, 1), ...context.here]);
  return ({operations, tags}) => {
    if (tags.size) return ownedBy(tags, hasLines);
    return [...operations].some((operation) => own.has(operation))
      ? (owners) => owners.length > 0
      : null;
  };
}

// Lines that have one of the tags; where lines of source are among them, those alone.
function ownedBy(tags, hasLines) {
  const lines = new Set([...tags].filter((tag) => tag.startsWith("@")));
  const wanted = hasLines && lines.size ? lines : tags;
  return (owners) => owners.some((owner) => wanted.has(owner));
}

// What of a kernel's text was picked in it or at another level of it, or else all of it where it is
// made of the line of the author's program that was picked.
function marks(app, context, hasLines) {
  const {pin, isOfLine} = pickedIn(app, context);
  if (pin) return {isMarked: ownedBy(new Set(pin.tags), hasLines), isWhole: false, follows: true};
  return {isMarked: (owners) => isOfLine && owners.length > 0, isWhole: true, follows: false};
}

// Lines of source are tags too ("@12"), so that an instruction leads to the very lines that it
// comes from, where the device's compiler says so.
function linkedEntries(kernel, text) {
  if (!kernel.assemblyLines.length) return entriesOf(text);
  const isAssembly = text === kernel.assembly;
  return taggedEntries(
    text,
    isAssembly ? kernel.assemblyLines : text.lines.map((_, line) => [line]),
  );
}

export function taggedEntries(text, lines) {
  return entriesOf(text).map((entry, index) => ({
    ...entry,
    owners: [...entry.owners, ...(lines[index] || []).map((line) => `@${line}`)],
  }));
}

export async function sourceView(app, context, kernel, text, label, note = "") {
  const {revision} = app.data;
  app.drawnTexts ??= new Map(); // label -> the text that was drawn last, with what was asked of it
  let drawn = app.drawnTexts.get(label);
  if (drawn?.text !== text || drawn.revision !== revision) {
    drawn = {text, revision, ...(await drawSource(app, {...context}, kernel, text, label, note))};
    app.drawnTexts.set(label, drawn);
  }
  drawn.showFor(context);
  const hasLines = kernel.assemblyLines.length > 0;
  return {
    panes: [
      {
        pane: drawn.pane,
        key: `${label}/${kernel.name}`,
        ...marks(app, context, hasLines),
        linked: linkedStatements(context, hasLines),
      },
    ],
    node: drawn.node,
  };
}

// {pane, node, showFor(context)}: the same text may be shown for another selection.
async function drawSource(app, context, kernel, text, label, note) {
  const share = await linkShare(app, text === kernel.assembly ? "assembly" : "source", kernel.name);
  const hues = statementHues(kernel);
  const start = hottestOf(kernel, text);
  const pane = statementPane(app, context, hues, linkedEntries(kernel, text), {
    language: text.language,
    label,
    start,
    onpick: (tags) => {
      context.notePicked(pane);
      app.select(context.launches[0], "code", {pin: {kernel: kernel.name, tags}});
    },
  });
  const isAssembly = text === kernel.assembly;
  const head = element("div", {});
  const node = element(
    "div",
    {class: "code-host"},
    head,
    statementKey(app, hues, kernel),
    note ? element("p", {class: "cap"}, note) : null,
    codeBar(
      app,
      `${countText(text.lines.length, "line")} of ${label}`,
      text,
      share,
      hottestButton(pane, start),
      sharesButton(app, pane, kernel, isAssembly ? "assembly" : "source"),
      isAssembly
        ? cyclesButton(app, pane, text, start, {question: `asked/analysis/${context.kernel}`})
        : null,
    ),
    pane.node,
  );
  if (isAssembly) {
    const told = await app.data.instructions();
    instructionHelp(pane, told, told?.lines[kernel.name]);
  }
  return {
    pane,
    node,
    showFor(now) {
      Object.assign(context, now);
      replace(head, kernelLine(now, kernel), madeFrom(app, now));
    },
  };
}

/**
 * Other builds of the kernel, linked like its own assembly.
 *
 * @param {any} app
 * @param {any} context
 * @param {{pane?: any, key?: string, node: HTMLElement}} made
 */
export function linkedBuild(app, context, {pane, key, node}) {
  if (!pane) return {node};
  return {
    panes: [{pane, key, ...marks(app, context, true), linked: linkedStatements(context, true)}],
    node,
  };
}

// The line of a kernel's text where most of its time goes, -1 where that cannot be said.
function hottestOf(kernel, text) {
  if (text.language === LISTING) return -1;
  if (text !== kernel.assembly) return hottestLine(text);
  return hottestInstruction(text, kernel.assemblyLines, kernel.source);
}

export function hottestButton(pane, line) {
  if (line < 0) return null;
  return button(
    "hottest loop",
    "to the deepest loop of the statement with most operations, where this text opens",
    () => pane.showAt(line, pane.node.clientHeight / 3),
    {class: "quiet hottest"},
  );
}

function argumentsText(step, between) {
  return clip(step.arguments.map(([name, value]) => `${name} = ${value}`).join(between), 600);
}

export async function loopsView(app, context, kernel) {
  if (!kernel.steps.length && app.session?.isPending("kernels"))
    return {
      node: emptyState(
        "Being taken apart",
        "The schedule's steps are replayed one by one. The kernel's source stands under the " +
          "next tab already.",
      ),
    };
  if (!kernel.steps.length)
    return {
      node: emptyState(
        "No schedule was recorded",
        "The kernel's source stands under the next tab.",
      ),
    };
  const hues = statementHues(kernel);
  const last = kernel.steps.length - 1;
  const current = Math.min(context.state.step ?? last, last);
  const step = kernel.steps[current];
  const go = (index) => app.store.set({step: Math.max(0, Math.min(last, index))});
  const ladder = element(
    "ol",
    {class: "ladder", "aria-label": "schedule steps"},
    kernel.steps.map((item, index) =>
      element(
        "li",
        {},
        element(
          "button",
          {
            type: "button",
            class: "rung",
            "aria-current": index === current ? "step" : null,
            "data-step": index,
            title: argumentsText(item, "\n"),
            onclick: () => go(index),
          },
          item.name,
        ),
      ),
    ),
  );
  const slider = element("input", {
    type: "range",
    min: 0,
    max: last,
    step: 1,
    value: current,
    "aria-label": "schedule step",
    "aria-valuetext": step.name,
    oninput: (event) => go(Number(event.target.value)),
  });
  const before = current ? kernel.steps[current - 1].text : null;
  const entries = before ? differenceEntries(before, step.text) : entriesOf(step.text);
  const start = hottestOf(kernel, step.text);
  // A step that was chosen shows what it changed; else the nest opens where its time goes.
  const shown = context.state.step === null ? entriesOf(step.text) : entries;
  const pane = statementPane(app, context, hues, shown, {
    language: step.text.language,
    label: `loop nest after ${step.name}`,
    start,
  });
  requestAnimationFrame(() =>
    ladder
      .querySelector('[aria-current="step"]')
      ?.scrollIntoView({block: "nearest", inline: "nearest"}),
  );
  const same = before && entries.every((entry) => !entry.kind) ? " · same text as before" : "";
  return {
    panes: [
      {
        pane,
        key: `${kernel.name}/${context.state.step}`,
        ...marks(app, context, false),
        linked: linkedStatements(context, false),
      },
    ],
    node: element(
      "div",
      {class: "code-host"},
      kernelLine(context, kernel),
      kernel.note ? element("div", {class: "quiet-text"}, kernel.note) : null,
      madeFrom(app, context),
      ladder,
      element(
        "div",
        {class: "step-bar"},
        button("‹", "step before", () => go(current - 1), {class: "icon"}),
        slider,
        button("›", "next step", () => go(current + 1), {class: "icon"}),
        element(
          "span",
          {class: "mono step-name", title: argumentsText(step, "\n")},
          `${step.name} ${argumentsText(step, ", ")}`,
        ),
      ),
      scheduleEditor(app, kernel, app.session ? await app.data.scheduleSteps() : null),
      scheduleSearch(app, kernel),
      statementKey(app, hues, kernel),
      codeBar(
        app,
        `step ${current + 1} of ${kernel.steps.length} · ` +
          `${countText(step.operations, "operation")}${same}`,
        step.text,
        await linkShare(app, "loops", kernel.name),
        context.state.step === null ? hottestButton(pane, start) : null,
      ),
      pane.node,
    ),
  };
}
