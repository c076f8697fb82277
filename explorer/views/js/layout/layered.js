// One graph in layers from top to bottom, in columns where it is long (Sugiyama, Tagawa and Toda,
// IEEE SMC 11(2), 1981): cycles, ranks, order, places, columns, ways.

import {VERTICAL_GAP, chooseColumns, placeColumns} from "./columns.js";
import {countCrossings, makeLanes, orderRanks} from "./order.js";
import {HORIZONTAL_GAP, placeRanks} from "./places.js";
import {assignRanks, findSpine, withoutCycles} from "./ranks.js";

const LANE_WIDTH = 4;
const LANE_WEIGHT = 6; // lanes are straight rather than short
const LOOSE_WEIGHT = 0.05; // constants yield to data

// graph: {nodes: [{id, width, height, port: "", "in" or "out", inX, outX}], edges: [[a, b]],
// isLoose: [true for an edge that may rather run upwards than others]}; inX and outX: where edges
// touch a node, from its middle. memory: {x, lanes: Map(id -> x), heads: Set(id)} of a drawing
// before, or null. room: {width, height} to be filled.
// Returns {at, ways: [{points: [[x, y]], kind: "", "back" or "turn"}], width, height, memory,
// crossings}. Yields now and then.
export function* layeredDrawing(graph, memory, room) {
  const drawings = [];
  for (const part of components(graph)) drawings.push(yield* drawPart(graph, part, memory, room));
  return pack(drawings, graph, room);
}

// Indices of nodes and edges of every connected part, by first node.
function components({nodes, edges}) {
  const parent = nodes.map((_, node) => node);
  const root = (node) => {
    while (parent[node] !== node) node = parent[node] = parent[parent[node]];
    return node;
  };
  for (const [a, b] of edges) parent[root(b)] = root(a);
  const parts = new Map();
  nodes.forEach((_, node) => {
    if (!parts.has(root(node))) parts.set(root(node), {members: [], edges: []});
    parts.get(root(node)).members.push(node);
  });
  edges.forEach(([a], index) => parts.get(root(a)).edges.push(index));
  return [...parts.values()];
}

function* drawPart(graph, part, memory, room) {
  const count = part.members.length;
  const nodes = part.members.map((member) => graph.nodes[member]);
  const own = new Map(part.members.map((member, index) => [member, index]));
  const given = part.edges.map((index) => graph.edges[index].map((end) => own.get(end)));
  const {downward, reversed} = withoutCycles(
    count,
    given,
    part.edges.map((index) => graph.isLoose[index]),
  );
  const ports = (port) => new Set(nodes.keys().filter((node) => nodes[node].port === port));
  const {ranks, depths, isLoose} = assignRanks(count, downward, ports("in"), ports("out"));
  yield;
  const lanes = makeLanes(downward, ranks);
  const known = [
    ...nodes.map(({id}) => memory?.x.get(id) ?? NaN),
    ...lanes.ownerOf.map((owner) => memory?.lanes.get(nodes[owner].id) ?? NaN),
  ];
  const order = yield* orderRanks(lanes, known);
  const dummies = lanes.ownerOf.length;
  const x = yield* placeRanks(
    order,
    lanes,
    [...nodes.map(({width}) => width), ...Array(dummies).fill(LANE_WIDTH)],
    [
      ...nodes.map((_, node) => (isLoose[node] ? LOOSE_WEIGHT : 1)),
      ...Array(dummies).fill(LANE_WEIGHT),
    ],
    findSpine(downward, ranks, depths),
  );
  const bands = bandsOf(order, nodes, x);
  const crossing = (rank) =>
    order[rank].filter((node) => lanes.below[node].length).sort((a, b) => x[b] - x[a]);
  const heads = chooseColumns(
    bands,
    order.map((_, rank) => crossing(rank).length),
    room,
    (rank) => order[rank].some((node) => node < count && memory?.heads.has(nodes[node].id)),
  );
  const columns = placeColumns(heads, bands, crossing);
  const placeOf = (node) => {
    const rank = lanes.ranks[node];
    return [
      x[node] + columns.dx[rank],
      (bands[rank].top + bands[rank].bottom) / 2 + columns.dy[rank],
    ];
  };
  const at = nodes.map((_, node) => placeOf(node));
  const headRanks = new Set(heads.slice(1));
  const ways = downward.map((edge, index) =>
    wayOf(edge, lanes.dummiesOf.get(index), reversed.has(index), {
      nodes,
      lanes,
      x,
      at,
      bands,
      columns,
      headRanks,
    }),
  );
  const laneX = new Map();
  lanes.ownerOf.forEach((owner, dummy) => {
    if (!laneX.has(nodes[owner].id)) laneX.set(nodes[owner].id, x[count + dummy]);
  });
  return {
    part,
    at,
    ways,
    width: columns.width,
    height: columns.height,
    crossings: countCrossings(order, lanes),
    memory: {
      x: new Map(nodes.map(({id}, node) => [id, x[node]])),
      lanes: laneX,
      heads: new Set(
        heads
          .slice(1)
          .flatMap((rank) => order[rank].filter((node) => node < count).map((n) => nodes[n].id)),
      ),
    },
  };
}

function bandsOf(order, nodes, x) {
  let top = 0;
  return order.map((row) => {
    let height = 0,
      left = Infinity,
      right = -Infinity;
    for (const node of row) {
      const width = nodes[node]?.width ?? LANE_WIDTH;
      height = Math.max(height, nodes[node]?.height ?? 0);
      left = Math.min(left, x[node] - width / 2);
      right = Math.max(right, x[node] + width / 2);
    }
    const band = {top, bottom: top + height, left, right};
    top += height + VERTICAL_GAP;
    return band;
  });
}

// The way of an edge: from the foot of its upper node straight down through every rank between, and
// around to the next column where the ranks are cut.
function wayOf([a, b], dummies, isReversed, drawing) {
  const {nodes, lanes, x, at, bands, columns, headRanks} = drawing;
  const top = (rank) => bands[rank].top + columns.dy[rank],
    bottom = (rank) => bands[rank].bottom + columns.dy[rank];
  const [from, to] = isReversed ? [b, a] : [a, b];
  const startX = at[a][0] + (from === a ? (nodes[a].outX ?? 0) : 0),
    endX = at[b][0] + (to === b ? (nodes[b].inX ?? 0) : 0);
  const points = [
    [startX, at[a][1] + nodes[a].height / 2],
    [startX, bottom(lanes.ranks[a])],
  ];
  let kind = "";
  const chain = [a, ...(dummies ?? []), b];
  for (let index = 1; index < chain.length; index += 1) {
    const upper = chain[index - 1],
      lower = chain[index];
    const rank = lanes.ranks[lower];
    const lowerX = lower === b ? endX : x[lower] + columns.dx[rank];
    if (headRanks.has(rank) && lanes.ranks[upper] === rank - 1) {
      const upperX = upper === a ? startX : x[upper] + columns.dx[rank - 1];
      const {gutter, foot, head} = columns.turn(rank - 1, upper);
      points.push([upperX, foot], [gutter, foot], [gutter, head], [lowerX, head]);
      kind = "turn";
    }
    points.push([lowerX, top(rank)]);
    if (lower !== b) points.push([lowerX, bottom(rank)]);
  }
  points.push([endX, at[b][1] - nodes[b].height / 2]);
  if (!kind && top(lanes.ranks[b]) < top(lanes.ranks[a])) kind = "turn"; // too long for a lane
  return {
    points: straightened(isReversed ? points.reverse() : points),
    kind: isReversed ? "back" : kind,
  };
}

// Without the points in the middle of a straight run.
function straightened(points) {
  const kept = [points[0]];
  for (let index = 1; index < points.length - 1; index += 1) {
    const last = kept[kept.length - 1],
      point = points[index],
      next = points[index + 1];
    const isStraight =
      (Math.abs(last[0] - point[0]) < 0.01 && Math.abs(point[0] - next[0]) < 0.01) ||
      (Math.abs(last[1] - point[1]) < 0.01 && Math.abs(point[1] - next[1]) < 0.01);
    if (!isStraight) kept.push(point);
  }
  kept.push(points[points.length - 1]);
  return kept;
}

// Parts side by side in rows as wide as the room: the largest first.
function pack(drawings, graph, room) {
  const at = new Array(graph.nodes.length),
    ways = new Array(graph.edges.length);
  const memory = {x: new Map(), lanes: new Map(), heads: new Set()};
  const area = drawings.reduce(
    (sum, {width, height}) => sum + (width + HORIZONTAL_GAP) * (height + VERTICAL_GAP),
    0,
  );
  const widest = drawings.reduce((most, {width}) => Math.max(most, width), 0);
  const limit = Math.max(widest, Math.sqrt((area * room.width) / room.height));
  let left = 0,
    top = 0,
    rowHeight = 0,
    width = 0,
    crossings = 0;
  const sorted = [...drawings].sort((a, b) => b.part.members.length - a.part.members.length);
  for (const drawing of sorted) {
    if (left > 0 && left + drawing.width > limit) {
      top += rowHeight + VERTICAL_GAP;
      left = rowHeight = 0;
    }
    drawing.part.members.forEach((member, index) => {
      const [x, y] = drawing.at[index];
      at[member] = [x + left, y + top];
    });
    drawing.part.edges.forEach((edge, index) => {
      const {points, kind} = drawing.ways[index];
      ways[edge] = {points: points.map(([x, y]) => [x + left, y + top]), kind};
    });
    for (const [id, x] of drawing.memory.x) memory.x.set(id, x);
    for (const [id, x] of drawing.memory.lanes) memory.lanes.set(id, x);
    for (const id of drawing.memory.heads) memory.heads.add(id);
    width = Math.max(width, left + drawing.width);
    rowHeight = Math.max(rowHeight, drawing.height);
    left += drawing.width + HORIZONTAL_GAP;
    crossings += drawing.crossings;
  }
  return {at, ways, width, height: top + rowHeight, memory, crossings};
}
