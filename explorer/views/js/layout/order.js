// Nodes of every rank from left to right. Edges over several ranks get lanes, one dummy per rank,
// and those of one node share theirs. The first time the order is the one with few crossings
// (barycentre sweeps); from then on what was there keeps its order, and what is new comes beside
// its neighbours.

import {emptyNeighbours} from "./ranks.js";

const SWEEPS = 8;
const SETTLING = 6; // sweeps that bring what is new to its neighbours
const MORE_CROSSINGS = 1.5; // as many crossings for the sake of order, and a few
const FEW_CROSSINGS = 8;

// The graph with dummies, so that every edge joins neighbouring ranks: {ranks, above, below, nodes,
// dummiesOf: dummies by index of the edge, ownerOf: the node whose lane a dummy is in}
export function makeLanes(edges, nodeRanks) {
  const nodes = nodeRanks.length;
  const ranks = [...nodeRanks];
  const {above, below} = emptyNeighbours(nodes);
  const longest = longestSpan(edges, ranks, 10 * nodes + 1000);
  const lanes = new Map();
  const dummiesOf = new Map();
  const ownerOf = [];
  edges.forEach(([a, b], index) => {
    const span = ranks[b] - ranks[a];
    if (span > longest) return;
    if (!lanes.has(a)) lanes.set(a, []);
    const lane = lanes.get(a);
    while (lane.length < span - 1) {
      const upper = lane.length ? lane[lane.length - 1] : a;
      const dummy = ranks.length;
      ranks.push(ranks[upper] + 1);
      ownerOf.push(a);
      lane.push(dummy);
      above.push([upper]);
      below.push([]);
      below[upper].push(dummy);
    }
    const upper = span > 1 ? lane[span - 2] : a;
    below[upper].push(b);
    above[b].push(upper);
    if (span > 1) dummiesOf.set(index, lane.slice(0, span - 1));
  });
  return {ranks, above, below, nodes, dummiesOf, ownerOf};
}

// The longest span that still gets a lane, so that at most `limit` dummies are made; longer edges
// run straight. This bounds the work where thousands of nodes have an edge across the whole graph.
function longestSpan(edges, ranks, limit) {
  const spans = [...new Set(edges.map(([a, b]) => ranks[b] - ranks[a]))].sort((a, b) => a - b);
  let low = 0,
    high = spans.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    const lane = new Map();
    let total = 0;
    for (const [a, b] of edges) {
      const span = ranks[b] - ranks[a];
      const known = lane.get(a) ?? 0;
      if (span > spans[middle] || span - 1 <= known) continue;
      total += span - 1 - known;
      lane.set(a, span - 1);
    }
    if (total <= limit) low = middle + 1;
    else high = middle;
  }
  return low ? spans[low - 1] : 1;
}

// known: for every node, then every dummy, the x that it had before, or NaN. Yields now and then,
// so that whoever runs it can stop; returns the rows.
export function* orderRanks(lanes, known) {
  const kept = known.reduce((sum, x, node) => sum + Number(node < lanes.nodes && x === x), 0);
  const fresh = yield* freshOrder(lanes);
  if (2 * kept < lanes.nodes) return fresh;
  const steady = yield* steadyOrder(lanes, known, fresh);
  const most = MORE_CROSSINGS * countCrossings(fresh, lanes) + FEW_CROSSINGS;
  return countCrossings(steady, lanes) > most ? fresh : steady;
}

function* freshOrder(lanes) {
  const order = depthFirstOrder(lanes);
  const place = new Float64Array(lanes.ranks.length);
  for (const row of order) row.forEach((node, index) => (place[node] = index));
  let unchanged = 0;
  for (let sweep = 0; sweep < SWEEPS && unchanged < 2; sweep += 1) {
    const near = sweep % 2 ? lanes.below : lanes.above;
    let changed = false;
    for (const row of sweep % 2 ? [...order].reverse() : order)
      if (row.length > 1 && sortByBarycentre(row, near, place)) changed = true;
    unchanged = changed ? 0 : unchanged + 1;
    yield;
  }
  return order;
}

// A first order in which what belongs together stands together.
function depthFirstOrder(lanes) {
  const order = rowsOf(lanes.ranks);
  const isSeen = new Uint8Array(lanes.ranks.length);
  for (let source = 0; source < lanes.nodes; source += 1) {
    if (lanes.above[source].length) continue;
    const stack = [source];
    while (stack.length) {
      const node = Number(stack.pop());
      if (isSeen[node]) continue;
      isSeen[node] = 1;
      order[lanes.ranks[node]].push(node);
      for (let index = lanes.below[node].length - 1; index >= 0; index -= 1)
        stack.push(lanes.below[node][index]);
    }
  }
  // Those whose edges are all too long for lanes.
  for (let node = 0; node < lanes.nodes; node += 1)
    if (!isSeen[node]) order[lanes.ranks[node]].push(node);
  return order;
}

function rowsOf(ranks) {
  let lowest = 0;
  for (const rank of ranks) lowest = Math.max(lowest, rank);
  /** @type {number[][]} */
  const rows = Array.from({length: lowest + 1}, () => []);
  return rows;
}

// Sorts a rank by the mean place of the neighbours; one without neighbours keeps its place. Says
// whether anything moved.
function sortByBarycentre(row, near, place) {
  const key = new Map();
  for (const node of row) key.set(node, near[node].length ? mean(near[node], place) : place[node]);
  const sorted = [...row].sort((a, b) => key.get(a) - key.get(b) || place[a] - place[b]);
  let changed = false;
  sorted.forEach((node, index) => {
    changed ||= row[index] !== node;
    row[index] = node;
    place[node] = index;
  });
  return changed;
}

// What is known stays at its x; the rest comes to the mean of its neighbours, above and below.
function* steadyOrder(lanes, known, fresh) {
  const x = new Float64Array(lanes.ranks.length);
  const rankPlace = new Float64Array(lanes.ranks.length);
  for (const row of fresh) row.forEach((node, index) => (rankPlace[node] = index));
  const isNew = [];
  known.forEach((value, node) => {
    x[node] = value === value ? value : 0;
    if (value !== value) isNew.push(node);
  });
  for (let sweep = 0; sweep < SETTLING; sweep += 1) {
    for (const node of sweep % 2 ? [...isNew].reverse() : isNew) {
      const near = [...lanes.above[node], ...lanes.below[node]];
      if (near.length) x[node] = mean(near, x);
    }
    yield;
  }
  return fresh.map((row) => [...row].sort((a, b) => x[a] - x[b] || rankPlace[a] - rankPlace[b]));
}

function mean(nodes, value) {
  let sum = 0;
  for (const node of nodes) sum += value[node];
  return sum / nodes.length;
}

// How often edges cross between neighbouring ranks: inversions, counted with a Fenwick tree.
export function countCrossings(order, lanes) {
  const place = new Int32Array(lanes.ranks.length);
  for (const row of order) row.forEach((node, index) => (place[node] = index));
  let crossings = 0;
  for (let rank = 0; rank + 1 < order.length; rank += 1) {
    const size = order[rank + 1].length;
    const tree = new Int32Array(size + 1);
    let seen = 0;
    for (const node of order[rank]) {
      const targets = lanes.below[node].map((other) => place[other]);
      for (const target of targets) {
        let notRight = 0;
        for (let at = target + 1; at > 0; at -= at & -at) notRight += tree[at];
        crossings += seen - notRight;
      }
      for (const target of targets) {
        for (let at = target + 1; at <= size; at += at & -at) tree[at] += 1;
        seen += 1;
      }
    }
  }
  return crossings;
}
