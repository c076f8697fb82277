// One drawing of all snapshots on invented histories: what is there together never overlaps, what
// replaces another stands at its place, edges run over places that are empty.

import assert from "node:assert/strict";
import {suite, test} from "node:test";

import {runWhole} from "../../build/js/layout/slices.js";
import {placeUnion} from "../../build/js/layout/union.js";

const [WIDTH, HEIGHT] = [140, 36];

const words = (text) => text.split(" ").filter((word) => word);

// An item per word "name:family:source+source"; edges read "a>b b>c".
function graph(items, edges) {
  return {
    items: words(items).map((word) => {
      const [id, family = "elementwise", sources = id] = word.split(":");
      return {id, block: 0, family, sources: sources.split("+")};
    }),
    edges: words(edges).map((edge) => edge.split(">")),
  };
}

const placedTogether = (graphs, others = {}) =>
  runWhole(
    placeUnion({
      graphs,
      chainOf: () => [0],
      node: [WIDTH, HEIGHT],
      memory: null,
      room: {width: 700, height: 1e6},
      ...others,
    }),
  );

// Numbers below `most` (mulberry32), the same for a seed.
function randomNumbers(seed) {
  let state = seed;
  return (most) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % most;
  };
}

// Up to 40 snapshots over the same few operations, which have some sources in common.
function randomHistory(seed) {
  const random = randomNumbers(seed);
  const families = ["convolution", "weight", "input"];
  const all = Array.from({length: 1 + random(9)}, (_, index) => ({
    id: `n${index}`,
    block: 0,
    family: families[random(3)],
    sources: words("s t u v").filter(() => random(2)),
  }));
  return Array.from({length: seed % 5 ? 1 + random(4) : 40}, () => {
    const items = all.filter(() => random(3));
    const pick = () => items[random(items.length)].id;
    const edges = items.length ? Array.from({length: random(14)}, () => [pick(), pick()]) : [];
    return {items, edges: edges.filter(([a, b]) => a !== b)};
  });
}

suite("one drawing of all passes", () => {
  for (let seed = 0; seed < 60; seed += 1)
    test(`what is there together never overlaps: seed ${seed}`, () => {
      const graphs = randomHistory(seed);
      const placed = placedTogether(graphs);
      for (const {items, edges} of graphs) {
        items.forEach(({id}, index) => {
          const [x, y] = placed.at.get(id);
          for (const other of items.slice(index + 1)) {
            const [otherX, otherY] = placed.at.get(other.id);
            assert.ok(Math.abs(x - otherX) >= WIDTH || Math.abs(y - otherY) >= HEIGHT);
          }
        });
        for (const [a, b] of edges) {
          const {points, kind} = placed.route(a, b);
          const [[ax, ay], [bx, by]] = [placed.at.get(a), placed.at.get(b)];
          const side = kind === "back" ? -1 : 1;
          const ends = [ax, ay + (side * HEIGHT) / 2, bx, by - (side * HEIGHT) / 2];
          [...points.slice(0, 2), ...points.slice(-2)].forEach((value, index) =>
            assert.ok(Math.abs(value - ends[index]) < 0.01, `${points} from ${ends}`),
          );
        }
      }
      assert.deepEqual([...placed.at], [...placedTogether(graphs).at]);
    });

  test("what is fused takes the place of the convolution it replaces", () => {
    const before = graph(
      "x:input conv:convolution:Conv relu::Relu y:output",
      "x>conv conv>relu relu>y",
    );
    const after = graph("x:input fused:convolution:Conv+Relu y:output", "x>fused fused>y");
    const placed = placedTogether([before, after]);
    assert.deepEqual(placed.at.get("fused"), placed.at.get("conv"));
    assert.equal(placed.height, placedTogether([before]).height);
    // Straight through the place that relu left, not around it.
    const xs = placed.route("fused", "y").points.filter((_, index) => index % 2 === 0);
    assert.deepEqual([...new Set(xs)], [placed.at.get("y")[0]]);
    const apart = placedTogether([before, after], {shares: false});
    assert.notDeepEqual(apart.at.get("fused"), apart.at.get("conv"));
  });

  test("an edge runs straight through all places that come between later", () => {
    const history = [
      graph("x y", "x>y"),
      graph("x copy y", "x>copy copy>y"),
      graph("x copy layout y", "x>copy copy>layout layout>y"),
    ];
    const placed = placedTogether(history);
    const [middle] = placed.at.get("x");
    for (const [a, b] of history.flatMap(({edges}) => edges))
      placed.route(a, b).points.forEach((value, index) => index % 2 || assert.equal(value, middle));
  });

  test("what returns keeps its place from others", () => {
    // `a` is there in the first and third pass: `b` of the second may share its place, `c` may not.
    const graphs = ["a:elementwise:S", "b:elementwise:S", "a:elementwise:S c:elementwise:S"];
    const {at} = placedTogether(graphs.map((items) => graph(items, "")));
    assert.deepEqual(at.get("a"), at.get("b"));
    assert.notDeepEqual(at.get("a"), at.get("c"));
  });

  test("operations of two blocks share no place", () => {
    const [before, after] = [graph("a:elementwise:S", ""), graph("b:elementwise:S", "")];
    after.items[0].block = 1;
    const {at} = placedTogether([before, after], {chainOf: (block) => (block ? [0, 1] : [0])});
    assert.notDeepEqual(at.get("a"), at.get("b"));
  });

  test("an edge runs around an operation that is still there", () => {
    const placed = placedTogether([graph("conv relu y", "conv>relu relu>y conv>y")]);
    const xs = placed.route("conv", "y").points.filter((_, index) => index % 2 === 0);
    assert.ok(xs.some((x) => Math.abs(x - placed.at.get("relu")[0]) > WIDTH / 2));
  });
});
