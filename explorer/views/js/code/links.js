// From the node of the model file down to the instruction: the pane of the model's own nodes, and
// how much of every level is linked to the others.

import {codeBar, codePane} from "./code.js";
import {element, emptyState} from "../ground/dom.js";
import {countText, exactText} from "../ground/numbers.js";
import {clip, safeName} from "../ground/scene.js";
import {underLines} from "./python_lines.js";

const MAX_MISSING = 10;
const LEVEL_TITLES = {
  model: "model",
  top: "IR (top)",
  loops: "loops",
  source: "source",
  assembly: "assembly",
};

// What a pane of code says about its links: the share in sight, and on demand all levels, for this
// kernel and for the whole program, with what is missing. null where nothing is known.
export async function linkShare(app, level, kernel = null) {
  const links = await app.data.links();
  const program = links.program.get(level),
    own = kernel === null ? undefined : links.kernels.get(kernel)?.get(level);
  const shown = own ?? program;
  if (!shown?.linkable) return null;
  const isLow = [own, program].some(
    (coverage) => coverage && shareOf(coverage) < (links.aims[level] ?? 0),
  );
  const words =
    own && program
      ? `linked ${exactPercent(shareOf(own))}, program ${exactPercent(shareOf(program))}`
      : `linked ${exactPercent(shareOf(shown))}`;
  const host = element(
    "details",
    {class: `link-share${isLow ? " low" : ""}`},
    element(
      "summary",
      {
        title:
          `${exactText(shown.linked)} of ` +
          `${countText(shown.linkable, shown.unit.slice(0, -1))} lead to an operation; press ` +
          "for all levels",
      },
      isLow ? `${words}: below the aim` : words,
    ),
  );
  // Made when it is opened: most of the time nobody asks.
  host.addEventListener("toggle", () => {
    if (!host.open) return;
    if (host.childElementCount < 2) host.append(linkTable(links, kernel));
    const table = host.lastElementChild,
      frame = table.offsetParent;
    const below = host.getBoundingClientRect().bottom - frame.getBoundingClientRect().top + 6;
    const lowest = frame.clientHeight - table.offsetHeight - 8;
    table.style.top = `${Math.max(8, Math.min(below, lowest))}px`;
  });
  host.addEventListener("focusout", (event) => {
    if (!host.contains(event.relatedTarget)) host.open = false;
  });
  host.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !host.open) return;
    event.stopPropagation();
    host.open = false;
    host.firstElementChild.focus();
  });
  return host;
}

function linkTable(links, kernel) {
  const own = kernel === null ? new Map() : (links.kernels.get(kernel) ?? new Map());
  const cell = (coverage) =>
    element(
      "td",
      {
        class: "number",
        title: coverage
          ? `${exactText(coverage.linked)} of ` +
            `${countText(coverage.linkable, coverage.unit.slice(0, -1))}`
          : "not a level of one kernel",
      },
      coverage
        ? [
            exactPercent(shareOf(coverage)),
            element("span", {class: "quiet-text"}, ` of ${exactText(coverage.linkable)}`),
          ]
        : "–",
    );
  const rows = [...links.program].map(([level, coverage]) =>
    element(
      "tr",
      {},
      element("td", {}, `${LEVEL_TITLES[level]}, ${coverage.unit}`),
      kernel === null ? null : cell(own.get(level)),
      cell(coverage),
      element(
        "td",
        {class: "number"},
        links.aims[level] === undefined ? "–" : exactPercent(links.aims[level]),
      ),
    ),
  );
  const missing = [
    ...new Set(
      [...own.values(), ...links.program.values()].flatMap((coverage) => coverage.missing),
    ),
  ]
    .slice(0, MAX_MISSING)
    .map((name) => clip(name, 120));
  return element(
    "div",
    {class: "link-table", tabindex: -1},
    element(
      "table",
      {"aria-label": "linked lines by level"},
      element(
        "thead",
        {},
        element(
          "tr",
          {},
          ["level", kernel === null ? null : "this kernel", "program", "aim"]
            .filter(Boolean)
            .map((title, index) =>
              element("th", {scope: "col", class: index ? "number" : ""}, title),
            ),
        ),
      ),
      element("tbody", {}, rows),
    ),
    element(
      "p",
      {class: "quiet-text"},
      "A line is linked when it leads to an operation, an instruction when it also leads to a " +
        "line of source.",
    ),
    missing.length
      ? element(
          "div",
          {},
          element("p", {}, "Not linked, among others:"),
          element(
            "ul",
            {class: "plain mono"},
            missing.map((name) => element("li", {}, name)),
          ),
        )
      : null,
  );
}

// Of the operations that a node became, the one that computes: weights and copies come along.
function mainOf(operations, graph) {
  return (
    operations.find(
      (id) => !["weight", "movement", "transfer"].includes(graph.nodes.get(id).family),
    ) ?? operations[0]
  );
}

export function familyClass(record) {
  return record ? `family-${safeName(record.family)}` : "";
}

function shareOf({linkable, linked}) {
  return linkable ? linked / linkable : 1;
}

// All of it is said only of all of it.
function exactPercent(share) {
  return share === 1 ? "100 %" : `${(Math.floor(share * 1000) / 10).toLocaleString("en-US")} %`;
}

const MAX_TITLE = 600;
const FUSED_NAMES = /([^\s;,()=]+)(?:;[^\s;,()=]+)*;(?:[^\s;,()=]*\/)?([^\s;,()=/]+)/g;

// TFLite's converter names a tensor after all that was fused into it: a/Relu;a/norm;a/conv/Conv2D1
// is a/Relu;…Conv2D1 here, which leaves room for the operator that makes it.
function withShortNames(text) {
  return text.includes(";") ? text.replace(FUSED_NAMES, "$1;…$2") : text;
}

// The nodes of the model file, with those marked that the selection comes from. Hovering one shows
// in every other pane what became of it.
export async function modelView(app, context) {
  const {data} = app;
  const nodes = [...(await data.sourceNodes())];
  if (!nodes.length)
    return {
      node: emptyState(
        "No nodes in this trace",
        "The model came without a list of its nodes. What it was read as stands under the tab " +
          "IR, in the first pass.",
      ),
    };
  const {graph, lines} = context;
  const opsOf = data.operationsBySource(graph);
  const ever = data.knownSources();
  const wanted = new Set(
    context.line?.all ??
      (context.block === undefined
        ? context.sources
        : context.here.flatMap((id) => graph.nodes.get(id)?.sources ?? [])),
  );
  const entryOf = ([name, {operator, text}]) => {
    const whole = text || `${name}: ${operator}`;
    const line = withShortNames(whole);
    return {
      line,
      whole,
      owners: [name],
      kind: "",
      title: ever.has(name)
        ? clip(line === whole ? "" : whole, MAX_TITLE)
        : "nothing of it came into the program: its value was known when the file was read",
    };
  };
  const entries = lines.length ? underLines(nodes, lines, entryOf) : nodes.map(entryOf);
  const pane = codePane({
    entries,
    language: "node",
    label: "nodes of the model",
    lookOf: ([name]) =>
      opsOf.has(name) ? familyClass(graph.nodes.get(mainOf(opsOf.get(name), graph))) : "gone",
    onhover: (names) =>
      app.hover.set(
        names.flatMap((name) => [...(opsOf.get(name) ?? []), ...data.launchesOf(name)]),
        [],
        {nodes: names, from: pane},
      ),
    onpick: (names, {place}) => {
      context.notePicked(pane);
      // Of a line that made many, the first of which something is left.
      const name = names.find((one) => opsOf.has(one));
      if (place && name !== undefined)
        app.select(mainOf(opsOf.get(name), graph), "inspector", {line: place});
      else app.selectSource(name ?? names[0]);
    },
  });
  const text = {lines: entries.map(({line, whole}) => (lines.length ? line : whole))};
  return {
    panes: [
      {
        pane,
        key: "model",
        follows: true,
        // A picked line is meant with all inside of it; else every line that has a part in it.
        isMarked: (owners) =>
          context.line
            ? owners.length > 0 && owners.every((name) => wanted.has(name))
            : owners.some((name) => wanted.has(name)),
        linked: ({operations, nodes: hovered}) => {
          const names = new Set(
            hovered.size
              ? hovered
              : [...operations].flatMap((id) => graph.nodes.get(id)?.sources ?? data.sourcesOf(id)),
          );
          return names.size ? (owners) => owners.some((name) => names.has(name)) : null;
        },
      },
    ],
    node: element(
      "div",
      {class: "code-host"},
      codeBar(
        app,
        lines.length
          ? `${countText(lines.length, "line")} of Python, ${countText(nodes.length, "node")}`
          : `${countText(nodes.length, "node")} of ${clip(data.head.model.name, 40)}`,
        text,
        await linkShare(app, "model"),
      ),
      formatNote(data.head.model),
      pane.node,
    ),
  };
}

// Of which format the model is, who judges it, and what its numbers mean otherwise than in ONNX.
function formatNote(model) {
  const judged = model.judge ? `, judged by ${clip(model.judge, 60)}` : "";
  return element(
    "div",
    {class: "format-note"},
    element("p", {}, `${model.format}${judged}`),
    (model.differences ?? []).map((sentence) => element("p", {}, sentence)),
  );
}
