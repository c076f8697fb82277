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

const MIN_CARD = 24; // pixels: names stand across cards that are narrower

// Which of many names can be shown at once where no node has room for its own, the heavier ones
// first: those that overlap neither each other nor the card of another operation. Of several texts
// of a name the longest that does, which goes to `text`.
// names: [{x, y, texts, weight}] with x and y on the screen; card: [width, height] of all of them;
// others: boxes where something else is written.
export function namesWithRoom(names, widthOf, height, [width, tall] = [0, 0], others = []) {
  const taken = takenRoom();
  for (const box of others) taken.take(box);
  const cards = takenRoom();
  const around = ({x, y}, half, rest) => ({
    left: x - half,
    right: x + half,
    top: y - rest,
    bottom: y + rest,
  });
  if (width >= MIN_CARD)
    for (const name of names) cards.take({...around(name, width / 2, tall / 2), name});
  const hasRoom = (name, text) => {
    const box = around(name, widthOf(text) / 2 + 4, height / 2 + 2);
    if (!taken.isFree(box) || !cards.isFree(box, name)) return false;
    taken.take(box);
    return true;
  };
  return [...names]
    .sort((a, b) => b.weight - a.weight)
    .flatMap((name) => {
      const text = name.texts.find((one) => hasRoom(name, one));
      return text === undefined ? [] : [{...name, text}];
    });
}

const CELL = 64;
const ROWS = 2 ** 20; // cells of different columns have different numbers

// Boxes that are taken, {left, right, top, bottom}, found by the cells of a grid.
export function takenRoom() {
  const boxes = new Map(); // by the number of a cell: texts as keys take most of the time
  // Whether `meets` holds for a cell that a box lies in.
  const someCell = ({left, right, top, bottom}, meets) => {
    const [lastX, lastY] = [Math.floor(right / CELL), Math.floor(bottom / CELL)];
    for (let x = Math.floor(left / CELL); x <= lastX; x += 1)
      for (let y = Math.floor(top / CELL); y <= lastY; y += 1) if (meets(x * ROWS + y)) return true;
    return false;
  };
  return {
    // `own`: the name of a box that is no obstacle.
    isFree(box, own = null) {
      const hits = (other) =>
        (own === null || other.name !== own) &&
        other.left < box.right &&
        other.right > box.left &&
        other.top < box.bottom &&
        other.bottom > box.top;
      return !someCell(box, (cell) => boxes.get(cell)?.some(hits));
    },
    take(box) {
      someCell(box, (cell) => {
        const there = boxes.get(cell);
        if (there) there.push(box);
        else boxes.set(cell, [box]);
        return false;
      });
    },
  };
}
