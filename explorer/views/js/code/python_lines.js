// The author's program in the model's pane: lines of Python, each with the nodes that it made.

import {element} from "../ground/dom.js";
import {countText} from "../ground/numbers.js";

const INDENT = "    ";
const MOST_LINES = 3; // of Python beside what is selected

// Entries of a pane of code: files by their first use, lines from the top with the numbers that
// they have there, nodes under the line that made them. A line owns what it calls, too: hovering
// `x = self.blocks(x)` shows all that is inside.
export function underLines(nodes, lines, entryOf) {
  const byName = new Map(nodes);
  const placed = new Set(lines.flatMap((line) => line.nodes));
  const entries = [];
  let file = null;
  for (const line of lines) {
    if (line.file !== file) entries.push(heading(line.file));
    file = line.file;
    entries.push({
      line: line.text || "(its text is not known)",
      owners: line.all,
      kind: "",
      number: line.number,
      language: "python",
      look: "python-line",
      title: `${line.file}:${line.number} made ${countText(line.all.length, "node")}`,
    });
    for (const name of line.nodes) entries.push(inside(entryOf([name, byName.get(name)])));
  }
  const others = nodes.filter(([name]) => !placed.has(name));
  if (others.length) entries.push(heading("of no line of Python"));
  return [...entries, ...others.map((node) => inside(entryOf(node)))];
}

function heading(text) {
  return {line: text, owners: [], kind: "fold", number: "", look: "python-file"};
}

function inside(entry) {
  return {...entry, line: INDENT + entry.line, number: ""};
}

// Beside what is selected: the lines that made the nodes it comes from; null where none is known.
export function pythonRow(app, lines, sources) {
  const found = lines.filter(({nodes}) => nodes.some((name) => sources.includes(name)));
  if (!found.length) return null;
  const more = found.length - MOST_LINES;
  return element(
    "div",
    {class: "origin-row python-row"},
    element("span", {class: "row-label"}, "Python"),
    element(
      "span",
      {},
      found.slice(0, MOST_LINES).map(({file, number, text}) =>
        element(
          "button",
          {
            type: "button",
            class: "python-of",
            title: `${file}:${number}  ${text}; press to see it among the others`,
            onclick: () => app.store.set({tab: "model"}),
          },
          element("span", {class: "quiet-text"}, `${file.split("/").pop()}:${number}`),
          text,
        ),
      ),
      more > 0
        ? element("span", {class: "quiet-text"}, `and ${countText(more, "more line")}`)
        : null,
    ),
  );
}
