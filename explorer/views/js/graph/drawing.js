// What the graph of a pass shows and where: each pass is laid out on its own, under the order of
// what was drawn before, so that what stays moves little. Where a person holds still, everything
// has one place in all passes.

import {constantsOf} from "../layout/constants.js";
import {placeProgram} from "../layout/program.js";
import {placeUnion} from "../layout/union.js";
import {runSliced} from "../layout/slices.js";
import {gatherScene, settleScene, takersByPlace, takersBySource} from "../ground/scene.js";

export const NODE = [140, 36];
const BROAD = 0.45; // from this scale on a block has room for its name
const ROOMY = 0.6; // from here on most operations have room for all of their names
const MAX_TRIED = 600; // operations of which a drawing without blocks is tried at first
const ENOUGH_UNITS = 8; // with fewer in sight, a first visitor finds the largest blocks open
const MAX_OPENED = 12;
const FEW_BACK = 3; // edges that lead back: with more, a block stays closed
const MAX_SHARE = 0.5; // of all operations that one closed block may hide from a first visitor

const hasChosenBlocks = ({open, initially}) => String(open) !== String(initially);

// pictures: {before, after, details} of a pass.
export function createDrawings(data, store) {
  let memory = null; // what the drawing before tells the next
  let former = new Map(); // source node -> what of it was drawn
  let decided = null; // whether there are blocks, where the person has not said
  let union = null; // where everything stands while a person holds still: {key, room, placed}

  const tree = () => data.blocks;

  function usesBlocks() {
    if (!tree()) return false;
    if (!data.head.blocks.flat) return true;
    const state = store.get();
    // Which blocks are open is said of blocks: a link that says it means them.
    return state.blocks ?? (hasChosenBlocks(state) || (decided ?? data.head.blocks.opens));
  }

  // A first visitor sees single operations where their names can be read in the whole drawing, and
  // else blocks, open as far as that is so.
  async function decide(pictures, room, isWanted) {
    const state = store.get();
    if (decided !== null || state.hold) return;
    decided = usesBlocks();
    const isUntouched = state.blocks === null && !hasChosenBlocks(state);
    if (!tree() || !isUntouched) return;
    const shown = Math.max(pictures.before.nodes.size, pictures.after.nodes.size);
    const sees = (open, blocks) => runSliced(steps(pictures, state, room, open, blocks), isWanted);
    if (data.head.blocks.flat && !tree().regions.size && shown <= MAX_TRIED) {
      const flat = await sees(new Set(), false);
      if (!flat) {
        decided = null;
        return;
      }
      if (scaleIn(room, flat.scene) >= ROOMY) {
        decided = false;
        return;
      }
    }
    decided = true;
    const open = new Set(state.open);
    for (let step = 0; step < MAX_OPENED; step += 1) {
      const seen = await sees(open, true);
      if (!seen) {
        decided = null;
        return;
      }
      const closed = seen.scene.items.filter((item) => item.inside);
      if (isTelling(seen.scene.items, closed)) break;
      const largest = closed.reduce((a, b) => (sizeOf(b) > sizeOf(a) ? b : a));
      const next = new Set([...open, tree().indexOf(largest.id)]);
      const opened = await sees(next, true);
      if (!opened || scaleIn(room, opened.scene) < BROAD) break;
      if (countBack(opened.scene) > FEW_BACK) break;
      open.add(tree().indexOf(largest.id));
    }
    const sorted = [...open].sort((a, b) => a - b);
    if (String(sorted) !== String(state.open)) store.set({open: sorted, initially: sorted});
  }

  // {scene, unitOf(record)}, or null when it is not wanted any more.
  async function draw(pictures, state, room, isWanted) {
    const open = new Set(state.open);
    const drawing = state.hold
      ? await held(pictures, state, room, open, isWanted)
      : await runSliced(steps(pictures, state, room, open, usesBlocks()), isWanted);
    if (!drawing) return null;
    if (drawing.memory) memory = new Map([...(memory ?? []), ...drawing.memory]);
    former = new Map();
    for (const item of drawing.scene.items)
      for (const source of item.record.sources) {
        if (!former.has(source)) former.set(source, []);
        former.get(source).push(item.id);
      }
    return drawing;
  }

  function* steps(pictures, state, room, open, blocks) {
    const {before, after} = pictures;
    const units = blocks ? tree().unitsOf(open) : null;
    const hostOf = constantsShown(pictures, state);
    const unitOf = (record) => {
      const host = hostOf.get(record.id);
      const seen = host === undefined ? record : (after.nodes.get(host) ?? before.nodes.get(host));
      return units?.[seen.block] ?? seen.id;
    };
    const gathered = gatherScene({
      data,
      state,
      ...pictures,
      unitOf,
      hostOf,
      takersOf: (items) =>
        takersBySource(items, before, after, blocks ? ({block}) => block : () => 0),
    });
    yield;
    const ghostOf = new Map(
      [...gathered.units.keys()]
        .filter((id) => gathered.standIn(id) !== id)
        .map((id) => [gathered.standIn(id), id]),
    );
    const items = [...gathered.units.values()]
      .filter((item) => !item.isGhost)
      .map((item) => ({id: item.id, block: item.block, kin: kinOf(item, ghostOf)}));
    const edges = [...gathered.edges.values()].map((edge) => ({
      source: gathered.standIn(edge.source),
      target: gathered.standIn(edge.target),
      isLoose: edge.status === "removed",
    }));
    const placed = yield* placeProgram({
      items,
      edges,
      chainOf: blocks ? (block) => tree().chain(block) : () => [0],
      node: NODE,
      memory,
      room,
    });
    return {scene: settleScene(data, gathered, placed), unitOf, memory: placed.memory};
  }

  // What a new operation stands for: what it took the place of, or what came from the same sources.
  function kinOf(item, ghostOf) {
    const ghost = ghostOf.get(item.id);
    return [
      ...(ghost === undefined ? [] : [ghost]),
      ...item.record.sources.flatMap((source) => former.get(source) ?? []),
    ];
  }

  // Constants of all graphs that are shown; one that another of them draws is drawn.
  function constantsShown({before, after}, state) {
    const shown =
      state.pass === 0 || state.view === "after"
        ? [after]
        : state.view === "before"
          ? [before]
          : [before, after];
    const regions = tree()?.regions ?? new Set();
    const isInRegion = (record) =>
      regions.size > 0 &&
      tree()
        .chain(record.block)
        .some((block) => regions.has(block));
    const each = shown.map((graph) => (graph.constants ??= constantsOf(graph, isInRegion)));
    return new Map(
      each
        .flatMap((constants) => [...constants])
        .filter(([id]) =>
          shown.every((graph, index) => !graph.nodes.has(id) || each[index].has(id)),
        ),
    );
  }

  async function held(pictures, state, room, open, isWanted) {
    const units = usesBlocks() ? tree().unitsOf(open) : null;
    const unitOf = (record) => units?.[record.block] ?? record.id;
    const key = `${units ? [...open].sort((a, b) => a - b) : ""}|${Boolean(units)}`;
    if (union?.key !== key || !isAlike(union.room, room)) {
      const placed = await placeAll(units, unitOf, room, isWanted);
      if (!placed) return null;
      union = {key, room, placed};
    }
    const {placed} = union;
    const gathered = gatherScene({
      data,
      state,
      ...pictures,
      unitOf,
      hostOf: new Map(),
      takersOf: takersByPlace(placed.at),
    });
    return {scene: settleScene(data, gathered, placed), unitOf, memory: placed.memory};
  }

  // One drawing of the graphs of all passes.
  async function placeAll(units, unitOf, room, isWanted) {
    const snapshots = new Set(data.head.passes.map(({snapshot}) => snapshot));
    const graphs = await Promise.all([...snapshots].map((snapshot) => data.graph(snapshot)));
    if (!isWanted()) return null;
    const steps = placeUnion({
      graphs: graphs.map((graph) => seenOf(graph, unitOf, Boolean(units))),
      chainOf: units ? (block) => tree().chain(block) : () => [0],
      node: NODE,
      memory,
      room,
    });
    return runSliced(steps, isWanted);
  }

  // The units of a graph and the edges between them, for placeUnion.
  function seenOf(graph, unitOf, hasBlocks) {
    const items = new Map();
    for (const record of graph.nodes.values()) {
      const id = unitOf(record);
      if (items.has(id)) continue;
      const {family, sources, block} = record;
      if (id === record.id) items.set(id, {id, block: hasBlocks ? block : 0, family, sources});
      else
        items.set(id, {
          id,
          block: tree().parents[tree().indexOf(id)],
          family: "block",
          sources: [],
        });
    }
    const unit = (id) => unitOf(graph.nodes.get(id));
    const edges = graph.edges.map(({source, target}) => [unit(source), unit(target)]);
    return {items: [...items.values()], edges};
  }

  return {draw, decide, usesBlocks};
}

// Whether a first visitor sees of what a program consists.
function isTelling(items, closed) {
  const units = items.filter((item) => !["input", "output"].includes(item.record.family));
  const sizes = closed.map(sizeOf);
  const all = sizes.reduce((sum, size) => sum + size, units.length - closed.length);
  return !closed.length || (units.length >= ENOUGH_UNITS && Math.max(...sizes) < MAX_SHARE * all);
}

const sizeOf = (item) => Math.max(item.inside.before, item.inside.after);

const countBack = ({edges}) => edges.filter(({kind}) => kind === "back").length;

// Whether a drawing for one pane suits another as well.
function isAlike(one, other) {
  const change = (one.width * other.height) / (one.height * other.width);
  return change > 0.8 && change < 1.25;
}

const scaleIn = (room, {width, height}) => Math.min(room.width / width, room.height / height);
