// Which slices of two timelines are the same work.

import assert from "node:assert/strict";
import {test} from "node:test";

import {changedSlices, matchSlices, slicesOf} from "../../build/js/ground/slices.js";

const slice = (name, start, end, ...sources) => [name, `k_${name}`, start, end, sources];
const line = (...slices) => slicesOf({slices});
const names = ({pairs}) => pairs.map(([a, b]) => `${a.name}-${b.name}`);

test("the same operation is matched first, then the same nodes, then those that share most", () => {
  const left = line(
    slice("conv1", 0, 10, "Conv_0", "Relu_1"),
    slice("conv2", 10, 20, "Conv_2"),
    slice("add1", 20, 25, "Add_3", "Relu_4"),
    slice("pad", 25, 26),
  );
  const right = line(
    slice("conv2", 0, 5, "Conv_2"),
    slice("conv9", 5, 12, "Relu_1", "Conv_0"),
    slice("add7", 12, 16, "Add_3"),
    slice("relu7", 16, 18, "Relu_4", "Mul_9", "Mul_8"),
    slice("fill", 18, 19),
  );
  const found = matchSlices(left, right);
  assert.deepEqual(names(found), ["conv1-conv9", "conv2-conv2", "add1-add7"]);
  assert.deepEqual(
    found.onlyLeft.map(({name}) => name),
    ["pad"],
  );
  assert.deepEqual(
    found.onlyRight.map(({name}) => name),
    ["relu7", "fill"],
  );
});

test("launches of one name are matched in their order, and each once", () => {
  const left = line(slice("a", 0, 1, "n"), slice("a", 1, 2, "n"), slice("a", 2, 3, "n"));
  const right = line(slice("a", 5, 6, "n"), slice("a", 6, 7, "n"));
  const {pairs, onlyLeft, onlyRight} = matchSlices(left, right);
  assert.deepEqual(
    pairs.map(([a, b]) => [a.start, b.start]),
    [
      [0, 5],
      [1, 6],
    ],
  );
  assert.deepEqual([onlyLeft.length, onlyRight.length], [1, 0]);
});

test("of those that share as much the one of the same kind of kernel is taken", () => {
  const fused = {name: "m3", kernel: "matmul_3", start: 0, end: 9, sources: ["Relu_1", "Gemm_0"]};
  const relu = {name: "r1", kernel: "relu_1", start: 8, end: 9, sources: ["Relu_1"]};
  const matmul = {name: "m1", kernel: "matmul_1", start: 0, end: 8, sources: ["Gemm_0"]};
  assert.equal(matchSlices([fused], [relu, matmul]).pairs[0][1], matmul);
});

test("nothing and something have no pairs", () => {
  assert.deepEqual(matchSlices([], []), {pairs: [], onlyLeft: [], onlyRight: []});
  const one = line(slice("a", 0, 1, "n"));
  assert.equal(matchSlices(one, []).onlyLeft.length, 1);
});

test("changes are listed by what they change, together for launches of one name", () => {
  const left = line(slice("a", 0, 4, "n"), slice("a", 4, 8, "n"), slice("gone", 8, 9, "m"));
  const right = line(slice("a", 0, 1, "n"), slice("a", 1, 2, "n"), slice("new", 2, 12, "o"));
  assert.deepEqual(changedSlices(matchSlices(left, right)), [
    {name: "new", before: null, after: 10, change: 10},
    {name: "a", before: 8, after: 2, change: -6},
    {name: "gone", before: 1, after: null, change: -1},
  ]);
});
