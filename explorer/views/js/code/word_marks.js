// What differs inside the lines of a difference: the ranges that the replay of rewrites has of
// them, found by the same rule on the other side (views/replay/marks.py).

const MARKS_OF = {removed: 0, added: 1};

// pane: a pane of code with the difference that a pass made; it is on the screen before they come
export async function markWords(pane, data, pass) {
  const {rows} = await data.chunk(`film/${pass}/all`);
  const bySide = [new Map(), new Map()]; // line before, line after -> ranges of characters
  for (const [kind, before, after, gone, fresh] of rows) {
    if (kind !== "changed") continue;
    bySide[0].set(before, gone);
    bySide[1].set(after, fresh);
  }
  pane.markWords(({kind, line}) => bySide[MARKS_OF[kind]]?.get(line) ?? []);
}
