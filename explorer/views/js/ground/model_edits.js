// Edits of the model as lines of text (editing/edits.py): how they are written and changed. Nothing
// is drawn here.
//
// settings.edits = ["delete dropout1", "outputs logits"]; none where nothing is edited

const quoted = (name) => (/^[^\s",:=]+$/.test(name) ? name : JSON.stringify(name));

export const editsOf = ({edits}) => edits ?? [];

export function withEdit(settings, text) {
  const line = text.trim();
  if (line) settings.edits = [...editsOf(settings), line];
}

export function withoutEdit(settings, index) {
  const left = editsOf(settings).filter((_, other) => other !== index);
  if (left.length) settings.edits = left;
  else delete settings.edits;
}

// Lines to begin with, for a node of the file.
export function offeredEdits(node) {
  return [
    ["delete", `delete ${quoted(node)}`],
    ["rename", `rename ${quoted(node)} = `],
    ["attribute", `attribute ${quoted(node)}.`],
    ["end here", `outputs ${quoted(node)}`],
    ["begin here", `cut ${quoted(node)} : `],
  ];
}

// Lines that are whole as they are offered.
export const isWhole = (text) => !/[=:.]\s*$/.test(text);
