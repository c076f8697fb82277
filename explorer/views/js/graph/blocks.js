// Blocks of a large program: which operations stand in which, and where everything is when some
// of them are open. A block has a drawing of its own (payload_graph.py). An open one takes the
// place of its closed node: what stands below moves down, what stands beside it moves aside, and
// edges enter and leave it through its two ports.

const BLOCK_PADDING = 12;
const BLOCK_TITLE = 26;
const ROW_CLEARANCE = 20; // above and below an open block, for the edges that go around it
const RANK_GAP = 28; // VERTICAL_GAP of layout.py
const PORT_SIZE = [8, 4]; // of payload_graph.py
const PROGRAM = 0;
const MOST_TOGETHER = 48; // more repetitions are opened one by one: each is drawn

export class BlockTree {
  constructor(raw, latest) {
    this.labels = raw.labels;
    this.parents = raw.parents;
    this.regions = new Set(raw.regions ?? []); // operations with regions, and their regions
    this.holds = raw.holds; // what a block is a row of: "4 × residual block", "" for others
    this.titles = raw.labels.map((label, block) =>
      [label, raw.holds[block]].filter(Boolean).join(": "),
    );
    this.alike = raw.alike; // the first block that is built alike: one kind of blocks
    this.operations = raw.labels.map(() => []); // directly inside
    for (const record of latest.values()) this.operations[record.block].push(record.id);
    this.chains = raw.labels.map(() => null);
    this.members = new Map();
  }

  // 4 for "#4", undefined for an operation.
  indexOf(unit) {
    return typeof unit === "string" &&
      /^#\d+$/.test(unit) &&
      Number(unit.slice(1)) < this.labels.length
      ? Number(unit.slice(1))
      : undefined;
  }

  // The blocks from the program down to `block`.
  chain(block) {
    this.chains[block] ??=
      block === PROGRAM ? [PROGRAM] : [...this.chain(this.parents[block]), block];
    return this.chains[block];
  }

  // All operations inside of "#4", at any depth, in any snapshot; null when it is no block.
  membersOf(unit) {
    const block = this.indexOf(unit);
    if (block === undefined) return null;
    if (!this.members.has(block)) {
      const inside = new Set();
      this.labels.forEach((_, other) => {
        if (this.chain(other).includes(block))
          for (const id of this.operations[other]) inside.add(id);
      });
      this.members.set(block, inside);
    }
    return this.members.get(block);
  }

  // For every block what stands for its operations: null when they are seen one by one.
  unitsOf(open) {
    return this.labels.map((_, block) => {
      const closed = this.chain(block).find((outer) => outer !== PROGRAM && !open.has(outer));
      return closed === undefined ? null : `#${closed}`;
    });
  }

  // A block and those that repeat it: built alike, in the same block or in blocks that repeat it.
  repetitions(block) {
    if (block === PROGRAM || this.regions.has(block)) return [block];
    const around = new Set(this.repetitions(this.parents[block]));
    const found = this.labels
      .map((_, other) => other)
      .filter(
        (other) => this.alike[other] === this.alike[block] && around.has(this.parents[other]),
      );
    return found.length <= MOST_TOGETHER ? found : [block];
  }

  // The open blocks after one is opened or closed: with it all that repeat it, unless it is alone.
  toggled(open, block, alone = false) {
    const next = new Set(open);
    for (const one of alone ? [block] : this.repetitions(block)) {
      if (open.has(block)) next.delete(one);
      else next.add(one);
    }
    return next;
  }

  // The blocks that must be open for an operation, or the node of a block, to be seen.
  around(unit, latest) {
    const block = this.indexOf(unit);
    const inner = block === undefined ? latest.get(unit)?.block : this.parents[block];
    return inner === undefined ? [] : this.chain(inner).slice(1);
  }
}

// {at: Map(unit -> [x, y]), boxes: [{block, x, y, width, height}], route(a, b), width, height,
// node}
export async function placeBlocks(data, open) {
  const tree = data.blocks;
  const seen = [
    PROGRAM,
    ...[...open].filter((block) =>
      tree.chain(block).every((outer) => outer === PROGRAM || open.has(outer)),
    ),
  ];
  const layouts = new Map();
  await Promise.all(seen.map(async (block) => layouts.set(block, await data.blockLayout(block))));

  const levels = new Map(); // block -> its drawing with its open blocks grown
  const grown = (block) => {
    const sizes = new Map();
    for (const inner of seen) {
      if (inner === PROGRAM || tree.parents[inner] !== block) continue;
      const level = grown(inner);
      sizes.set(`#${inner}`, [
        level.width + 2 * BLOCK_PADDING,
        level.height + BLOCK_TITLE + BLOCK_PADDING,
      ]);
    }
    levels.set(block, growLevel(layouts.get(block), sizes));
    return levels.get(block);
  };
  grown(PROGRAM);

  const at = new Map(),
    boxes = [],
    origins = new Map();
  const settle = (block, left, top) => {
    const level = levels.get(block);
    origins.set(block, [left, top]);
    for (const [unit, [x, y]] of level.at) {
      if (unit === "#in" || unit === "#out") continue;
      const size = level.sizes.get(unit);
      if (!size) {
        at.set(unit, [left + x, top + y]);
        continue;
      }
      const inner = tree.indexOf(unit);
      const box = {
        block: inner,
        x: left + x - size[0] / 2,
        y: top + y - size[1] / 2,
        width: size[0],
        height: size[1],
      };
      boxes.push(box);
      settle(inner, box.x + BLOCK_PADDING, box.y + BLOCK_TITLE);
    }
  };
  settle(PROGRAM, 0, 0);
  const boxOf = new Map(boxes.map((box) => [box.block, box]));

  const leg = (block, source, target) => {
    const [left, top] = origins.get(block);
    return (
      levels
        .get(block)
        .route(source, target)
        ?.map(([x, y]) => [left + x, top + y]) ?? null
    );
  };
  // Out of the blocks around `a` through their ports, over to the block around `b`, and into it.
  const route = (a, b) => {
    const above = chainOfUnit(data, a),
      below = chainOfUnit(data, b);
    let common = 0;
    while (common < above.length && common < below.length && above[common] === below[common])
      common += 1;
    const first = common < above.length ? `#${above[common]}` : a;
    const last = common < below.length ? `#${below[common]}` : b;
    const outer = leg(above[common - 1], first, last);
    if (!outer) return null;
    let points = outer;
    for (let depth = common; depth < above.length; depth += 1) {
      const inner = leg(
        above[depth],
        depth + 1 < above.length ? `#${above[depth + 1]}` : a,
        "#out",
      );
      if (!inner) return null;
      const box = boxOf.get(above[depth]);
      points = [...inner, ...throughBorder(points, inner[inner.length - 1][0], box.y + box.height)];
    }
    for (let depth = common; depth < below.length; depth += 1) {
      const inner = leg(below[depth], "#in", depth + 1 < below.length ? `#${below[depth + 1]}` : b);
      if (!inner) return null;
      const box = boxOf.get(below[depth]);
      points = [...throughBorder([...points].reverse(), inner[0][0], box.y).reverse(), ...inner];
    }
    return points.flat();
  };
  const program = levels.get(PROGRAM);
  return {at, boxes, route, width: program.width, height: program.height, node: program.node};
}

function chainOfUnit(data, unit) {
  const block = data.blocks.indexOf(unit);
  return data.blocks.chain(
    block === undefined ? data.latest.get(unit).block : data.blocks.parents[block],
  );
}

// An outer way that begins at a block begins at its port instead: the same border, another x.
function throughBorder(points, x, y) {
  const [, second, ...rest] = points;
  if (!second) return [[x, y]];
  return rest.length ? [[x, y], [x, second[1]], ...rest] : [[x, y], second];
}

// A drawing whose nodes in `sizes` have other sizes than a node. Rows of them get higher, and in
// their rows everything moves aside.
function growLevel(layout, sizes) {
  const [nodeWidth, nodeHeight] = layout.node;
  const rows = new Map(); // y -> {growth, grown: [[x, extra width]]}
  for (const [unit, [width, height]] of sizes) {
    const place = layout.at.get(unit);
    if (!place) continue;
    const row = rows.get(place[1]) ?? {growth: 0, grown: []};
    row.growth = Math.max(row.growth, height + 2 * ROW_CLEARANCE - nodeHeight);
    // Two blocks in one place, which are there in different passes, share its room.
    const shared = row.grown.find(([x]) => Math.abs(x - place[0]) < 1);
    if (shared) shared[1] = Math.max(shared[1], width - nodeWidth);
    else row.grown.push([place[0], width - nodeWidth]);
    rows.set(place[1], row);
  }
  const sorted = [...rows]
    .sort((a, b) => a[0] - b[0])
    .map(([y, row]) => ({y, top: y - nodeHeight / 2, bottom: y + nodeHeight / 2, ...row}));
  const moveY = (y) =>
    sorted.reduce(
      (sum, row) => sum + row.growth * Math.min(1, Math.max(0, (y - row.top) / nodeHeight)),
      y,
    );
  const moveX = (x, y) =>
    sorted.reduce((sum, row) => {
      if (y < row.top - 0.5 || y > row.bottom + 0.5) return sum;
      return (
        sum +
        row.grown.reduce(
          (shift, [at, extra]) =>
            shift + (Math.abs(x - at) < 1 ? 0 : (Math.sign(x - at) * extra) / 2),
          0,
        )
      );
    }, x);
  /** @type {(place: [number, number]) => [number, number]} */
  const move = ([x, y]) => [moveX(x, y), moveY(y)];

  const at = new Map([...layout.at].map(([unit, place]) => [unit, move(place)]));
  const sizeOf = (unit) =>
    sizes.get(unit) ?? (unit === "#in" || unit === "#out" ? PORT_SIZE : [nodeWidth, nodeHeight]);
  const placeOf = (unit) => /** @type {[number, number]} */ (at.get(unit));
  // Where an edge touches a node: below or above it, on the side where the drawing has it.
  /** @type {(unit: string, point: number[]) => [number, number]} */
  const touch = (unit, point) => {
    const [x, y] = placeOf(unit);
    return [x, y + ((point[1] > layout.at.get(unit)[1] ? 1 : -1) * sizeOf(unit)[1]) / 2];
  };
  let left = 0,
    right = layout.width;
  const reach = (from, to) => {
    left = Math.min(left, from - 8);
    right = Math.max(right, to + 8);
  };
  for (const [unit, [x]] of at)
    reach(x - (sizes.get(unit)?.[0] ?? 0) / 2, x + (sizes.get(unit)?.[0] ?? 0) / 2);
  const routes = new Map();
  for (const [key, flat] of layout.routes) {
    const [source, target] = key.split("\n");
    /** @type {[number, number][]} */
    let points = [];
    for (let index = 0; index < flat.length; index += 2)
      points.push([flat[index], flat[index + 1]]);
    const ends = [points[0], points[points.length - 1]];
    points = aroundRows(points, sorted).map(move);
    const start = touch(source, ends[0]),
      end = touch(target, ends[1]);
    if (Math.abs(start[1] - points[0][1]) > 0.5) points.unshift(start);
    if (Math.abs(end[1] - points[points.length - 1][1]) > 0.5) points.push(end);
    // What steps aside for a block may not leave the frame around it.
    if (sizes.size) for (const [x] of points) reach(x, x);
    routes.set(key, points);
  }
  for (const points of routes.values()) for (const point of points) point[0] -= left;
  for (const place of at.values()) place[0] -= left;
  return {
    at,
    sizes,
    route: (source, target) => routes.get(`${source}\n${target}`) ?? null,
    node: layout.node,
    width: right - left,
    height: layout.height + sorted.reduce((sum, row) => sum + row.growth, 0),
  };
}

// A vertical run past a row that grows gets points at its borders, where it steps aside.
function aroundRows(points, rows) {
  const way = [points[0]];
  for (let index = 1; index < points.length; index += 1) {
    const [fromX, fromY] = points[index - 1],
      [x, y] = points[index];
    if (fromX === x) {
      const down = y > fromY;
      for (const row of down ? rows : [...rows].reverse()) {
        if (row.bottom <= Math.min(fromY, y) || row.top >= Math.max(fromY, y)) continue;
        const stops = [row.top - RANK_GAP, row.top, row.bottom, row.bottom + RANK_GAP].filter(
          (stop) => stop > Math.min(fromY, y) && stop < Math.max(fromY, y),
        );
        for (const stop of down ? stops : stops.reverse()) way.push([x, stop]);
      }
    }
    way.push(points[index]);
  }
  return way;
}
