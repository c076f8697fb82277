// Random walks through the page: after every step the link gives back the place that was left.

import assert from "node:assert/strict";
import {test} from "node:test";

import {COLUMNS, lookOf, lookText} from "../../build/js/ground/tries.js";
import {CODE_LEVELS} from "../../build/js/state/levels_shown.js";
import {
  FRESH_PANES,
  PANES_OF_FRAME,
  PLACES,
  PRESETS,
  moved,
} from "../../build/js/state/arrangement.js";
import {IN_LINK, createStore, placeFromLink, stateToLink} from "../../build/js/state/state.js";

const LATER = ["layers", "placement"]; // tabs of what is not measured yet
const DOCKS = ["memory", "timeline", "tries", ...LATER];
const HEAD = {
  passes: Array(30).fill({}),
  tabs: DOCKS.map((id) => ({
    id,
    needs: LATER.includes(id) ? ["profile", id] : [],
    optional: LATER.includes(id),
    session: false,
  })),
  has: {},
};
const MEASURED = {...HEAD, has: {profile: true, layers: true, placement: true}};
const SELECTIONS = [
  null,
  "conv 3 & <b>",
  "a=b#c?d",
  "block:stage 1/residual block 2",
  "ü%20+",
  "0",
];
const WALKS = 60;
const STEPS = 50;

// Numbers from 0 to 1 that are the same in every run (Mulberry32).
function numbersOf(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

// What a person does, as a patch of the state.
function actions(random, state) {
  const one = (list) => list[Math.floor(random() * list.length)];
  const some = (list) => list.filter(() => random() < 0.4);
  const block = 1 + Math.floor(random() * 40);
  const look = lookOf(state.tries);
  return [
    () => ({pass: Math.floor(random() * 30), rewrite: one([null, 0, 7]), step: one([null, 0, 3])}),
    () => ({selection: one(SELECTIONS), line: one(["", "nets/net.py:12"])}),
    () => ({tab: one(["operation", "c", "fork"]), beside: one([true, false])}),
    () => ({build: one(["", "zig.NEON.-O2"]), dock: one(DOCKS), view: one(["before", "diff"])}),
    () => ({mode: one(["accumulated", "float"]), metric: one(["relative", "cosine"])}),
    () => ({bars: one(["time", "source"]), overlay: one(["", "time", "own"])}),
    () => ({hold: one([true, false]), onlyChanges: one([true, false])}),
    () => ({blocks: one([null, true, false])}),
    () => ({
      open: state.open.includes(block)
        ? state.open.filter((other) => other !== block)
        : [...state.open, block],
    }),
    () => ({open: []}),
    () => ({open: [...state.initially]}),
    () => ({panes: moved(state.panes, one(PANES_OF_FRAME), one([...PLACES, ""]))}),
    () => ({panes: {...FRESH_PANES, preset: one(Object.keys(PRESETS))}}),
    () => ({panes: {...state.panes, large: one(["", ...PANES_OF_FRAME])}}),
    () => {
      const levels = some(CODE_LEVELS);
      return {panes: {...state.panes, levels: levels.length ? levels : null}};
    },
    () => ({panes: {...state.panes, inStep: random() < 0.5, isColoured: random() < 0.5}}),
    () => {
      const columns = some(COLUMNS.map(({id}) => id));
      const [x, y] = [one(COLUMNS).id, one(COLUMNS).id];
      return {tries: lookText({...look, columns: columns.length ? columns : null, x, y})};
    },
    () => ({tries: lookText({...look, sort: one(["", "peak", "-dB"])})}),
    () => ({tries: lookText({...look, filter: one(["", "a*b", "x=1&y=%2A", " two  words "])})}),
  ];
}

const inLink = (state) => Object.fromEntries(IN_LINK.map((name) => [name, state[name]]));

test("a link brings back every place of random walks", () => {
  const seen = new Set();
  for (let seed = 1; seed <= WALKS; seed += 1) {
    const random = numbersOf(seed);
    const initially = seed % 3 ? [] : [2, 5];
    const store = createStore({initially, open: initially});
    for (let step = 0; step < STEPS; step += 1) {
      const choices = actions(random, store.get());
      store.set(choices[Math.floor(random() * choices.length)]());
      const link = stateToLink(store.get(), {model: "net & co.onnx"});
      const again = placeFromLink(link, HEAD, true, initially);
      assert.deepEqual(again, inLink(store.get()), `seed ${seed}, step ${step}: ${link}`);
      assert.equal(stateToLink({...store.get(), ...again}, {model: "net & co.onnx"}), link);
      // When more is known, and in a saved page that knows all, the same place is meant.
      assert.deepEqual(placeFromLink(link, MEASURED, true, initially), again);
      assert.equal(placeFromLink(link, MEASURED, false, initially).dock, again.dock);
      const saved = placeFromLink(link, HEAD, false, initially).dock;
      assert.equal(saved, LATER.includes(again.dock) ? "memory" : again.dock);
      seen.add(link);
    }
  }
  assert.ok(seen.size > (WALKS * STEPS) / 2, "the walks go to many places");
});
