// One place for every operation in all snapshots, so that nothing moves from pass to pass. What is
// never there at the same time may share a place:
//
//   import   conv -> bn -> relu -> add        conv  ┐ one place
//   fold-bn  conv' ------> relu -> add        conv' ┘; its edge to relu runs over bn's place

import {placeProgram} from "./program.js";

const MAX_CANDIDATES = 64; // places that are looked at for one new operation
const MAX_STEPS = 64; // places that are looked at for a way over empty ones
const ENDS = new Set(["input", "output", "weight"]); // share places only among themselves

// graphs: [{items: [{id, block, family, sources}], edges: [[source, target]]}], one per snapshot;
// shares: whether operations share places; chainOf, node, memory, room: of placeProgram. Returns
// what that does, with `at` of every operation and `route` between any two that an edge joins.
export function* placeUnion({graphs, shares = true, chainOf, node, memory, room}) {
  const {placeOf, alive, blockOf} = sharePlaces(graphs, shares);
  yield;
  const last = 1n << BigInt(graphs.length - 1);
  const refused = new Set();
  for (;;) {
    const {detours, kept} = findDetours(graphs, placeOf, alive, refused);
    yield;
    const placed = yield* placeProgram({
      items: [...alive.keys()].map((id) => ({id, block: blockOf.get(id)})),
      edges: kept.map(({source, target, life}) => ({source, target, isLoose: !(life & last)})),
      chainOf,
      node,
      memory,
      room,
    });
    // Where passes turned something round, a way may lead up and down: that edge gets its own.
    const leadsBack = (path) => joined(path, placed.route)?.kind === "back";
    const spoilt = [...detours].filter(([, path]) => leadsBack(path));
    for (const [key] of spoilt) refused.add(key);
    if (spoilt.length) continue;
    const route = (a, b) => {
      const [from, to] = [placeOf.get(a), placeOf.get(b)];
      const path = detours.get(`${from}\n${to}`);
      return path ? joined(path, placed.route) : placed.route(from, to);
    };
    return {
      ...placed,
      at: new Map([...placeOf].map(([id, place]) => [id, placed.at.get(place)])),
      route,
    };
  }
}

// The place of every operation, named by the first one that stands there, and for every place the
// snapshots in which something does, a bit each. A new operation takes the place of one that comes
// from some of the same source nodes: best one of its own family, then the one with most sources in
// common, then the last.
function sharePlaces(graphs, shares) {
  const lives = new Map();
  graphs.forEach(({items}, index) => {
    const bit = 1n << BigInt(index);
    for (const {id} of items) lives.set(id, (lives.get(id) ?? 0n) | bit);
  });
  const placeOf = new Map(),
    alive = new Map(),
    latest = new Map(), // place -> the item that came there last
    bySource = new Map(); // source node -> places
  for (const {items} of graphs)
    for (const item of items) {
      if (placeOf.has(item.id)) continue;
      const life = lives.get(item.id);
      const sources = shares ? new Set(item.sources) : new Set();
      const place = vacantPlace({item, life, sources, alive, latest, bySource}) ?? item.id;
      placeOf.set(item.id, place);
      alive.set(place, (alive.get(place) ?? 0n) | life);
      latest.set(place, item);
      for (const source of sources) {
        if (!bySource.has(source)) bySource.set(source, []);
        const places = bySource.get(source);
        if (!places.slice(-MAX_CANDIDATES).includes(place)) places.push(place);
      }
    }
  return {placeOf, alive, blockOf: new Map([...latest].map(([place, {block}]) => [place, block]))};
}

function vacantPlace({item, life, sources, alive, latest, bySource}) {
  const shared = new Map();
  for (const source of sources)
    for (const place of (bySource.get(source) ?? []).slice(-MAX_CANDIDATES))
      shared.set(place, (shared.get(place) ?? 0) + 1);
  const endOf = ({family}) => (ENDS.has(family) ? family : "");
  let best,
    most = 0;
  for (const [place, count] of shared) {
    const former = latest.get(place);
    if (alive.get(place) & life || former.block !== item.block || endOf(former) !== endOf(item))
      continue;
    const rank = count + (former.family === item.family ? 1000 : 0);
    if (rank >= most) [best, most] = [place, rank];
  }
  return best;
}

// Ways of edges over places that are empty whenever the edge is there, {"from\nto": path}, and the
// other edges, those of `refused` among them. When bn of conv -> bn -> relu goes, the new edge
// conv -> relu needs no lane around its place; only the other edges take part in the layout.
function findDetours(graphs, placeOf, alive, refused) {
  const edges = new Map();
  graphs.forEach((graph, index) => {
    for (const [a, b] of graph.edges) {
      const [source, target] = [placeOf.get(a), placeOf.get(b)];
      if (source === target) continue;
      const key = `${source}\n${target}`;
      if (!edges.has(key)) edges.set(key, {key, source, target, life: 0n});
      edges.get(key).life |= 1n << BigInt(index);
    }
  });
  const below = new Map();
  for (const {source, target} of edges.values()) {
    if (!below.has(source)) below.set(source, new Set());
    below.get(source).add(target);
  }
  const detours = new Map(),
    needed = new Set();
  for (const edge of edges.values()) {
    const mayBend = !needed.has(edge.key) && !refused.has(edge.key);
    const path = mayBend ? emptyPath(edge, below, alive) : null;
    if (!path) continue;
    detours.set(edge.key, path);
    below.get(edge.source).delete(edge.target);
    for (let index = 1; index < path.length; index += 1)
      needed.add(`${path[index - 1]}\n${path[index]}`);
  }
  return {detours, kept: [...edges.values()].filter(({key}) => !detours.has(key))};
}

// A path from the edge's source to its target over at least one other place, all of them empty
// while the edge is there, and over all such places between its steps; null where none is found.
function emptyPath(edge, below, alive, taken = new Set([edge.source, edge.target])) {
  const path = shortPath(edge, below, alive, taken);
  if (!path) return null;
  for (const place of path) taken.add(place);
  return path.flatMap((target, index) => {
    if (!index) return [target];
    const step = {source: path[index - 1], target, life: edge.life};
    return (emptyPath(step, below, alive, taken) ?? path.slice(index - 1, index + 1)).slice(1);
  });
}

function shortPath({source, target, life}, below, alive, taken) {
  const isFree = (place) => !taken.has(place) && !(alive.get(place) & life);
  const stack = [...(below.get(source) ?? [])].filter(isFree);
  const from = new Map(stack.map((place) => [place, source]));
  for (let step = 0; step < MAX_STEPS && stack.length; step += 1) {
    const place = stack.pop();
    const next = below.get(place) ?? new Set();
    if (next.has(target)) {
      const path = [target, place];
      while (path[path.length - 1] !== source) path.push(from.get(path[path.length - 1]));
      return path.reverse();
    }
    for (const other of next)
      if (isFree(other) && !from.has(other)) {
        from.set(other, place);
        stack.push(other);
      }
  }
  return null;
}

// One way after another, straight through the places between them.
function joined(path, route) {
  const points = [];
  let kind = "";
  for (let index = 1; index < path.length; index += 1) {
    const way = route(path[index - 1], path[index]);
    if (!way) return null;
    points.push(...way.points);
    if (way.kind === "back" || !kind) kind = way.kind;
  }
  return {points, kind};
}
