// How large the words of the graph are at a scale, and how many of them: text keeps a size on the
// screen that can be read, and there is less of it the farther away one is.

const BUCKET = 1.12; // scales within this factor get the same words
const FULL = 0.8; // from here on two lines: what an operation is, and its result
const NAMED = 0.29; // from here on the kind of every operation
const LEAST = 9.6; // pixels on the screen
const USUAL = 11.5;
const SECOND = 10.5;

// {scale, level: "full", "kind" or "far", label, shape, title: sizes in units of the drawing}
export function letteringAt(k) {
  const scale = Math.min(1, BUCKET ** Math.floor(Math.log(k) / Math.log(BUCKET) + 1e-6));
  const size = (usual) => Math.max(usual, LEAST / scale);
  const level = scale >= FULL ? "full" : scale >= NAMED ? "kind" : "far";
  const kind = Math.min(USUAL, Math.max(LEAST, 22 * scale)) / scale;
  return {
    scale,
    level,
    label: level === "full" ? size(USUAL) : kind,
    shape: size(SECOND),
    title: size(USUAL),
  };
}

// Which of many names can be shown at once where no node has room for its own: those that do not
// overlap, the heavier ones first. names: [{x, y, text, weight}] with x and y on the screen.
export function namesWithRoom(names, widthOf, height) {
  const cell = 64;
  const taken = new Map();
  const cellsOf = ({left, right, top, bottom}) => {
    const found = [];
    for (let x = Math.floor(left / cell); x <= Math.floor(right / cell); x += 1)
      for (let y = Math.floor(top / cell); y <= Math.floor(bottom / cell); y += 1)
        found.push(`${x} ${y}`);
    return found;
  };
  return [...names]
    .sort((a, b) => b.weight - a.weight)
    .filter((name) => {
      const half = widthOf(name.text) / 2 + 4;
      const box = {
        left: name.x - half,
        right: name.x + half,
        top: name.y - height / 2 - 2,
        bottom: name.y + height / 2 + 2,
      };
      const cells = cellsOf(box);
      const hits = (other) =>
        other.left < box.right &&
        other.right > box.left &&
        other.top < box.bottom &&
        other.bottom > box.top;
      if (cells.some((key) => taken.get(key)?.some(hits))) return false;
      for (const key of cells) taken.set(key, [...(taken.get(key) ?? []), box]);
      return true;
    });
}
