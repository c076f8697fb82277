// What is marked in a drawing of the graph, by classes of its elements, and what is beside it.

import {safeName} from "../ground/scene.js";

// Finds what is selected, what belongs to it and what the chosen rewrite touched; `onevent()` is
// told when that is known, later.
export function markSelection(scene, {data, store}, onevent) {
  const {selection, line: place} = store.get();
  const records = new Map([...scene.before.nodes, ...scene.after.nodes]);
  const unitOf = (id) => scene.unitOf(records.get(id));
  const followed = data.follow(
    selection,
    [...records].map(([id, record]) => [id, record.sources]),
  );
  const seen = followed.map(unitOf).filter((unit) => scene.byId.has(unit));
  // What took the place of an operation is meant, and not what is only still shown of it.
  scene.selected =
    scene.byId.has(selection) && scene.byId.get(selection).status !== "removed"
      ? selection
      : (seen.find((unit) => scene.byId.get(unit).status !== "removed") ?? seen[0] ?? null);
  scene.related = new Set(seen);
  if (place)
    data.lineAt(place).then((line) => {
      if (!line || store.get().line !== place) return;
      for (const [id, {sources}] of records)
        if (sources.some((name) => line.all.includes(name))) scene.related.add(unitOf(id));
      onevent();
    });
  scene.event = null;
  const {pass, rewrite} = store.get();
  if (rewrite !== null) {
    data.passDetails(pass).then((details) => {
      const event = details.events[rewrite];
      if (!event || store.get().rewrite !== rewrite) return;
      scene.event = new Set(
        [event.site, ...event.matched, ...event.produced].map((id) =>
          records.has(id) ? unitOf(id) : id,
        ),
      );
      onevent();
    });
  }
}

export function nodeClass(scene, item) {
  const names = ["node", `family-${safeName(item.record.family)}`, item.status];
  if (item.isGhost) names.push("ghost");
  if (item.inside) names.push("block");
  if (item.problem) names.push("unsupported");
  if (item.id === scene.selected) names.push("selected");
  else if (scene.related?.has(item.id)) names.push("related");
  if (scene.event?.has(item.id)) names.push("in-event");
  if (scene.hovered?.has(item.id)) names.push("hovered");
  return names.filter(Boolean).join(" ");
}

export function edgeClass(scene, edge) {
  const lit = scene.related?.has(edge.source) && scene.related?.has(edge.target);
  const near =
    scene.selected !== null && (edge.source === scene.selected || edge.target === scene.selected);
  return [
    "edge",
    edge.status,
    edge.kind,
    edge.isOnChip ? "on-chip" : "",
    lit ? "related" : near ? "near" : "",
  ]
    .filter(Boolean)
    .join(" ");
}

// Up and down follow the edges; left and right go to the neighbours at the same height.
export function neighbour(scene, key) {
  const at = scene.byId.get(scene.selected);
  if (!at) return null;
  let candidates;
  if (key === "ArrowUp")
    candidates = scene.edges.filter((edge) => edge.target === at.id).map((edge) => edge.source);
  else if (key === "ArrowDown")
    candidates = scene.edges.filter((edge) => edge.source === at.id).map((edge) => edge.target);
  else {
    const side = key === "ArrowLeft" ? -1 : 1;
    candidates = scene.items
      .filter((item) => Math.abs(item.y - at.y) < 4 && Math.sign(item.x - at.x) === side)
      .sort((a, b) => Math.abs(a.x - at.x) - Math.abs(b.x - at.x))
      .map((item) => item.id);
  }
  return candidates[0] ?? null;
}
