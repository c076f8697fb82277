// The model's operators by family: how many nodes, in which operator set, what the import made of
// them; what cannot be imported, and why; and what must hold between symbolic sizes.

import {button, element, emptyState, replace, sortableTable} from "../ground/dom.js";
import {amountText, countText, exactText} from "../ground/numbers.js";
import {clip, safeName} from "../ground/scene.js";
import {LOOK} from "../theme.js";

const MOST_MADE = 4; // kinds of operations that an operator became, in a cell
const MOST_REASONS = 200;

export async function operatorsView(app) {
  const {data} = app;
  const operators = data.head.has.operators ? await data.operators() : [];
  if (!operators.length)
    return {
      node: emptyState(
        "No table of operators",
        "This trace was saved without the model's own nodes. Compile the model again to see them.",
      ),
    };
  let family = app.operatorFamily ?? "";
  let marked = new Set();
  const host = element("div", {class: "operators-table"});
  const families = familyCounts(operators);
  const isImported = data.head.passes.some((pass) => pass.level !== "source");

  const choose = (name) => {
    family = family === name ? "" : name;
    app.operatorFamily = family;
    draw();
  };
  const chip = ([name, count]) => {
    const look = app.look.family(name);
    return button(
      [
        element(
          "span",
          {class: `swatch family-${safeName(name)}`, "aria-hidden": "true"},
          look.glyph,
        ),
        element("span", {}, look.title),
        element("span", {class: "quiet-text"}, exactText(count)),
      ],
      `only ${look.title}`,
      () => choose(name),
      {class: "family-chip", "data-family": name, "aria-pressed": "false"},
    );
  };
  const chips = element(
    "div",
    {class: "family-chips", role: "group", "aria-label": "families of operators"},
    families.map(chip),
  );

  function draw() {
    for (const item of chips.children)
      item.setAttribute("aria-pressed", String(item.dataset.family === family));
    const rows = operators.filter((row) => !family || row.family === family);
    replace(
      host,
      sortableTable(columnsOfOperators(app, isImported), rows, {
        label: "operators of the model",
        isMarked: (row) => row.nodes.some((name) => marked.has(name)),
        onrow: (row) => visitNode(app, row),
      }),
    );
  }
  draw();
  return {
    node: element(
      "div",
      {class: "scroll operators"},
      problemsPart(app),
      constraintsPart(app),
      chips,
      host,
    ),
    refresh() {
      const {selection} = app.store.get();
      const sources = new Set(selection === null ? [] : data.sourcesOf(selection));
      marked = new Set(
        operators
          .flatMap((row) => row.nodes)
          .filter(
            (name) =>
              name === selection || data.sourcesOf(name).some((source) => sources.has(source)),
          ),
      );
      for (const line of host.querySelectorAll("tbody tr")) {
        const row = operators.find(
          (item) =>
            `${item.name} ${item.version}` ===
            line.querySelector("[data-operator]")?.dataset.operator,
        );
        line.classList.toggle("marked", Boolean(row?.nodes.some((name) => marked.has(name))));
      }
    },
  };
}

function familyCounts(operators) {
  const counts = new Map();
  for (const row of operators)
    counts.set(row.family, (counts.get(row.family) || 0) + row.nodes.length);
  return [...counts].sort((a, b) => b[1] - a[1]);
}

function columnsOfOperators(app, isImported) {
  const made = (row) =>
    row.made.map(([name, count]) => `${exactText(count)} ${name.replace(/^top\./, "")}`);
  const short = (row) => {
    const kinds = made(row);
    return kinds.length
      ? clip(
          kinds.slice(0, MOST_MADE).join(", ") +
            (kinds.length > MOST_MADE ? ` +${kinds.length - MOST_MADE}` : ""),
          60,
        )
      : row.problems.length || !isImported
        ? "–"
        : "nothing of its own";
  };
  return [
    {
      title: "family",
      value: (row) => row.family,
      text: (row) => [
        element(
          "span",
          {class: `swatch small family-${safeName(row.family)}`, "aria-hidden": "true"},
          app.look.family(row.family).glyph,
        ),
        " ",
        app.look.family(row.family).title,
      ],
    },
    {
      title: "operator",
      value: (row) => row.name,
      text: (row) =>
        element(
          "span",
          {class: "mono", "data-operator": `${row.name} ${row.version}`},
          clip(row.name, 48),
        ),
      exact: (row) => [row.name, row.explanation].filter(Boolean).join("\n"),
    },
    {
      title: "nodes",
      number: true,
      value: (row) => row.nodes.length,
      text: (row) => exactText(row.nodes.length),
      hint: "how many nodes of the model; a click selects one after the other",
    },
    {
      title: "operator set",
      value: (row) => row.version,
      text: (row) => `${clip(row.domain || "ai.onnx", 24)} ${row.version}`,
    },
    {
      title: "imported as",
      value: (row) => row.made.reduce((sum, [, count]) => sum + count, 0),
      text: short,
      exact: (row) => made(row).join(", "),
      hint: "operations that the import made of all of them",
    },
    {
      title: "parameters",
      number: true,
      value: (row) => row.parameters,
      text: (row) => (row.parameters ? amountText(row.parameters) : "–"),
      exact: (row) => exactText(row.parameters),
      hint: "elements of the constants that the nodes take",
    },
    {
      title: "problems",
      number: true,
      value: (row) => row.problems.length,
      text: (row) =>
        row.problems.length
          ? element(
              "span",
              {class: "ink-unsupported"},
              `${LOOK.unsupported.glyph} ${row.problems.length}`,
            )
          : "–",
      exact: (row) => clip(row.problems.map(([, reason]) => reason).join("\n"), 400),
      hint: "nodes that cannot be imported",
    },
  ];
}

// The first node of the operator, and at every further click the next one.
function visitNode(app, row) {
  if (!row.nodes.some((name) => app.data.latest.has(name))) {
    app.store.set({tab: "model"});
    app.say(`Nodes of ${clip(row.name, 40)} are not drawn: they stand in the list of nodes.`);
    return;
  }
  const at = row.nodes.indexOf(app.store.get().selection);
  selectModelNode(app, row.nodes[(at + 1) % row.nodes.length]);
}

function selectModelNode(app, name) {
  const step = app.data.head.passes.findIndex((pass) => pass.level === "source");
  if (step >= 0 && app.store.get().pass !== step) app.goToPass(step);
  app.select(name, "dock");
}

function problemsPart(app) {
  const {reasons} = app.data.head.problems ?? {reasons: []};
  if (!reasons.length) return null;
  const found = (name) =>
    [...app.data.latest.values()].find((record) => record.problem && record.sources.includes(name));
  const line = ([name, reason]) => {
    const record = found(name);
    return element(
      "li",
      {},
      element("span", {class: "ink-unsupported", "aria-hidden": "true"}, LOOK.unsupported.glyph),
      " ",
      record
        ? element(
            "button",
            {type: "button", class: "link mono", onclick: () => selectModelNode(app, record.id)},
            clip(name, 60),
          )
        : element("span", {class: "mono"}, clip(name, 60)),
      record ? element("span", {class: "quiet-text"}, ` ${clip(record.label, 40)}`) : null,
      element("span", {}, `: ${clip(reason, 400)}`),
    );
  };
  return element(
    "section",
    {class: "problems", "aria-label": "what cannot be imported"},
    element("h3", {}, problemsTitle(app.data.head)),
    element("ul", {class: "plain"}, reasons.slice(0, MOST_REASONS).map(line)),
    reasons.length > MOST_REASONS
      ? element(
          "p",
          {class: "cap"},
          `${reasons.length - MOST_REASONS} more are not listed; they are marked in the graph`,
        )
      : null,
  );
}

function problemsTitle({problems: {nodes, of}}) {
  return nodes
    ? `${exactText(nodes)} of ${countText(of, "node")} cannot be imported`
    : "This model cannot be compiled";
}

// [{text, node, kind}]: what must hold between symbolic sizes, and which node asks for it.
function constraintsPart(app) {
  const constraints = app.data.head.constraints ?? [];
  if (!constraints.length) return null;
  return element(
    "section",
    {class: "constraints", "aria-label": "constraints of symbolic sizes"},
    element("h3", {}, "What must hold between sizes"),
    element(
      "ul",
      {class: "plain"},
      constraints.slice(0, MOST_REASONS).map(({text, node, kind}) => {
        const names = new Set(node.split(", "));
        const record = [...app.data.latest.values()].find(
          (item) => names.has(item.id) || item.sources.some((source) => names.has(source)),
        );
        return element(
          "li",
          {},
          element("span", {class: "mono"}, clip(text, 200)),
          kind ? element("span", {class: "quiet-text"}, ` ${clip(kind, 40)}`) : null,
          record
            ? [
                " ",
                element(
                  "button",
                  {
                    type: "button",
                    class: "link mono",
                    onclick: () => app.select(record.id, "dock"),
                  },
                  clip(node, 60),
                ),
              ]
            : null,
        );
      }),
    ),
  );
}

// A sentence with its end, which it may have already: "did you mean Attention?"
const ended = (text) => (/[.?!…]$/.test(text) ? text : `${text}.`);

// What stands above everything while the opened model cannot be compiled; null otherwise.
export function problemsBanner(app) {
  const {reasons} = app.data.head.problems ?? {reasons: []};
  if (!reasons.length) return null;
  const more = reasons.length > 1 ? ` (and ${reasons.length - 1} more)` : "";
  return element(
    "div",
    {class: "banner failed refused", role: "alert"},
    element(
      "span",
      {class: "ink-unsupported glyph", "aria-hidden": "true"},
      LOOK.unsupported.glyph,
    ),
    element(
      "div",
      {class: "banner-words"},
      element("strong", {}, problemsTitle(app.data.head)),
      element(
        "span",
        {},
        `${clip(reasons[0][0], 60)}: ${ended(clip(reasons[0][1], 240) + more)} ` +
          "The model is shown as it is; nothing was compiled.",
      ),
    ),
    element("span", {class: "grow"}),
    app.session
      ? button(
          "other sizes or values …",
          "what to compile the model with",
          () => app.session.askAgain(reasons[0][1]),
          {class: "ask-again"},
        )
      : null,
    button("list them", "every node that cannot be imported, with the reason", () =>
      app.store.set({dock: "model"}),
    ),
  );
}
