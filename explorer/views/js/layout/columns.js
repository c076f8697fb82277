// A long drawing in columns, side by side, so that it uses the width of its pane: where it is cut,
// and how edges go from the foot of one column to the head of the next.

export const VERTICAL_GAP = 22;
const COMFORTABLE = 1; // no more columns than it takes to be seen at this scale
const WORTH_A_COLUMN = 1.06; // how much larger one more column must make it
const MAX_COLUMNS = 40;
const MIN_RANKS = 3; // in a column
const CROSSING_COST = 60; // in pixels off the ideal place of a cut, for an edge that it cuts
const NEAR = 0.35; // of a column's height: how far off its ideal place a cut may be,
const FAR = 0.7; // and how far where there is none so near
const GUTTER = 26;
const TURN = 9; // from a column to its first turning edge
const TURN_STEP = 6; // from one turning edge to the next

// bands: {top, bottom, left, right} of every rank; cutting[rank]: lines between it and the next.
// Returns the ranks at which a column begins, the first one included.
export function chooseColumns(bands, cutting, room, wasHead) {
  let best = [0],
    scale = scaleOf(best, bands, cutting, room),
    kept = null;
  const most = Math.min(MAX_COLUMNS, Math.floor(bands.length / MIN_RANKS));
  const former = bands.filter((_, rank) => wasHead(rank)).length;
  for (let count = 2; count <= most && scale < COMFORTABLE; count += 1) {
    const heads = cutEvenly(count, bands, cutting, wasHead);
    const found = scaleOf(heads, bands, cutting, room);
    if (heads.length - 1 === former) kept = {heads, scale: found};
    if (found > scale * WORTH_A_COLUMN) [best, scale] = [heads, found];
  }
  // As many columns as before, where they are nearly as good.
  return kept && kept.scale * 1.2 > Math.min(scale, COMFORTABLE) ? kept.heads : best;
}

// Cuts close to where the columns would be of one height; farther off only where a large node, an
// open block, stands at that place.
function cutEvenly(count, bands, cutting, wasHead) {
  const height = bands[bands.length - 1].bottom;
  const each = height / count;
  const heads = [0];
  const costOf = (rank, off) =>
    off + CROSSING_COST * cutting[rank - 1] - (wasHead(rank) ? 0.3 * each : 0);
  const bestNear = (ideal, farthest) => {
    let best = -1,
      least = Infinity;
    for (let rank = heads[heads.length - 1] + 1; rank < bands.length; rank += 1) {
      const off = Math.abs(bands[rank].top - ideal);
      if (off <= farthest && costOf(rank, off) < least) [best, least] = [rank, costOf(rank, off)];
      else if (bands[rank].top > ideal + farthest) break;
    }
    return best;
  };
  for (let column = 1; column < count; column += 1) {
    const near = bestNear(column * each, NEAR * each);
    const best = near > 0 ? near : bestNear(column * each, FAR * each);
    if (best > 0) heads.push(best);
  }
  return heads;
}

function scaleOf(heads, bands, cutting, room) {
  let width = 0,
    height = 0,
    turns = 0;
  heads.forEach((first, column) => {
    const last = (heads[column + 1] ?? bands.length) - 1;
    const {left, right} = extent(bands, first, last);
    width += right - left;
    height = Math.max(height, bands[last].bottom - bands[first].top);
    if (column) {
      width += gutterWidth(cutting[first - 1]);
      turns = Math.max(turns, cutting[first - 1]);
    }
  });
  if (turns) height += 2 * turnHeight(turns);
  return Math.min(room.width / width, room.height / height);
}

function extent(bands, first, last) {
  let left = Infinity,
    right = -Infinity;
  for (let rank = first; rank <= last; rank += 1) {
    left = Math.min(left, bands[rank].left);
    right = Math.max(right, bands[rank].right);
  }
  return {left, right};
}

const gutterWidth = (lines) => GUTTER + TURN_STEP * lines;
const turnHeight = (lines) => TURN + TURN_STEP * lines;

// Where the columns stand: {dx, dy} of every rank, {width, height} of all, and how an edge turns:
// turn(rank, from) gives {gutter, foot, head}, the x and the two y of its way from the foot of the
// column that `rank` ends to the head of the next. crossing(rank): what the lines there start from,
// sorted from right to left.
export function placeColumns(heads, bands, crossing) {
  const dx = new Float64Array(bands.length),
    dy = new Float64Array(bands.length);
  const turns = new Map();
  const lines = heads.slice(1).map((first) => crossing(first - 1));
  const margin = lines.length
    ? turnHeight(lines.reduce((most, line) => Math.max(most, line.length), 0))
    : 0;
  let x = 0,
    height = 0;
  heads.forEach((first, column) => {
    const last = (heads[column + 1] ?? bands.length) - 1;
    const {left, right} = extent(bands, first, last);
    for (let rank = first; rank <= last; rank += 1) {
      dx[rank] = x - left;
      dy[rank] = margin - bands[first].top;
    }
    x += right - left;
    height = Math.max(height, bands[last].bottom - bands[first].top);
    const from = lines[column];
    if (!from) return;
    from.forEach((node, index) =>
      turns.set(`${last} ${node}`, {
        gutter: x + GUTTER / 2 + TURN_STEP * index,
        foot: bands[last].bottom + dy[last] + TURN + TURN_STEP * index,
        head: margin - TURN - TURN_STEP * (from.length - 1 - index),
      }),
    );
    x += gutterWidth(from.length);
  });
  return {
    dx,
    dy,
    width: x,
    height: height + 2 * margin,
    turn: (rank, from) => turns.get(`${rank} ${from}`),
  };
}
