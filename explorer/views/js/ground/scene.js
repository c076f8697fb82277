// What the graph of a pass shows, and where: the pure part of drawing it. A unit is an operation,
// or a closed block that stands for all operations inside.

import {changeText, countText} from "./numbers.js";

// What is shown of a pass, before it is known where: {items: Map(unit -> item), edges: Map(key ->
// edge), standIn(unit): what has taken a unit's place, ...}. unitOf(record) -> unit; hostOf: the
// operation at which a constant is shown; takersOf(items, before, after): for what was removed what
// took its place.
export function gatherScene({data, state, before, after, details, unitOf, hostOf, takersOf}) {
  const isFirst = state.pass === 0;
  const marks = marksOf(details.diff, isFirst);
  const showsBefore = state.view !== "after" && !isFirst,
    showsAfter = state.view !== "before" || isFirst;
  const records = new Map();
  if (showsBefore) for (const [id, record] of before.nodes) records.set(id, record);
  if (showsAfter) for (const [id, record] of after.nodes) records.set(id, record);
  for (const id of hostOf.keys()) records.delete(id);

  const units = new Map(); // unit -> item
  for (const [id, record] of records) {
    const unit = unitOf(record);
    if (unit !== id) {
      if (!units.has(unit)) units.set(unit, blockItem(data, unit));
      const block = units.get(unit);
      const status = marks.statusOf(id);
      if (after.nodes.has(id) || isFirst) block.inside.after += 1;
      if (before.nodes.has(id)) block.inside.before += 1;
      if (status) block.inside[status] += 1;
      if (record.problem) {
        block.problems += 1;
        block.problem = `${countText(block.problems, "node")} inside cannot be imported`;
      }
      block.families.set(record.family, (block.families.get(record.family) || 0) + 1);
      continue;
    }
    const own = marks.statusOf(id);
    const status =
      state.view === "before" && own !== "removed" && !marks.changes.has(id) ? "" : own;
    units.set(id, {
      id,
      record,
      block: record.block,
      status,
      problem: record.problem,
      isGhost: false,
      changes: marks.changes.get(id) || [],
      constants: constantsAt(id, showsAfter && after.nodes.has(id) ? after : before, hostOf),
    });
  }
  for (const item of units.values()) if (item.inside) finishBlock(item, state, isFirst);
  const takers = state.view === "diff" ? takersOf([...units.values()], before, after) : new Map();
  for (const id of takers.keys()) units.get(id).isGhost = true;
  const standIn = (id) => takers.get(id) ?? id;
  const edges = edgesOf({
    state,
    before,
    after,
    unitOf,
    hostOf,
    units,
    standIn,
    showsBefore,
    showsAfter,
    isFirst,
  });
  const brackets = state.view === "diff" ? bracketsOf(marks.fused, records, unitOf, units) : [];
  return {units, edges, brackets, standIn, records};
}

// The same with places. placed: {at, route(a, b), boxes, width, height, node}
export function settleScene(data, {units, edges, brackets, standIn, records}, placed) {
  for (const [id, item] of units) {
    const place = placed.at.get(standIn(id));
    if (place) [item.x, item.y] = place;
    else units.delete(id);
  }
  for (const [key, edge] of edges) {
    const [source, target] = [standIn(edge.source), standIn(edge.target)];
    const way = units.has(edge.source) && units.has(edge.target) && placed.route(source, target);
    if (way) Object.assign(edge, edgeShape(way.points), {kind: way.kind});
    else edges.delete(key);
  }
  const items = [...units.values()];
  const {boxes = [], node, width, height} = placed;
  return {
    items,
    byId: units,
    edges: [...edges.values()],
    edgeByKey: edges,
    brackets: brackets.filter(
      ({from, to}) =>
        !from.isGhost &&
        from.y !== undefined &&
        to.y !== undefined &&
        from.y !== to.y &&
        Math.abs(from.x - to.x) < node[0], // in one column
    ),
    hiddenNote: "", // how many operations closed blocks hold, in words
    node,
    width,
    height,
    boxes: boxes
      .map((box) => ({
        ...box,
        label: data.blocks.titles[box.block],
        isRegion: data.blocks.regions.has(box.block),
        inside: countInside(data, box.block, records),
      }))
      .filter((box) => box.inside > 0),
    families: familiesOf(items),
  };
}

// The constants that an operation uses, by name, each once.
function constantsAt(id, graph, hostOf) {
  const operands = graph.operands.get(id) ?? [];
  return [...new Set(operands.map((edge) => edge.source).filter((source) => hostOf.has(source)))];
}

function marksOf(diff, isFirst) {
  const added = new Set(isFirst ? [] : diff.added),
    removed = new Set(isFirst ? [] : diff.removed);
  const fused = new Map(isFirst ? [] : diff.fused);
  const changes = new Map();
  for (const change of isFirst ? [] : diff.changed) {
    if (!changes.has(change[0])) changes.set(change[0], []);
    changes.get(change[0]).push(change);
  }
  const statusOf = (id) =>
    fused.has(id)
      ? "fused"
      : added.has(id)
        ? "added"
        : removed.has(id)
          ? "removed"
          : changes.has(id)
            ? "changed"
            : "";
  return {fused, changes, statusOf};
}

function blockItem(data, unit) {
  const index = data.blocks.indexOf(unit);
  const label = data.blocks.labels[index];
  return {
    id: unit,
    holds: data.blocks.holds[index],
    block: data.blocks.parents[index],
    constants: [],
    isGhost: false,
    changes: [],
    status: "",
    problem: "",
    problems: 0,
    families: new Map(),
    inside: {before: 0, after: 0, added: 0, removed: 0, changed: 0, fused: 0},
    record: {
      id: unit,
      operation: "block",
      label,
      family: "block",
      shape: "",
      sources: [],
      device: "",
      attributes: [],
      scope: "",
    },
  };
}

function finishBlock(item, state, isFirst) {
  const {before, after, added, removed, changed, fused} = item.inside;
  const count = state.view === "before" && !isFirst ? before : after;
  const change =
    state.view === "diff" && before !== after && !isFirst ? `, ${changeText(before, after)}` : "";
  const held = (!change && item.holds) || countText(count, "op");
  item.record = {...item.record, shape: `${held}${change}`};
  if (state.view === "diff" && !isFirst)
    item.status = !after
      ? "removed"
      : !before
        ? "added"
        : added + removed + changed + fused
          ? "changed"
          : "";
}

// What took the place of a removed operation: a new one that comes from some of the same source
// nodes, best one of its own family, then the one with most of them in common. The removed one
// looks out from behind it. blockOf(item): the drawing in which it stands.
export function takersBySource(items, before, after, blockOf) {
  const removed = items.filter((item) => !item.inside && !after.nodes.has(item.id));
  const bySource = new Map();
  for (const item of removed)
    for (const source of item.record.sources) {
      if (!bySource.has(source)) bySource.set(source, []);
      bySource.get(source).push(item);
    }
  const takers = new Map();
  for (const item of items) {
    if (item.inside || before.nodes.has(item.id)) continue;
    const shared = new Map();
    for (const source of item.record.sources)
      for (const other of bySource.get(source) ?? [])
        if (!takers.has(other.id) && blockOf(other) === blockOf(item))
          shared.set(other, (shared.get(other) ?? 0) + 1);
    let best = null,
      most = 0;
    for (const [other, count] of shared) {
      const rank = count + (other.record.family === item.record.family ? 1000 : 0);
      if (rank > most) [best, most] = [other, rank];
    }
    if (best) takers.set(best.id, item.id);
  }
  return takers;
}

// The same where everything has one place in all passes: what stands there now.
export function takersByPlace(at) {
  return (items, _before, after) => {
    const place = (item) => String(at.get(item.id));
    const isThere = (item) => item.inside || after.nodes.has(item.id);
    const taken = new Map(items.filter(isThere).map((item) => [place(item), item.id]));
    return new Map(
      items
        .filter((item) => !isThere(item) && at.has(item.id) && taken.has(place(item)))
        .map((item) => [item.id, taken.get(place(item))]),
    );
  };
}

// An edge between the same two places is the same edge, whichever operations stand there.
function edgesOf({
  state,
  before,
  after,
  unitOf,
  hostOf,
  units,
  standIn,
  showsBefore,
  showsAfter,
  isFirst,
}) {
  const pairs = (graph) => {
    const found = new Map();
    for (const edge of graph.edges) {
      if (hostOf.has(edge.source) || hostOf.has(edge.target)) continue;
      const source = unitOf(graph.nodes.get(edge.source)),
        target = unitOf(graph.nodes.get(edge.target));
      if (source === target) continue;
      const key = `${source}\n${target}`;
      const {attributes} = graph.nodes.get(edge.source);
      const isOnChip = attributes?.some(([name]) => name === "on_chip") ?? false;
      const known = found.get(key);
      if (known) {
        known.count += 1;
        known.isOnChip ||= isOnChip;
      } else found.set(key, {...edge, source, target, key, count: 1, isOnChip});
    }
    return found;
  };
  const old = showsBefore || state.view === "diff" ? pairs(before) : new Map();
  const now = showsAfter || state.view === "diff" ? pairs(after) : new Map();
  const kept = new Set(
    [...old.values()].map((edge) => `${standIn(edge.source)}\n${standIn(edge.target)}`),
  );
  const stays = (edge) => now.has(`${standIn(edge.source)}\n${standIn(edge.target)}`);
  const edges = new Map();
  const add = (from, isSame, mark) => {
    for (const [key, edge] of from) {
      if (
        edges.has(key) ||
        (mark === "removed" && state.view === "diff" && stays(edge)) ||
        !units.has(edge.source) ||
        !units.has(edge.target)
      )
        continue;
      if (standIn(edge.source) === standIn(edge.target)) continue;
      const status = state.view !== "diff" || isFirst || isSame(edge) ? "" : mark;
      edges.set(key, {...edge, status});
    }
  };
  if (showsAfter) add(now, (edge) => kept.has(edge.key), "added");
  if (showsBefore) add(old, stays, "removed");
  return edges;
}

// From an operation that was taken over to the one that took it over, where both are seen.
function bracketsOf(fused, records, unitOf, units) {
  const brackets = [];
  for (const [id, parents] of fused) {
    if (!records.has(id)) continue;
    const to = units.get(unitOf(records.get(id)));
    for (const parent of parents) {
      const from = records.has(parent) ? units.get(unitOf(records.get(parent))) : undefined;
      if (from && to && from !== to) brackets.push({from, to});
    }
  }
  return brackets;
}

function countInside(data, block, records) {
  let count = 0;
  for (const id of data.blocks.membersOf(`#${block}`)) if (records.has(id)) count += 1;
  return count;
}

// What the legend explains: families in sight with their counts, those inside closed blocks too.
function familiesOf(items) {
  const families = new Map();
  const add = (name, count) => families.set(name, (families.get(name) || 0) + count);
  for (const item of items) {
    add(item.record.family, 1);
    for (const [name, count] of item.families || []) add(name, count);
  }
  return families;
}

const CORNER = 6; // radius where a way turns

// A way through points: curves with vertical ends, and round corners where it runs across; its box;
// and the arrow at its end.
export function edgeShape(points) {
  let path = `M${points[0]} ${points[1]}`;
  let left = Infinity,
    right = -Infinity,
    top = Infinity,
    bottom = -Infinity;
  for (let index = 0; index < points.length; index += 2) {
    const x = points[index],
      y = points[index + 1];
    left = Math.min(left, x);
    right = Math.max(right, x);
    top = Math.min(top, y);
    bottom = Math.max(bottom, y);
    if (index === 0) continue;
    const fromX = points[index - 2],
      fromY = points[index - 1];
    const isAcross = Math.abs(fromY - y) < 0.5,
      isUpright = Math.abs(fromX - x) < 0.5;
    if (!isAcross && !isUpright)
      path += `C${fromX} ${(fromY + y) / 2} ${x} ${(fromY + y) / 2} ${x} ${y}`;
    else path += straightRun(points, index, isAcross);
  }
  const x = points[points.length - 2],
    y = points[points.length - 1];
  const down = y >= points[points.length - 3] ? 1 : -1;
  return {
    path,
    points,
    left,
    right,
    top,
    bottom,
    arrow: `M${x - 3.5} ${y - 6 * down}L${x} ${y}L${x + 3.5} ${y - 6 * down}`,
  };
}

// A straight line to the point at `index`, round at its end where the way turns from upright to
// across or back.
function straightRun(points, index, isAcross) {
  const [fromX, fromY, x, y, nextX, nextY] = points.slice(index - 2, index + 4);
  const turns = nextX !== undefined && Math.abs(isAcross ? nextX - x : nextY - y) < 0.5;
  const before = Math.hypot(x - fromX, y - fromY),
    after = turns ? Math.hypot(nextX - x, nextY - y) : 0;
  const radius = Math.min(CORNER, before / 2, after / 2);
  if (!turns || radius < 0.5) return `L${x} ${y}`;
  const near = [x + ((fromX - x) * radius) / before, y + ((fromY - y) * radius) / before];
  const far = [x + ((nextX - x) * radius) / after, y + ((nextY - y) * radius) / after];
  return `L${near[0]} ${near[1]}Q${x} ${y} ${far[0]} ${far[1]}`;
}

// Where edges go on at the head of another column: {from, to: [x, y], number}, the same number for
// all edges that leave at one place.
export function turnsOf(edges) {
  const turns = new Map();
  for (const {points, kind} of edges) {
    if (kind !== "turn") continue;
    for (let index = 2; index + 5 < points.length; index += 2) {
      const isAcross = (at) => points[at] !== points[at - 2] && points[at + 1] === points[at - 1];
      // Across to the gutter, up, across to the head: four points in a row.
      if (!isAcross(index) || !isAcross(index + 4) || points[index + 3] >= points[index + 1])
        continue;
      const from = [points[index - 2], points[index - 1]],
        to = [points[index + 4], points[index + 5]];
      const key = String(from);
      if (!turns.has(key)) turns.set(key, {from, heads: new Map()});
      turns.get(key).heads.set(String(to), to);
    }
  }
  return [...turns.values()]
    .sort((a, b) => a.from[0] - b.from[0])
    .map(({from, heads}, index) => ({from, heads: [...heads.values()], number: index + 1}));
}

export function clip(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

// Families come from the trace: only letters may become a part of a class name.
export function safeName(name) {
  return name.replace(/[^a-z]/g, "") || "other";
}
