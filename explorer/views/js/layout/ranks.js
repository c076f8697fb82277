// Which node of a graph stands above which: edges that must run upwards, and the rank of every
// node, counted from the top. Nodes are numbers from 0, in the order that breaks ties; edges are
// pairs of them. The method is that of layered.js, where its source is named.

// The neighbours below and above every node.
function neighbours(count, edges) {
  const {above, below} = emptyNeighbours(count);
  for (const [a, b] of edges) {
    below[a].push(b);
    above[b].push(a);
  }
  return {below, above};
}

export function emptyNeighbours(count) {
  /** @type {number[][]} */
  const above = Array.from({length: count}, () => []);
  /** @type {number[][]} */
  const below = Array.from({length: count}, () => []);
  return {above, below};
}

// The edges of an acyclic graph, some of them turned round, and the indices of those. A loose edge
// (of what a pass took away) is turned round before any other.
export function withoutCycles(count, edges, isLoose) {
  const firm = edges.filter((_, index) => !isLoose[index]);
  const part = strongParts(count, edges);
  const isInCycle = ([a, b]) => part[a] === part[b];
  const kept = edges.filter((edge, index) => !isLoose[index] || !isInCycle(edge));
  const back = backEdges(count, firm);
  const turned = ([a, b]) => (back.has(a * count + b) ? [b, a] : [a, b]);
  const place = topologicalPlaces(count, kept.map(turned));
  const reversed = new Set();
  const downward = edges.map((edge, index) => {
    const [a, b] = edge;
    const isTurned =
      isLoose[index] && isInCycle(edge) ? place[a] > place[b] : back.has(a * count + b);
    if (!isTurned) return edge;
    reversed.add(index);
    return [b, a];
  });
  return {downward, reversed};
}

// Edges that lead back to a node on the current depth-first path, as source * count + target.
// Searches from the nodes without predecessors first.
function backEdges(count, edges) {
  const {below, above} = neighbours(count, edges);
  const roots = [...Array(count).keys()].sort(
    (a, b) => Number(above[a].length > 0) - Number(above[b].length > 0) || a - b,
  );
  const NEW = 0,
    ON_PATH = 1,
    DONE = 2;
  const state = new Uint8Array(count);
  const found = new Set();
  for (const root of roots) {
    if (state[root] !== NEW) continue;
    state[root] = ON_PATH;
    const path = [root],
      next = [0];
    while (path.length) {
      const node = path[path.length - 1];
      const target = below[node][next[next.length - 1]++];
      if (target === undefined) {
        state[node] = DONE;
        path.pop();
        next.pop();
      } else if (state[target] === ON_PATH) found.add(node * count + target);
      else if (state[target] === NEW) {
        state[target] = ON_PATH;
        path.push(target);
        next.push(0);
      }
    }
  }
  return found;
}

// For every node the strongly connected part that it is in (Tarjan, SIAM J. Comput. 1(2), 1972).
function strongParts(count, edges) {
  const {below} = neighbours(count, edges);
  const index = new Int32Array(count).fill(-1),
    low = new Int32Array(count),
    part = new Int32Array(count).fill(-1);
  const open = [];
  let counter = 0,
    parts = 0;
  for (let root = 0; root < count; root += 1) {
    if (index[root] >= 0) continue;
    const path = [root],
      next = [0];
    index[root] = low[root] = counter++;
    open.push(root);
    while (path.length) {
      const node = path[path.length - 1];
      const target = below[node][next[next.length - 1]++];
      if (target !== undefined) {
        if (index[target] < 0) {
          index[target] = low[target] = counter++;
          open.push(target);
          path.push(target);
          next.push(0);
        } else if (part[target] < 0) low[node] = Math.min(low[node], index[target]);
        continue;
      }
      path.pop();
      next.pop();
      if (path.length) low[path[path.length - 1]] = Math.min(low[path[path.length - 1]], low[node]);
      if (low[node] !== index[node]) continue;
      for (;;) {
        const member = Number(open.pop());
        part[member] = parts;
        if (member === node) break;
      }
      parts += 1;
    }
  }
  return part;
}

// A place for every node so that edges lead to later places; those of cycles come last, in order.
function topologicalPlaces(count, edges) {
  const {below, above} = neighbours(count, edges);
  const missing = above.map((nodes) => nodes.length);
  const order = [...Array(count).keys()].filter((node) => !missing[node]);
  for (const node of order)
    for (const target of below[node]) if (!--missing[target]) order.push(target);
  const place = new Int32Array(count).fill(count);
  order.forEach((node, index) => {
    place[node] = index;
  });
  return place;
}

// The rank of every node of an acyclic graph: the longest path to it. A loose node (a source, or
// what depends on loose ones only that nobody else uses) comes down to right above its first user,
// and so does a chain that begins at a node with other users. `first` stay at the top, `last` go
// to the bottom.
export function assignRanks(count, edges, first, last) {
  const {below, above} = neighbours(count, edges);
  const missing = above.map((nodes) => nodes.length);
  const order = [...Array(count).keys()].filter((node) => !missing[node]);
  const ranks = new Int32Array(count);
  for (const node of order)
    for (const target of below[node]) {
      ranks[target] = Math.max(ranks[target], ranks[node] + 1);
      if (!--missing[target]) order.push(target);
    }
  const depths = ranks.slice();
  const isLoose = new Uint8Array(count),
    maySink = new Uint8Array(count);
  for (const node of order) {
    const upper = above[node];
    isLoose[node] = Number(
      !first.has(node) && upper.every((other) => isLoose[other] && below[other].length === 1),
    );
    maySink[node] = Number(
      isLoose[node] ||
        (upper.length === 1 && (below[upper[0]].length > 1 || maySink[upper[0]] === 1)),
    );
  }
  for (const node of order.reverse())
    if (below[node].length && maySink[node])
      ranks[node] = below[node].reduce((least, n) => Math.min(least, ranks[n]), count) - 1;
  spreadSiblings(ranks, above, below, new Set([...first, ...last]));
  const lowest = ranks.reduce((most, rank) => Math.max(most, rank), 0);
  for (const node of last) ranks[node] = lowest;
  return {ranks, depths, isLoose};
}

const MAX_ABREAST = 5; // of ends that are alike
const MIN_ABREAST = 4; // where there are more of them

// Many results of the same operations, or many inputs of the same ones, stand in several rows: side
// by side a dozen of them would be far wider than everything else.
function spreadSiblings(ranks, above, below, ports) {
  const alike = (isEnd, others) => {
    const groups = new Map();
    ranks.forEach((rank, node) => {
      if (ports.has(node) || !isEnd(node) || !others[node].length) return;
      const key = `${rank} ${[...others[node]].sort((a, b) => a - b)}`;
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push(node);
    });
    return [...groups.values()].filter((group) => group.length > MAX_ABREAST);
  };
  const rowsOf = (group) => {
    const most = Math.max(MIN_ABREAST, Math.ceil(Math.sqrt(1.5 * group.length)));
    const each = Math.ceil(group.length / Math.ceil(group.length / most));
    return (index) => Math.floor(index / each);
  };
  for (const group of alike((node) => !below[node].length, above)) {
    const row = rowsOf(group);
    group.forEach((node, index) => {
      ranks[node] += row(index);
    });
  }
  for (const group of alike((node) => !above[node].length, below)) {
    const row = rowsOf(group);
    group.forEach((node, index) => {
      ranks[node] -= row(group.length - 1 - index);
    });
  }
  const highest = ranks.reduce((least, rank) => Math.min(least, rank), 0);
  if (highest < 0) for (let node = 0; node < ranks.length; node += 1) ranks[node] -= highest;
}

// The longest path, from the bottom up: one node of every rank. Among the candidates of a rank the
// deepest one wins, so that it follows data.
export function findSpine(edges, ranks, depths) {
  const {above} = neighbours(ranks.length, edges);
  let node = 0;
  for (let other = 1; other < ranks.length; other += 1)
    if (ranks[other] > ranks[node]) node = other;
  const spine = [node];
  for (;;) {
    const candidates = above[node].filter((other) => ranks[other] === ranks[node] - 1);
    if (!candidates.length) return spine;
    node = candidates.reduce((best, other) => (depths[other] > depths[best] ? other : best));
    spine.push(node);
  }
}
