// The rule of a rewrite as it is written: the Python text that decided, with what it is about.

import {codePane, entriesOf} from "./code.js";
import {button, element} from "../ground/dom.js";

const NO_TEXT = "This trace does not hold the text of the rule.";

/**
 * Shows the text of a rule; `line` is where it opens, hits of `query` are marked.
 *
 * @param {any} app
 * @param {string} name
 * @param {{line?: number, query?: string}} found
 */
export async function showRule(app, name, {line = -1, query = ""} = {}) {
  const about = app.data.rules.get(name);
  const text = await app.data.ruleText(name);
  const pane = text.lines.length
    ? codePane({
        entries: withoutDocstring(entriesOf(text)),
        language: "python",
        label: `text of the rule ${name}`,
        firstNumber: firstLineOf(about?.source),
      })
    : null;
  app.openDialog(
    `rule ${name}`,
    (close) => [
      element(
        "div",
        {class: "subject-name"},
        element("h2", {}, name),
        element("span", {class: "grow"}),
        button("×", "close (Esc)", close, {class: "icon"}),
      ),
      element(
        "p",
        {class: "rule-explanation"},
        about?.explanation || "This rule has no explanation.",
      ),
      element(
        "div",
        {class: "code-bar"},
        element("span", {class: "mono"}, about?.source || ""),
        element("span", {class: "grow"}),
        pane
          ? button("copy", "copy the whole text", () => app.copy(text.lines.join("\n")), {
              class: "quiet",
            })
          : null,
      ),
      pane
        ? pane.node
        : element(
            "p",
            {class: "quiet-text"},
            `${NO_TEXT}${about?.source ? ` It is written at ${about.source}.` : ""}`,
          ),
    ],
    "rule-dialog",
  );
  if (!pane) return;
  pane.find(query);
  if (line >= 0) requestAnimationFrame(() => pane.showAt(line, pane.node.clientHeight / 3));
}

// Lines of a string over several lines are text, whatever words stand in them.
function withoutDocstring(entries) {
  let isInside = false;
  return entries.map((entry) => {
    const quotes = entry.line.split('"""').length - 1;
    const wasInside = isInside;
    if (quotes % 2) isInside = !isInside;
    return wasInside ? {...entry, language: quotes ? "docstring-end" : "docstring"} : entry;
  });
}

// `explorer/passes/fuse/fuse_bias.py:20`: 20; 1 where it isn't said.
function firstLineOf(source) {
  return Number(/:(\d+)$/.exec(source ?? "")?.[1] ?? 1);
}

// Where a rule is written, as a button that shows it.
export function ruleLink(app, name) {
  const source = app.data.rules.get(name)?.source;
  return button(
    source || "text of the rule",
    `show the text of ${name}`,
    () => showRule(app, name),
    {class: "link mono rule-link"},
  );
}
