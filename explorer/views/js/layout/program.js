// Where everything of a program stands when some of its blocks are open. Every open block is a
// drawing of its own that stands as one large node in that around it; edges enter and leave it
// through a port at its top and one at its foot.

import {layeredDrawing} from "./layered.js";

const PADDING = 10;
const TITLE = 26;
const PORT = {width: 8, height: 4};
const PROGRAM = 0;
const IN = "#in",
  OUT = "#out";

// items: [{id, block, kin: ids of what it takes the place of}] in program order; edges: [{source,
// target, isLoose}]; chainOf(block): the blocks from the program down to it; node: [width, height];
// memory: Map(block -> memory of layered.js) of the drawing before, or null; room: {width, height}.
// Returns {at: Map(id -> [x, y]), boxes: [{block, x, y, width, height}], route(a, b) -> {points:
// [x, y, x, y, ...], kind} or null, width, height, node, memory, crossings}.
export function* placeProgram({items, edges, chainOf, node, memory, room}) {
  const levels = levelsOf(items, edges, chainOf, node);
  for (const level of [...levels.values()].reverse()) yield* drawLevel(level, memory, room);
  const at = new Map(),
    boxes = [];
  const settle = (level, left, top) => {
    Object.assign(level, {left, top});
    level.members.forEach((member, index) => {
      if (member.id === IN || member.id === OUT) return;
      const [x, y] = level.drawing.at[index];
      if (member.level === undefined) {
        at.set(member.id, [left + x, top + y]);
        return;
      }
      const {width, height} = member;
      const box = {x: left + x - width / 2, y: top + y - height / 2, width, height};
      boxes.push({block: member.level.block, ...box});
      settle(member.level, box.x + PADDING, box.y + TITLE);
    });
  };
  const program = levels.get(PROGRAM);
  settle(program, 0, 0);
  const blockOf = new Map(items.map(({id, block}) => [id, block]));
  return {
    at,
    boxes,
    route: (a, b) => routeBetween(levels, chainOf, blockOf, a, b),
    width: program.drawing.width,
    height: program.drawing.height,
    node,
    memory: new Map([...levels].map(([block, level]) => [block, level.drawing.memory])),
    crossings: [...levels.values()].reduce((sum, {drawing}) => sum + drawing.crossings, 0),
  };
}

const boxName = (block) => `#${block}`;

// What stands in every block, outer blocks first: {block, members, legs, kin}.
function levelsOf(items, edges, chainOf, [width, height]) {
  const levels = new Map();
  const level = (block) => {
    if (!levels.has(block))
      levels.set(block, {block, members: [], index: new Map(), legs: new Map()});
    return levels.get(block);
  };
  const join = (block, member) => {
    const {members, index} = level(block);
    if (index.has(member.id)) return;
    index.set(member.id, members.length);
    members.push(member);
  };
  level(PROGRAM);
  const blockOf = new Map();
  for (const item of items) {
    blockOf.set(item.id, item.block);
    const chain = chainOf(item.block);
    chain.slice(1).forEach((inner, depth) => {
      level(inner);
      join(chain[depth], {id: boxName(inner), level: levels.get(inner), kin: []});
    });
    join(chain[chain.length - 1], {id: item.id, width, height, kin: item.kin ?? []});
  }
  for (const {source, target, isLoose} of edges)
    for (const [block, from, to] of legsOf(
      chainOf(blockOf.get(source)),
      chainOf(blockOf.get(target)),
      source,
      target,
    )) {
      if (from === IN) join(block, {id: IN, ...PORT, port: "in", kin: []});
      if (to === OUT) join(block, {id: OUT, ...PORT, port: "out", kin: []});
      const {legs, index} = levels.get(block);
      const key = `${from}\n${to}`;
      if (!legs.has(key)) legs.set(key, {ends: [index.get(from), index.get(to)], isLoose});
      else if (!isLoose) legs.get(key).isLoose = false;
    }
  return levels;
}

// The way of an edge block by block, [block, from, to]: out of those around its source, across the
// one around both, into those around its target.
function legsOf(above, below, source, target) {
  let common = 0;
  while (common < above.length && common < below.length && above[common] === below[common])
    common += 1;
  const unit = (chain, depth, end) => (depth < chain.length ? boxName(chain[depth]) : end);
  const legs = [];
  for (let depth = above.length - 1; depth >= common; depth -= 1)
    legs.push([above[depth], unit(above, depth + 1, source), OUT]);
  legs.push([above[common - 1], unit(above, common, source), unit(below, common, target)]);
  for (let depth = common; depth < below.length; depth += 1)
    legs.push([below[depth], IN, unit(below, depth + 1, target)]);
  return legs;
}

function* drawLevel(level, memory, room) {
  for (const member of level.members) {
    if (!member.level) continue;
    const {drawing, index} = member.level;
    const middle = drawing.width / 2;
    const port = (name) => (index.has(name) ? drawing.at[index.get(name)][0] - middle : 0);
    Object.assign(member, {
      width: drawing.width + 2 * PADDING,
      height: drawing.height + TITLE + PADDING,
      inX: port(IN),
      outX: port(OUT),
    });
  }
  const legs = [...level.legs.values()];
  level.drawing = yield* layeredDrawing(
    {
      nodes: level.members,
      edges: legs.map(({ends}) => ends),
      isLoose: legs.map(({isLoose}) => isLoose),
    },
    withKin(memory?.get(level.block), level.members),
    room,
  );
  [...level.legs.values()].forEach((leg, index) => {
    leg.way = level.drawing.ways[index];
  });
}

// What is new stands where that stood of which it takes the place.
function withKin(memory, members) {
  if (!memory) return null;
  const x = new Map(memory.x);
  for (const {id, kin} of members) {
    const former = x.has(id) ? undefined : kin.find((other) => memory.x.has(other));
    if (former !== undefined) x.set(id, memory.x.get(former));
  }
  return {...memory, x};
}

function routeBetween(levels, chainOf, blockOf, a, b) {
  if (!blockOf.has(a) || !blockOf.has(b)) return null;
  const points = [];
  let kind = "";
  for (const [block, from, to] of legsOf(chainOf(blockOf.get(a)), chainOf(blockOf.get(b)), a, b)) {
    const {left, top, legs} = levels.get(block);
    const way = legs.get(`${from}\n${to}`)?.way;
    if (!way) return null;
    for (const [x, y] of way.points) points.push(left + x, top + y);
    if (way.kind === "back" || !kind) kind = way.kind;
  }
  return {points, kind};
}
