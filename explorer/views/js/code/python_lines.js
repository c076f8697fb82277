// The author's program in the model's pane: lines of Python, each with the nodes that it made.

import {countText} from "../ground/numbers.js";

const INDENT = "    ";

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
      place: line.place,
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
