// What the graph of a pass shows, and where: the pure part of drawing it. A unit is an operation,
// or a closed block that stands for all operations inside.

import {changeText, countText} from "./numbers.js";

// placed: {at, route(a, b), boxes, width, height, node}; unitOf(record) -> unit
export function composeScene({data, state, before, after, details, placed, unitOf}) {
  const isFirst = state.pass === 0;
  const marks = marksOf(details.diff, isFirst);
  const showsBefore = state.view !== "after" && !isFirst,
    showsAfter = state.view !== "before" || isFirst;
  const records = new Map();
  if (showsBefore) for (const [id, record] of before.nodes) records.set(id, record);
  if (showsAfter) for (const [id, record] of after.nodes) records.set(id, record);

  const units = new Map(); // unit -> item
  for (const [id, record] of records) {
    const unit = unitOf(record);
    if (!placed.at.has(unit)) continue;
    if (unit !== id) {
      if (!units.has(unit)) units.set(unit, blockItem(data, unit, placed));
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
    const [x, y] = placed.at.get(unit);
    const own = marks.statusOf(id);
    const status =
      state.view === "before" && own !== "removed" && !marks.changes.has(id) ? "" : own;
    units.set(id, {
      id,
      record,
      x,
      y,
      status,
      problem: record.problem,
      isGhost: false,
      changes: marks.changes.get(id) || [],
    });
  }
  for (const item of units.values()) if (item.inside) finishBlock(item, state, isFirst);
  const items = [...units.values()];
  const standIn = markGhosts(items, after, state);
  const edges = edgesOf({
    state,
    before,
    after,
    placed,
    unitOf,
    units,
    standIn,
    showsBefore,
    showsAfter,
    isFirst,
  });
  const brackets = state.view === "diff" ? bracketsOf(marks.fused, records, unitOf, units) : [];
  const {boxes = [], node, width, height} = placed;
  return {
    items,
    byId: units,
    edges: [...edges.values()],
    edgeByKey: edges,
    brackets,
    hiddenNote: "", // how many operations closed blocks hold, in words
    node,
    width,
    height,
    boxes: boxes
      .map((box) => ({
        ...box,
        label: data.blocks.labels[box.block],
        isRegion: data.blocks.regions.has(box.block),
        inside: countInside(data, box.block, records),
      }))
      .filter((box) => box.inside > 0),
    families: familiesOf(items),
  };
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

function blockItem(data, unit, placed) {
  const label = data.blocks.labels[data.blocks.indexOf(unit)];
  const [x, y] = placed.at.get(unit);
  return {
    id: unit,
    holds: data.blocks.holds[data.blocks.indexOf(unit)],
    x,
    y,
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

// A removed operation whose place another one has taken looks out from behind it. Returns what
// stands in a unit's place now: itself, or the one that took it.
function markGhosts(items, after, state) {
  const takers = new Map();
  if (state.view === "diff") {
    const taken = new Map(
      items
        .filter((item) => item.inside || after.nodes.has(item.id))
        .map((item) => [`${item.x},${item.y}`, item.id]),
    );
    for (const item of items) {
      const taker =
        item.inside || after.nodes.has(item.id) ? undefined : taken.get(`${item.x},${item.y}`);
      item.isGhost = taker !== undefined;
      if (item.isGhost) takers.set(item.id, taker);
    }
  }
  return (id) => takers.get(id) ?? id;
}

// An edge between the same two places is the same edge, whichever operations stand there.
function edgesOf({
  state,
  before,
  after,
  placed,
  unitOf,
  units,
  standIn,
  showsBefore,
  showsAfter,
  isFirst,
}) {
  const pairs = (graph) => {
    const found = new Map();
    for (const edge of graph.edges) {
      const source = unitOf(graph.nodes.get(edge.source)),
        target = unitOf(graph.nodes.get(edge.target));
      if (source === target) continue;
      const key = `${source}\n${target}`;
      if (found.has(key)) found.get(key).count += 1;
      else found.set(key, {...edge, source, target, key, count: 1});
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
      const points = placed.route(edge.source, edge.target);
      if (!points) continue;
      const status = state.view !== "diff" || isFirst || isSame(edge) ? "" : mark;
      edges.set(key, {...edge, status, ...edgeShape(points)});
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
      if (from && to && from !== to && !from.isGhost && from.y !== to.y) brackets.push({from, to});
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

// A way through points, in curves with vertical ends; its box; and the arrow at its end.
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
    if (Math.abs(fromX - x) < 0.5) path += `L${x} ${y}`;
    else path += `C${fromX} ${(fromY + y) / 2} ${x} ${(fromY + y) / 2} ${x} ${y}`;
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

// What the edges carry, written once where a value leaves its operation, in the gap below it.
// Several results of one operation stand below one another.
export function edgeLabels(edges) {
  const seen = new Map(); // operation -> what is written below it already
  const labels = [];
  for (const edge of edges) {
    if (!edge.type || edge.status === "removed" || NO_TYPES.has(edge.type)) continue;
    const [x, y, , below] = edge.points;
    const text = typeText(edge.type);
    const place = `${Math.round(x)},${Math.round(y)}`;
    const written = seen.get(place) ?? new Set();
    if (written.has(text) || written.size >= MOST_LABELS_AT) continue;
    seen.set(place, written.add(text));
    labels.push({
      key: `${place}\n${text}`,
      x: x + 4,
      y: y + (below < y ? -4 : 11) + 9 * (written.size - 1),
      text,
    });
  }
  return labels;
}
const MOST_LABELS_AT = 3;
// Words of source.py for what the file does not say.
const NO_TYPES = new Set(["unknown", "left out"]);

// 1x16x8x8 f32 → 1×16×8×8 f32, Nx3xH → N×3×H; where a name of a size has an x in it, as it is.
function typeText(type) {
  const [shape, ...rest] = type.split(" ");
  const sizes = shape.split("x");
  return sizes.every((size) => /^(\d+|\?|[A-Z][A-Za-z]?\d*)$/.test(size))
    ? [sizes.join("×"), ...rest].join(" ")
    : type;
}

export function clip(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

// Families come from the trace: only letters may become a part of a class name.
export function safeName(name) {
  return name.replace(/[^a-z]/g, "") || "other";
}
